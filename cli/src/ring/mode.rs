//! How a process that has something follow a ring goes on: it shows what it would do, takes one step, or follows until Ctrl-C.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use chancery_cluster::cell::StoreMode;
use chancery_signer::{RotationConfig, RotationController, private_memory};

use crate::runtime::Logs;
use crate::signals::Signals;

/// Every step is safe to be cut short.
const STOPPING: Duration = Duration::from_secs(5);

#[derive(clap::Args)]
pub struct ModeArgs {
    /// Show what would be done, and do nothing; exit code 3 while there is something to do or to wait for
    #[arg(long, conflicts_with_all = ["once", "rotate"])]
    plan: bool,
    /// Take one step, then end; exit code 3 while there is something to do or to wait for
    #[arg(long, conflicts_with = "rotate")]
    once: bool,
    /// Rotate the ring from here as well, as `chancery ring run` does
    #[arg(long)]
    rotate: bool,
}

/// What is done.
#[derive(Clone, Copy)]
pub enum Mode {
    Plan,
    Once,
    Follow { rotates: bool },
}

impl ModeArgs {
    /// Logs, memory and signals of this process.
    pub fn begin(&self, logs: Logs) -> anyhow::Result<(Mode, Signals)> {
        let mode = match (self.plan, self.once) {
            (true, _) => Mode::Plan,
            (_, true) => Mode::Once,
            _ => Mode::Follow { rotates: self.rotate },
        };
        let quiet = if self.plan { "warn" } else { "info" };
        logs.to_stderr(&format!("{quiet},kube_runtime=error,kube_client=error"))?;
        private_memory::keep();
        Ok((mode, Signals::listen(STOPPING)?))
    }
}

impl Mode {
    /// Whether documents are written.
    pub fn store(self) -> StoreMode {
        match self {
            Self::Plan => StoreMode::ReadOnly,
            _ => StoreMode::Shared,
        }
    }
}

/// Follows, and rotates beside it by a policy if there is one.
pub async fn until_stopped(
    signals: Signals,
    policy: Option<RotationConfig>,
    following: impl Future<Output = ()> + Send + 'static,
) -> anyhow::Result<ExitCode> {
    let controller = match policy {
        Some(policy) => Some(RotationController::open(policy).await?),
        None => None,
    };
    let rotating = tokio::spawn(async {
        match controller {
            Some(controller) => controller.run().await,
            None => std::future::pending().await,
        }
    });
    let following = tokio::spawn(following);
    tokio::select! {
        () = signals.stop() => Ok(ExitCode::SUCCESS),
        _ = rotating => bail!("the rotation ended by a fault of ours; start it again"),
        _ = following => bail!("what follows the ring ended by a fault of ours; start it again"),
    }
}

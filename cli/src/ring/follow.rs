//! `chancery ring run`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use chancery_signer::{RotationController, private_memory};

use super::PolicyArg;
use crate::runtime::{self, Logs};
use crate::signals::Signals;

/// Nothing has to be drained: every step is safe to be cut short.
const STOPPING: Duration = Duration::from_secs(5);

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    policy: PolicyArg,
}

pub fn run(args: Args, logs: Logs) -> anyhow::Result<ExitCode> {
    logs.to_stderr("info,kube_runtime=error,kube_client=error")?;
    private_memory::keep();
    let signals = Signals::listen(STOPPING)?;
    let policy = args.policy.read()?;
    runtime::block_on(1, async {
        let controller = RotationController::open(policy).await?;
        let rotating = tokio::spawn(controller.run());
        tokio::select! {
            () = signals.stop() => Ok(()),
            _ = rotating => bail!("the rotation ended by a fault of ours; start it again"),
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

//! `chancery ring files`: the key files of a kube-apiserver that signs with files follow the ring.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use chancery_cluster::cell::StoreMode;
use chancery_core::rollout::Rollout;
use chancery_signer::RotationController;
use chancery_signer::key_file_node::{
    ApiServerPlace, KeyFileNode, KeyFileNodeConfig, KeyFilePair, RestartWay,
};
use chancery_signer::private_memory;

use super::PolicyArg;
use crate::exit::unless_found;
use crate::output::say;
use crate::runtime::{self, Logs};
use crate::signals::Signals;
use crate::time::Time;

/// Every step is safe to be cut short.
const STOPPING: Duration = Duration::from_secs(5);

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    policy: PolicyArg,
    /// This node's name among the `signers` of the policy
    #[arg(long, value_name = "NAME")]
    name: String,
    /// The file that this node's kube-apiserver signs with: its --service-account-signing-key-file
    #[arg(long, value_name = "FILE", default_value = "/etc/kubernetes/pki/sa.key")]
    signing_key_file: PathBuf,
    /// The file that it verifies with: its only --service-account-key-file
    #[arg(long, value_name = "FILE", default_value = "/etc/kubernetes/pki/sa.pub")]
    key_file: PathBuf,
    /// The address of this node's kube-apiserver, with https; never that of a balancer
    #[arg(long, value_name = "URL")]
    server: String,
    /// Credentials for it; the address in it is not used
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// The context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// The ServiceAccount whose tokens show which key signs; it needs no rights
    #[arg(long, value_name = "NAMESPACE/NAME", default_value = "kube-system/default")]
    service_account: String,
    /// It runs with --service-account-extend-token-expiration=false, so that no token lives longer than `lifetimes`
    #[arg(long)]
    no_extended_tokens: bool,
    #[command(flatten)]
    restart: RestartArgs,
    /// How long a restart may take before it is asked for once more
    #[arg(long, value_name = "TIME", default_value = "300s")]
    restart_timeout: Time,
    #[command(flatten)]
    mode: ModeArgs,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct RestartArgs {
    /// A command of the shell that restarts it: systemctl restart kube-apiserver
    #[arg(long, value_name = "COMMAND")]
    restart_command: Option<String>,
    /// The manifest of its static pod, in which an annotation makes kubelet restart it
    #[arg(long, value_name = "FILE")]
    static_pod: Option<PathBuf>,
}

#[derive(clap::Args)]
struct ModeArgs {
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

pub fn run(args: Args, logs: Logs) -> anyhow::Result<ExitCode> {
    let quiet = if args.mode.plan { "warn" } else { "info" };
    logs.to_stderr(&format!("{quiet},kube_runtime=error,kube_client=error"))?;
    private_memory::keep();
    let signals = Signals::listen(STOPPING)?;
    let (plan, once, rotate) = (args.mode.plan, args.mode.once, args.mode.rotate);
    let config = args.config()?;
    runtime::block_on(1, async {
        let policy = config.policy.clone();
        let mode = if plan { StoreMode::ReadOnly } else { StoreMode::Shared };
        let mut node = KeyFileNode::open(config, mode).await?;
        if plan {
            return show(&mut node).await;
        }
        if once {
            let is_over = node.step().await? == Rollout::Done;
            return Ok(unless_found(is_over));
        }
        let controller = if rotate { Some(RotationController::open(policy).await?) } else { None };
        let rotating = tokio::spawn(async {
            match controller {
                Some(controller) => controller.run().await,
                None => std::future::pending().await,
            }
        });
        let following = tokio::spawn(node.run());
        tokio::select! {
            () = signals.stop() => Ok(ExitCode::SUCCESS),
            _ = rotating => bail!("the rotation ended by a fault of ours; start it again"),
            _ = following => bail!("the look at the key files ended by a fault of ours; start it again"),
        }
    })
}

async fn show(node: &mut KeyFileNode) -> anyhow::Result<ExitCode> {
    let seen = node.look().await?;
    let forecast = node.foresee(&seen);
    say(&forecast.to_string())?;
    if let Some(down) = &seen.down {
        say(&format!("note: its kube-apiserver is not ready: {down}\n"))?;
    }
    let is_over = forecast.steps.is_empty() && forecast.then.is_none();
    Ok(unless_found(is_over))
}

impl Args {
    fn config(self) -> anyhow::Result<KeyFileNodeConfig> {
        let server = self.server.parse();
        let server = server.with_context(|| {
            format!("--server {:?} is no URL; expected https://10.0.0.1:6443", self.server)
        })?;
        let account =
            self.service_account.split_once('/').map(|(space, name)| (space.to_owned(), name.to_owned()));
        let account = account.with_context(|| {
            format!(
                "--service-account {:?} is no NAMESPACE/NAME; expected kube-system/default",
                self.service_account
            )
        })?;
        let restart = match (self.restart.restart_command, self.restart.static_pod) {
            (Some(command), _) => RestartWay::Command(command),
            (None, Some(manifest)) => RestartWay::StaticPod(manifest),
            (None, None) => bail!("no way to restart it; give --restart-command or --static-pod"),
        };
        Ok(KeyFileNodeConfig {
            policy: self.policy.read()?,
            name: self.name,
            files: KeyFilePair { signing: self.signing_key_file, verifying: self.key_file },
            api_server: ApiServerPlace {
                server,
                kubeconfig: self.kubeconfig,
                context: self.context,
                account,
            },
            extends_tokens: !self.no_extended_tokens,
            restart,
            patience: self.restart_timeout.0,
        })
    }
}

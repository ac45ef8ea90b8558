//! `chancery ring files`: the key files of a kube-apiserver that signs with files follow the ring.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use chancery_core::rollout::Rollout;
use chancery_signer::key_file_node::{
    ApiServerPlace, KeyFileNode, KeyFileNodeConfig, KeyFilePair, RestartWay,
};

use super::PolicyArg;
use super::mode::{Mode, ModeArgs, until_stopped};
use crate::exit::unless_found;
use crate::output::say;
use crate::runtime::{self, Logs};
use crate::time::Time;

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

pub fn run(args: Args, logs: Logs) -> anyhow::Result<ExitCode> {
    let (mode, signals) = args.mode.begin(logs)?;
    let config = args.config()?;
    runtime::block_on(1, async {
        let policy = config.policy.clone();
        let mut node = KeyFileNode::open(config, mode.store()).await?;
        match mode {
            Mode::Plan => show(&mut node).await,
            Mode::Once => Ok(unless_found(node.step().await? == Rollout::Done)),
            Mode::Follow { rotates } => until_stopped(signals, rotates.then_some(policy), node.run()).await,
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

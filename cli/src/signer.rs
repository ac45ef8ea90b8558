//! `chancery signer`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{bail, ensure};
use chancery_core::IssuerUrl;
use chancery_signer::config::{DEFAULT_MAXIMUM, DEFAULT_REFRESH_HINT};
use chancery_signer::{RotationConfig, RotationController, Signer, SignerConfig};
use tokio::sync::Notify;

use crate::output::say;
use crate::runtime::{self, Logs};
use crate::signals::Signals;
use crate::time::Time;

mod keys;
mod readiness;

/// How long the process may take to end. The signer drains for 10 s; what takes longer hangs.
const STOPPING: Duration = Duration::from_secs(15);

/// Signs ServiceAccount tokens for kube-apiserver: its --service-account-signing-endpoint (KEP-740).
#[derive(clap::Args)]
pub struct Args {
    /// The unix socket, in a directory to which nobody else may write
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// The group that may connect too: a number, or a name in /etc/group
    #[arg(long, value_name = "GROUP")]
    socket_group: Option<String>,
    /// The issuer URL: what kube-apiserver is given first as --service-account-issuer
    #[arg(long, value_name = "URL")]
    issuer: IssuerUrl,
    /// An audience of kube-apiserver itself, as its --api-audiences; the issuer URL if nothing is said
    #[arg(long = "api-audience", value_name = "AUDIENCE")]
    api_audiences: Vec<String>,
    /// The longest lifetime of a token, 600s at least. kube-apiserver reads it when it starts
    #[arg(long, value_name = "TIME", default_value_t = Time(DEFAULT_MAXIMUM))]
    max_token_expiration: Time,
    /// After how long kube-apiserver asks for the keys again
    #[arg(long, value_name = "TIME", default_value_t = Time(DEFAULT_REFRESH_HINT))]
    refresh_hint: Time,
    /// Signatures that are made or waited for at a time; what comes beyond is turned away at once
    #[arg(long, value_name = "NUMBER", default_value_t = chancery_signer::admission::DEFAULT_CONCURRENCY)]
    concurrency: usize,
    /// Where this signer keeps what it must not forget: the longest lifetimes that it has signed, the newest ring
    #[arg(long, value_name = "FOLDER")]
    state_dir: Option<PathBuf>,
    /// Rotate the keys of the ring from here too, by this policy (docs/rotation.md); several signers may
    #[arg(long, value_name = "FILE", conflicts_with = "signing_key_file")]
    rotation_policy: Option<PathBuf>,
    /// Metrics and health, on this machine alone, such as 127.0.0.1:9650
    #[arg(long, value_name = "ADDRESS")]
    admin_listen: Option<SocketAddr>,
    /// Check the settings and everything they name, then exit
    #[arg(long)]
    check: bool,
    // The last ones, since what comes after them would stand below their heading.
    #[command(flatten)]
    keys: keys::Args,
}

pub fn run(args: Args, logs: Logs) -> anyhow::Result<ExitCode> {
    logs.to_stderr("info,kube_runtime=error,kube_client=error")?;
    let signals = Signals::listen(STOPPING)?;
    let (check, rotation) = (args.check, args.rotation()?);
    let mut config = args.config()?;
    runtime::block_on(2, async {
        let rotation = match rotation {
            Some(policy) => Some(RotationController::open(policy).await?),
            None => None,
        };
        config.rotation = rotation.as_ref().map(RotationController::metrics);
        if check {
            chancery_signer::check(config).await?;
            return say("ok\n");
        }
        // It runs before there are keys to sign with: it may have to make the first ones.
        let rotating = tokio::spawn(async {
            match rotation {
                Some(rotation) => rotation.run().await,
                None => std::future::pending().await,
            }
        });
        tokio::select! {
            ended = sign(config, signals) => ended,
            _ = rotating => bail!("the rotation ended by a fault of ours; the process ends with it, so that it is started again"),
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

async fn sign(config: SignerConfig, signals: Signals) -> anyhow::Result<()> {
    let signer = tokio::select! {
        opened = Signer::open(config) => opened?,
        // Nothing is answered yet that could be drained.
        () = signals.clone().stop() => return Ok(()),
    };
    readiness::tell_service_manager();
    let prompt = signer.prompt();
    tokio::select! {
        ended = signer.run(signals.clone().stop()) => Ok(ended?),
        () = look_when_asked(signals, &prompt) => Ok(()),
    }
}

/// Has the keys looked at after every SIGHUP. Never ends.
async fn look_when_asked(mut signals: Signals, prompt: &Notify) {
    loop {
        signals.reload().await;
        prompt.notify_one();
    }
}

impl Args {
    fn rotation(&self) -> anyhow::Result<Option<RotationConfig>> {
        let Some(path) = &self.rotation_policy else { return Ok(None) };
        let policy = RotationConfig::read(path)?;
        ensure!(
            policy.issuer == self.issuer,
            "{} is the policy of {}, and this signer is one of {}; give the policy of its own ring",
            path.display(),
            policy.issuer,
            self.issuer
        );
        Ok(Some(policy))
    }

    fn config(self) -> anyhow::Result<SignerConfig> {
        let mut config = SignerConfig::new(self.issuer, self.socket, self.keys.source()?);
        config.socket.group = self.socket_group;
        if !self.api_audiences.is_empty() {
            config.policy.api_audiences = self.api_audiences;
        }
        config.policy.longest_lifetime = self.max_token_expiration.0;
        config.refresh_hint = self.refresh_hint.0;
        config.concurrency = self.concurrency;
        config.state_directory = self.state_dir;
        config.admin = self.admin_listen;
        Ok(config)
    }
}

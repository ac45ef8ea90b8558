//! `chancery issuer`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use chancery_issuer::config::Config;
use chancery_issuer::resource::DEFINITION;
use chancery_issuer::service::{Reloaded, Service, ServiceControl, check};
use tracing::{error, info, warn};

use crate::output::say;
use crate::runtime::{self, Logs};
use crate::signals::Signals;

/// How long the process may take to end. The service drains for 15 s; what takes longer hangs.
const STOPPING: Duration = Duration::from_secs(20);

/// Watch keys, publish their public halves to every target, verify them from outside, serve them.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// The configuration, as docs/issuer.md describes it
    #[arg(long, value_name = "FILE", required = true)]
    config: Option<PathBuf>,
    /// Check the configuration and everything it names, then exit
    #[arg(long)]
    check: bool,
}

/// What is done instead of running.
#[derive(clap::Subcommand)]
enum Command {
    /// Print the definition of the resource Issuer, for `kubectl apply -f -`
    Crd,
}

pub fn run(args: Args, logs: Logs) -> anyhow::Result<ExitCode> {
    let path = match (args.command, args.config) {
        (None, Some(path)) => path,
        // Without a command the file is required.
        (Some(Command::Crd), _) | (None, None) => {
            say(DEFINITION)?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    // kube logs every retry and whole answers, the SDK every step to its credentials; what fails is said by us, once.
    logs.to_stderr("info,aws_config=warn,kube_runtime=error,kube_client=error")?;
    let signals = Signals::listen(STOPPING)?;
    let config = Config::read(&path)?;
    runtime::block_on(2, async {
        if args.check {
            let issuers = config.issuers.len();
            check(&config, &path).await?;
            return say(&format!("{}: ok, {issuers} issuers\n", path.display()));
        }
        let service = tokio::select! {
            opened = Service::open(config, &path) => opened?,
            // Nothing runs yet that could be drained.
            () = signals.clone().stop() => return Ok(()),
        };
        let control = service.control();
        tokio::select! {
            ended = service.run(signals.clone().stop()) => Ok(ended?),
            () = follow_configuration(signals, control, &path) => Ok(()),
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Reads the configuration again at every SIGHUP and takes over its issuers. Never ends.
async fn follow_configuration(mut signals: Signals, control: ServiceControl, path: &Path) {
    loop {
        signals.reload().await;
        let config = match Config::read(path) {
            Ok(config) => config,
            Err(problem) => {
                error!("going on as before: {:#}", anyhow::Error::from(problem));
                continue;
            }
        };
        match control.reload(config).await {
            Ok(Reloaded { added, removed, needs_restart }) => {
                let (added, removed) = (added.len(), removed.len());
                info!(added, removed, "the configuration was read again");
                if needs_restart {
                    warn!("what changed besides `issuers` takes a restart");
                }
            }
            Err(problem) => error!("going on as before: {problem}"),
        }
    }
}

//! `chancery webhook serve`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use chancery_webhook::{Config, Webhook};

use crate::output::say;
use crate::runtime::{self, Logs};
use crate::signals::Signals;

/// How long the process may take to end: the longest that requests are still taken, then those under way.
const STOPPING: Duration = Duration::from_secs(80);

#[derive(clap::Args)]
pub struct Args {
    /// The configuration, as docs/webhook.md describes it
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Check the configuration and everything it names, then exit
    #[arg(long)]
    check: bool,
}

pub fn run(args: Args, logs: Logs) -> anyhow::Result<ExitCode> {
    logs.to_stderr("info,kube_runtime=error,kube_client=error")?;
    let signals = Signals::listen(STOPPING)?;
    let config = Config::read(&args.config)?;
    let base = args.config.parent().unwrap_or(Path::new(""));
    runtime::block_on(2, async {
        let webhook = Webhook::open(&config, base).await?;
        if args.check {
            return say(&format!("{}: ok\n", args.config.display()));
        }
        webhook.run(signals.stop()).await;
        Ok(())
    })?;
    Ok(ExitCode::SUCCESS)
}

//! `chancery issuer`.

use std::path::PathBuf;
use std::process::ExitCode;

use chancery_issuer::config::Config;
use chancery_issuer::run::Issuer;
use clap::ValueEnum;

use crate::runtime;

/// Watch keys, publish their public halves to every target, verify them from outside, serve them.
#[derive(clap::Args)]
pub struct Args {
    /// The configuration, as docs/issuer.md describes it
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Check the configuration and everything it names, then exit
    #[arg(long)]
    check: bool,
    /// How log lines are written to standard error
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum LogFormat {
    /// For a person
    Text,
    /// One JSON object a line
    Json,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let config = Config::read(&args.config)?;
    // kube logs every retry and whole answers; what a source cannot read is said by us, once.
    runtime::log_to_stderr(args.log_format == LogFormat::Json, "info,kube_runtime=error,kube_client=error");
    runtime::block_on(2, async {
        let issuer = Issuer::open(config, &args.config).await?;
        if args.check {
            println!("{}: ok, {} issuers", args.config.display(), issuer.issuers());
            return Ok(());
        }
        issuer.run(runtime::terminated()).await?;
        Ok(())
    })?;
    Ok(ExitCode::SUCCESS)
}

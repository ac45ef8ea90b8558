//! `chancery migrate`: what a change of the cluster's issuer takes, step by step, and whether a phase of it is done.

use std::path::PathBuf;
use std::process::ExitCode;

use chancery_core::migration::Phase;
use chancery_issuer::config::MigrationConfig;
use chancery_issuer::migration::look;

use crate::exit::unless_found;
use crate::output::say;
use crate::runtime::{Logs, block_on};

#[derive(clap::Subcommand)]
pub enum Command {
    /// Look at every kube-apiserver and both issuers, and say what is to be done next
    Issuer(IssuerArgs),
    /// Look at the same, and say whether a phase and those before it are done
    Check(CheckArgs),
}

#[derive(clap::Args)]
#[command(
    after_help = "Nothing is changed, but for the note of how long was waited. The file is described in docs/migration.md.\nExit code: 0 when nothing is left to do, 3 while there is, 1 when nothing can be said."
)]
pub struct IssuerArgs {
    /// From which issuer to which, on which kube-apiservers, for whom
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
#[command(
    after_help = "Exit code: 0 when they are done and nothing is out of order, 3 while not, 1 when nothing can be said."
)]
pub struct CheckArgs {
    /// publish, register, accept, switch, wait, drop, deregister or unpublish
    phase: Phase,
    #[command(flatten)]
    issuer: IssuerArgs,
}

pub fn run(command: Command, logs: Logs) -> anyhow::Result<ExitCode> {
    let (args, last) = match command {
        Command::Issuer(args) => (args, Phase::Unpublish),
        Command::Check(args) => (args.issuer, args.phase),
    };
    logs.to_stderr("warn,kube_runtime=error,kube_client=error")?;
    let config = MigrationConfig::read(&args.plan)?;
    let plan = block_on(1, async { Ok(look(&config).await?.through(last)) })?;
    if args.json {
        say(&format!("{}\n", serde_json::to_string_pretty(&plan)?))?;
    } else {
        say(&plan.to_string())?;
    }
    Ok(unless_found(plan.is_done()))
}

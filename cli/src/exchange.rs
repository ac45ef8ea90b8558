//! `chancery exchange`: a token of the platform becomes a credential of a cloud, a registry or a server.

use std::process::ExitCode;

use chancery_exchange::ExchangeError;
use clap::Subcommand;

use crate::output::complain;
use crate::runtime::Logs;

mod exec;
mod explain;
mod get;
mod source;
mod way;

/// Exchange the token of a workload for a credential
#[derive(Subcommand)]
#[command(
    after_help = "Exit code: 0 when done, 10 on configuration or policy, 11 when the other side does not answer, 12 when it throttles,\n13 when the token is outside of its time, 14 when there is no token; `explain` ends with 3 where the token would be refused.\nRecipes for each cloud and registry are in docs/exchange.md."
)]
pub enum Command {
    /// Print a credential, or write it to a file
    Get(Box<get::Args>),
    /// Run a command with a credential in its environment
    Exec(Box<exec::Args>),
    /// Tell step by step what would be exchanged, and which trust makes it pass; nothing is exchanged
    Explain(Box<explain::Args>),
}

pub fn run(command: Command, logs: Logs) -> anyhow::Result<ExitCode> {
    logs.to_stderr("warn")?;
    let done = match command {
        Command::Get(args) => get::run(*args),
        Command::Exec(args) => exec::run(*args),
        Command::Explain(args) => explain::run(*args),
    };
    done.or_else(|error| match error.downcast_ref::<ExchangeError>() {
        Some(failed) => {
            complain(&failed.to_string());
            Ok(ExitCode::from(failed.class().exit_code()))
        }
        None => Err(error),
    })
}

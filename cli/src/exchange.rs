//! `chancery exchange`: a token of the platform becomes a credential of a cloud, a registry or a server.

use std::process::ExitCode;

use chancery_exchange::ExchangeError;
use clap::Subcommand;

use crate::output::complain;
use crate::runtime::Logs;

mod argocd;
mod exec;
mod explain;
mod explain_kubelet;
mod get;
mod keep;
mod kubelet;
mod local_service;
mod purge;
mod reach;
mod serve;
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
    /// Answer kubelet as one of its image credential providers
    Kubelet(Box<kubelet::Args>),
    /// Tell what of kubelet's configuration of its image credential providers keeps them from working
    ExplainKubelet(explain_kubelet::Args),
    /// Forget credentials that `get` and `exec` keep in a folder
    Purge(purge::Args),
    /// Run a local agent that the SDKs of AWS, Azure and Google Cloud fetch credentials from
    Serve(Box<serve::Args>),
    /// Give repo-servers of Argo CD the logins of their repositories, by the identity of each project
    Argocd(Box<argocd::Args>),
}

pub fn run(command: Command, logs: Logs) -> anyhow::Result<ExitCode> {
    logs.to_stderr(match command {
        Command::Serve(_) | Command::Argocd(_) => "info",
        _ => "warn",
    })?;
    let done = match command {
        Command::Get(args) => get::run(*args),
        Command::Exec(args) => exec::run(*args),
        Command::Explain(args) => explain::run(*args),
        Command::Kubelet(args) => kubelet::run(*args),
        Command::ExplainKubelet(args) => explain_kubelet::run(&args),
        Command::Purge(args) => purge::run(args),
        Command::Serve(args) => serve::run(*args),
        Command::Argocd(args) => argocd::run(*args),
    };
    done.or_else(|error| match error.downcast_ref::<ExchangeError>() {
        Some(failed) => {
            complain(&failed.to_string());
            Ok(ExitCode::from(failed.class().exit_code()))
        }
        None => Err(error),
    })
}

//! `chancery webhook`.

use std::process::ExitCode;

use crate::runtime::Logs;

mod audit;
mod explain;
mod manifest;
mod registration;
mod serve;
mod settings;

/// Give pods what the SDKs of AWS, Azure and Google Cloud expect.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Answer kube-apiserver
    Serve(serve::Args),
    /// Print the MutatingWebhookConfiguration that has kube-apiserver ask
    Registration(registration::Args),
    /// Show what would be added to a pod and why, offline
    Explain(explain::Args),
    /// List running pods that ask for credentials and were let in without, and keys that look misspelt
    Audit(audit::Args),
}

pub fn run(command: Command, logs: Logs) -> anyhow::Result<ExitCode> {
    match command {
        Command::Serve(args) => serve::run(args, logs),
        Command::Registration(args) => registration::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Audit(args) => audit::run(args, logs),
    }
}

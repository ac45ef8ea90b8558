//! `chancery trust`: makes a cloud trust an issuer, or says what that would take.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use chancery_publisher::trust::Registrar;

use crate::runtime::{block_on, log_to_stderr};

#[cfg(feature = "azure")]
mod azure;

/// There is something to do.
const FOUND: u8 = 3;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Federated identity credentials of Microsoft Entra
    #[cfg(feature = "azure")]
    #[command(subcommand)]
    Azure(Verb<azure::Args>),
}

#[derive(clap::Subcommand)]
pub enum Verb<Args: clap::Args> {
    /// Show the exact calls that `apply` would make, and the least policy they need; exits 3 when there are any
    Plan(Args),
    /// Make them
    Apply(Args),
}

pub fn run(command: Command) -> anyhow::Result<ExitCode> {
    log_to_stderr(false, "warn");
    block_on(1, async {
        match command {
            #[cfg(feature = "azure")]
            Command::Azure(Verb::Plan(args)) => plan(&*args.registrar()?).await,
            #[cfg(feature = "azure")]
            Command::Azure(Verb::Apply(args)) => apply(&*args.registrar()?).await,
        }
    })
}

async fn plan(registrar: &dyn Registrar) -> anyhow::Result<ExitCode> {
    let plan = registrar.plan().await?;
    let document = serde_json::json!({
        "registration": registrar.describe(),
        "plan": plan,
        "leastPolicy": registrar.least_policy(),
    });
    say(&document)?;
    Ok(if plan.calls.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FOUND) })
}

async fn apply(registrar: &dyn Registrar) -> anyhow::Result<ExitCode> {
    let plan = registrar.plan().await?;
    registrar.apply(&plan).await?;
    say(&serde_json::json!({ "registration": registrar.describe(), "applied": plan }))?;
    Ok(ExitCode::SUCCESS)
}

fn say(document: &serde_json::Value) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(document)? + "\n";
    std::io::stdout().write_all(text.as_bytes()).context("cannot write to standard output")
}

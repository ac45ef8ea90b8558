//! `chancery trust`: makes a cloud trust the issuer.

use std::process::ExitCode;

use chancery_publisher::trust::Registrar;

use crate::runtime::{block_on, log_to_stderr};

#[cfg(feature = "gcp")]
mod gcp;

/// There is something to do.
const FOUND: u8 = 3;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Google Cloud: a workload identity pool and its OIDC provider
    #[cfg(feature = "gcp")]
    #[command(subcommand)]
    Gcp(Operation<gcp::Args>),
}

#[derive(clap::Subcommand)]
pub enum Operation<A: clap::Args> {
    /// Show the calls that `apply` would make, and the least policy for them; exits 3 when there are any
    Plan(A),
    /// Make them
    Apply(A),
}

pub fn run(command: Command) -> anyhow::Result<ExitCode> {
    log_to_stderr(false, "warn");
    match command {
        #[cfg(feature = "gcp")]
        Command::Gcp(Operation::Plan(args)) => carry_out(|| args.registrar(), false),
        #[cfg(feature = "gcp")]
        Command::Gcp(Operation::Apply(args)) => carry_out(|| args.registrar(), true),
    }
}

fn carry_out(
    registrar: impl FnOnce() -> anyhow::Result<Box<dyn Registrar>>,
    apply: bool,
) -> anyhow::Result<ExitCode> {
    block_on(1, async {
        let registrar = registrar()?;
        let plan = registrar.plan().await?;
        println!("{}", registrar.describe());
        for call in &plan.calls {
            println!("\n{call}\n  because {}\n  needs {}", call.reason, call.permission);
            if let Some(body) = &call.body {
                println!("{}", serde_json::to_string_pretty(body)?);
            }
        }
        plan.notes.iter().for_each(|note| println!("\nnote: {note}"));
        if !apply {
            println!("\nleast policy\n{}", registrar.least_policy());
            return Ok(if plan.calls.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FOUND) });
        }
        registrar.apply(&plan).await?;
        println!("\nmade {} calls", plan.calls.len());
        Ok(ExitCode::SUCCESS)
    })
}

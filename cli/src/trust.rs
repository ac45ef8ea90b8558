//! `chancery trust`: makes a cloud take an issuer's tokens, or says what that takes.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use chancery_core::trust::{Body, Call, TrustPlan};
use chancery_publisher::trust::Registrar;

use crate::runtime::{block_on, log_to_stderr};

#[cfg(feature = "s3")]
mod aws;

/// There is something to do.
const FOUND: u8 = 3;

#[derive(clap::Subcommand)]
pub enum Command {
    /// The IAM OIDC provider of an AWS account
    #[cfg(feature = "s3")]
    #[command(subcommand)]
    Aws(Step<aws::Args>),
}

#[derive(clap::Subcommand)]
pub enum Step<A: clap::Args> {
    /// Show the calls that `apply` would make and the least policy for them; exits 3 when there is any call
    Plan(A),
    /// Make the calls
    Apply(A),
}

pub fn run(command: Command) -> anyhow::Result<ExitCode> {
    log_to_stderr(false, "warn,aws_config=error");
    block_on(1, async {
        match command {
            #[cfg(feature = "s3")]
            Command::Aws(Step::Plan(args)) => plan(args.registrar().await?.as_ref()).await,
            #[cfg(feature = "s3")]
            Command::Aws(Step::Apply(args)) => apply(args.registrar().await?.as_ref()).await,
        }
    })
}

async fn plan(registrar: &dyn Registrar) -> anyhow::Result<ExitCode> {
    let plan = registrar.plan().await?;
    let mut text = shown(registrar, &plan);
    text.push_str(&format!("\nthe least policy for this\n{}\n", registrar.least_policy()));
    if let Some(example) = registrar.example().await? {
        text.push_str(&format!("\nfor example, who may use it\n{example}\n"));
    }
    say(&text)?;
    Ok(if plan.calls.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FOUND) })
}

async fn apply(registrar: &dyn Registrar) -> anyhow::Result<ExitCode> {
    let plan = registrar.plan().await?;
    say(&shown(registrar, &plan))?;
    registrar.apply(&plan).await?;
    say("\ndone\n")?;
    Ok(ExitCode::SUCCESS)
}

fn shown(registrar: &dyn Registrar, plan: &TrustPlan) -> String {
    let calls = plan.calls.iter().map(call).collect::<String>();
    let notes = plan.notes.iter().map(|note| format!("note: {note}\n")).collect::<String>();
    let calls = if calls.is_empty() { "nothing to call\n".to_owned() } else { calls };
    format!("{}\n\n{calls}{notes}", registrar.describe())
}

fn call(call: &Call) -> String {
    let body = match &call.body {
        Some(Body::Form(form)) => {
            form.iter().map(|(name, value)| format!("  {name}={value}\n")).collect::<String>()
        }
        Some(Body::Json(json)) => format!("  {json}\n"),
        None => String::new(),
    };
    format!("{call}\n  because {}; takes {}\n{body}", call.reason, call.permission)
}

fn say(text: &str) -> anyhow::Result<()> {
    std::io::stdout().write_all(text.as_bytes()).context("cannot write to standard output")
}

//! `chancery trust`: makes a cloud trust an issuer, or says what that would take.

use std::process::ExitCode;

use chancery_core::trust::{Body, Call, TrustPlan};
use chancery_publisher::trust::Registrar;
use serde_json::json;

use crate::exit::unless_found;
use crate::output::say;
use crate::runtime::{Logs, block_on};

#[cfg(feature = "s3")]
mod aws;
#[cfg(feature = "azure")]
mod azure;
#[cfg(feature = "gcp")]
mod gcp;

#[derive(clap::Args)]
#[command(
    after_help = "What somebody else registered is not touched, and nothing is removed that we did not add.\nExit code: 0 when the registration is as it should be (afterwards), 3 when `plan` found calls to make, 1 when it is refused."
)]
pub struct Args {
    #[command(subcommand)]
    cloud: Cloud,
    /// Print one JSON document
    #[arg(long, global = true)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum Cloud {
    /// AWS: the IAM OIDC provider of an account
    #[cfg(feature = "s3")]
    #[command(subcommand)]
    Aws(Verb<aws::Args>),
    /// Microsoft Entra: the federated identity credentials of an identity
    #[cfg(feature = "azure")]
    #[command(subcommand)]
    Azure(Verb<azure::Args>),
    /// Google Cloud: a workload identity pool and its OIDC provider
    #[cfg(feature = "gcp")]
    #[command(subcommand)]
    Gcp(Verb<gcp::Args>),
}

#[derive(clap::Subcommand)]
enum Verb<A: clap::Args> {
    /// Show the exact calls that `apply` would make, and the least policy they need; exits 3 when there are any
    Plan(A),
    /// Make them
    Apply(A),
}

impl<A: clap::Args> Verb<A> {
    /// The arguments, and whether calls are to be made.
    fn split(self) -> (A, bool) {
        match self {
            Self::Plan(args) => (args, false),
            Self::Apply(args) => (args, true),
        }
    }
}

pub fn run(args: Args, logs: Logs) -> anyhow::Result<ExitCode> {
    logs.to_stderr("warn,aws_config=error")?;
    block_on(1, async {
        let (registrar, apply) = match args.cloud {
            #[cfg(feature = "s3")]
            Cloud::Aws(verb) => {
                let (wanted, apply) = verb.split();
                (wanted.registrar().await?, apply)
            }
            #[cfg(feature = "azure")]
            Cloud::Azure(verb) => {
                let (wanted, apply) = verb.split();
                (wanted.registrar()?, apply)
            }
            #[cfg(feature = "gcp")]
            Cloud::Gcp(verb) => {
                let (wanted, apply) = verb.split();
                (wanted.registrar()?, apply)
            }
        };
        carry_out(registrar.as_ref(), apply, args.json).await
    })
}

async fn carry_out(registrar: &dyn Registrar, apply: bool, json: bool) -> anyhow::Result<ExitCode> {
    let plan = registrar.plan().await?;
    let example = if apply { None } else { registrar.example().await? };
    // Before the calls, so that it stands there whatever comes of them.
    if !json {
        say(&to_text(registrar, &plan, !apply))?;
        if let Some(example) = &example {
            say(&format!("\nfor example, who may use it\n{example}\n"))?;
        }
    }
    if apply {
        registrar.apply(&plan).await?;
    }
    if json {
        say(&to_json(registrar, &plan, example.as_deref(), apply)?)?;
    } else if apply {
        let number = plan.calls.len();
        say(&format!("\nmade {number} call{}\n", if number == 1 { "" } else { "s" }))?;
    }
    Ok(unless_found(apply || plan.calls.is_empty()))
}

fn to_json(
    registrar: &dyn Registrar,
    plan: &TrustPlan,
    example: Option<&str>,
    applied: bool,
) -> anyhow::Result<String> {
    let document = json!({
        "registration": registrar.describe(),
        "plan": plan,
        "applied": applied,
        "leastPolicy": registrar.least_policy(),
        "example": example,
    });
    Ok(format!("{}\n", serde_json::to_string_pretty(&document)?))
}

fn to_text(registrar: &dyn Registrar, plan: &TrustPlan, with_policy: bool) -> String {
    let mut text = format!("{}\n", registrar.describe());
    for call in &plan.calls {
        text.push_str(&call_to_text(call));
    }
    if plan.calls.is_empty() {
        text.push_str("\nnothing to call\n");
    }
    for note in &plan.notes {
        text.push_str(&format!("\nnote: {note}\n"));
    }
    if with_policy {
        text.push_str(&format!("\nleast policy\n{}\n", registrar.least_policy()));
    }
    text
}

fn call_to_text(call: &Call) -> String {
    let mut text = format!("\n{call}\n  because {}\n  needs {}\n", call.reason, call.permission);
    match &call.body {
        None => {}
        Some(Body::Form(fields)) => {
            fields.iter().for_each(|(name, value)| text.push_str(&format!("    {name}={value}\n")));
        }
        Some(Body::Json(value)) => text.push_str(&format!("{value:#}\n")),
    }
    text
}

//! `chancery bootstrap`: from one file to a cluster's key, published documents, trust, the control plane's files, first tokens
//! and the add-on's values.
//!
//! Every step looks first and does what is missing, so that whoever was interrupted runs it again.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};

use self::file::BootstrapFile;
use self::steps::{Outcome, STEPS, Steps};
use crate::exit::unless_found;
use crate::output::say;
use crate::runtime::{Logs, block_on};

mod file;
mod steps;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Show what `apply` would do, step by step; exits 3 when that is anything
    Plan(Args),
    /// Do what is missing, step by step; run it again after an interruption
    Apply(ApplyArgs),
}

#[derive(clap::Args)]
#[command(
    after_help = "The steps: the key, the writer key, documents and trust, visibility, the control plane's files, first tokens, the add-on's values. A key or documents that are there are taken as they are. docs/bootstrap.md describes the file.\nExit code: 0 when all is as it should be (afterwards), 1 when a step failed, 3 when `plan` found something to do."
)]
pub struct Args {
    /// What the cluster is to be
    #[arg(long, value_name = "FILE", default_value = "bootstrap.yaml")]
    file: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct ApplyArgs {
    #[command(flatten)]
    common: Args,
    /// Change nothing, and show whole files and every call
    #[arg(long)]
    dry_run: bool,
    /// For how long documents may take until they are visible
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    wait: u64,
}

/// Whether to say what would be done, with what is in it, or to do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Plan,
    DryRun,
    Apply,
}

pub fn run(command: Command, logs: Logs) -> anyhow::Result<ExitCode> {
    logs.to_stderr("warn,aws_config=error")?;
    let (args, mode, wait) = match command {
        Command::Plan(args) => (args, Mode::Plan, 0),
        Command::Apply(args) if args.dry_run => (args.common, Mode::DryRun, 0),
        Command::Apply(args) => (args.common, Mode::Apply, args.wait),
    };
    let file = BootstrapFile::read(&args.file)?;
    let steps = Steps { file, applies: mode == Mode::Apply, wait: Duration::from_secs(wait) };
    block_on(2, carry_out(&steps, mode, args.json))
}

/// Each step after the one before it. What fails keeps those behind it from beginning.
async fn carry_out(steps: &Steps, mode: Mode, as_json: bool) -> anyhow::Result<ExitCode> {
    let (mut all, mut is_finished) = (Vec::new(), true);
    for step in STEPS {
        let outcome =
            steps.step(step).await.map_err(|error| error.context(format!("step `{}`", step.name())));
        let outcome = outcome.inspect_err(|_| {
            if as_json {
                _ = print_json(&all);
            }
        })?;
        is_finished &= outcome.changes.is_empty();
        if as_json {
            all.push(to_json(step.name(), &outcome));
        } else {
            say(&to_text(step.name(), &outcome, mode))?;
        }
    }
    if as_json {
        print_json(&all)?;
    }
    Ok(unless_found(mode == Mode::Apply || is_finished))
}

fn to_text(name: &str, outcome: &Outcome, mode: Mode) -> String {
    let mut text = match (&outcome.changes.is_empty(), mode) {
        (true, _) => format!("{name:16}{}\n", outcome.stands),
        (false, Mode::Apply) => format!("{name:16}done\n"),
        (false, _) => format!("{name:16}to do\n"),
    };
    for line in &outcome.changes {
        text.push_str(&format!("  {line}\n"));
    }
    if mode == Mode::DryRun {
        for (path, content) in &outcome.contents {
            text.push_str(&format!("\n  {path}\n"));
            content.lines().for_each(|line| text.push_str(&format!("    {line}\n")));
        }
    }
    text
}

fn to_json(name: &str, outcome: &Outcome) -> Value {
    let contents = outcome.contents.iter().map(|(path, content)| json!({ "path": path, "content": content }));
    json!({
        "step": name,
        "stands": outcome.stands,
        "changes": outcome.changes,
        "files": contents.collect::<Vec<_>>(),
    })
}

fn print_json(all: &[Value]) -> anyhow::Result<()> {
    say(&format!("{}\n", serde_json::to_string_pretty(all)?))
}

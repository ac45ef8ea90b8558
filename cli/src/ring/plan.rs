//! `chancery ring plan`: the plan that is carried out, for a person and for a machine.

use std::process::ExitCode;

use super::look::LookArgs;
use crate::exit::unless_found;
use crate::output::say;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    look: LookArgs,
    /// For a machine
    #[arg(long)]
    json: bool,
}

pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let look = args.look.take().await?;
    if args.json {
        say(&format!("{}\n", serde_json::to_string_pretty(&look.plan)?))?;
    } else {
        say(&look.plan.to_string())?;
        look.notes.iter().try_for_each(|note| say(&format!("note: {note}\n")))?;
    }
    Ok(unless_found(look.plan.steps.is_empty()))
}

//! `chancery exchange exec`: a command with a credential in its environment.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use chancery_exchange::output::{Naming, variables};
use chancery_exchange::subject::Environment;

use super::keep::Keep;
use super::way::Way;
use crate::runtime::block_on;

#[derive(clap::Args)]
#[command(
    after_help = "The command takes the place of this process, so signals and its exit code are its own. Its environment is not\nrenewed: a command that runs longer than the credential needs one of the other outputs."
)]
pub struct Args {
    #[command(flatten)]
    way: Way,
    #[command(flatten)]
    keep: Keep,
    /// Refuse a credential that is good for less; at most 80 % of its life
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    min_ttl: u64,
    /// The variable of a bearer token
    #[arg(long, value_name = "NAME", default_value = "CHANCERY_TOKEN")]
    variable: String,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let credential = block_on(1, async {
        let opened = args.way.open(&Environment::of_process()).await?;
        Ok(args.keep.credential(&opened, Duration::from_secs(args.min_ttl)).await?)
    })?;
    let (program, arguments) = args.command.split_first().ok_or_else(|| anyhow!("no command"))?;
    let mut command = Command::new(program);
    command.args(arguments);
    for variable in variables(&credential, Naming { bearer: &args.variable }) {
        command.env(variable.name, variable.value.expose());
    }
    let error = command.exec();
    Err(error).with_context(|| format!("cannot run {}", program.display()))
}

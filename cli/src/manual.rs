//! What a shell and `man` are told of the command line.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{CommandFactory, ValueEnum};
use clap_complete::aot;

use crate::output::write_raw;

#[derive(clap::Args)]
#[command(
    after_help = "bash:  chancery completions bash > ~/.local/share/bash-completion/completions/chancery\nzsh:   chancery completions zsh > a folder of $fpath/_chancery\nfish:  chancery completions fish > ~/.config/fish/completions/chancery.fish"
)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

#[derive(clap::Args)]
pub struct ManArgs {
    /// An existing folder, which gets one page for each command
    #[arg(long, value_name = "DIR")]
    out_dir: PathBuf,
}

/// Prints the completions of the command line `C`.
///
/// # Errors
/// When nobody reads them.
pub fn print_completions<C: CommandFactory>(args: CompletionsArgs) -> anyhow::Result<ExitCode> {
    let shell = match args.shell {
        Shell::Bash => aot::Shell::Bash,
        Shell::Zsh => aot::Shell::Zsh,
        Shell::Fish => aot::Shell::Fish,
    };
    let mut script = Vec::new();
    aot::generate(shell, &mut C::command(), "chancery", &mut script);
    write_raw(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the man pages of the command line `C`.
///
/// # Errors
/// When a page cannot be written.
pub fn write_pages<C: CommandFactory>(args: ManArgs) -> anyhow::Result<ExitCode> {
    clap_mangen::generate_to(C::command(), &args.out_dir).with_context(|| {
        format!("cannot write man pages to {}; give an existing folder", args.out_dir.display())
    })?;
    Ok(ExitCode::SUCCESS)
}

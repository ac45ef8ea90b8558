//! `chancery`: one binary with a subcommand for each role, composed from the library crates behind features.
//!
//! Exit codes: 0 done, 1 refused or failed (the reason is on standard error), 2 wrong usage,
//! 3 `verify`, `lint`, `doctor`, `exchange explain`, `explain-kubelet`, `migrate`, `webhook explain`, `webhook audit` or a plan
//! ran and found something to act on.
//! `exchange` has further ones, one for each class of failure.

use std::process::ExitCode;

use chancery_core::quoted::each_once;
use clap::{Parser, Subcommand};

use output::complain;

#[cfg(feature = "bootstrap")]
mod bootstrap;
#[cfg(feature = "demo")]
mod demo;
#[cfg(feature = "issuer")]
mod doctor;
#[cfg(feature = "exchange")]
mod exchange;
mod exit;
mod given;
#[cfg(feature = "issuer")]
mod issuer;
#[cfg(feature = "keygen")]
mod keygen;
mod lint;
#[cfg(feature = "manual")]
mod manual;
#[cfg(feature = "kube")]
mod migrate;
mod output;
#[cfg(feature = "publish")]
mod publish;
#[cfg(feature = "keygen")]
mod render;
#[cfg(feature = "ring")]
mod ring;
#[cfg(any(feature = "publish", feature = "exchange", feature = "ring", feature = "webhook"))]
mod runtime;
#[cfg(any(feature = "issuer", feature = "ring", feature = "exchange", feature = "webhook"))]
mod signals;
#[cfg(feature = "signer")]
mod signer;
#[cfg(any(feature = "keygen", feature = "ring"))]
mod time;
#[cfg(any(feature = "s3", feature = "azure", feature = "gcp"))]
mod trust;
#[cfg(feature = "publish")]
mod verify;
#[cfg(feature = "webhook")]
mod webhook;

/// The OIDC issuer of a self-managed Kubernetes cluster: makes its signing keys, publishes the discovery document
/// and the JWKS, proves that relying parties see them.
#[derive(Parser)]
#[command(name = "chancery", version, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[cfg(any(feature = "publish", feature = "exchange", feature = "ring", feature = "webhook"))]
    #[command(flatten)]
    logs: runtime::Logs,
}

#[derive(Subcommand)]
enum Command {
    /// Make, import, inspect and export signing keys, offline
    #[cfg(feature = "keygen")]
    #[command(subcommand)]
    Keygen(keygen::Command),
    /// Write what a distribution is told of its issuer, for a new cluster or a phase of a change, offline
    #[cfg(feature = "keygen")]
    Render(Box<render::Args>),
    /// Bring a cluster's issuer up from one file: key, documents, trust, control plane, first tokens, add-on
    #[cfg(feature = "bootstrap")]
    #[command(subcommand)]
    Bootstrap(bootstrap::Command),
    /// Hold an issuer URL and keys against what relying parties accept, offline
    Lint(lint::Args),
    /// Publish documents to a target from a pipeline
    #[cfg(feature = "publish")]
    #[command(subcommand)]
    Publish(Box<publish::Command>),
    /// Make a cloud trust an issuer
    #[cfg(any(feature = "s3", feature = "azure", feature = "gcp"))]
    Trust(Box<trust::Args>),
    /// Read an issuer as an anonymous relying party would and report what breaks whom
    #[cfg(feature = "publish")]
    Verify(verify::Args),
    /// Run the issuer service: watch keys, publish, verify, serve
    #[cfg(feature = "issuer")]
    Issuer(issuer::Args),
    /// Sign ServiceAccount tokens for kube-apiserver, over a unix socket
    #[cfg(feature = "signer")]
    Signer(Box<signer::Args>),
    /// Begin a key ring, see what is planned for it and what is in the way, ask for a rotation or a revocation
    #[cfg(feature = "ring")]
    #[command(subcommand)]
    Ring(Box<ring::Command>),
    /// Change the issuer of a cluster: what is to be done next, and what is out of order
    #[cfg(feature = "kube")]
    #[command(subcommand)]
    Migrate(migrate::Command),
    /// Explain why something does not work: sources, tokens, the outside view, the targets
    #[cfg(feature = "issuer")]
    Doctor(doctor::Args),
    /// Exchange the token of a workload for a credential of a cloud, a registry or a server
    #[cfg(feature = "exchange")]
    #[command(subcommand)]
    Exchange(exchange::Command),
    /// Give pods that ask what the SDKs of AWS, Azure and Google Cloud expect
    #[cfg(feature = "webhook")]
    #[command(subcommand)]
    Webhook(webhook::Command),
    /// Show the whole loop on this machine
    #[cfg(feature = "demo")]
    Demo(demo::Args),
    /// Print the completions of a shell
    #[cfg(feature = "manual")]
    Completions(manual::CompletionsArgs),
    /// Write the man pages
    #[cfg(feature = "manual")]
    #[command(hide = true)]
    Man(manual::ManArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    #[cfg(any(feature = "publish", feature = "exchange", feature = "ring", feature = "webhook"))]
    let logs = cli.logs;
    let result = match cli.command {
        #[cfg(feature = "keygen")]
        Command::Keygen(command) => keygen::run(command),
        #[cfg(feature = "keygen")]
        Command::Render(args) => render::run(&args),
        #[cfg(feature = "bootstrap")]
        Command::Bootstrap(command) => bootstrap::run(command, logs),
        Command::Lint(args) => lint::run(args),
        #[cfg(feature = "publish")]
        Command::Publish(command) => publish::run(*command, logs),
        #[cfg(any(feature = "s3", feature = "azure", feature = "gcp"))]
        Command::Trust(args) => trust::run(*args, logs),
        #[cfg(feature = "publish")]
        Command::Verify(args) => verify::run(args),
        #[cfg(feature = "issuer")]
        Command::Issuer(args) => issuer::run(args, logs),
        #[cfg(feature = "signer")]
        Command::Signer(args) => signer::run(*args, logs),
        #[cfg(feature = "ring")]
        Command::Ring(command) => ring::run(*command, logs),
        #[cfg(feature = "kube")]
        Command::Migrate(command) => migrate::run(command, logs),
        #[cfg(feature = "issuer")]
        Command::Doctor(args) => doctor::run(args, logs),
        #[cfg(feature = "exchange")]
        Command::Exchange(command) => exchange::run(command, logs),
        #[cfg(feature = "webhook")]
        Command::Webhook(command) => webhook::run(command, logs),
        #[cfg(feature = "demo")]
        Command::Demo(args) => demo::run(args, logs),
        #[cfg(feature = "manual")]
        Command::Completions(args) => manual::print_completions::<Cli>(args),
        #[cfg(feature = "manual")]
        Command::Man(args) => manual::write_pages::<Cli>(args),
    };
    result.unwrap_or_else(|error| {
        complain(&in_words(&error));
        ExitCode::FAILURE
    })
}

/// An error and what lies behind it on one line. What one of them says already is not said again.
fn in_words(error: &anyhow::Error) -> String {
    each_once(error.chain().map(ToString::to_string))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// One key id in 64 begins with a hyphen.
    #[test]
    fn every_argument_that_is_a_key_id_may_begin_with_a_hyphen() {
        let mut commands = vec![Cli::command()];
        let mut names = Vec::new();
        while let Some(command) = commands.pop() {
            for argument in command.get_arguments() {
                let values = argument.get_value_names().unwrap_or_default();
                if values.iter().any(|value| matches!(value.as_str(), "KID" | "KEY_ID")) {
                    let takes_one = argument.get_num_args().is_none_or(|count| count.max_values() == 1);
                    assert!(argument.is_allow_hyphen_values_set() && takes_one, "{argument}");
                    names.push(argument.get_id().to_string());
                }
            }
            commands.extend(command.get_subcommands().cloned());
        }
        assert!(!names.is_empty(), "no such argument was found");
    }
}

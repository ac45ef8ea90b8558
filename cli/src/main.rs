//! `chancery`: one binary with a subcommand for each role, composed from the library crates behind features.
//!
//! Exit codes: 0 done, 1 refused or failed (the reason is on standard error), 2 wrong usage,
//! 3 `verify`, `lint`, `publish plan` or `trust … plan` ran and found something to act on.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[cfg(feature = "demo")]
mod demo;
#[cfg(feature = "issuer")]
mod issuer;
#[cfg(feature = "keygen")]
mod keygen;
mod lint;
#[cfg(feature = "publish")]
mod publish;
#[cfg(feature = "publish")]
mod runtime;
#[cfg(feature = "s3")]
mod trust;
#[cfg(feature = "publish")]
mod verify;

/// The OIDC issuer of a self-managed Kubernetes cluster: makes its signing keys, publishes the discovery document
/// and the JWKS, proves that relying parties see them.
#[derive(Parser)]
#[command(name = "chancery", version, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make, import, inspect and export signing keys, offline
    #[cfg(feature = "keygen")]
    #[command(subcommand)]
    Keygen(keygen::Command),
    /// Hold an issuer URL and keys against what relying parties accept, offline
    Lint(lint::Args),
    /// Publish documents to a target from a pipeline
    #[cfg(feature = "publish")]
    #[command(subcommand)]
    Publish(publish::Command),
    /// Make a cloud take the issuer's tokens, or show what that takes
    #[cfg(feature = "s3")]
    #[command(subcommand)]
    Trust(trust::Command),
    /// Read an issuer as an anonymous relying party would and report what breaks whom
    #[cfg(feature = "publish")]
    Verify(verify::Args),
    /// Run the issuer service: watch keys, publish, verify, serve
    #[cfg(feature = "issuer")]
    Issuer(issuer::Args),
    /// Show the whole loop on this machine
    #[cfg(feature = "demo")]
    Demo(demo::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        #[cfg(feature = "keygen")]
        Command::Keygen(command) => keygen::run(command),
        Command::Lint(args) => lint::run(args),
        #[cfg(feature = "publish")]
        Command::Publish(command) => publish::run(command),
        #[cfg(feature = "s3")]
        Command::Trust(command) => trust::run(command),
        #[cfg(feature = "publish")]
        Command::Verify(args) => verify::run(args),
        #[cfg(feature = "issuer")]
        Command::Issuer(args) => issuer::run(args),
        #[cfg(feature = "demo")]
        Command::Demo(args) => demo::run(args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

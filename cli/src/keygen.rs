//! `chancery keygen`: custody of private signing keys, offline.

use std::process::ExitCode;

mod bundle;
pub(crate) mod destination;
mod documents;
mod export;
mod import;
pub mod input;
mod inspect;
mod interruption;
mod make;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Make a signing key and write both halves in the form kube-apiserver reads
    New(make::Args),
    /// Turn a key that kube-apiserver cannot read, or a sealed one, into a pair that it can
    Import(import::Args),
    /// Make keys for later rotations, on a machine without a network: a bundle for `chancery ring import`
    Bundle(bundle::Args),
    /// Show what is in PEM files, and what kube-apiserver makes of every block
    Inspect(inspect::Args),
    /// Render the JWKS of keys, byte for byte as kube-apiserver serves it
    Jwks(documents::JwksArgs),
    /// Render the discovery document of an issuer, byte for byte as kube-apiserver serves it
    Discovery(documents::DiscoveryArgs),
    /// Write a key as the files that a distribution takes, with the kube-apiserver flags beside them
    Export(export::Args),
}

pub fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::New(args) => make::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Bundle(args) => bundle::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Jwks(args) => documents::jwks(&args),
        Command::Discovery(args) => documents::discovery(&args),
        Command::Export(args) => export::run(&args),
    }?;
    Ok(ExitCode::SUCCESS)
}

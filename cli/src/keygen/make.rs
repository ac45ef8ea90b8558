//! `chancery keygen new`.

use std::path::PathBuf;

use chancery_keygen::{KeySpec, PrivateKey};

use super::destination::Destination;
use super::input;

#[derive(clap::Args)]
pub struct Args {
    /// What to make: rsa-2048, rsa-3072, rsa-4096, p-256, p-384 or p-521
    #[arg(long, value_name = "KIND", default_value_t = KeySpec::default())]
    algorithm: KeySpec,
    #[command(flatten)]
    destination: Destination,
    /// Seal the private half with the one line in this file, as PKCS#8 that OpenSSL opens
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let passphrase = input::passphrase(args.passphrase_file.as_deref())?;
    let key = PrivateKey::generate(args.algorithm)?;
    args.destination.write(&key, passphrase.as_ref())
}

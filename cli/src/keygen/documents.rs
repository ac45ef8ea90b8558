//! `chancery keygen jwks` and `chancery keygen discovery`.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use chancery_core::{Discovery, IssuerUrl, Jwks};
use chancery_files::NewFile;

use super::destination::existing;
use super::input;

#[derive(clap::Args)]
pub struct JwksArgs {
    #[command(flatten)]
    keys: KeyFiles,
    #[command(flatten)]
    output: Output,
}

#[derive(clap::Args)]
pub struct DiscoveryArgs {
    /// The issuer URL, exactly as kube-apiserver's --service-account-issuer has it
    #[arg(long, value_name = "URL")]
    issuer: IssuerUrl,
    #[command(flatten)]
    keys: KeyFiles,
    #[command(flatten)]
    output: Output,
}

#[derive(clap::Args)]
struct KeyFiles {
    /// PEM files of public keys, certificates or private keys, in the order of publication; `-` is standard input
    #[arg(long = "key", value_name = "FILE", num_args = 1.., required = true)]
    keys: Vec<PathBuf>,
    /// Open sealed keys with the one line in this file
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
}

#[derive(clap::Args)]
struct Output {
    /// File for the document instead of standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace a file that is there
    #[arg(long, requires = "output")]
    force: bool,
}

pub fn jwks(args: &JwksArgs) -> anyhow::Result<()> {
    args.output.write(args.keys.jwks()?.to_json())
}

pub fn discovery(args: &DiscoveryArgs) -> anyhow::Result<()> {
    let jwks = args.keys.jwks()?;
    args.output.write(Discovery::new(args.issuer.clone(), &jwks).to_json())
}

impl KeyFiles {
    fn jwks(&self) -> anyhow::Result<Jwks> {
        let passphrase = input::passphrase(self.passphrase_file.as_deref())?;
        let keys = input::keys(&self.keys, passphrase.as_ref())?;
        match Jwks::new(keys.iter().map(|key| key.public_key().clone())) {
            Some(jwks) => Ok(jwks),
            None => {
                bail!("the files hold no key; expected at least one, since an empty JWKS rejects every token")
            }
        }
    }
}

impl Output {
    /// Writes the exact bytes; a newline follows only for a person at a terminal.
    fn write(&self, bytes: Vec<u8>) -> anyhow::Result<()> {
        if let Some(path) = &self.output {
            chancery_files::place(&[NewFile::public(path.clone(), bytes)], existing(self.force))?;
            return Ok(());
        }
        let mut out = std::io::stdout().lock();
        let newline: &[u8] = if out.is_terminal() { b"\n" } else { b"" };
        out.write_all(&bytes)
            .and_then(|()| out.write_all(newline))
            .and_then(|()| out.flush())
            .context("cannot write to standard output")
    }
}

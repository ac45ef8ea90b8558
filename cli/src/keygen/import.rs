//! `chancery keygen import`.

use std::path::PathBuf;

use anyhow::bail;
use chancery_core::KeyId;
use chancery_keygen::{Key, PrivateKey};

use super::destination::Destination;
use super::input;

#[derive(clap::Args)]
pub struct Args {
    /// PEM files with one private key in any form, sealed or not; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Which private key to take, when the files hold several
    #[arg(long, value_name = "KEY_ID", allow_hyphen_values = true)]
    key_id: Option<KeyId>,
    #[command(flatten)]
    destination: Destination,
    /// Open sealed keys with the one line in this file
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
    /// Seal what is written with the one line in this file
    #[arg(long, value_name = "FILE")]
    seal_passphrase_file: Option<PathBuf>,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let passphrase = input::passphrase(args.passphrase_file.as_deref())?;
    let seal = input::passphrase(args.seal_passphrase_file.as_deref())?;
    let keys = input::keys(&args.files, passphrase.as_ref())?;
    let key = choose(&keys, args.key_id.as_ref())?;
    let others = keys.iter().filter(|other| other.public_key() != key.public_key());
    for other in others {
        eprintln!("note: key {} is in the files and was not imported", other.public_key().key_id());
    }
    args.destination.write(key, seal.as_ref())
}

fn choose<'a>(keys: &'a [Key], key_id: Option<&KeyId>) -> anyhow::Result<&'a PrivateKey> {
    let private: Vec<&PrivateKey> = keys.iter().filter_map(Key::private_key).collect();
    if let Some(key_id) = key_id {
        let found = private.into_iter().find(|key| key.public_key().key_id() == key_id);
        return found.ok_or_else(|| {
            anyhow::anyhow!(
                "the files hold no private key {key_id}; `chancery keygen inspect` shows what they hold"
            )
        });
    }
    match private.as_slice() {
        [key] => Ok(key),
        [] => bail!("the files hold public keys alone; give the file of a private key"),
        several => {
            let ids: Vec<String> = several.iter().map(|key| key.public_key().key_id().to_string()).collect();
            bail!("the files hold {} private keys; choose one with --key-id: {}", ids.len(), ids.join(", "))
        }
    }
}

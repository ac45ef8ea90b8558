//! `chancery ring import`: keys from a machine without a network.

use std::path::PathBuf;

use chancery_signer::rotation::{BundleFolder, Imported, import};

use super::PolicyArg;
use crate::output::say;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    policy: PolicyArg,
    /// The folder that `chancery keygen bundle` has written
    #[arg(value_name = "BUNDLE")]
    bundle: PathBuf,
    /// Open its private halves with the one line in this file
    #[arg(long, value_name = "FILE")]
    passphrase_file: PathBuf,
}

pub async fn run(args: Args) -> anyhow::Result<()> {
    let config = args.policy.resolved().await?;
    let folder = BundleFolder::new(&args.bundle, &args.passphrase_file)?;
    let Imported { keys, was_known, taken, custody } = import(&config, &folder).await?;
    let mut text = match was_known {
        true => "it was imported before\n".to_owned(),
        false => "imported; the keys sign in this order, one of them published ahead:\n".to_owned(),
    };
    for (number, key) in (1..).zip(&keys) {
        text.push_str(&format!("{number:>4}  {} ({})\n", key.kid(), key.public_key.description()));
    }
    text.push_str(&format!("{taken} private halves came into custody now, in {custody}\n"));
    say(&text)
}

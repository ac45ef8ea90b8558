//! `chancery ring export`: the way back to kube-apiservers that sign with files.

use std::path::PathBuf;

use anyhow::Context as _;
use chancery_cluster::cell::StoreMode;
use chancery_core::PublicKey;
use chancery_core::quoted::escaped;
use chancery_files::{Existing, NewFile, place};
use chancery_signer::rotation::RingDesk;
use zeroize::Zeroizing;

use super::PolicyArg;
use crate::output::say;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    policy: PolicyArg,
    /// Folder for sa.key and sa.pub
    #[arg(long, value_name = "FOLDER")]
    out_dir: PathBuf,
    /// Replace files that are there
    #[arg(long)]
    force: bool,
}

pub async fn run(args: Args) -> anyhow::Result<()> {
    let config = args.policy.read()?;
    let ring = RingDesk::open(&config, StoreMode::ReadOnly).await?.read().await?;
    let active =
        ring.active().context("no key of the ring signs; wait until one does, see `chancery ring plan`")?;
    let vault = config.keys.open(&config.base).await?;
    let private = vault.load(active.kid()).await?.to_exposed_pem()?;
    // The signing key first, as kubeadm has it; no order matters to kube-apiserver.
    let others = ring.verification_keys().map(|key| key.public_key).filter(|key| *key != &active.public_key);
    let public: String = [&active.public_key].into_iter().chain(others).map(PublicKey::to_pem).collect();
    let paths = [args.out_dir.join("sa.key"), args.out_dir.join("sa.pub")];
    let [key, pub_] = paths.clone();
    let files = [
        NewFile::private(key, Zeroizing::new(private.as_bytes().to_vec())),
        NewFile::public(pub_, public.into_bytes()),
    ];
    place(&files, if args.force { Existing::Replace } else { Existing::Keep })?;
    let mut text = format!("signs with {}\n", active.kid());
    for path in paths {
        text.push_str(&format!("wrote {}\n", escaped(path.display())));
    }
    text.push_str(
        "\nsa.key is not sealed: kube-apiserver could not read it otherwise. Stop the rotation of the ring before \
         kube-apiservers sign with these files, or the ring retires keys that they go on using\n",
    );
    say(&text)
}

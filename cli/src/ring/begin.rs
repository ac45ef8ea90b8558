//! `chancery ring init` and `chancery ring adopt`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use chancery_cluster::cell::StoreMode;
use chancery_core::quoted::escaped;
use chancery_core::ring::{AdoptedKey, Custody, KeyState, Request};
use chancery_core::{KeyRing, PublicKey};
use chancery_keygen::pem_file::Content;
use chancery_keygen::{Passphrase, PemFile, PrivateKey, secret_file};
use chancery_signer::rotation::{RequestError, RingDesk, make_key};

use super::PolicyArg;
use crate::output::say;

#[derive(clap::Args)]
pub struct InitArgs {
    #[command(flatten)]
    policy: PolicyArg,
    /// Begin without a key: the first one is made by whoever rotates, and signs when it was seen for long enough
    #[arg(long)]
    empty: bool,
}

pub async fn init(args: InitArgs) -> anyhow::Result<()> {
    let config = args.policy.resolved().await?;
    let desk = RingDesk::open(&config, StoreMode::Shared).await?;
    if args.empty {
        desk.begin(&KeyRing::new()).await?;
        return say(&format!("begun without a key: {}\n", desk.cell().place()));
    }
    if config.offline.is_some() {
        bail!(
            "the policy makes no keys where the ring is; begin with --empty and bring the first with `chancery ring import`, \
             or take over the keys of a running cluster with `chancery ring adopt`"
        );
    }
    // Not a key for nothing where there is a ring.
    if desk.cell().load().await?.is_some() {
        return Err(RequestError::IsThere(desk.cell().place()).into());
    }
    let vault = config.keys.open(&config.base).await?;
    let key = make_key(config.key, vault.as_ref()).await?;
    let first = AdoptedKey { public_key: key.clone(), signs: true, custody: Custody::Held };
    desk.begin(&KeyRing::new().request(&Request::Adopt(vec![first]))?).await?;
    say(&format!(
        "begun: {}\nsigns  {} ({}, {}), sealed in {}\n",
        desk.cell().place(),
        key.key_id(),
        key.description(),
        key.algorithm(),
        vault.place(),
    ))
}

#[derive(clap::Args)]
pub struct AdoptArgs {
    #[command(flatten)]
    policy: PolicyArg,
    /// The private key that kube-apiserver signs with: its --service-account-signing-key-file
    #[arg(long, value_name = "FILE")]
    signing_key_file: Option<PathBuf>,
    /// The keys that it verifies with: its --service-account-key-file
    #[arg(long = "key-file", value_name = "FILE")]
    key_files: Vec<PathBuf>,
    /// The passphrase of private keys that are sealed
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
}

pub async fn adopt(args: AdoptArgs) -> anyhow::Result<()> {
    let config = args.policy.read()?;
    let passphrase = passphrase(args.passphrase_file.as_deref())?;
    let signing = match &args.signing_key_file {
        Some(path) => Some(Arc::new(private_key(path, passphrase.as_ref())?)),
        None => None,
    };
    let mut verifying = Vec::new();
    for path in args.key_files.iter().chain(&args.signing_key_file) {
        verifying.extend(public_keys(path, passphrase.as_ref())?);
    }
    let keys = adopted(signing.as_deref(), verifying);
    if keys.is_empty() {
        bail!("no keys to take over; give --signing-key-file and --key-file as kube-apiserver has them");
    }
    let desk = RingDesk::open(&config, StoreMode::Shared).await?;
    let request = Request::Adopt(keys);
    // What is refused is refused before a key lies in custody for nothing.
    let stored = desk.cell().load().await?.map(|stored| stored.document);
    would_sign(&stored.unwrap_or_default().request(&request)?, signing.as_deref())?;
    // Durable before anybody hears of it.
    if let Some(signing) = signing.clone() {
        config.keys.open(&config.base).await?.store(signing).await?;
    }
    match desk.ask(&request).await {
        Err(RequestError::NoRing(_)) => desk.begin(&KeyRing::new().request(&request)?).await?,
        asked => would_sign(&asked?, signing.as_deref())?,
    }
    say(&describe(&desk.read().await?, &desk.cell().place()))
}

/// Whether the key that was given to sign is the one that signs by the ring.
fn would_sign(ring: &KeyRing, signing: Option<&PrivateKey>) -> anyhow::Result<()> {
    let Some(kid) = signing.map(|key| key.public_key().key_id()) else { return Ok(()) };
    match ring.key(kid) {
        Some(key) if key.state != KeyState::Active => bail!(
            "{kid} is in the ring already, as {}, and does not sign; give it as --key-file, or rotate",
            key.state
        ),
        _ => Ok(()),
    }
}

/// The signing key first, and each key once.
fn adopted(signing: Option<&PrivateKey>, verifying: Vec<PublicKey>) -> Vec<AdoptedKey> {
    let signing = signing.map(|key| key.public_key().clone());
    let signs = |key: &PublicKey| signing.as_ref() == Some(key);
    let mut keys: Vec<AdoptedKey> = Vec::new();
    for public_key in signing.iter().cloned().chain(verifying) {
        if keys.iter().any(|known| known.public_key == public_key) {
            continue;
        }
        let signs = signs(&public_key);
        let custody = if signs { Custody::Held } else { Custody::Elsewhere };
        keys.push(AdoptedKey { public_key, signs, custody });
    }
    keys
}

fn describe(ring: &KeyRing, place: &str) -> String {
    let mut text = format!("adopted into {place}\n");
    for key in ring.keys() {
        let (kid, kind, algorithm) = (key.kid(), key.public_key.description(), key.public_key.algorithm());
        text.push_str(&format!("  {kid}  {:<10}  {kind}, {algorithm}\n", key.state));
    }
    text.push_str(
        "\nlet every kube-apiserver sign through a signer of this ring before the next rotation: one that still signs with \
         a file is not waited for\n",
    );
    text
}

fn private_key(path: &Path, passphrase: Option<&Passphrase>) -> anyhow::Result<PrivateKey> {
    let file = PemFile::read(&secret_file::read(path)?.bytes, passphrase);
    let mut unusable = None;
    for block in file.blocks {
        match block.content {
            Content::Private(key, _) => return Ok(*key),
            Content::Unusable(reason) if !reason.is_harmless() => unusable = Some(reason),
            _ => {}
        }
    }
    let path = escaped(path.display());
    match unusable {
        Some(reason) => bail!("{path}: {reason}"),
        None => {
            bail!("{path} holds no private key; expected kube-apiserver's --service-account-signing-key-file")
        }
    }
}

fn public_keys(path: &Path, passphrase: Option<&Passphrase>) -> anyhow::Result<Vec<PublicKey>> {
    let file = PemFile::read(&secret_file::read(path)?.bytes, passphrase);
    let mut keys = Vec::new();
    for block in &file.blocks {
        match (block.public_key(), &block.content) {
            (Some(key), _) => keys.push(key.clone()),
            (None, Content::Unusable(reason)) if !reason.is_harmless() => {
                bail!("{}, block {}: {reason}", escaped(path.display()), block.position)
            }
            _ => {}
        }
    }
    if keys.is_empty() {
        bail!("{} holds no key; expected PEM blocks of keys or certificates", escaped(path.display()));
    }
    Ok(keys)
}

fn passphrase(path: Option<&Path>) -> anyhow::Result<Option<Passphrase>> {
    let Some(path) = path else { return Ok(None) };
    let passphrase = Passphrase::from_file_bytes(&secret_file::read(path)?.bytes);
    passphrase.with_context(|| escaped(path.display()).to_string()).map(Some)
}

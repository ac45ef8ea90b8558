//! The keys to publish, from PEM files or a JWKS. A key that cannot be published as it is refuses the whole, since
//! a key that is passed over here rejects tokens later.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use chancery_core::PublicKey;
use chancery_core::jwks::{ObservedJwk, ObservedJwks};
use chancery_core::key_file::{self, SkipReason};
use chancery_core::quoted::escaped;

use crate::given;

/// The members of private and symmetric keys (RFC 7518 sections 6.2.2, 6.3.2 and 6.4).
const PRIVATE_MEMBERS: [&str; 8] = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"];

#[derive(clap::Args)]
#[group(required = false, multiple = false)]
pub struct KeyArgs {
    /// PEM files of public keys or certificates
    #[arg(long = "key", value_name = "FILE", num_args = 1.., required_unless_present_any = ["jwks", "withdraw", "revoke"])]
    files: Vec<PathBuf>,
    /// A JWKS, such as kube-apiserver serves at /openid/v1/jwks
    #[arg(long, value_name = "FILE")]
    jwks: Option<PathBuf>,
}

impl KeyArgs {
    /// The keys in the order in which they are given.
    pub fn read(&self) -> anyhow::Result<Vec<PublicKey>> {
        let mut keys = Vec::new();
        for path in &self.files {
            keys.extend(read_pem(&given::read(path)?).with_context(|| escaped(path.display()).to_string())?);
        }
        if let Some(path) = &self.jwks {
            keys.extend(read_jwks_file(path)?);
        }
        Ok(keys)
    }
}

/// The keys of a JWKS, each of them one that kube-apiserver publishes.
pub fn read_jwks_file(path: &Path) -> anyhow::Result<Vec<PublicKey>> {
    read_jwks(&given::read(path)?).with_context(|| escaped(path.display()).to_string())
}

fn read_pem(file: &[u8]) -> anyhow::Result<Vec<PublicKey>> {
    let read = key_file::read_public_keys(file);
    if let Some(skipped) = read.skipped.iter().find(|skipped| skipped.reason != SkipReason::Parameters) {
        bail!("{skipped}");
    }
    ensure!(!read.keys.is_empty(), "expected PEM blocks of public keys or certificates, found none");
    Ok(read.keys)
}

fn read_jwks(file: &[u8]) -> anyhow::Result<Vec<PublicKey>> {
    let entries = ObservedJwks::parse(file)?.entries;
    let keys = entries.into_iter().enumerate().map(|(index, entry)| key_of(index + 1, entry));
    keys.collect()
}

fn key_of(position: usize, entry: ObservedJwk) -> anyhow::Result<PublicKey> {
    if let Some(member) = entry.members.iter().find(|member| PRIVATE_MEMBERS.contains(&member.as_str())) {
        bail!(
            "key {position} has the member `{member}` of a private key; keep it on the control plane and give its public half"
        );
    }
    let kid = entry.kid.as_deref().unwrap_or("");
    ensure!(
        entry.is_kubernetes_key(),
        "key {position} (kid {kid:?}, kty {:?}) is none that kube-apiserver publishes: expected RSA or P-256, P-384, P-521 under {}, with its algorithm and for signatures",
        entry.kty,
        entry.key.as_ref().map_or("its digest".to_owned(), |key| format!("the kid {}", key.key_id())),
    );
    entry.key.context("a key without parameters")
}

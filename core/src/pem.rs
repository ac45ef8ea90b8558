//! Public keys out of PEM files, read by the rules of kube-apiserver's `--service-account-key-file`.
//!
//! kube-apiserver ignores a block's label and skips what it cannot parse without a word. We accept exactly the
//! same blocks and name every one that is skipped (client-go, `util/keyutil`).

use std::fmt;

use der::{Decode, Encode};
use pem::{EncodeConfig, LineEnding, Pem};

use crate::key::{PublicKey, PublicKeyError};

/// One `-----BEGIN ...-----` block of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Counted from 1, in file order.
    pub position: usize,
    /// The words after `BEGIN`.
    pub label: String,
    /// The decoded body, or `None` when its base64 or its `END` line is broken.
    pub body: Option<Vec<u8>>,
    /// Whether an RFC 1421 header says that the body is encrypted.
    pub legacy_encrypted: bool,
}

/// Splits a file into its blocks. Text around them is ignored, as Go ignores it.
pub fn blocks(text: &str) -> Vec<Block> {
    const BEGIN: &str = "-----BEGIN ";
    let mut starts: Vec<usize> = text.match_indices(BEGIN).map(|(at, _)| at).collect();
    starts.push(text.len());
    let slices = starts.windows(2).filter_map(|pair| text.get(*pair.first()?..*pair.last()?));
    slices.enumerate().map(|(index, slice)| block(index + 1, slice)).collect()
}

fn block(position: usize, slice: &str) -> Block {
    let label = slice.trim_start_matches("-----BEGIN ").split("-----").next().unwrap_or_default().to_owned();
    match pem::parse(slice) {
        Ok(pem) => Block {
            position,
            label,
            legacy_encrypted: pem.headers().get("Proc-Type").is_some_and(|value| value.contains("ENCRYPTED")),
            body: Some(pem.into_contents()),
        },
        Err(_) => Block { position, label, body: None, legacy_encrypted: false },
    }
}

/// PEM text of one block, lines of 64 characters ending in LF.
pub fn encode(label: &str, der: &[u8]) -> String {
    pem::encode_config(&Pem::new(label, der), EncodeConfig::new().set_line_ending(LineEnding::LF))
}

/// The public keys of a file, in its order and without repetitions, and what was passed over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PublicKeys {
    /// The keys.
    pub keys: Vec<PublicKey>,
    /// Every block that gave no key, with the reason.
    pub skipped: Vec<Skipped>,
}

/// A block that gave no key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Counted from 1, in file order.
    pub position: usize,
    /// The words after `BEGIN`.
    pub label: String,
    /// Why.
    pub reason: SkipReason,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {} ({}): {}", self.position, self.label, self.reason)
    }
}

/// Why a block gave no key, with the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SkipReason {
    /// The armour or its base64 is broken.
    #[error("not readable PEM: its base64 is broken or its END line is missing")]
    Broken,
    /// A private key, which has no business where only public halves are read.
    #[error(
        "a private key; keep it on the control plane and give its public half, which `chancery keygen inspect --public` prints"
    )]
    PrivateKey,
    /// An encrypted private key.
    #[error("an encrypted private key, which kube-apiserver cannot read either; give its public half")]
    Encrypted,
    /// PKCS#1 `RSA PUBLIC KEY`.
    #[error(
        "a PKCS#1 public key, which kube-apiserver skips without a word; convert it with `openssl rsa -RSAPublicKey_in -pubout`"
    )]
    Pkcs1Public,
    /// Curve parameters, which openssl writes before an EC key.
    #[error("curve parameters, not a key; harmless")]
    Parameters,
    /// A certificate whose key cannot be used.
    #[error("a certificate whose key is of no use here: {0}")]
    Certificate(PublicKeyError),
    /// A public key that cannot be used.
    #[error("{0}")]
    PublicKey(PublicKeyError),
}

impl SkipReason {
    /// Whether the block holds private material.
    pub fn is_private(&self) -> bool {
        matches!(self, Self::PrivateKey | Self::Encrypted)
    }
}

/// Reads the public keys and certificates of a PEM file.
pub fn read_public_keys(text: &str) -> PublicKeys {
    let mut found = PublicKeys::default();
    for block in blocks(text) {
        match public_key_of(&block) {
            Ok(key) if found.keys.contains(&key) => {}
            Ok(key) => found.keys.push(key),
            Err(reason) => {
                found.skipped.push(Skipped { position: block.position, label: block.label, reason });
            }
        }
    }
    found
}

/// The public key in one block, whatever its label says.
///
/// # Errors
/// Says why the block gives none.
pub fn public_key_of(block: &Block) -> Result<PublicKey, SkipReason> {
    let body = block.body.as_deref().ok_or(SkipReason::Broken)?;
    if block.legacy_encrypted || block.label == "ENCRYPTED PRIVATE KEY" {
        return Err(SkipReason::Encrypted);
    }
    if block.label.ends_with("PRIVATE KEY") {
        return Err(SkipReason::PrivateKey);
    }
    match PublicKey::from_spki_der(body) {
        Err(PublicKeyError::NotSpki) => {}
        read => return read.map_err(SkipReason::PublicKey),
    }
    if let Ok(certificate) = x509_cert::Certificate::from_der(body) {
        let info = certificate.tbs_certificate().subject_public_key_info();
        let der = info.to_der().map_err(|_| SkipReason::Certificate(PublicKeyError::NotSpki))?;
        return PublicKey::from_spki_der(&der).map_err(SkipReason::Certificate);
    }
    if pkcs1::RsaPublicKeyRef::from_der(body).is_ok() {
        return Err(SkipReason::Pkcs1Public);
    }
    Err(if block.label == "EC PARAMETERS" {
        SkipReason::Parameters
    } else {
        SkipReason::PublicKey(PublicKeyError::NotSpki)
    })
}

//! Public keys out of PEM files, read by the rules of kube-apiserver's `--service-account-key-file`.
//!
//! kube-apiserver ignores a block's label and skips what it cannot parse without a word (client-go, `util/keyutil`).
//! We accept the blocks of public keys and certificates that it accepts, and name every other one. Private keys,
//! whose public half kube-apiserver takes, are refused before they are decoded: they have no business where only
//! public halves are read.

use std::fmt;

use der::asn1::{AnyRef, OctetStringRef};
use der::{Decode, Encode, Reader, SliceReader, Tag, Tagged};

use crate::key::{PublicKey, PublicKeyError};
use crate::pem::{self, Block, Fault, Shape};
use crate::quoted::escaped;

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
    /// The words after `BEGIN`, as somebody else wrote them.
    pub label: String,
    /// Why.
    pub reason: SkipReason,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = if self.label.is_empty() { "no label" } else { &self.label };
        write!(f, "block {} ({}): {}", self.position, escaped(label), self.reason)
    }
}

/// Why a block gave no key, with the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SkipReason {
    /// A byte order mark before the block.
    #[error(
        "a byte order mark stands before it, so that kube-apiserver skips it without a word; remove the mark with `sed -i '1s/^\\xEF\\xBB\\xBF//' FILE`"
    )]
    ByteOrderMark,
    /// The armour or its base64 is broken.
    #[error(
        "not readable PEM: its base64 is broken, or its BEGIN or END line is missing or holds something else"
    )]
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

impl From<Fault> for SkipReason {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::ByteOrderMark => Self::ByteOrderMark,
            Fault::Broken => Self::Broken,
        }
    }
}

/// Reads the public keys and certificates of a PEM file.
pub fn read_public_keys<T: AsRef<[u8]> + ?Sized>(file: &T) -> PublicKeys {
    let mut found = PublicKeys::default();
    for block in pem::blocks(file) {
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
pub fn public_key_of(block: &Block<'_>) -> Result<PublicKey, SkipReason> {
    if let Some(fault) = block.fault() {
        return Err(fault.into());
    }
    // Before anything is decoded. A public key under the label of a private one, or under a header that calls it
    // encrypted, is read, as kube-apiserver reads it.
    let shape = block.shape();
    if block.is_called_encrypted() && shape != Shape::Nested {
        return Err(SkipReason::Encrypted);
    }
    if shape == Shape::PrivateKey || (shape == Shape::Other && block.label.ends_with("PRIVATE KEY")) {
        return Err(SkipReason::PrivateKey);
    }
    let body = block.decode()?;
    match PublicKey::from_spki_der(&body) {
        Err(PublicKeyError::NotSpki) => {}
        read => return read.map_err(SkipReason::PublicKey),
    }
    if let Ok(certificate) = x509_cert::Certificate::from_der(&body) {
        let info = certificate.tbs_certificate().subject_public_key_info();
        let der = info.to_der().map_err(|_| SkipReason::Certificate(PublicKeyError::NotSpki))?;
        return PublicKey::from_spki_der(&der).map_err(SkipReason::Certificate);
    }
    Err(reason_of(block, &body))
}

/// What a body is that holds no public key kube-apiserver reads.
fn reason_of(block: &Block<'_>, body: &[u8]) -> SkipReason {
    if block.label == "ENCRYPTED PRIVATE KEY" || block.is_called_encrypted() || is_encrypted_pkcs8(body) {
        SkipReason::Encrypted
    } else if block.label.ends_with("PRIVATE KEY") {
        SkipReason::PrivateKey
    } else if pkcs1::RsaPublicKeyRef::from_der(body).is_ok() {
        SkipReason::Pkcs1Public
    } else if block.label == "EC PARAMETERS" {
        SkipReason::Parameters
    } else {
        SkipReason::PublicKey(PublicKeyError::NotSpki)
    }
}

/// Whether a body is built like RFC 5958's `EncryptedPrivateKeyInfo`: an algorithm, then an octet string.
fn is_encrypted_pkcs8(body: &[u8]) -> bool {
    let read = |fields| -> der::Result<()> {
        let mut reader = SliceReader::new(fields)?;
        let algorithm: AnyRef<'_> = reader.decode()?;
        let _: &OctetStringRef = reader.decode()?;
        algorithm.tag().assert_eq(Tag::Sequence)?;
        reader.finish()
    };
    let sequence = AnyRef::from_der(body).ok().filter(|any| any.tag() == Tag::Sequence);
    sequence.is_some_and(|sequence| read(sequence.value()).is_ok())
}

//! Public keys out of PEM files, read by the rules of kube-apiserver's `--service-account-key-file`.
//!
//! kube-apiserver ignores a block's label and skips what it cannot parse without a word. We accept exactly the
//! same blocks and name every one that is skipped (client-go, `util/keyutil`).

use std::fmt;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use der::asn1::{AnyRef, OctetStringRef, UintRef};
use der::{Decode, Encode, Reader, SliceReader, Tag, Tagged};
use pem::{EncodeConfig, LineEnding, Pem};

use crate::key::{PublicKey, PublicKeyError};

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";

/// One `-----BEGIN ...-----` block of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Counted from 1, in file order.
    pub position: usize,
    /// The words after `BEGIN`, at most 32 characters, empty where the dashes behind them are missing.
    pub label: String,
    /// The decoded body, or `None` when its base64 or one of its two lines of dashes is broken.
    pub body: Option<Vec<u8>>,
    /// Whether an RFC 1421 header says that the body is encrypted.
    pub legacy_encrypted: bool,
}

/// Splits a file into its blocks as Go's `encoding/pem` does: a block starts and ends with a line of its own, text
/// around blocks is ignored. An indented `BEGIN`, which Go passes over, is a broken block here, so that it is named.
pub fn blocks(text: &str) -> Vec<Block> {
    let text = text.trim_start_matches('\u{feff}');
    let lines: Vec<&str> = text.split('\n').collect();
    let begins = |(at, line): (usize, &&str)| line.trim_start().starts_with(BEGIN).then_some(at);
    let mut starts: Vec<usize> = lines.iter().enumerate().filter_map(begins).collect();
    starts.push(lines.len());
    let slices = starts.windows(2).filter_map(|pair| lines.get(*pair.first()?..*pair.last()?));
    slices.enumerate().map(|(index, slice)| block(index + 1, slice)).collect()
}

fn block(position: usize, lines: &[&str]) -> Block {
    let first = lines.first().copied().unwrap_or_default();
    // Where the dashes are missing or in another place, key material may follow: name nothing, or little.
    let label =
        first.trim_start().trim_start_matches(BEGIN).split_once(DASHES).map_or("", |(label, _)| label);
    let label: String = label.chars().take(32).collect();
    let (headers, body) = armour(lines).unwrap_or_default();
    let encrypted = |header: &&str| header.starts_with("Proc-Type") && header.contains("ENCRYPTED");
    Block { position, label, legacy_encrypted: headers.iter().any(encrypted), body }
}

/// The RFC 1421 headers and the decoded body of a block, `None` when Go would pass it over.
fn armour<'a>(lines: &[&'a str]) -> Option<(Vec<&'a str>, Option<Vec<u8>>)> {
    let (first, rest) = lines.split_first()?;
    let label = first.trim_end().strip_prefix(BEGIN)?.strip_suffix(DASHES)?;
    let count = rest.iter().take_while(|line| line.contains(':')).count();
    let (headers, rest) = rest.split_at(count);
    let end = rest.iter().position(|line| line.starts_with(END))?;
    let (content, rest) = rest.split_at(end);
    let closing = rest.first()?.trim_end().strip_prefix(END)?.strip_suffix(DASHES)?;
    let characters: String = content.iter().flat_map(|line| line.split_ascii_whitespace()).collect();
    let body = if closing == label { LENIENT.decode(characters).ok() } else { None };
    Some((headers.to_vec(), body))
}

/// base64 as Go reads it: padding is demanded, stray low bits are forgiven.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical)
        .with_decode_allow_trailing_bits(true),
);

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
        let label = if self.label.is_empty() { "no label" } else { &self.label };
        write!(f, "block {} ({label}): {}", self.position, self.reason)
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
    if block.legacy_encrypted {
        return Err(SkipReason::Encrypted);
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
    Err(reason_of(block, body))
}

/// What a body is that holds no public key kube-apiserver reads.
fn reason_of(block: &Block, body: &[u8]) -> SkipReason {
    if block.label == "ENCRYPTED PRIVATE KEY" || is_encrypted_pkcs8(body) {
        SkipReason::Encrypted
    } else if block.label.ends_with("PRIVATE KEY") || is_private_key(body) {
        SkipReason::PrivateKey
    } else if pkcs1::RsaPublicKeyRef::from_der(body).is_ok() {
        SkipReason::Pkcs1Public
    } else if block.label == "EC PARAMETERS" {
        SkipReason::Parameters
    } else {
        SkipReason::PublicKey(PublicKeyError::NotSpki)
    }
}

/// Whether a body is built like PKCS#1, PKCS#8 or SEC1: a sequence that starts with a version of 0 or 1.
fn is_private_key(body: &[u8]) -> bool {
    let version = |fields| SliceReader::new(fields)?.decode::<AnyRef<'_>>()?.decode_as::<UintRef<'_>>();
    fields_of(body)
        .is_some_and(|fields| version(fields).is_ok_and(|version| matches!(version.as_bytes(), [0 | 1])))
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
    fields_of(body).is_some_and(|fields| read(fields).is_ok())
}

fn fields_of(body: &[u8]) -> Option<&[u8]> {
    let sequence = AnyRef::from_der(body).ok().filter(|any| any.tag() == Tag::Sequence)?;
    Some(sequence.value())
}

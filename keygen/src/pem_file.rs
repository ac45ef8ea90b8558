//! A PEM file with every block named: the keys in it, and what could not be read and why.

use chancery_core::PublicKey;
use chancery_core::key::PublicKeyError;
use chancery_core::key_file::{self, SkipReason};
use chancery_core::pem::{self, Block, Shape};
use pkcs8::PrivateKeyInfoRef;
use pkcs8::der::Decode;

use crate::unusable::foreign;
use crate::{Passphrase, PrivateKey, Unusable, seal};

/// A file of PEM blocks, in file order. Nothing is skipped silently.
#[derive(Debug)]
pub struct PemFile {
    /// The blocks; empty when the text holds none.
    pub blocks: Vec<PemBlock>,
}

/// One `-----BEGIN ...-----` block.
#[derive(Debug)]
pub struct PemBlock {
    /// Counted from 1, in file order.
    pub position: usize,
    /// The words after `BEGIN`.
    pub label: String,
    /// What is in it.
    pub content: Content,
}

/// What a block holds. The body decides, not the label, as in kube-apiserver's key files.
#[derive(Debug)]
pub enum Content {
    /// A private key.
    Private(Box<PrivateKey>, Encoding),
    /// A public key.
    Public(PublicKey, Container),
    /// Nothing that can be used.
    Unusable(Unusable),
}

/// How a private key was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// `RSAPrivateKey` (RFC 8017 appendix A.1.2).
    Pkcs1,
    /// `ECPrivateKey` (RFC 5915).
    Sec1,
    /// `PrivateKeyInfo` (RFC 5208).
    Pkcs8,
    /// `EncryptedPrivateKeyInfo` (RFC 5958 section 3), opened with the passphrase.
    Sealed,
}

/// How a public key was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// `SubjectPublicKeyInfo` (RFC 5280 section 4.1).
    Pkix,
    /// An X.509 certificate.
    Certificate,
}

/// A key out of a file, private or public.
#[derive(Debug)]
pub enum Key {
    /// A private key.
    Private(Box<PrivateKey>),
    /// A public key whose private half is elsewhere.
    Public(PublicKey),
}

impl Key {
    /// The public half.
    pub fn public_key(&self) -> &PublicKey {
        match self {
            Self::Private(key) => key.public_key(),
            Self::Public(key) => key,
        }
    }

    /// The private half, if it is here.
    pub fn private_key(&self) -> Option<&PrivateKey> {
        match self {
            Self::Private(key) => Some(key),
            Self::Public(_) => None,
        }
    }
}

impl PemFile {
    /// Reads every block of `file`; sealed ones with `passphrase`, if there is one.
    pub fn read<T: AsRef<[u8]> + ?Sized>(file: &T, passphrase: Option<&Passphrase>) -> Self {
        let blocks = pem::blocks(file).into_iter().map(|block| PemBlock::read(block, passphrase));
        Self { blocks: blocks.collect() }
    }
}

impl PemBlock {
    /// The public half of the key in the block, if there is one.
    pub fn public_key(&self) -> Option<&PublicKey> {
        match &self.content {
            Content::Private(key, _) => Some(key.public_key()),
            Content::Public(key, _) => Some(key),
            Content::Unusable(_) => None,
        }
    }

    fn read(block: Block<'_>, passphrase: Option<&Passphrase>) -> Self {
        let content = match block.decode() {
            Err(fault) => Content::Unusable(fault.into()),
            Ok(_) if block.is_called_encrypted() && block.shape() == Shape::Other => {
                Content::Unusable(Unusable::LegacyEncrypted)
            }
            Ok(body) => read_body(&block, &body, passphrase).unwrap_or_else(Content::Unusable),
        };
        Self { position: block.position, label: block.label, content }
    }
}

fn read_body(block: &Block<'_>, body: &[u8], passphrase: Option<&Passphrase>) -> Result<Content, Unusable> {
    let private = |key, encoding| Content::Private(Box::new(key), encoding);
    if block.label == seal::LABEL {
        let passphrase = passphrase.ok_or(Unusable::Sealed)?;
        return PrivateKey::from_sealed_der(body, passphrase).map(|key| private(key, Encoding::Sealed));
    }
    if let Some(reason) = foreign(&block.label) {
        return Err(reason);
    }
    if pkcs1::RsaPrivateKeyRef::from_der(body).is_ok() {
        return PrivateKey::from_pkcs1_der(body).map(|key| private(key, Encoding::Pkcs1));
    }
    if PrivateKeyInfoRef::from_der(body).is_ok() {
        return PrivateKey::from_pkcs8_der(body).map(|key| private(key, Encoding::Pkcs8));
    }
    if sec1::EcPrivateKey::from_der(body).is_ok() {
        return PrivateKey::from_sec1_der(body).map(|key| private(key, Encoding::Sec1));
    }
    let is_private = block.label.ends_with("PRIVATE KEY");
    match read_public(block, body) {
        // A public key under the label of a private one is one: the body decides.
        Err(Unusable::Skipped(_) | Unusable::Public(PublicKeyError::NotSpki)) if is_private => {
            // What parses as far as the scalar and no further spells its curve out.
            Err(if has_explicit_curve(body) { Unusable::UnnamedCurve } else { Unusable::Garbled })
        }
        read => read,
    }
}

fn read_public(block: &Block<'_>, body: &[u8]) -> Result<Content, Unusable> {
    let key = key_file::public_key_of(block).map_err(|reason| match reason {
        SkipReason::PublicKey(error) => Unusable::Public(error),
        other => Unusable::Skipped(other),
    })?;
    let pkix = PublicKey::from_spki_der(body).is_ok();
    Ok(Content::Public(key, if pkix { Container::Pkix } else { Container::Certificate }))
}

/// Whether the body is `SEQUENCE { INTEGER 1, OCTET STRING, [0] { SEQUENCE ..` (RFC 3279 section 2.3.5).
fn has_explicit_curve(body: &[u8]) -> bool {
    use pkcs8::der::asn1::{AnyRef, OctetStringRef};
    use pkcs8::der::{Reader, Tag, TagNumber};
    let parsed = AnyRef::from_der(body).and_then(|any| {
        any.sequence(|reader| {
            let version = u8::decode(reader)?;
            <&OctetStringRef>::decode(reader)?;
            let parameters = AnyRef::decode(reader)?;
            reader.read_slice(reader.remaining_len())?;
            let tagged = Tag::ContextSpecific { constructed: true, number: TagNumber(0) };
            Ok::<_, pkcs8::der::Error>(
                version == 1
                    && parameters.header().tag() == tagged
                    && parameters.value().first() == Some(&0x30),
            )
        })
    });
    parsed.unwrap_or(false)
}

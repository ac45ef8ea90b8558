//! A bundle of keys that were made on a machine without a network: their public halves, in the order in which they are
//! to sign. The private halves travel beside it, sealed; who vouches for it is no matter of this room.

use serde::{Deserialize, Serialize};

use crate::ring::WallTime;
use crate::ring::pem_field::{read_pem, write_pem};
use crate::{IssuerUrl, KeyId, PublicKey};

/// The newest form of the document that this program knows.
const VERSION: u32 = 1;

/// The keys of one bundle. Its bytes are what is signed, so they are kept as they came and never rendered again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyBundle {
    version: u32,
    issuer: IssuerUrl,
    keys: Vec<BundledKey>,
}

/// One key of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BundledKey {
    /// Its id, for those who read the document.
    kid: KeyId,
    /// The key, written as a `PUBLIC KEY` PEM block.
    #[serde(serialize_with = "write_pem", deserialize_with = "read_pem")]
    pub public_key: PublicKey,
    /// It does not replace a key before, in seconds since 1970 UTC, as `nbf` of a JWT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<WallTime>,
}

impl BundledKey {
    /// A key of a bundle.
    pub fn new(public_key: PublicKey, not_before: Option<WallTime>) -> Self {
        Self { kid: public_key.key_id().clone(), public_key, not_before }
    }

    /// Its id.
    pub fn kid(&self) -> &KeyId {
        self.public_key.key_id()
    }
}

impl KeyBundle {
    /// The most keys in one bundle: at four a year, those of a working life.
    pub const MOST_KEYS: usize = 100;

    /// A bundle of these keys, in the order in which they are to sign.
    ///
    /// # Errors
    /// When there are none or too many, one comes twice, or one is to sign before one that comes earlier.
    pub fn new(issuer: IssuerUrl, keys: Vec<BundledKey>) -> Result<Self, KeyBundleError> {
        let bundle = Self { version: VERSION, issuer, keys };
        bundle.check()?;
        Ok(bundle)
    }

    /// Reads the document.
    ///
    /// # Errors
    /// When it is none, of a later release, or as for [`Self::new`].
    pub fn from_json(document: &[u8]) -> Result<Self, KeyBundleError> {
        #[derive(Deserialize)]
        struct Form {
            version: u32,
        }
        let garbled = |error: serde_json::Error| KeyBundleError::Garbled(error.to_string());
        let Form { version } = serde_json::from_slice(document).map_err(garbled)?;
        if version > VERSION {
            return Err(KeyBundleError::UnknownVersion(version));
        }
        let bundle: Self = serde_json::from_slice(document).map_err(garbled)?;
        bundle.check()?;
        Ok(bundle)
    }

    /// The document, with a line for each member, ending in a newline.
    pub fn to_json(&self) -> Vec<u8> {
        // Names and values of ours are always JSON.
        let mut document = serde_json::to_vec_pretty(self).unwrap_or_default();
        document.push(b'\n');
        document
    }

    /// Whose keys.
    pub fn issuer(&self) -> &IssuerUrl {
        &self.issuer
    }

    /// The keys, in the order in which they are to sign.
    pub fn keys(&self) -> &[BundledKey] {
        &self.keys
    }

    fn check(&self) -> Result<(), KeyBundleError> {
        if self.keys.is_empty() || self.keys.len() > Self::MOST_KEYS {
            return Err(KeyBundleError::Number(self.keys.len()));
        }
        let mut latest = WallTime::default();
        for (index, key) in self.keys.iter().enumerate() {
            let found = key.public_key.key_id().clone();
            if key.kid != found {
                return Err(KeyBundleError::AnotherKey { kid: key.kid.clone(), found });
            }
            if self.keys.iter().take(index).any(|earlier| earlier.kid == key.kid) {
                return Err(KeyBundleError::Twice(found));
            }
            let not_before = key.not_before.unwrap_or(latest);
            if not_before < latest {
                return Err(KeyBundleError::OutOfOrder(found));
            }
            latest = not_before;
        }
        Ok(())
    }
}

/// Why a document is no bundle of keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyBundleError {
    /// It cannot be read.
    #[error("it is no key bundle: {0}; expected what `chancery keygen bundle` writes")]
    Garbled(String),
    /// A later release wrote it.
    #[error(
        "the bundle has version {0}; expected {VERSION} or less. Import it with the release that made it"
    )]
    UnknownVersion(u32),
    /// None, or too many.
    #[error("the bundle has {0} keys; expected 1 to {most}", most = KeyBundle::MOST_KEYS)]
    Number(usize),
    /// A key under another one's id.
    #[error(
        "the bundle calls a key {kid} which is {found}; somebody has changed it, or the medium is damaged"
    )]
    AnotherKey {
        /// What it is called.
        kid: KeyId,
        /// What it is.
        found: KeyId,
    },
    /// A key that comes again.
    #[error("{0} comes twice in the bundle; expected each key once")]
    Twice(KeyId),
    /// A key that would sign before one that comes earlier.
    #[error("{0} is to sign before a key that comes earlier in the bundle; expected `notBefore` to rise")]
    OutOfOrder(KeyId),
}

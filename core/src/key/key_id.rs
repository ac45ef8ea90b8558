//! The key id that Kubernetes gives a key.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// `base64url(SHA-256(SubjectPublicKeyInfo DER))` without padding, 43 characters: the key id of kube-apiserver.
///
/// ```
/// let kid: Result<chancery_core::KeyId, _> = "not a kid".parse();
/// assert!(kid.is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyId(String);

impl KeyId {
    /// The id of a key given as canonical DER `SubjectPublicKeyInfo`.
    pub(super) fn of_spki(der: &[u8]) -> Self {
        Self(URL_SAFE_NO_PAD.encode(Sha256::digest(der)))
    }

    /// The 43 characters.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for KeyId {
    type Err = KeyIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match URL_SAFE_NO_PAD.decode(text) {
            Ok(digest) if digest.len() == 32 => Ok(Self(text.to_owned())),
            _ => Err(KeyIdError(text.to_owned())),
        }
    }
}

impl TryFrom<String> for KeyId {
    type Error = KeyIdError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<KeyId> for String {
    fn from(key_id: KeyId) -> Self {
        key_id.0
    }
}

/// A string that no Kubernetes component would compute as a key id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a key id; expected the 43 base64url characters of a SHA-256 digest, as `chancery keygen inspect` prints them"
)]
pub struct KeyIdError(String);

//! The JWKS that is uploaded to a provider.
//!
//! Google takes the members `kty`, `alg`, `use`, `kid`, `n`, `e`, `x`, `y` and `crv` and no others
//! (<https://docs.cloud.google.com/iam/docs/reference/rest/v1/projects.locations.workloadIdentityPools.providers>,
//! `Oidc.jwksJson`), which are those that we write, and verifies RS256 and ES256 alone.

use crate::jwks::JwksError;
use crate::profile::{Acceptance, RelyingParty};
use crate::upload::HeldKeys;
use crate::{Algorithm, Jwks, KeyId, Owner, PublicKey};

use super::{Oidc, TrustBlocked};

/// Why keys cannot be uploaded, or cannot be told from what is there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UploadError {
    /// A key that Google would verify no token of.
    #[error(
        "Google verifies no token of the key {key_id} ({description}): it takes RSA of 2048 to 4096 bits and P-256"
    )]
    KeyNotTaken {
        /// Which key.
        key_id: KeyId,
        /// What it is.
        description: String,
    },
    /// What is there cannot be read.
    #[error("the uploaded keys cannot be read: {0}")]
    Unreadable(#[from] JwksError),
}

impl From<UploadError> for TrustBlocked {
    fn from(error: UploadError) -> Self {
        let remedy = match error {
            UploadError::KeyNotTaken { .. } => "sign with RS256 or ES256 wherever tokens are for Google",
            UploadError::Unreadable(_) => "look at the provider's keys, and upload them anew by hand",
        };
        Self { what: error.to_string(), remedy: remedy.to_owned() }
    }
}

/// The value of `oidc.jwksJson`.
///
/// # Errors
/// When one of the keys is none that Google takes. Leaving it out in silence would let it sign for nobody.
pub fn json(jwks: &Jwks) -> Result<String, UploadError> {
    let profile = RelyingParty::Gcp.profile();
    let taken = |key: &&PublicKey| {
        profile.algorithms.of(key.algorithm()) == Acceptance::Accepts
            && (key.algorithm() != Algorithm::Rs256 || profile.keys.rsa_bits.contains(&key.bits()))
    };
    match jwks.keys().iter().find(|key| !taken(key)) {
        Some(key) => {
            Err(UploadError::KeyNotTaken { key_id: key.key_id().clone(), description: key.description() })
        }
        None => Ok(String::from_utf8_lossy(&jwks.to_json()).into_owned()),
    }
}

/// What a provider holds; nothing where Google reads the issuer.
///
/// # Errors
/// When it is no JWKS.
pub fn held(oidc: &Oidc, owner: Option<Owner>) -> Result<HeldKeys, UploadError> {
    if oidc.jwks_json.is_empty() {
        return Ok(HeldKeys { owner, ..HeldKeys::default() });
    }
    Ok(HeldKeys { owner, ..HeldKeys::of_jwks(oidc.jwks_json.as_bytes())? })
}

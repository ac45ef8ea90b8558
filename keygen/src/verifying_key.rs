//! A public key that is ready to verify what its private half has signed.

use std::fmt;

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, ParsedPublicKey,
    RSA_PKCS1_2048_8192_SHA256, VerificationAlgorithm,
};
use chancery_core::{Algorithm, KeyId, PublicKey};

/// A public key, parsed once, that verifies JWS signatures (RFC 7518 section 3) of its one algorithm.
pub struct VerifyingKey {
    parsed: ParsedPublicKey,
    kid: KeyId,
}

impl VerifyingKey {
    /// Parses a key; `None` when the cryptographic library has no use for it.
    pub fn new(key: &PublicKey) -> Option<Self> {
        let parsed = ParsedPublicKey::new(algorithm(key.algorithm()), key.spki_der()).ok()?;
        Some(Self { parsed, kid: key.key_id().clone() })
    }

    /// Whether the private half has signed `signing_input` so.
    pub fn verifies(&self, signing_input: &[u8], signature: &[u8]) -> bool {
        self.parsed.verify_sig(signing_input, signature).is_ok()
    }
}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerifyingKey").field("key_id", &self.kid).finish_non_exhaustive()
    }
}

fn algorithm(algorithm: Algorithm) -> &'static dyn VerificationAlgorithm {
    match algorithm {
        Algorithm::Rs256 => &RSA_PKCS1_2048_8192_SHA256,
        Algorithm::Es256 => &ECDSA_P256_SHA256_FIXED,
        Algorithm::Es384 => &ECDSA_P384_SHA384_FIXED,
        Algorithm::Es512 => &ECDSA_P521_SHA512_FIXED,
    }
}

//! The key that signs, and the second look at everything it has signed.
//!
//! kube-apiserver hands out what a signer returns without verifying it. A signature that no relying party accepts, from a
//! broken processor or a key whose halves do not belong together, would be noticed by workloads first: so each one is
//! verified here with the public half before it is answered.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chancery_core::{KeyId, PublicKey};
use chancery_keygen::{KeyError, SigningKey, VerifyingKey};

/// A private key that signs, with its public half that verifies.
#[derive(Debug)]
pub struct ActiveKey {
    signing: SigningKey,
    verifying: VerifyingKey,
}

impl ActiveKey {
    /// Takes a key, if its halves belong together: something is signed and verified.
    ///
    /// # Errors
    /// When they do not, or the cryptographic library fails.
    pub fn new(signing: SigningKey) -> Result<Self, SigningError> {
        let public = signing.public_key();
        let verifying =
            VerifyingKey::new(public).ok_or_else(|| SigningError::PublicHalf(public.key_id().clone()))?;
        let key = Self { signing, verifying };
        key.sign("e30")?;
        Ok(key)
    }

    /// The public half.
    pub fn public_key(&self) -> &PublicKey {
        self.signing.public_key()
    }

    /// The header that every token of this key has, in base64url.
    pub fn header(&self) -> &str {
        self.signing.header()
    }

    /// The signature over `header.claims`, in base64url without padding. `claims` are the encoded ones, signed as they
    /// are.
    ///
    /// # Errors
    /// When the key cannot sign, or has signed what its public half does not accept.
    pub fn sign(&self, claims: &str) -> Result<String, SigningError> {
        let input = [self.header(), ".", claims].concat();
        let signature = self.signing.sign(input.as_bytes())?;
        if !self.verifying.verifies(input.as_bytes(), &signature) {
            return Err(SigningError::NotVerified(self.public_key().key_id().clone()));
        }
        Ok(URL_SAFE_NO_PAD.encode(signature))
    }
}

/// Why there is no signature.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SigningError {
    /// The library cannot sign.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The library cannot verify with the public half.
    #[error(
        "the public half of key {0} is of no use to the cryptographic library; make another key with `chancery keygen new`"
    )]
    PublicHalf(KeyId),
    /// What was signed is not verified.
    #[error(
        "what key {0} has signed is not accepted by its public half, and was not handed out; the memory or the processor of this machine is broken, or the key is: move the signer to another machine and rotate"
    )]
    NotVerified(KeyId),
}

#[cfg(test)]
mod tests {
    use chancery_keygen::{KeySpec, PrivateKey};

    use super::*;

    #[test]
    fn every_kind_of_key_verifies_what_it_signs() {
        for spec in [KeySpec::Rsa2048, KeySpec::Rsa3072, KeySpec::P256, KeySpec::P384, KeySpec::P521] {
            let key = ActiveKey::new(PrivateKey::generate(spec).unwrap().into_signing_key()).unwrap();
            assert!(!key.sign("e30").unwrap().contains('='), "{spec}");
        }
    }

    #[test]
    fn a_signature_of_another_key_is_not_handed_out() {
        let key = |spec| PrivateKey::generate(spec).unwrap().into_signing_key();
        let other = ActiveKey::new(key(KeySpec::P256)).unwrap();
        let mixed = ActiveKey { signing: key(KeySpec::P256), verifying: other.verifying };
        assert!(matches!(mixed.sign("e30"), Err(SigningError::NotVerified(_))));
    }
}

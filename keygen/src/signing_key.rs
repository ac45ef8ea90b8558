//! A key that is ready to sign, and what it makes: JWS signatures and compact JWTs (RFC 7515, RFC 7519).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chancery_core::PublicKey;

use crate::KeyError;
use crate::library_key::LibraryKey;

/// A private key in the form in which it signs: parsed once, with its JWS header made once. It has no encoding to give
/// away, and `Debug` shows the key id alone.
///
/// Kubernetes' external signer (KEP-740) is handed encoded claims and answers with header and signature: it needs
/// [`SigningKey::header`], and [`SigningKey::sign`] over `header.claims`, and nothing is encoded anew.
pub struct SigningKey {
    library: LibraryKey,
    header: String,
    public: PublicKey,
}

impl SigningKey {
    pub(crate) fn new(library: LibraryKey, public: PublicKey) -> Self {
        let header = format!(r#"{{"alg":"{}","kid":"{}","typ":"JWT"}}"#, public.algorithm(), public.key_id());
        Self { library, header: URL_SAFE_NO_PAD.encode(header), public }
    }

    pub(crate) fn library(&self) -> &LibraryKey {
        &self.library
    }

    /// The public half.
    pub fn public_key(&self) -> &PublicKey {
        &self.public
    }

    /// The JWS header that names algorithm, key id and `JWT`, in base64url.
    pub fn header(&self) -> &str {
        &self.header
    }

    /// The signature over `signing_input`, which is header and claims in base64url with a dot between them
    /// (RFC 7515 section 5.1). ECDSA gives `R || S` of fixed length, not DER (RFC 7518 section 3.4).
    ///
    /// # Errors
    /// Only if the cryptographic library fails.
    pub fn sign(&self, signing_input: &[u8]) -> Result<Vec<u8>, KeyError> {
        self.library.sign(signing_input).map_err(|_| KeyError::Sign(self.public.key_id().to_string()))
    }

    /// A compact JWT over `claims`, which are signed as given: nothing is added, checked or encoded anew.
    ///
    /// # Errors
    /// As [`SigningKey::sign`].
    pub fn jwt(&self, claims: &[u8]) -> Result<String, KeyError> {
        let mut jwt = format!("{}.", self.header);
        URL_SAFE_NO_PAD.encode_string(claims, &mut jwt);
        let signature = self.sign(jwt.as_bytes())?;
        jwt.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut jwt);
        Ok(jwt)
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("key_id", self.public.key_id()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, ParsedPublicKey,
        RSA_PKCS1_2048_8192_SHA256, VerificationAlgorithm,
    };
    use serde_json::{Value, json};

    use super::*;
    use crate::{KeySpec, PrivateKey};

    #[test]
    fn the_public_half_verifies_what_was_signed_and_nothing_else() {
        let cases: [(KeySpec, &'static dyn VerificationAlgorithm, usize); 4] = [
            (KeySpec::Rsa2048, &RSA_PKCS1_2048_8192_SHA256, 256),
            (KeySpec::P256, &ECDSA_P256_SHA256_FIXED, 64),
            (KeySpec::P384, &ECDSA_P384_SHA384_FIXED, 96),
            (KeySpec::P521, &ECDSA_P521_SHA512_FIXED, 132),
        ];
        for (spec, verification, length) in cases {
            let key = PrivateKey::generate(spec).unwrap();
            let claims = json!({"iss": "https://id.example.com", "sub": "system:serviceaccount:a:b"});
            let jwt = key.signing_key().jwt(claims.to_string().as_bytes()).unwrap();
            let (signed, signature) = jwt.rsplit_once('.').unwrap();
            let (header, payload) = signed.split_once('.').unwrap();
            let header: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).unwrap()).unwrap();
            let kid = key.public_key().key_id().as_str();
            let algorithm = key.public_key().algorithm().as_str();
            assert_eq!(header, json!({"alg": algorithm, "kid": kid, "typ": "JWT"}));
            let payload: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap();
            assert_eq!(payload, claims);

            let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
            assert_eq!(signature.len(), length, "{spec}");
            let public = ParsedPublicKey::new(verification, key.public_key().spki_der()).unwrap();
            public.verify_sig(signed.as_bytes(), &signature).unwrap();
            assert!(public.verify_sig(header.to_string().as_bytes(), &signature).is_err());
        }
    }
}

//! Compact JWTs (RFC 7519, RFC 7515 section 7.1).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use crate::{KeyError, PrivateKey};

impl PrivateKey {
    /// Signs `claims` as a compact JWT whose header names the algorithm, the key id and `JWT`.
    ///
    /// The claims are signed as given: no claim is added and none is checked.
    ///
    /// # Errors
    /// Only if the cryptographic library fails.
    pub fn sign_jwt(&self, claims: &Value) -> Result<String, KeyError> {
        let public = self.public_key();
        let header = format!(r#"{{"alg":"{}","kid":"{}","typ":"JWT"}}"#, public.algorithm(), public.key_id());
        let mut jwt = URL_SAFE_NO_PAD.encode(header);
        jwt.push('.');
        URL_SAFE_NO_PAD.encode_string(claims.to_string(), &mut jwt);
        let signature = self.sign(jwt.as_bytes())?;
        jwt.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut jwt);
        Ok(jwt)
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, ParsedPublicKey,
        RSA_PKCS1_2048_8192_SHA256, VerificationAlgorithm,
    };
    use serde_json::json;

    use super::*;
    use crate::KeySpec;

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
            let jwt = key.sign_jwt(&claims).unwrap();
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

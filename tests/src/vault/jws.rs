//! Signatures of tokens, verified without Chancery's own crates.

use anyhow::{Context, Result, bail, ensure};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rsa::PublicEncryptingKey;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, ParsedPublicKey,
    RSA_PKCS1_2048_8192_SHA256, VerificationAlgorithm,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

/// What a key of each kind verifies.
const ALGORITHMS: [(&str, &dyn VerificationAlgorithm); 4] = [
    ("RS256", &RSA_PKCS1_2048_8192_SHA256),
    ("ES256", &ECDSA_P256_SHA256_FIXED),
    ("ES384", &ECDSA_P384_SHA384_FIXED),
    ("ES512", &ECDSA_P521_SHA512_FIXED),
];

/// A public key and the algorithm that it verifies.
pub(super) struct VerificationKey {
    algorithm: &'static str,
    key: ParsedPublicKey,
}

impl VerificationKey {
    /// The key of the first PEM block, a SubjectPublicKeyInfo whatever its label says, as Go reads it.
    pub fn of_pem(text: &str) -> Result<Self> {
        let block = pem::parse(text).context("data does not contain any valid public keys")?;
        for (algorithm, verifies) in ALGORITHMS {
            // The RSA parser takes PKCS#1 too, which Go does not.
            let is_rsa = PublicEncryptingKey::from_der(block.contents()).is_ok();
            match ParsedPublicKey::new(verifies, block.contents()) {
                Ok(key) if is_rsa == (algorithm == "RS256") => return Ok(Self { algorithm, key }),
                _ => {}
            }
        }
        bail!("data does not contain any valid RSA, ECDSA or ED25519 public keys")
    }
}

/// The id that kube-apiserver gives the key of a PEM block.
pub(super) fn kid(text: &str) -> Result<String> {
    Ok(URL_SAFE_NO_PAD.encode(digest(&SHA256, pem::parse(text)?.contents())))
}

/// The claims of a token that one of these keys, PEM, has signed.
pub(super) fn verified(token: &str, keys: &[String]) -> Result<Value> {
    let (signed, signature) = token.rsplit_once('.').context("error parsing token")?;
    let (header, claims) = signed.split_once('.').context("error parsing token")?;
    let part = |text: &str| -> Result<Value> { Ok(serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text)?)?) };
    let (header, signature) = (part(header)?, URL_SAFE_NO_PAD.decode(signature)?);
    let algorithm = header.get("alg").and_then(Value::as_str).context("error parsing token: no alg")?;
    let verifies = |entry: &String| {
        let key = VerificationKey::of_pem(entry).ok()?;
        let fits = key.algorithm == algorithm;
        (fits && key.key.verify_sig(signed.as_bytes(), &signature).is_ok()).then_some(())
    };
    ensure!(
        keys.iter().any(|key| verifies(key).is_some()),
        "no known key successfully validated the token signature"
    );
    part(claims)
}

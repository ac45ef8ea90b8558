//! Tokens that no kube-apiserver would issue: expired, signed with a foreign key, with a claim changed.
//!
//! Nothing here comes from Chancery's own crates; the key id in particular is computed a second way.

use std::path::Path;

use anyhow::{Context, Result, bail};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// A key that signs what it is given: RSA as RS256, P-256 as ES256.
#[derive(Debug)]
pub struct TokenSigner {
    key: SigningKey,
    kid: String,
}

#[derive(Debug)]
enum SigningKey {
    Rsa(Box<RsaKeyPair>),
    P256(EcdsaKeyPair),
}

impl TokenSigner {
    /// A new RSA key of 2048 bits, which nobody else knows.
    pub fn generate() -> Result<Self> {
        Self::rsa(RsaKeyPair::generate(KeySize::Rsa2048)?)
    }

    /// The key in a PEM file, such as one that a cluster signs with: RSA in PKCS#1 or PKCS#8, P-256 in PKCS#8.
    pub fn read(path: &Path) -> Result<Self> {
        let file = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
        let block = pem::parse(file)?;
        let der = block.contents();
        match block.tag() {
            "RSA PRIVATE KEY" => Self::rsa(RsaKeyPair::from_der(der)?),
            "PRIVATE KEY" => match EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der) {
                Ok(key) => {
                    let kid = key_id(key.public_key().as_der()?);
                    Ok(Self { key: SigningKey::P256(key), kid })
                }
                Err(_) => Self::rsa(RsaKeyPair::from_pkcs8(der)?),
            },
            other => bail!("{} holds a {other}, not a private key", path.display()),
        }
    }

    fn rsa(key: RsaKeyPair) -> Result<Self> {
        let kid = key_id(key.public_key().as_der()?);
        Ok(Self { key: SigningKey::Rsa(Box::new(key)), kid })
    }

    /// The id that kube-apiserver gives the key.
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// The JWKS that an issuer with this key alone shows.
    pub fn jwks(&self) -> Value {
        let number = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        json!({ "keys": [match &self.key {
            SigningKey::Rsa(key) => json!({
                "use": "sig", "kty": "RSA", "kid": self.kid, "alg": "RS256",
                "n": number(key.public_key().modulus().big_endian_without_leading_zero()),
                "e": number(key.public_key().exponent().big_endian_without_leading_zero()),
            }),
            SigningKey::P256(key) => {
                // An uncompressed point: 4, then both coordinates (SEC 1 section 2.3.3).
                let (x, y) = key.public_key().as_ref().get(1..).unwrap_or_default().split_at(32);
                json!({
                    "use": "sig", "kty": "EC", "kid": self.kid, "alg": "ES256", "crv": "P-256",
                    "x": number(x), "y": number(y),
                })
            }
        }] })
    }

    /// A token of these claims under the key's own id.
    pub fn sign(&self, claims: &Value) -> Result<String> {
        self.sign_as(&self.kid, claims)
    }

    /// A token of these claims that names another key as its signer.
    pub fn sign_as(&self, kid: &str, claims: &Value) -> Result<String> {
        let random = SystemRandom::new();
        let signature = |signed: &str| -> Result<Vec<u8>> {
            match &self.key {
                SigningKey::Rsa(key) => {
                    let mut signature = vec![0; key.public_modulus_len()];
                    key.sign(&RSA_PKCS1_SHA256, &random, signed.as_bytes(), &mut signature)?;
                    Ok(signature)
                }
                SigningKey::P256(key) => Ok(key.sign(&random, signed.as_bytes())?.as_ref().to_vec()),
            }
        };
        let algorithm = match self.key {
            SigningKey::Rsa(_) => "RS256",
            SigningKey::P256(_) => "ES256",
        };
        let signed = signed_part(&json!({ "alg": algorithm, "kid": kid }), claims);
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature(&signed)?)))
    }
}

fn key_id(spki: PublicKeyX509Der<'_>) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, spki.as_ref()))
}

fn signed_part(header: &Value, claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}", part(header), part(claims))
}

/// A token that says it is not signed (RFC 7519 section 6), and names a key.
pub fn unsigned(kid: &str, claims: &Value) -> String {
    signed_part(&json!({ "alg": "none", "kid": kid }), claims) + "."
}

/// A token that names a key and was made with a secret (HS256), such as a public key that is taken for one.
pub fn signed_with_secret(kid: &str, claims: &Value, secret: &[u8]) -> String {
    let signed = signed_part(&json!({ "alg": "HS256", "kid": kid }), claims);
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), signed.as_bytes());
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag))
}

/// A token with its claims exchanged, and the signature that it had.
pub fn with_claims(token: &str, claims: &Value) -> Result<String> {
    let (_, signature) = token.rsplit_once('.').context("not a JWT")?;
    Ok(format!("{}.{signature}", signed_part(&part(token, 0)?, claims)))
}

/// The claims of a token, unverified: to be changed and signed again.
pub fn claims(token: &str) -> Result<Value> {
    part(token, 1)
}

/// The same claims, issued and expired a day earlier.
pub fn a_day_earlier(claims: &Value) -> Value {
    const DAY: i64 = 24 * 3600;
    let mut earlier = claims.clone();
    for name in ["iat", "nbf", "exp"] {
        if let Some(seconds) = earlier.get_mut(name) {
            *seconds = json!(seconds.as_i64().unwrap_or_default() - DAY);
        }
    }
    earlier
}

/// The kid in a token's header, unverified.
pub fn kid(token: &str) -> Result<String> {
    let header = part(token, 0)?;
    Ok(header.get("kid").and_then(Value::as_str).context("a token without kid")?.to_owned())
}

fn part(token: &str, index: usize) -> Result<Value> {
    let part = token.split('.').nth(index).context("not a JWT")?;
    Ok(serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part)?)?)
}

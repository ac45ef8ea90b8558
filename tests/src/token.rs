//! Tokens that no kube-apiserver would issue: expired, signed with a foreign key, with a claim changed.
//!
//! Nothing here comes from Chancery's own crates; the key id in particular is computed a second way.

use std::path::Path;

use anyhow::{Context, Result, bail};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_SHA256};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// An RSA key that signs what it is given, as RS256.
#[derive(Debug)]
pub struct TokenSigner {
    key: RsaKeyPair,
    kid: String,
}

impl TokenSigner {
    /// A new key of 2048 bits, which nobody else knows.
    pub fn generate() -> Result<Self> {
        Self::new(RsaKeyPair::generate(KeySize::Rsa2048)?)
    }

    /// The key in a PEM file, PKCS#1 or PKCS#8, such as one that a cluster signs with.
    pub fn read(path: &Path) -> Result<Self> {
        let file = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
        let block = pem::parse(file)?;
        let key = match block.tag() {
            "RSA PRIVATE KEY" => RsaKeyPair::from_der(block.contents())?,
            "PRIVATE KEY" => RsaKeyPair::from_pkcs8(block.contents())?,
            other => bail!("{} holds a {other}, not an RSA private key", path.display()),
        };
        Self::new(key)
    }

    fn new(key: RsaKeyPair) -> Result<Self> {
        let spki: PublicKeyX509Der<'_> = key.public_key().as_der()?;
        let kid = URL_SAFE_NO_PAD.encode(digest(&SHA256, spki.as_ref()));
        Ok(Self { key, kid })
    }

    /// The id that kube-apiserver gives the key.
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// The JWKS that an issuer with this key alone shows.
    pub fn jwks(&self) -> Value {
        let key = self.key.public_key();
        let number = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        json!({ "keys": [{
            "use": "sig", "kty": "RSA", "kid": self.kid, "alg": "RS256",
            "n": number(key.modulus().big_endian_without_leading_zero()),
            "e": number(key.exponent().big_endian_without_leading_zero()),
        }] })
    }

    /// A token of these claims under the key's own id.
    pub fn sign(&self, claims: &Value) -> Result<String> {
        self.sign_as(&self.kid, claims)
    }

    /// A token of these claims that names another key as its signer.
    pub fn sign_as(&self, kid: &str, claims: &Value) -> Result<String> {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&json!({ "alg": "RS256", "kid": kid })), part(claims));
        let mut signature = vec![0; self.key.public_modulus_len()];
        self.key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature)?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
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

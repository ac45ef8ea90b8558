//! A relying party as most are written: a JWT library and the issuer URL, nothing of ours.

use anyhow::{Context as _, bail, ensure};
use chancery_core::IssuerUrl;
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use reqwest::Certificate;
use serde_json::Value;

/// Trusts one issuer for one audience.
pub struct RelyingPartyOfOneIssuer {
    issuer: String,
    audience: &'static str,
    client: reqwest::Client,
}

impl RelyingPartyOfOneIssuer {
    pub fn new(issuer: &IssuerUrl, audience: &'static str, ca_pem: &str) -> anyhow::Result<Self> {
        let ca = Certificate::from_pem(ca_pem.as_bytes())?;
        let client = reqwest::Client::builder().tls_certs_only([ca]).no_proxy().build()?;
        Ok(Self { issuer: issuer.to_string(), audience, client })
    }

    /// Discovers the keys of the issuer and verifies one token; returns its subject.
    pub async fn verify(&self, token: &str) -> anyhow::Result<String> {
        let url = format!("{}/.well-known/openid-configuration", self.issuer);
        let discovery: Value = self.json(&url).await?;
        let text = |member: &str| discovery.get(member).and_then(Value::as_str);
        ensure!(text("issuer") == Some(&self.issuer), "the discovery document names another issuer");
        let jwks_uri = text("jwks_uri").context("the discovery document names no jwks_uri")?;
        let keys: JwkSet = serde_json::from_value(self.json(jwks_uri).await?)?;

        let header = decode_header(token)?;
        let kid = header.kid.context("the token names no key")?;
        let Some(key) = keys.find(&kid) else {
            bail!("the issuer publishes no key {kid}");
        };
        let algorithm: Algorithm =
            key.common.key_algorithm.context("the key names no alg")?.to_string().parse()?;
        let mut validation = Validation::new(algorithm);
        validation.set_issuer(&[&self.issuer]);
        validation.set_audience(&[self.audience]);
        let verified = decode::<Value>(token, &DecodingKey::from_jwk(key)?, &validation)?;
        let subject = verified.claims.get("sub").and_then(Value::as_str);
        Ok(subject.context("the token has no subject")?.to_owned())
    }

    async fn json(&self, url: &str) -> anyhow::Result<Value> {
        let bytes = self.client.get(url).send().await?.error_for_status()?.bytes().await?;
        Ok(serde_json::from_slice(&bytes)?)
    }
}

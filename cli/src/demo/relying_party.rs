//! A relying party as most are written: a JWT library and the issuer URL, nothing of ours.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use chancery_core::{IssuerUrl, KeyId};
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use reqwest::header::CACHE_CONTROL;
use reqwest::{Certificate, Response};
use serde_json::Value;

/// Trusts one issuer for one audience.
pub struct RelyingPartyOfOneIssuer {
    issuer: String,
    audience: &'static str,
    client: reqwest::Client,
    keeps_keys: bool,
    kept: Option<KeptKeys>,
}

/// Keys, and until when they are not read again.
struct KeptKeys {
    keys: JwkSet,
    until: Instant,
}

impl RelyingPartyOfOneIssuer {
    /// Reads the keys anew for each token.
    pub fn new(issuer: &IssuerUrl, audience: &'static str, ca_pem: &str) -> anyhow::Result<Self> {
        let ca = Certificate::from_pem(ca_pem.as_bytes())?;
        let client = reqwest::Client::builder().tls_certs_only([ca]).no_proxy().build()?;
        Ok(Self { issuer: issuer.to_string(), audience, client, keeps_keys: false, kept: None })
    }

    /// Keeps the keys for as long as their `max-age` says, and does not look any sooner, not for a token of an unknown
    /// key either: the hardest of those that honour that header.
    pub fn keeping_keys(self) -> Self {
        Self { keeps_keys: true, ..self }
    }

    /// Discovers the keys of the issuer and verifies one token; returns its subject.
    pub async fn verify(&mut self, token: &str) -> anyhow::Result<String> {
        let header = decode_header(token)?;
        let kid = header.kid.context("the token names no key")?;
        let (issuer, audience) = (self.issuer.clone(), self.audience);
        let Some(key) = self.keys().await?.find(&kid) else {
            bail!("the issuer publishes no key {kid}");
        };
        let algorithm: Algorithm =
            key.common.key_algorithm.context("the key names no alg")?.to_string().parse()?;
        let mut validation = Validation::new(algorithm);
        validation.set_issuer(&[&issuer]);
        validation.set_audience(&[audience]);
        let verified = decode::<Value>(token, &DecodingKey::from_jwk(key)?, &validation)?;
        let subject = verified.claims.get("sub").and_then(Value::as_str);
        Ok(subject.context("the token has no subject")?.to_owned())
    }

    /// Whether the issuer publishes a key.
    pub async fn finds(&mut self, kid: &KeyId) -> anyhow::Result<bool> {
        Ok(self.keys().await?.find(kid.as_str()).is_some())
    }

    async fn keys(&mut self) -> anyhow::Result<&JwkSet> {
        let kept = match self.kept.take() {
            Some(kept) if Instant::now() < kept.until => kept,
            _ => self.read().await?,
        };
        Ok(&self.kept.insert(kept).keys)
    }

    async fn read(&self) -> anyhow::Result<KeptKeys> {
        let url = format!("{}/.well-known/openid-configuration", self.issuer);
        let discovery: Value = serde_json::from_slice(&self.get(&url).await?.bytes().await?)?;
        let text = |member: &str| discovery.get(member).and_then(Value::as_str);
        ensure!(text("issuer") == Some(&self.issuer), "the discovery document names another issuer");
        let jwks_uri = text("jwks_uri").context("the discovery document names no jwks_uri")?;
        // Before the server answered: nothing that was true afterwards is kept for longer than it may be.
        let asked = Instant::now();
        let answer = self.get(jwks_uri).await?;
        let kept_for = if self.keeps_keys { max_age(&answer) } else { Duration::ZERO };
        let keys = serde_json::from_slice(&answer.bytes().await?)?;
        Ok(KeptKeys { keys, until: asked + kept_for })
    }

    async fn get(&self, url: &str) -> anyhow::Result<Response> {
        Ok(self.client.get(url).send().await?.error_for_status()?)
    }
}

/// For how long an answer may be kept.
fn max_age(answer: &Response) -> Duration {
    let header = answer.headers().get(CACHE_CONTROL).and_then(|value| value.to_str().ok());
    let seconds = header.into_iter().flat_map(|value| value.split(',')).find_map(|directive| {
        directive.trim().strip_prefix("max-age=").and_then(|seconds| seconds.parse().ok())
    });
    Duration::from_secs(seconds.unwrap_or_default())
}

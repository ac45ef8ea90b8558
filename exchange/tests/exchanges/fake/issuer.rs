//! An issuer, as relying parties know it: it signs with aws-lc-rs, and is verified with jsonwebtoken.

use std::sync::{Arc, LazyLock, Mutex};

use async_trait::async_trait;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chancery_exchange::key::KeyBuilder;
use chancery_exchange::subject::TokenIdentity;
use chancery_exchange::{ExchangeError, SubjectTokenSource, UnverifiedToken};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

pub const ISSUER: &str = "https://id.example/cluster-a";
pub const SUBJECT: &str = "system:serviceaccount:team-a:app";

static KEY: LazyLock<KeyPair> = LazyLock::new(|| KeyPair::generate(KeySize::Rsa2048).unwrap());
static STRANGER: LazyLock<KeyPair> = LazyLock::new(|| KeyPair::generate(KeySize::Rsa2048).unwrap());

/// The same workload as SPIFFE knows it.
pub const SPIFFE_ID: &str = "spiffe://example.org/ns/team-a/sa/app";

/// Whether a trust of the stand-ins is for whom a token is for.
pub fn is_trusted(claims: &Value) -> bool {
    let subject = claims["sub"].as_str().unwrap_or_default();
    // Those of Argo CD's projects are trusted as one, so that what keeps them apart is not the stand-in.
    [SUBJECT, SPIFFE_ID].contains(&subject) || subject.starts_with("system:serviceaccount:argocd:argocd-")
}

pub fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

pub fn claims(audience: &str) -> Value {
    json!({ "iss": ISSUER, "sub": SUBJECT, "aud": [audience], "exp": now() + 600, "iat": now(), "nbf": now() })
}

fn signed_with(key: &KeyPair, header: &Value, claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let text = format!("{}.{}", part(header), part(claims));
    let mut signature = vec![0; key.public_modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature).unwrap();
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
}

fn header() -> Value {
    json!({ "alg": "RS256", "kid": "key-1" })
}

/// A token of the issuer.
pub fn token(claims: &Value) -> String {
    signed_with(&KEY, &header(), claims)
}

/// A token of the issuer that says what it is.
#[cfg(feature = "spiffe")]
pub fn typed(typ: &str, claims: &Value) -> String {
    signed_with(&KEY, &json!({ "alg": "RS256", "kid": "key-1", "typ": typ }), claims)
}

/// A token that somebody else signed in its name.
pub fn forged(claims: &Value) -> String {
    signed_with(&STRANGER, &header(), claims)
}

/// The claims of a token that is the issuer's and has not ended; otherwise what is wrong with it.
pub fn verify(token: &str, audience: &str) -> Result<Value, String> {
    let mut rules = Validation::new(Algorithm::RS256);
    rules.leeway = 0;
    rules.set_issuer(&[ISSUER]);
    rules.set_audience(&[audience]);
    rules.validate_nbf = true;
    let key = DecodingKey::from_rsa_der(KEY.public_key().as_ref());
    decode::<Value>(token, &key, &rules).map(|data| data.claims).map_err(|error| error.to_string())
}

/// A source that gives what a test says, in turn; the last of them again and again.
pub struct Given {
    tokens: Mutex<Vec<String>>,
    asked: Mutex<Vec<String>>,
    renews: bool,
}

impl Given {
    pub fn new(tokens: impl IntoIterator<Item = String>) -> Arc<Self> {
        let tokens = Mutex::new(tokens.into_iter().collect());
        Arc::new(Self { tokens, asked: Mutex::default(), renews: true })
    }

    /// How often a token was asked for.
    pub fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

#[async_trait]
impl SubjectTokenSource for Given {
    fn origin(&self) -> String {
        "the test".to_owned()
    }

    fn can_renew(&self) -> bool {
        self.renews
    }

    fn describe(&self, key: &mut KeyBuilder) {
        key.text("source", "test");
    }

    async fn token(&self, audience: &str) -> Result<UnverifiedToken, ExchangeError> {
        self.asked.lock().unwrap().push(audience.to_owned());
        let mut tokens = self.tokens.lock().unwrap();
        let token = if tokens.len() > 1 { tokens.remove(0) } else { tokens[0].clone() };
        UnverifiedToken::parse(&token).map_err(|error| error.at("the test"))
    }
}

/// A source that gives nothing until a test lets it.
pub struct Held {
    /// As many as were asked for.
    pub asked: Semaphore,
    /// As many as may be given, and one more time each.
    pub gate: Semaphore,
}

impl Held {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { asked: Semaphore::new(0), gate: Semaphore::new(0) })
    }
}

#[async_trait]
impl SubjectTokenSource for Held {
    fn origin(&self) -> String {
        "the test".to_owned()
    }

    fn can_renew(&self) -> bool {
        true
    }

    fn describe(&self, key: &mut KeyBuilder) {
        key.text("source", "held");
    }

    async fn token(&self, audience: &str) -> Result<UnverifiedToken, ExchangeError> {
        self.asked.add_permits(1);
        _ = self.gate.acquire().await.unwrap();
        Ok(UnverifiedToken::parse(&token(&claims(audience))).unwrap())
    }

    async fn identity(&self, audience: &str) -> Result<TokenIdentity, ExchangeError> {
        Ok(TokenIdentity { iss: ISSUER.to_owned(), sub: SUBJECT.to_owned(), aud: vec![audience.to_owned()] })
    }
}

//! A workload that has tokens signed and verified without pause, and counts.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chancery_core::{IssuerUrl, KeyId};
use chancery_signer::messages::SignJwtRequest;
use chancery_signer::service::SignerService;
use jsonwebtoken::decode_header;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::relying_party::RelyingPartyOfOneIssuer;
use super::stage::TOKEN_LIFETIME;

/// The time between two tokens.
const PAUSE: Duration = Duration::from_millis(60);

/// The age at which a token is verified once more, in seconds: in the last second of its life.
const OLD: u64 = TOKEN_LIFETIME - 1;

/// What was counted.
#[derive(Debug, Default)]
pub struct Tally {
    /// Tokens that were signed.
    pub signed: usize,
    /// The newest one of each key.
    pub newest: BTreeMap<String, String>,
    /// How many times a live token was accepted.
    pub accepted: usize,
    /// Live tokens that were rejected, and why. None should be.
    pub rejected: Vec<String>,
    /// The key that a person has revoked: its tokens are to be rejected, from when on does not matter.
    pub revoked: Option<KeyId>,
    /// How many times they were.
    pub rejected_as_revoked: usize,
}

/// What it needs.
pub struct Parts {
    pub issuer: IssuerUrl,
    pub audience: &'static str,
    pub signer: Arc<SignerService>,
    pub relying_party: RelyingPartyOfOneIssuer,
}

/// A token and how long it lives.
#[derive(Clone, Debug)]
struct Token {
    text: String,
    kid: String,
    issued: u64,
}

/// The running workload; it ends when this is dropped.
pub struct Workload {
    tally: Arc<Mutex<Tally>>,
    stop: oneshot::Sender<()>,
    running: JoinHandle<anyhow::Result<()>>,
}

impl Workload {
    /// Begins.
    pub fn begin(parts: Parts) -> Self {
        let (stop, stopped) = oneshot::channel();
        let tally = Arc::default();
        let running = tokio::spawn(run(parts, Arc::clone(&tally), stopped));
        Self { tally, stop, running }
    }

    /// Tokens of this key are to be rejected from now on.
    pub fn expects_revoked(&self, kid: &KeyId) {
        lock(&self.tally).revoked = Some(kid.clone());
    }

    /// The newest token that a key has signed.
    pub fn newest(&self, kid: &KeyId) -> Option<String> {
        lock(&self.tally).newest.get(kid.as_str()).cloned()
    }

    /// Ends after every live token was verified once more.
    pub async fn end(self) -> anyhow::Result<Tally> {
        _ = self.stop.send(());
        self.running.await.context("the workload ended by a fault of ours")??;
        Ok(std::mem::take(&mut *lock(&self.tally)))
    }
}

async fn run(
    mut parts: Parts,
    tally: Arc<Mutex<Tally>>,
    mut stopped: oneshot::Receiver<()>,
) -> anyhow::Result<()> {
    let mut live = VecDeque::new();
    loop {
        let token = parts.mint().await?;
        {
            let mut tally = lock(&tally);
            tally.signed += 1;
            tally.newest.insert(token.kid.clone(), token.text.clone());
        }
        parts.verify(&token, &tally).await?;
        live.push_back(token);
        let is_old = |token: &mut Token| now().is_ok_and(|now| token.issued + OLD <= now);
        while let Some(old) = live.pop_front_if(is_old) {
            parts.verify(&old, &tally).await?;
        }
        tokio::select! {
            // Also when nobody is left who could say so.
            _ = &mut stopped => break,
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
    for token in live {
        parts.verify(&token, &tally).await?;
    }
    Ok(())
}

impl Parts {
    /// Has the signer sign what kube-apiserver would put into a ServiceAccount's token.
    async fn mint(&self) -> anyhow::Result<Token> {
        let issued = now()?;
        let claims = json!({
            "iss": self.issuer,
            "sub": "system:serviceaccount:demo:workload",
            "aud": [self.audience],
            "iat": issued,
            "nbf": issued,
            "exp": issued + TOKEN_LIFETIME,
        });
        let claims = URL_SAFE_NO_PAD.encode(claims.to_string());
        let signed = self.signer.sign(SignJwtRequest { claims: claims.clone() }).await;
        let signed = signed.map_err(|status| anyhow!("no token was signed: {}", status.message()))?;
        let text = [signed.header, claims, signed.signature].join(".");
        let kid = decode_header(&text)?.kid.context("a token names no key")?;
        Ok(Token { text, kid, issued })
    }

    /// Counts what the relying party says of a token. One that dies meanwhile may be rejected.
    async fn verify(&mut self, token: &Token, tally: &Mutex<Tally>) -> anyhow::Result<()> {
        let verdict = self.relying_party.verify(&token.text).await;
        let lives = now()? < token.issued + TOKEN_LIFETIME;
        let mut tally = lock(tally);
        let is_revoked = tally.revoked.as_ref().is_some_and(|kid| kid.as_str() == token.kid);
        match verdict {
            Ok(_) if lives => tally.accepted += 1,
            Err(_) if is_revoked => tally.rejected_as_revoked += 1,
            Err(why) if lives => tally.rejected.push(format!("a token of {}: {why:#}", token.kid)),
            _ => {}
        }
        Ok(())
    }
}

fn lock(tally: &Mutex<Tally>) -> MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Seconds since 1970.
fn now() -> anyhow::Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}

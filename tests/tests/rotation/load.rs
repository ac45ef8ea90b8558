//! Tokens that are asked for and verified all the time, and every refusal.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;
use e2e::kube_apiserver::KubeApiserver;
use e2e::relying_party::Verdict;
use e2e::token;
use e2e::token_verifier::TokenVerifier;
use tokio::sync::RwLock;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use crate::stage::ACCOUNT;

/// Whom the tokens are for.
pub const AUDIENCE: &str = "vault";

/// Kube-apiservers that are asked; whoever exchanges one of them waits for the requests under way, as a balancer that drains.
pub type Servers = Arc<Vec<RwLock<KubeApiserver>>>;

/// How much is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// The time between two tokens of one kube-apiserver.
    pub pause: Duration,
    /// How long tokens live, in seconds: longer than the test.
    pub lifetime: u64,
}

impl Rate {
    /// Three kube-apiservers make about fifty in a second. Tokens live for as long as kube-apiserver lets them, at least.
    pub const FAST: Self = Self { pause: Duration::from_millis(60), lifetime: 600 };
}

/// What was counted.
#[derive(Debug, Default)]
pub struct Counts {
    /// Tokens that were signed.
    pub signed: AtomicUsize,
    /// Questions to a kube-apiserver or relying party whether a token is good.
    pub verified: AtomicUsize,
    tokens: Mutex<Vec<String>>,
    refused: Mutex<Vec<String>>,
}

impl Counts {
    /// What was refused, in words.
    pub fn refused(&self) -> Vec<String> {
        self.refused.lock().unwrap().clone()
    }

    /// How many keys have signed.
    pub fn keys(&self) -> usize {
        let tokens = self.tokens.lock().unwrap();
        tokens.iter().filter_map(|token| token::kid(token).ok()).collect::<BTreeSet<_>>().len()
    }

    fn judge(&self, who: &str, token: &str, verdict: Result<Verdict>) {
        self.verified.fetch_add(1, Ordering::Relaxed);
        let why = match verdict {
            Ok(Ok(_)) => return,
            Ok(Err(refusal)) => refusal.to_string(),
            Err(error) => format!("{error:#}"),
        };
        let kid = token::kid(token).unwrap_or_default();
        self.refused.lock().unwrap().push(format!("{who} refused a token of {kid}: {why}"));
    }
}

/// The load on one control plane.
pub struct Load {
    pub counts: Arc<Counts>,
    servers: Servers,
    /// Whether the kube-apiserver is left alone, since its signer is.
    resting: Arc<Vec<AtomicBool>>,
    ends: Arc<AtomicBool>,
    minting: JoinSet<()>,
    verifying: JoinSet<()>,
    relying_party: Arc<tokio::sync::Mutex<TokenVerifier>>,
}

impl Load {
    /// Begins. Every token is shown to every kube-apiserver and to the relying party at once.
    pub fn begin(servers: Servers, relying_party: TokenVerifier, rate: Rate) -> Self {
        let counts = Arc::new(Counts::default());
        let resting = Arc::new(servers.iter().map(|_| AtomicBool::new(false)).collect::<Vec<_>>());
        let ends = Arc::new(AtomicBool::new(false));
        let relying_party = Arc::new(tokio::sync::Mutex::new(relying_party));
        let (mut minting, mut verifying) = (JoinSet::new(), JoinSet::new());
        let mut readers = Vec::new();
        for number in 0..servers.len() {
            let (sender, tokens) = unbounded_channel();
            readers.push(sender);
            verifying.spawn(review(servers.clone(), number, tokens, counts.clone()));
        }
        let (sender, tokens) = unbounded_channel();
        readers.push(sender);
        verifying.spawn(rely(relying_party.clone(), tokens, counts.clone()));
        for number in 0..servers.len() {
            let minter = Minter {
                servers: servers.clone(),
                number,
                rate,
                resting: resting.clone(),
                ends: ends.clone(),
                readers: readers.clone(),
                counts: counts.clone(),
            };
            minting.spawn(minter.run());
        }
        Self { counts, servers, resting, ends, minting, verifying, relying_party }
    }

    /// Leaves the kube-apiserver of a node alone, or no longer, and waits until no request of it is under way.
    pub async fn rest(&self, number: usize, rests: bool) {
        self.resting[number].store(rests, Ordering::SeqCst);
        tokio::time::sleep(Rate::FAST.pause * 5).await;
    }

    /// Stops to ask for tokens, and shows every one to everybody once more: all of them live still.
    pub async fn end(mut self) -> (Arc<Counts>, Vec<String>) {
        self.ends.store(true, Ordering::SeqCst);
        while self.minting.join_next().await.is_some() {}
        while self.verifying.join_next().await.is_some() {}
        let tokens = Arc::new(self.counts.tokens.lock().unwrap().clone());
        let mut sweep = JoinSet::new();
        for number in 0..self.servers.len() {
            let (servers, tokens, counts) = (self.servers.clone(), tokens.clone(), self.counts.clone());
            sweep.spawn(async move {
                for token in tokens.iter() {
                    let verdict = servers[number].read().await.token_review(token, &[AUDIENCE]).await;
                    counts.judge(&format!("kube-apiserver {number}, at last,"), token, verdict);
                }
            });
        }
        let (party, all, counts) = (self.relying_party.clone(), tokens.clone(), self.counts.clone());
        sweep.spawn(async move {
            let mut party = party.lock().await;
            for token in all.iter() {
                counts.judge("the relying party, at last,", token, party.verify(token).await);
            }
        });
        while sweep.join_next().await.is_some() {}
        (self.counts, tokens.to_vec())
    }
}

async fn review(servers: Servers, number: usize, mut tokens: UnboundedReceiver<String>, counts: Arc<Counts>) {
    while let Some(token) = tokens.recv().await {
        let verdict = servers[number].read().await.token_review(&token, &[AUDIENCE]).await;
        counts.judge(&format!("kube-apiserver {number}"), &token, verdict);
    }
}

async fn rely(
    party: Arc<tokio::sync::Mutex<TokenVerifier>>,
    mut tokens: UnboundedReceiver<String>,
    counts: Arc<Counts>,
) {
    while let Some(token) = tokens.recv().await {
        let verdict = party.lock().await.verify(&token).await;
        counts.judge("the relying party", &token, verdict);
    }
}

struct Minter {
    servers: Servers,
    number: usize,
    rate: Rate,
    resting: Arc<Vec<AtomicBool>>,
    ends: Arc<AtomicBool>,
    readers: Vec<UnboundedSender<String>>,
    counts: Arc<Counts>,
}

impl Minter {
    async fn run(self) {
        let Self { servers, number, rate, resting, ends, readers, counts } = self;
        let mut tick = tokio::time::interval(rate.pause);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        while !ends.load(Ordering::SeqCst) {
            tick.tick().await;
            if resting[number].load(Ordering::SeqCst) {
                continue;
            }
            match servers[number].read().await.token_request(ACCOUNT, AUDIENCE, rate.lifetime).await {
                Ok(token) => {
                    counts.signed.fetch_add(1, Ordering::Relaxed);
                    counts.tokens.lock().unwrap().push(token.clone());
                    readers.iter().for_each(|reader| _ = reader.send(token.clone()));
                }
                Err(error) => {
                    let words = format!("kube-apiserver {number} gave no token: {error:#}");
                    counts.refused.lock().unwrap().push(words);
                }
            }
        }
    }
}

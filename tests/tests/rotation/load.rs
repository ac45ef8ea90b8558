//! Tokens that are asked for and verified all the time, and every refusal.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use e2e::kube_apiserver::KubeApiserver;
use e2e::relying_party::Verdict;
use e2e::token_verifier::TokenVerifier;
use e2e::{token, wait};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Mutex, RwLock};
use tokio::task::JoinSet;

use crate::stage::ACCOUNT;

/// Whom the tokens are for.
pub const AUDIENCE: &str = "vault";

/// Kube-apiservers that are asked; whoever exchanges one of them waits for the requests under way, as a balancer that drains.
pub type Servers = Arc<Vec<RwLock<KubeApiserver>>>;

/// How long it may take at most to show every token once more.
const AT_LAST: Duration = Duration::from_secs(120);

/// How much is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// The time between two tokens of one kube-apiserver.
    pub pause: Duration,
    /// How long tokens live, in seconds: longer than the test.
    pub lifetime: u64,
}

impl Rate {
    /// Three kube-apiservers make more than fifty in a second. Tokens live for as long as kube-apiserver lets them, at least.
    pub const FAST: Self = Self { pause: Duration::from_millis(50), lifetime: 600 };
}

/// What was counted.
#[derive(Debug, Default)]
pub struct Counts {
    /// Tokens that were signed.
    pub signed: AtomicUsize,
    /// Questions to a kube-apiserver or relying party whether a token is good.
    pub verified: AtomicUsize,
    tokens: std::sync::Mutex<Vec<(Instant, String)>>,
    refused: std::sync::Mutex<Vec<String>>,
}

impl Counts {
    /// What was refused, in words.
    pub fn refused(&self) -> Vec<String> {
        self.refused.lock().unwrap().clone()
    }

    /// How many keys have signed.
    pub fn keys(&self) -> usize {
        let tokens = self.tokens.lock().unwrap();
        tokens.iter().filter_map(|(_, token)| token::kid(token).ok()).collect::<BTreeSet<_>>().len()
    }

    /// The tokens that live for a while still.
    fn living(&self, lifetime: Duration) -> Vec<String> {
        let tokens = self.tokens.lock().unwrap();
        let living = tokens.iter().filter(|(made, _)| made.elapsed() + AT_LAST < lifetime);
        living.map(|(_, token)| token.clone()).collect()
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
    lifetime: Duration,
    servers: Servers,
    minted: Arc<Vec<Mutex<Minted>>>,
    ends: Arc<AtomicBool>,
    minting: JoinSet<()>,
    verifying: JoinSet<()>,
    relying_party: Arc<Mutex<TokenVerifier>>,
}

impl Load {
    /// Begins. Every token is shown to every kube-apiserver and to the relying party at once.
    pub fn begin(servers: Servers, relying_party: TokenVerifier, rate: Rate) -> Self {
        let counts = Arc::new(Counts::default());
        let minted = Arc::new(servers.iter().map(|_| Mutex::default()).collect::<Vec<_>>());
        let ends = Arc::new(AtomicBool::new(false));
        let relying_party = Arc::new(Mutex::new(relying_party));
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
                minted: minted.clone(),
                ends: ends.clone(),
                readers: readers.clone(),
                counts: counts.clone(),
            };
            minting.spawn(minter.run());
        }
        let lifetime = Duration::from_secs(rate.lifetime);
        Self { counts, lifetime, servers, minted, ends, minting, verifying, relying_party }
    }

    /// Leaves the kube-apiserver of a node alone, or no longer, and waits until no request of it is under way.
    pub async fn rest(&self, number: usize, rests: bool) {
        self.minted[number].lock().await.rests = rests;
    }

    /// Waits until the kube-apiserver of a node has given some more tokens.
    pub async fn goes_on(&self, number: usize) -> Result<()> {
        let before = self.minted[number].lock().await.tokens;
        wait::until(&format!("more tokens of kube-apiserver {number}"), async || {
            Ok(self.minted[number].lock().await.tokens >= before + 10)
        })
        .await
    }

    /// Stops to ask for tokens, and shows every one that lives still to everybody once more. Gives those.
    pub async fn end(mut self) -> (Arc<Counts>, Vec<String>) {
        self.ends.store(true, Ordering::SeqCst);
        while self.minting.join_next().await.is_some() {}
        while self.verifying.join_next().await.is_some() {}
        let tokens = Arc::new(self.counts.living(self.lifetime));
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

async fn rely(party: Arc<Mutex<TokenVerifier>>, mut tokens: UnboundedReceiver<String>, counts: Arc<Counts>) {
    while let Some(token) = tokens.recv().await {
        let verdict = party.lock().await.verify(&token).await;
        counts.judge("the relying party", &token, verdict);
    }
}

/// What one kube-apiserver is asked for. Locked by whoever asks, for as long as a request is under way.
#[derive(Debug, Default)]
struct Minted {
    /// Whether it is left alone, since its signer is.
    rests: bool,
    tokens: usize,
}

struct Minter {
    servers: Servers,
    number: usize,
    rate: Rate,
    minted: Arc<Vec<Mutex<Minted>>>,
    ends: Arc<AtomicBool>,
    readers: Vec<UnboundedSender<String>>,
    counts: Arc<Counts>,
}

impl Minter {
    async fn run(self) {
        let Self { servers, number, rate, minted, ends, readers, counts } = self;
        let mut tick = tokio::time::interval(rate.pause);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        while !ends.load(Ordering::SeqCst) {
            tick.tick().await;
            let mut minted = minted[number].lock().await;
            if minted.rests {
                continue;
            }
            match servers[number].read().await.token_request(ACCOUNT, AUDIENCE, rate.lifetime).await {
                Ok(token) => {
                    minted.tokens += 1;
                    counts.signed.fetch_add(1, Ordering::Relaxed);
                    counts.tokens.lock().unwrap().push((Instant::now(), token.clone()));
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

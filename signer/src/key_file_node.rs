//! A node whose kube-apiserver signs with key files: carries out what [`chancery_core::rollout`] decides, one step at a time.
//!
//! ```text
//!  ring, files, what its kube-apiserver shows, turn ──▶ decide ──▶ one step ──▶ again
//! ```
//!
//! To whoever rotates it is a signer like any other: it acknowledges, under its name, what its kube-apiserver was seen to have.
//! It keeps nothing: killed after any step and started again, it looks and goes on.
//!
//! | room | what is in it |
//! |---|---|
//! | `api_server` | what this node's kube-apiserver shows of itself |
//! | `files` | the two files |
//! | `turn` | whose turn it is |
//! | `restart`, `manifest` | how kube-apiserver is started again |

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chancery_cluster::cell::StoreMode;
use chancery_cluster::last_said::LastSaid;
use chancery_core::ring::TokenLifetimes;
use chancery_core::rollout::{
    Forecast, LastRestart, NodeKeys, NodeView, Rollout, RolloutStep, RolloutWait, decide, foresee,
};
use chancery_core::{KeyId, KeyRing, PublicKey};
use chancery_files::LockFile;
use tokio::time::{Instant, sleep};
use tracing::{error, info, warn};

use crate::ring_follower::{RingFollower, RingFollowerError};
use crate::rotation::RotationConfig;

mod api_server;
mod files;
mod manifest;
mod restart;
mod turn;

pub use api_server::{ApiServerError, ApiServerPlace};
pub use files::{FilesError, KeyFilePair};
pub use manifest::ManifestError;
pub use restart::{RestartError, RestartWay};
pub use turn::{RestartTurn, TurnError, turn_cell};

use api_server::{NodeApiServer, Shown};
use files::FilesRead;
pub(crate) use files::first_private;
use turn::Turn;

/// KEP-1205: kube-apiserver lets tokens for itself live so long, whatever was asked for, unless it is told not to.
const EXTENDED: u64 = 365 * 24 * 3600;

/// How often the same files are tried before a kube-apiserver is left alone.
const TRIES: u32 = 2;

/// What a node is told.
#[derive(Clone, Debug)]
pub struct KeyFileNodeConfig {
    /// The policy of the ring.
    pub policy: RotationConfig,
    /// The node's name among the signers of the policy.
    pub name: String,
    /// The files that kube-apiserver reads.
    pub files: KeyFilePair,
    /// Where this node's kube-apiserver is asked.
    pub api_server: ApiServerPlace,
    /// Whether it extends tokens for itself to a year (`--service-account-extend-token-expiration`, on by default).
    pub extends_tokens: bool,
    /// How it is started again.
    pub restart: RestartWay,
    /// How long a restart may take before it is asked for once more.
    pub patience: Duration,
}

/// A node, opened.
#[derive(Debug)]
pub struct KeyFileNode {
    config: KeyFileNodeConfig,
    follower: RingFollower,
    turn: Turn,
    server: NodeApiServer,
    expected: BTreeSet<String>,
    asked: Option<Asked>,
    said: Said,
    /// One process for each node.
    _lock: Option<LockFile>,
}

/// A restart that this process has asked for.
#[derive(Debug)]
struct Asked {
    files: NodeKeys,
    at: Instant,
    times: u32,
}

/// What was logged and goes on.
#[derive(Debug, Default)]
struct Said {
    wait: LastSaid<RolloutWait>,
    trouble: LastSaid,
}

/// Everything that was seen in one look.
#[derive(Debug)]
pub struct Seen {
    ring: KeyRing,
    files: FilesRead,
    server: Option<NodeKeys>,
    /// The public halves that its kube-apiserver shows.
    shown: BTreeMap<KeyId, PublicKey>,
    /// Why it is not ready.
    pub down: Option<String>,
    turn: Option<String>,
}

impl KeyFileNode {
    /// Opens everything that a node needs: to look, or to act, which one process does for each node.
    ///
    /// # Errors
    /// What cannot be used, and what to do.
    pub async fn open(config: KeyFileNodeConfig, mode: StoreMode) -> Result<Self, NodeError> {
        let policy = &config.policy;
        let follower = RingFollower::open(policy, &config.name, mode).await?;
        let lock = match mode {
            StoreMode::ReadOnly => None,
            _ => Some(config.files.lock().await?),
        };
        Ok(Self {
            turn: Turn::new(&follower.store, &policy.issuer),
            follower,
            server: NodeApiServer::open(&config.api_server).await?,
            expected: policy.signers.keys().cloned().collect(),
            asked: None,
            said: Said::default(),
            _lock: lock,
            config,
        })
    }

    /// Looks, and changes nothing.
    ///
    /// # Errors
    /// When something cannot be read: then nothing is decided.
    pub async fn look(&mut self) -> Result<Seen, NodeError> {
        let Some(ring) = self.follower.look().await? else {
            return Err(NodeError::NoRing(self.follower.place()));
        };
        let longest = self.follower.allowed_lifetimes().external();
        let files = self.config.files.read().await?;
        let turn = self.turn.read(&ring).await?;
        let (server, shown, down) = match self.server.look(longest).await? {
            Shown::Keys { keys, shown } => (Some(keys), shown, None),
            Shown::NotReady(why) => (None, BTreeMap::new(), Some(why)),
        };
        Ok(Seen { ring, files, server, shown, down, turn })
    }

    /// Everything that this node would do now, if nobody else did anything.
    pub fn foresee(&self, seen: &Seen) -> Forecast {
        foresee(&self.view(seen))
    }

    /// Looks, and takes the next step if there is one.
    ///
    /// # Errors
    /// What could not be read or done. It is tried again with the next look.
    pub async fn step(&mut self) -> Result<Rollout, NodeError> {
        let seen = self.look().await?;
        self.remember(&seen);
        let decided = decide(&self.view(&seen));
        match &decided {
            Rollout::Do { step, because } => {
                info!(node = self.config.name, because, "key files: {step}");
                self.carry_out(step, &seen).await?;
                self.said.wait.forget();
            }
            Rollout::Wait(wait) => self.waits(wait, seen.down.as_deref()),
            Rollout::Done => _ = self.said.wait.forget(),
        }
        Ok(decided)
    }

    /// Goes on for as long as it is polled.
    pub async fn run(mut self) {
        let (node, ring) = (&self.config.name, self.follower.place());
        info!(node, ring, "key files: they follow the ring from here");
        loop {
            match self.step().await {
                Ok(decided) => {
                    if self.said.trouble.forget() {
                        info!(node = self.config.name, "key files: everything can be read and written again");
                    }
                    if matches!(decided, Rollout::Do { .. }) {
                        continue;
                    }
                }
                Err(trouble) => self.complain(&trouble),
            }
            sleep(self.config.policy.look).await;
        }
    }

    fn view<'a>(&'a self, seen: &'a Seen) -> NodeView<'a> {
        let allowed = self.follower.allowed_lifetimes();
        let extended = if self.config.extends_tokens { EXTENDED } else { 0 };
        NodeView {
            ring: &seen.ring,
            name: &self.config.name,
            expected: &self.expected,
            acknowledged: self.follower.acknowledged(),
            signs_at_most: allowed
                .longest_of(TokenLifetimes { external_seconds: 0, api_server_seconds: extended }),
            files: &seen.files.keys,
            first: seen.files.first.as_ref(),
            server: seen.server.as_ref(),
            turn: seen.turn.as_deref(),
            restart: self.last_restart(),
        }
    }

    fn last_restart(&self) -> LastRestart {
        match &self.asked {
            None => LastRestart::Over,
            Some(asked) if asked.at.elapsed() < self.config.patience => LastRestart::UnderWay,
            Some(asked) if asked.times >= TRIES => LastRestart::InVain,
            Some(_) => LastRestart::Over,
        }
    }

    /// A restart is over when it shows, or when the files are others by now.
    fn remember(&mut self, seen: &Seen) {
        let is_over = |asked: &Asked| {
            asked.files != seen.files.keys
                || seen.server.as_ref().is_some_and(|server| *server == asked.files)
        };
        self.asked = self.asked.take().filter(|asked| !is_over(asked));
    }

    async fn carry_out(&mut self, step: &RolloutStep, seen: &Seen) -> Result<(), NodeError> {
        match step {
            RolloutStep::Acknowledge(said) => self.follower.acknowledge(said.clone()).await?,
            RolloutStep::TakeTurn => self.turn.take(&self.config.name).await?,
            RolloutStep::GiveTurnBack => self.turn.give_back().await?,
            RolloutStep::WriteVerifying(kids) => {
                let keys = ordered(seen, kids, seen.files.keys.signs.as_ref());
                self.config.files.write_verifying(keys).await?;
            }
            RolloutStep::WriteSigning(kid) => {
                let private = self.follower.private_half(kid).await?;
                let verifying = ordered(seen, &seen.files.keys.verifies, Some(kid));
                self.config.files.write_signing(private, verifying).await?;
            }
            RolloutStep::Restart => {
                let files = seen.files.keys.clone();
                let times = self.asked.as_ref().map_or(0, |asked| asked.times);
                self.asked = Some(Asked { files: files.clone(), at: Instant::now(), times: times + 1 });
                let asked = restart::Asking { files, is_repeated: times > 0, patience: self.config.patience };
                self.config.restart.ask(asked).await?;
            }
        }
        Ok(())
    }

    fn waits(&mut self, wait: &RolloutWait, down: Option<&str>) {
        if !self.said.wait.is_new(wait) {
            return;
        }
        let (node, why) = (&self.config.name, down.unwrap_or_default());
        match wait.is_usual() {
            true => info!(node, why, "key files: waits: {wait}"),
            false => warn!(node, why, "key files: waits: {wait}"),
        }
    }

    /// Says what went wrong, once.
    fn complain(&mut self, trouble: &NodeError) {
        let text = chancery_cluster::error_chain(trouble);
        if self.said.trouble.is_new(&text) {
            error!(node = self.config.name, "key files: {text}");
        }
    }
}

/// The public halves of `kids`: `first`, then the key that signs by the ring, then the ring's order, then what else there is.
fn ordered(seen: &Seen, kids: &BTreeSet<KeyId>, first: Option<&KeyId>) -> Vec<PublicKey> {
    let active = seen.ring.active().into_iter();
    let ours = active.chain(seen.ring.keys()).map(|key| &key.public_key);
    let all = || ours.clone().chain(seen.files.public.values()).chain(seen.shown.values());
    let mut keys: Vec<PublicKey> = Vec::new();
    for key in all().find(|key| Some(key.key_id()) == first).into_iter().chain(all()) {
        if kids.contains(key.key_id()) && !keys.contains(key) {
            keys.push(key.clone());
        }
    }
    keys
}

/// Why a node cannot go on now.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// The ring cannot be followed.
    #[error(transparent)]
    Follower(#[from] RingFollowerError),
    /// There is no ring.
    #[error(
        "{0} is not there; take over the keys of the running cluster with `chancery ring adopt`, or begin with `chancery ring init`"
    )]
    NoRing(String),
    /// The files cannot be read or written.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// The kube-apiserver cannot be asked, or is not fit for this.
    #[error(transparent)]
    ApiServer(#[from] ApiServerError),
    /// It cannot be started again.
    #[error(transparent)]
    Restart(#[from] RestartError),
    /// The turn cannot be read, taken or given back.
    #[error(transparent)]
    Turn(#[from] TurnError),
}

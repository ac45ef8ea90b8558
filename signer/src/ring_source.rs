//! The keys of a ring: read from its document, with the private half of the active key out of custody.
//!
//! Each round, in this order:
//!
//! 1. Read the ring, and [`choose`] between it and what is known.
//! 2. Load the private half of the key that signs by it. Where that fails, the other keys are taken over all the same, so that
//!    tokens of other signers verify here, and the key that signed before goes on signing while its own tokens are good.
//! 3. Record the ring, durably. A ring that is not recorded is not signed by: the next start would not know of it.
//! 4. Hand the keys on. From now on is signed by it.
//! 5. Acknowledge, if all of that was done.
//!
//! A signer that starts signs nothing before it has read the ring and was heard: whoever rotates would otherwise not know that
//! it is to be waited for. Only where the ring lies behind the very API server that waits for this signer, it may start from
//! its own record ([`RingParts::start_from_record`]).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chancery_cluster::backoff::Backoff;
use chancery_cluster::cell::{Cell, CellError, CellStore, Schema};
use chancery_cluster::last_said::LastSaid;
use chancery_core::ring::{Acknowledgement, RingKey, TokenLifetimes};
use chancery_core::{IssuerUrl, KeyRing};
use jiff::Timestamp;
use tokio::sync::Notify;
use tracing::{error, info, warn};

use crate::acknowledgement::{AcknowledgementError, Acknowledger};
use crate::metrics::Metrics;
use crate::record::{RecordError, RecordKeeper};
use crate::ring_choice::{Distrust, Known, RingChoice, choose};
use crate::signer_keys::{SignerKeys, SignerKeysError, SignerKeysParts, SignerKeysSender, VerificationKey};
use crate::signing::{ActiveKey, SigningError};
use crate::vault::{KeyVault, VaultError};

/// The time between two looks at the ring.
pub const PERIOD: Duration = Duration::from_secs(5);

/// The waits between two tries to read the ring for the first time.
const FIRST_TRIES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));

/// The document of a ring.
pub fn ring_cell(store: &CellStore, issuer: &IssuerUrl) -> Cell<KeyRing> {
    store.cell(issuer.as_str(), Schema { name: KeyRing::DOCUMENT, version: KeyRing::DOCUMENT_VERSION })
}

/// What a [`RingSource`] reads and writes.
#[derive(Debug)]
pub struct RingParts {
    /// The ring.
    pub ring: Cell<KeyRing>,
    /// The private halves.
    pub vault: Arc<dyn KeyVault>,
    /// What must not be forgotten.
    pub record: Arc<RecordKeeper>,
    /// Where this signer is heard.
    pub acknowledger: Acknowledger,
    /// Whether to sign by the recorded ring while the store cannot be read after a start.
    pub start_from_record: bool,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

/// Keeps the keys of a ring new.
#[derive(Debug)]
pub struct RingSource {
    parts: RingParts,
    last: Option<Arc<SignerKeys>>,
    said: LastSaid,
}

/// What a round came to.
struct Round {
    keys: Arc<SignerKeys>,
    /// Whether whoever rotates knows that this signer signs by them.
    is_heard: bool,
    /// What was not done, and is tried again.
    trouble: Option<RingError>,
}

/// A ring that is signed by, and what speaks against the one that was read.
struct Chosen {
    ring: KeyRing,
    distrust: Option<RingError>,
}

/// The key that signs by a ring, and why it is not the one that should.
struct Loaded {
    active: Option<Arc<ActiveKey>>,
    trouble: Option<RingError>,
}

impl RingSource {
    /// Nothing is read yet.
    pub fn new(parts: RingParts) -> Self {
        Self { parts, last: None, said: LastSaid::default() }
    }

    /// Reads the ring until there are keys to answer from.
    pub async fn first(&mut self) -> Arc<SignerKeys> {
        let mut pauses = Backoff::new(FIRST_TRIES.0, FIRST_TRIES.1);
        loop {
            let is_read = match self.round(|_| {}).await {
                Ok(Round { keys, is_heard, trouble }) => {
                    self.complain(trouble.as_ref());
                    if is_heard || keys.active().is_none() {
                        return keys;
                    }
                    true
                }
                Err(trouble) => {
                    self.complain(Some(&trouble));
                    !matches!(trouble, RingError::Store(_))
                }
            };
            if self.parts.start_from_record
                && !is_read
                && let Some(keys) = self.recorded().await
            {
                return keys;
            }
            tokio::time::sleep(pauses.next_pause()).await;
        }
    }

    /// One look, for a check: nothing is recorded or acknowledged.
    ///
    /// # Errors
    /// Why no tokens could be signed.
    pub async fn look(&mut self) -> Result<Arc<SignerKeys>, RingError> {
        let chosen = self.choose().await?;
        let loaded = self.load(&chosen.ring).await;
        let keys = assemble(&chosen.ring, loaded.active, Timestamp::now())?;
        loaded.trouble.or(chosen.distrust).map_or(Ok(Arc::new(keys)), Err)
    }

    /// Keeps the keys new until the receivers are gone, with a look whenever `prompt` asks for one.
    pub async fn follow(mut self, keys: SignerKeysSender, prompt: Arc<Notify>) {
        loop {
            tokio::select! {
                () = keys.closed() => return,
                () = prompt.notified() => {}
                () = tokio::time::sleep(PERIOD) => {}
            }
            let round = self.round(|new| _ = keys.send_replace(Some(new.clone()))).await;
            match round {
                Ok(Round { trouble, .. }) => self.complain(trouble.as_ref()),
                Err(trouble) => self.complain(Some(&trouble)),
            }
        }
    }

    async fn round(&mut self, hand_on: impl FnOnce(&Arc<SignerKeys>)) -> Result<Round, RingError> {
        let Chosen { ring, distrust } = self.choose().await?;
        let Loaded { active, trouble } = self.load(&ring).await;
        let confirmed = match (&distrust, &self.last) {
            (None, _) => Timestamp::now(),
            (Some(_), Some(last)) => last.confirmed_at(),
            // It is not known when it was last confirmed, and kube-apiserver's metric shall show that.
            (Some(_), None) => Timestamp::UNIX_EPOCH,
        };
        let keys = Arc::new(assemble(&ring, active, confirmed)?);
        let recorded = self.parts.record.recorded().ring.map(|ring| ring.position());
        if recorded != Some(ring.position()) {
            self.parts.record.take_over(&ring).await?;
        }
        let signed_before = self.last.as_ref().is_some_and(|last| last.active().is_some());
        // Who signed nothing until now is heard before it signs; who did signs otherwise before it is heard.
        let heard = if signed_before {
            self.note(&keys);
            hand_on(&keys);
            self.acknowledge(&keys, trouble.is_none()).await
        } else {
            let heard = self.acknowledge(&keys, trouble.is_none()).await;
            let is_safe = heard.is_ok() || keys.active().is_none();
            if is_safe {
                self.note(&keys);
                hand_on(&keys);
            }
            heard
        };
        let is_heard = heard.is_ok() && trouble.is_none();
        let trouble = trouble.or(heard.err()).or(distrust);
        Ok(Round { keys, is_heard, trouble })
    }

    /// The ring that is signed by.
    async fn choose(&mut self) -> Result<Chosen, RingError> {
        let stored = self.parts.ring.load().await?;
        self.parts.acknowledger.read().await?;
        let Some(stored) = stored else { return Err(RingError::NoRing(self.parts.ring.place())) };
        let recorded = self.parts.record.recorded().ring;
        let known =
            Known { recorded: recorded.as_ref(), acknowledged: self.parts.acknowledger.acknowledged() };
        let choice = choose(&stored.document, known);
        self.parts.metrics.ring_is_behind(choice != RingChoice::Read);
        let distrusted = |distrust| RingError::Distrusted { place: self.parts.ring.place(), distrust };
        match (choice, recorded) {
            (RingChoice::Recorded(distrust), Some(ring)) => {
                Ok(Chosen { ring, distrust: Some(distrusted(distrust)) })
            }
            (RingChoice::Recorded(distrust) | RingChoice::Neither(distrust), _) => Err(distrusted(distrust)),
            (RingChoice::Read, _) => Ok(Chosen { ring: stored.document, distrust: None }),
        }
    }

    /// The key that signs by `ring`. Where its private half cannot be had, the one that signed before may go on while
    /// nothing speaks against it: its time runs only once this signer has acknowledged to have stopped.
    async fn load(&self, ring: &KeyRing) -> Loaded {
        let last = self.last.as_ref().and_then(|last| last.active());
        let Some(wanted) = ring.active() else { return Loaded { active: None, trouble: None } };
        if let Some(same) = last.filter(|last| last.public_key() == &wanted.public_key) {
            return Loaded { active: Some(same.clone()), trouble: None };
        }
        match self.open(wanted).await {
            Ok(active) => Loaded { active: Some(Arc::new(active)), trouble: None },
            Err(trouble) => {
                let may_sign = |kid| ring.key(kid).is_some_and(|key| key.state.is_shown() && key.may_sign());
                let active = last.filter(|last| may_sign(last.public_key().key_id())).cloned();
                Loaded { active, trouble: Some(trouble) }
            }
        }
    }

    async fn open(&self, wanted: &RingKey) -> Result<ActiveKey, RingError> {
        let private = self.parts.vault.load(wanted.kid()).await?;
        let opened = tokio::task::spawn_blocking(move || ActiveKey::new(private.into_signing_key())).await;
        Ok(opened.map_err(|_| VaultError::Lost(self.parts.vault.place()))??)
    }

    async fn acknowledge(&mut self, keys: &SignerKeys, is_loaded: bool) -> Result<(), RingError> {
        // Nothing is acknowledged that this signer does not sign by.
        let Some(position) = keys.position().filter(|_| is_loaded) else { return Ok(()) };
        let loaded: BTreeSet<_> =
            keys.verification().iter().map(|key| key.public_key.key_id().clone()).collect();
        let signed = self.parts.record.recorded().signed;
        let said = Acknowledgement { position, loaded, signed, ..Acknowledgement::default() };
        Ok(self.parts.acknowledger.say(said).await?)
    }

    /// The keys of the recorded ring, while the store does not answer after a start.
    async fn recorded(&mut self) -> Option<Arc<SignerKeys>> {
        let ring = self.parts.record.recorded().ring?;
        let Loaded { active, trouble } = self.load(&ring).await;
        self.complain(trouble.as_ref());
        let keys = Arc::new(assemble(&ring, active, Timestamp::UNIX_EPOCH).ok()?);
        warn!(
            "signing by the ring as it was recorded here, since the store cannot be read and --start-from-record was \
             given: a key that was retired since would sign on"
        );
        self.note(&keys);
        Some(keys)
    }

    fn note(&mut self, keys: &Arc<SignerKeys>) {
        if !self.last.as_ref().is_some_and(|last| last.says_the_same(keys)) {
            info!(ring = %self.parts.ring.place(), "keys taken over: {keys}");
        }
        self.last = Some(keys.clone());
    }

    /// Says what is wrong once, and when it is over.
    fn complain(&mut self, trouble: Option<&RingError>) {
        if let Some(text) = trouble.map(ToString::to_string) {
            self.parts.metrics.source_failed();
            if self.said.is_new(&text) {
                error!("{text}");
            }
        } else if self.said.forget() {
            info!(ring = %self.parts.ring.place(), "the ring is followed again");
        }
    }
}

/// What `ring` says, where `active` signs.
fn assemble(
    ring: &KeyRing,
    active: Option<Arc<ActiveKey>>,
    confirmed_at: Timestamp,
) -> Result<SignerKeys, SignerKeysError> {
    let verification = ring
        .verification_keys()
        .map(|key| VerificationKey { public_key: key.public_key.clone(), is_excluded: key.is_excluded });
    let allowed = ring.allowed_lifetimes();
    SignerKeys::new(SignerKeysParts {
        active,
        verification: verification.collect(),
        position: Some(ring.position()),
        // Nobody has decided before anybody has rotated.
        allowed: (allowed != TokenLifetimes::default()).then_some(allowed),
        confirmed_at,
    })
}

/// Why a ring is not signed by.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RingError {
    /// It, or what this signer acknowledged, cannot be read.
    #[error(transparent)]
    Store(#[from] CellError),
    /// It is not there.
    #[error(
        "{0} is not there; expected the key ring, which whoever rotates writes. Check --issuer, which its name is made of"
    )]
    NoRing(String),
    /// It is not to be relied on.
    #[error("the key ring in {place} is not signed by: {distrust}")]
    Distrusted {
        /// Where it is.
        place: String,
        /// Why.
        distrust: Distrust,
    },
    /// The private half cannot be had.
    #[error("the key that should sign cannot be loaded: {0}")]
    Custody(#[from] VaultError),
    /// The private half is of no use.
    #[error("the key that should sign cannot: {0}")]
    Key(#[from] SigningError),
    /// The ring has no key that could be shown.
    #[error("the key ring has {0}")]
    Keys(#[from] SignerKeysError),
    /// It cannot be recorded.
    #[error("the key ring is not signed by, since it cannot be recorded: {0}")]
    Record(#[from] RecordError),
    /// This signer is not heard.
    #[error("this signer is not heard: {0}")]
    Acknowledgement(#[from] AcknowledgementError),
}

//! Brings a target up to date: reads it, lets [`publication::plan`] decide, makes the writes.
//!
//! Nothing is decided here but when to try again:
//!
//! 1. Both objects are read at the same time, each on the condition that it is another version than the one seen
//!    last. A target that is up to date costs two such reads and no write.
//! 2. The writes are made in the plan's order, each on its condition; the first that fails stops the others.
//! 3. After a lost race, no answer or an unavailable target, everything is read and decided anew, a few times with
//!    growing pauses: a write without an answer may have taken effect.
//! 4. Whatever happens in between, the next call starts from what is there.
//! 5. What differs from the last reading or write, and was not written here, is kept for [`LastSeen::take_drift`].

use std::collections::BTreeSet;
use std::time::Duration;

use chancery_core::drift::{self, Drift};
use chancery_core::jwks::ObservedJwks;
use chancery_core::marker::Edition;
use chancery_core::publication::{
    self, Blocked, Desired, Observed, Plan, Reason, StoredObject, Version, Write,
};
use chancery_core::{Document, DocumentKind, DocumentSet, KeyId, Marker, PublicKey};
use chancery_wire::{Pauses, RetryBudget};

use crate::store::{
    ConditionalRead, DocumentStore, Failure, LARGEST_OBJECT, Operation, Put, StoreError, StoreErrorKind,
};

/// Of several writers that race, one wins each time: as many may race for one issuer as there are attempts. A conditional
/// write takes tens of milliseconds.
pub(crate) const RACE_BUDGET: RetryBudget =
    RetryBudget::of_attempts(5, Duration::from_millis(100), Duration::from_secs(10));

/// What a publication did, and what the target holds after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The documents that were written, in write order; none when the target was up to date. A write whose answer
    /// was lost is not among them.
    pub written: Vec<DocumentKind>,
    /// Keys on the target that we did not put there; they stay.
    pub foreign: Vec<KeyId>,
    /// Keys that an intruder had put there; they were removed.
    pub intruders: Vec<KeyId>,
    /// What the target holds.
    pub result: DocumentSet,
    /// The edition of the JWKS there.
    pub edition: Option<Edition>,
}

/// What a target held when it was last read or written, and what changed there since although nobody wrote it through
/// this value. Only saves transfers and notices: every write is still conditional.
#[derive(Clone, Debug, Default)]
pub struct LastSeen {
    observed: Observed,
    drift: Vec<Drift>,
    /// The keys of each reading that differed from the one before it.
    held: Vec<BTreeSet<KeyId>>,
}

impl LastSeen {
    /// What changed behind our back since this was asked last, also where the publication was blocked by it.
    pub fn take_drift(&mut self) -> Vec<Drift> {
        std::mem::take(&mut self.drift)
    }

    /// The keys that the target held since this was asked last, one set after the other, whoever wrote them: relying
    /// parties may have read each. None where it was not read.
    pub fn take_held(&mut self) -> Vec<BTreeSet<KeyId>> {
        std::mem::take(&mut self.held)
    }

    fn holds(&mut self, kids: BTreeSet<KeyId>) {
        if self.held.last() != Some(&kids) {
            self.held.push(kids);
        }
    }

    fn saw(&mut self, desired: Desired<'_>, observed: Observed) {
        self.drift.extend(drift::compare(desired, &self.observed, &observed));
        let there = observed.jwks.as_ref().and_then(|object| ObservedJwks::parse(&object.bytes).ok());
        self.holds(there.iter().flat_map(ObservedJwks::keys).map(PublicKey::key_id).cloned().collect());
        self.observed = observed;
    }

    async fn read(
        &self,
        store: &dyn DocumentStore,
        kind: DocumentKind,
    ) -> Result<Option<StoredObject>, StoreError> {
        let known = self.observed.object(kind);
        Ok(match store.read_unless(kind.path(), known.map(|object| &object.version)).await? {
            ConditionalRead::Absent => None,
            ConditionalRead::Unchanged => known.cloned(),
            ConditionalRead::Found(object) => Some(object),
        })
    }

    fn wrote(&mut self, document: &Document, marker: &Marker, version: Version) {
        if document.kind == DocumentKind::Jwks {
            let written = ObservedJwks::parse(&document.bytes).unwrap_or_default();
            self.holds(written.keys().map(PublicKey::key_id).cloned().collect());
        }
        let object = StoredObject {
            bytes: document.bytes.clone(),
            media_type: Some(document.kind.media_type().to_owned()),
            cache_control: Some(document.cache.header()),
            marker: Some(marker.clone()),
            damage: None,
            version,
        };
        *self.observed.object_mut(document.kind) = Some(object);
    }
}

/// Why a target could not be brought up to date.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// What is there must not be touched.
    #[error("{target}: {blocked}")]
    Blocked {
        /// The place, as [`DocumentStore::describe`] calls it.
        target: String,
        /// What blocks it, with the remedy.
        blocked: Blocked,
    },
    /// The store failed, after repetitions where those could help.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Somebody else was faster, each time.
    #[error(
        "somebody else wrote first, {tries} times in a row: {last}; find out who else publishes this issuer there, and let one of you rest"
    )]
    Contended {
        /// How often it was tried.
        tries: u32,
        /// The last conflict.
        last: Box<StoreError>,
    },
}

impl PublishError {
    /// What the vendor calls the request that failed last, for its support.
    pub fn request_id(&self) -> Option<&str> {
        match self {
            Self::Blocked { .. } => None,
            Self::Store(error) => error.request_id.as_deref(),
            Self::Contended { last, .. } => last.request_id.as_deref(),
        }
    }
}

/// Reads both documents of a target, for whoever goes by what they say.
///
/// # Errors
/// When one of them cannot be read, or not whole.
pub async fn observe(store: &dyn DocumentStore) -> Result<Observed, StoreError> {
    let observed = observe_changes(store, &LastSeen::default()).await?;
    for kind in DocumentKind::ALL {
        if observed.object(kind).is_some_and(StoredObject::is_oversize) {
            let cause = format!("the object has more than {LARGEST_OBJECT} bytes");
            let remedy = "find out who put it there; a running service with state that has written there before writes over it, otherwise move it away";
            let failure = Failure::new(StoreErrorKind::Misconfigured, cause, remedy);
            return Err(failure.at(store.describe(), Operation::Read, kind.path()));
        }
    }
    Ok(observed)
}

async fn observe_changes(store: &dyn DocumentStore, seen: &LastSeen) -> Result<Observed, StoreError> {
    let (jwks, discovery) =
        tokio::try_join!(seen.read(store, DocumentKind::Jwks), seen.read(store, DocumentKind::Discovery))?;
    Ok(Observed { jwks, discovery })
}

/// Reads a target and decides what to write there. Changes nothing.
///
/// # Errors
/// When the target cannot be read or may not be written.
pub async fn prepare(store: &dyn DocumentStore, desired: Desired<'_>) -> Result<Plan, PublishError> {
    decide(store, desired, &mut LastSeen::default(), &mut Patience::default()).await
}

/// Makes the writes of a plan that [`prepare`] gave for the same `desired`; decides anew when the target has changed.
///
/// # Errors
/// As [`PublishError`] says. Every object is whole, and no key that was visible has vanished, also after an error.
pub async fn execute(
    store: &dyn DocumentStore,
    desired: Desired<'_>,
    plan: Plan,
) -> Result<Outcome, PublishError> {
    carry_out(store, desired, plan, &mut LastSeen::default()).await
}

/// Brings a target up to date: [`prepare`], then [`execute`].
///
/// # Errors
/// As [`PublishError`] says. Every object is whole, and no key that was visible has vanished, also after an error.
pub async fn publish(store: &dyn DocumentStore, desired: Desired<'_>) -> Result<Outcome, PublishError> {
    publish_again(store, desired, &mut LastSeen::default()).await
}

/// Like [`publish`], for whoever publishes to the same target again and again: what was `seen` last is not transferred
/// again.
///
/// # Errors
/// As [`publish`].
pub async fn publish_again(
    store: &dyn DocumentStore,
    desired: Desired<'_>,
    seen: &mut LastSeen,
) -> Result<Outcome, PublishError> {
    let plan = decide(store, desired, seen, &mut Patience::default()).await?;
    carry_out(store, desired, plan, seen).await
}

async fn carry_out(
    store: &dyn DocumentStore,
    desired: Desired<'_>,
    mut plan: Plan,
    seen: &mut LastSeen,
) -> Result<Outcome, PublishError> {
    let mut written = BTreeSet::new();
    let mut intruders = BTreeSet::new();
    let mut patience = Patience::default();
    loop {
        intruders.extend(plan.intruders.iter().cloned());
        let Err(error) = perform(store, &plan, &mut written, seen).await else { break };
        patience.bear(error).await?;
        plan = decide(store, desired, seen, &mut patience).await?;
    }
    let edition = seen.observed.jwks.as_ref().and_then(StoredObject::edition);
    let (written, intruders) = (written.into_iter().collect(), intruders.into_iter().collect());
    Ok(Outcome { written, intruders, foreign: plan.foreign, result: plan.result, edition })
}

async fn decide(
    store: &dyn DocumentStore,
    desired: Desired<'_>,
    seen: &mut LastSeen,
    patience: &mut Patience,
) -> Result<Plan, PublishError> {
    loop {
        match observe_changes(store, seen).await {
            Ok(observed) => {
                let plan = publication::plan(desired, &observed);
                seen.saw(desired, observed);
                return plan.map_err(|blocked| PublishError::Blocked { target: store.describe(), blocked });
            }
            Err(error) => patience.bear(error).await?,
        }
    }
}

async fn perform(
    store: &dyn DocumentStore,
    plan: &Plan,
    written: &mut BTreeSet<DocumentKind>,
    seen: &mut LastSeen,
) -> Result<(), StoreError> {
    for Write { document, marker, precondition, reasons } in &plan.writes {
        let put = Put {
            path: document.kind.path(),
            bytes: &document.bytes,
            media_type: document.kind.media_type(),
            cache_control: &document.cache.header(),
            marker,
            precondition,
        };
        let version = store.write(put).await?;
        written.insert(document.kind);
        let reasons = reasons.iter().map(Reason::to_string).collect::<Vec<_>>().join("; ");
        tracing::info!(
            target.name = %store.describe(),
            document.path = put.path,
            document.size_bytes = put.bytes.len(),
            document.version = %version.0,
            write.reasons = %reasons,
            "wrote the {} to {}: {reasons}",
            document.kind,
            store.describe(),
        );
        seen.wrote(document, marker, version);
    }
    Ok(())
}

/// What is left of the budget of one publication, over its readings and its writes.
#[derive(Debug)]
struct Patience {
    pauses: Pauses,
}

impl Default for Patience {
    fn default() -> Self {
        Self { pauses: RACE_BUDGET.pauses() }
    }
}

impl Patience {
    /// Waits a little if trying again can help, and gives the error back if not.
    async fn bear(&mut self, error: StoreError) -> Result<(), PublishError> {
        if !error.kind.is_transient() {
            return Err(error.into());
        }
        let Some(pause) = self.pauses.next() else {
            return Err(match error.kind {
                StoreErrorKind::Conflict => {
                    PublishError::Contended { tries: RACE_BUDGET.attempts, last: Box::new(error) }
                }
                _ => error.into(),
            });
        };
        tracing::info!(
            target.name = %error.target,
            document.path = %error.path,
            pause.milliseconds = pause.as_millis(),
            request.id = error.request_id,
            "reading {} again in {} ms: {error}",
            error.target,
            pause.as_millis(),
        );
        tokio::time::sleep(pause).await;
        Ok(())
    }
}

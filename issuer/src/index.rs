//! The state of one issuer: readings of its sources in, documents out. No client, no clock.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chancery_core::residence::{KeyUnion, Record};
use chancery_core::{CachePolicy, DocumentSet, IssuerUrl, KeyId, PublicKey};

use crate::source::SourceEvent;

/// What is to be published, and which of our own keys are withdrawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    /// The documents.
    pub documents: DocumentSet,
    /// Keys we withdraw from what a target holds.
    pub tombstones: BTreeSet<KeyId>,
}

/// The keys of one issuer and whether they are complete enough to be shown.
#[derive(Debug)]
pub struct Index {
    issuer: IssuerUrl,
    cache: CachePolicy,
    union: KeyUnion,
    /// Positions of sources that have not been read since the start.
    unread: BTreeSet<usize>,
}

impl Index {
    /// An index of `sources` sources that goes on from `record`.
    pub fn new(
        issuer: IssuerUrl,
        cache: CachePolicy,
        residence: Duration,
        (sources, record): (usize, &Record),
    ) -> Self {
        Self { issuer, cache, union: KeyUnion::restore(residence, record), unread: (0..sources).collect() }
    }

    /// Takes what a source reports. A failure changes nothing.
    pub fn apply(&mut self, event: &SourceEvent) {
        match event {
            SourceEvent::Listed { source, keys, .. } => {
                self.unread.remove(&source.position);
                self.union.apply(source.clone(), keys.clone());
            }
            SourceEvent::Gone { source } => self.union.remove(source),
            SourceEvent::Failed { .. } => {}
        }
    }

    /// Lets time pass and returns the keys withdrawn by it.
    pub fn elapse(&mut self, elapsed: Duration) -> Vec<KeyId> {
        self.union.elapse(elapsed)
    }

    /// Stops waiting for sources that have not answered; what was recorded and read must do.
    pub fn stop_waiting(&mut self) {
        self.unread.clear();
    }

    /// Whether every source was read at least once, or is not waited for any more.
    pub fn is_complete(&self) -> bool {
        self.unread.is_empty()
    }

    /// What to publish. `None` while a source is still waited for, since a smaller set than before the restart
    /// would reject tokens, and while there is no key.
    pub fn publication(&self) -> Option<Arc<Publication>> {
        if !self.is_complete() {
            return None;
        }
        let documents = DocumentSet::new(self.issuer.clone(), self.union.jwks()?, self.cache);
        Some(Arc::new(Publication { documents, tombstones: self.union.tombstones().clone() }))
    }

    /// What must survive a restart.
    pub fn record(&self) -> Record {
        self.union.record()
    }

    /// How long until a vanished key is withdrawn, if one waits for it.
    pub fn next_withdrawal(&self) -> Option<Duration> {
        self.union.next_withdrawal()
    }

    /// Keys that no source shows any more.
    pub fn vanished(&self) -> Vec<KeyId> {
        self.union.residents().map(|(id, _)| id.clone()).collect()
    }

    /// Keys we published and have withdrawn.
    pub fn withdrawn(&self) -> impl Iterator<Item = &KeyId> {
        self.union.tombstones().iter()
    }

    /// All keys that are published.
    pub fn keys(&self) -> Vec<PublicKey> {
        self.union.jwks().map(|jwks| jwks.keys().to_vec()).unwrap_or_default()
    }
}

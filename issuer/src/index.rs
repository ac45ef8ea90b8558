//! The state of one issuer: readings of its sources in, documents out. No client, no clock.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chancery_core::residence::{KeyUnion, Record, SourceId};
use chancery_core::{CachePolicy, DocumentSet, IssuerUrl, KeyId, PublicKey};

use crate::source::SourceEvent;

/// What is to be published, and which of our own keys are withdrawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    /// The documents.
    pub documents: DocumentSet,
    /// Keys we withdraw from what a target holds, the latest last.
    pub tombstones: Vec<KeyId>,
}

/// The keys of one issuer and whether they are complete enough to be shown.
#[derive(Debug)]
pub struct Index {
    issuer: IssuerUrl,
    cache: CachePolicy,
    union: KeyUnion,
    /// Entries of the configuration that have not shown anything since the start.
    silent: BTreeSet<usize>,
    /// Sources that were found at such an entry, as the replicas of a control plane, and have not been read yet.
    unread: BTreeSet<SourceId>,
    /// Whether all of them were read once. A source that is found later is not waited for.
    complete: bool,
}

impl Index {
    /// An index of `sources` sources that goes on from `record`.
    pub fn new(
        issuer: IssuerUrl,
        cache: CachePolicy,
        residence: Duration,
        (sources, record): (usize, &Record),
    ) -> Self {
        let union = KeyUnion::restore(residence, record);
        Self {
            issuer,
            cache,
            union,
            silent: (0..sources).collect(),
            unread: BTreeSet::new(),
            complete: false,
        }
    }

    /// Takes what a source reports. A failure changes nothing.
    pub fn apply(&mut self, event: &SourceEvent) {
        match event {
            SourceEvent::Found { source } => {
                self.silent.remove(&source.position);
                self.unread.insert(source.clone());
            }
            SourceEvent::Listed { source, keys, .. } => {
                self.silent.remove(&source.position);
                self.unread.remove(source);
                self.union.apply(source.clone(), keys.clone());
            }
            SourceEvent::Gone { source } => {
                self.unread.remove(source);
                self.union.remove(source);
            }
            SourceEvent::Failed { .. } => {}
        }
        self.complete |= self.silent.is_empty() && self.unread.is_empty();
    }

    /// Takes over what another writer of the same issuer published and withdrew.
    pub fn adopt(&mut self, published: &[KeyId], withdrawn: &[KeyId]) {
        self.union.adopt(published, withdrawn);
    }

    /// Goes on publishing keys that were found published under our own id; returns those that were not known.
    pub fn import(&mut self, keys: Vec<PublicKey>) -> Vec<KeyId> {
        self.union.import(keys)
    }

    /// Lets time pass and returns the keys withdrawn by it.
    pub fn elapse(&mut self, elapsed: Duration) -> Vec<KeyId> {
        self.union.elapse(elapsed)
    }

    /// Stops waiting for sources that have not answered; what was recorded and read must do.
    pub fn stop_waiting(&mut self) {
        self.complete = true;
    }

    /// Whether every source was read at least once, or is not waited for any more.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// What to publish. `None` while a source is still waited for, since a smaller set than before the restart
    /// would reject tokens, and while there is no key.
    pub fn publication(&self) -> Option<Arc<Publication>> {
        if !self.is_complete() {
            return None;
        }
        let documents = DocumentSet::new(self.issuer.clone(), self.union.jwks()?, self.cache);
        let tombstones = self.union.tombstones().to_vec();
        Some(Arc::new(Publication { documents, tombstones }))
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

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEaxfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpZP40Li/hp/m47n60p8D54WK84zV2sxXs7LtkBoN79R9Q==
-----END PUBLIC KEY-----";

    fn source(position: usize, name: &str) -> SourceId {
        SourceId { position, name: name.to_owned() }
    }

    fn listed(source: SourceId) -> SourceEvent {
        let keys = chancery_core::pem::read_public_keys(KEY).keys;
        assert_eq!(keys.len(), 1);
        SourceEvent::Listed { source, keys, skipped: Vec::new() }
    }

    fn index(sources: usize) -> Index {
        let issuer = "https://id.example.com".parse().unwrap();
        Index::new(issuer, CachePolicy::default(), Duration::from_secs(60), (sources, &Record::default()))
    }

    #[test]
    fn nothing_is_shown_before_every_source_and_every_replica_found_at_the_start_was_read() {
        let mut index = index(2);
        let steps = [
            SourceEvent::Found { source: source(0, "a") },
            SourceEvent::Found { source: source(0, "b") },
            listed(source(0, "a")),
            listed(source(1, "files")),
            SourceEvent::Failed { source: source(0, "b"), error: "down".to_owned() },
        ];
        for event in steps {
            index.apply(&event);
            assert!(index.publication().is_none(), "{event:?}");
        }
        index.apply(&listed(source(0, "b")));
        assert!(index.publication().is_some());
        index.apply(&SourceEvent::Found { source: source(0, "c") });
        assert!(index.publication().is_some(), "a replica that joins later takes nothing away");
    }

    #[test]
    fn a_replica_that_leaves_or_a_lost_patience_ends_the_wait() {
        let mut leaving = index(1);
        leaving.apply(&SourceEvent::Found { source: source(0, "a") });
        leaving.apply(&SourceEvent::Found { source: source(0, "b") });
        leaving.apply(&listed(source(0, "a")));
        leaving.apply(&SourceEvent::Gone { source: source(0, "b") });
        assert!(leaving.publication().is_some());

        let mut waiting = index(2);
        waiting.apply(&listed(source(1, "files")));
        waiting.stop_waiting();
        assert!(waiting.publication().is_some());
    }
}

//! The state of one issuer: readings of its sources in, documents out. No client, no clock.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chancery_core::issuer_keys::{IssuerKeys, KeyRecord, OlderRing, OtherDecision};
use chancery_core::retention::{SourceId, SourceReading};
use chancery_core::withdrawal::Withdrawal;
use chancery_core::{
    CachePolicy, DocumentSet, IssuerUrl, Jwks, KeyId, PublicKey, WithdrawalCause, Withdrawals,
};

use crate::config::IssuerConfig;
use crate::source::SourceEvent;

/// What is to be published, and what is withdrawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    /// The documents.
    pub documents: DocumentSet,
    /// Every withdrawn key, the latest last.
    pub withdrawals: Withdrawals,
    /// By which decision, counted on from one to the next.
    pub decision: u64,
}

/// The keys of one issuer and whether they are complete enough to be shown.
#[derive(Debug)]
pub struct Index {
    issuer: IssuerUrl,
    cache: CachePolicy,
    retention: Duration,
    keys: IssuerKeys,
    /// Entries of the configuration that have not shown anything since the start.
    silent: BTreeSet<usize>,
    /// Sources that were found at such an entry, as the replicas of a control plane, and have not been read yet; and
    /// those of which a part was never read since the start.
    unread: BTreeSet<SourceId>,
    /// Whether all of them were read once, or are not waited for. A source that is found later is not waited for.
    complete: bool,
}

/// What an index is told once.
#[derive(Clone, Debug)]
pub struct IndexSettings {
    /// Whose keys they are.
    pub issuer: IssuerUrl,
    /// How long the documents may be cached.
    pub cache: CachePolicy,
    /// How long an observed key stays after its last source dropped it.
    pub retention: Duration,
    /// How many sources the configuration names.
    pub sources: usize,
    /// Whether one of them is a key ring, which decides.
    pub has_ring: bool,
}

impl From<&IssuerConfig> for IndexSettings {
    fn from(config: &IssuerConfig) -> Self {
        Self {
            issuer: config.url.clone(),
            cache: config.cache(),
            retention: config.retention,
            sources: config.sources.len(),
            has_ring: config.sources.iter().any(|source| source.value.is_ring()),
        }
    }
}

impl Index {
    /// An index of sources that goes on from `record`.
    pub fn new(settings: IndexSettings, record: &KeyRecord) -> Self {
        let IndexSettings { issuer, cache, retention, sources, has_ring } = settings;
        let mut keys = IssuerKeys::restore(retention, record);
        if !has_ring {
            keys.release_decided();
        }
        let (silent, unread) = ((0..sources).collect(), BTreeSet::new());
        Self { issuer, cache, retention, keys, silent, unread, complete: false }
    }

    /// Takes what a source reports. A failure takes no key away, and stops the time of those that the source dropped.
    ///
    /// # Errors
    /// When a key ring comes from a backup, which changes nothing either.
    pub fn apply(&mut self, event: &SourceEvent) -> Result<(), OlderRing> {
        let mut followed = Ok(());
        match event {
            SourceEvent::Found { source } => {
                self.silent.remove(&source.position);
                self.unread.insert(source.clone());
            }
            SourceEvent::Listed { source, keys, unread, .. } if !unread.is_empty() => {
                self.silent.remove(&source.position);
                self.unread.insert(source.clone());
                self.keys.observe(source.clone(), SourceReading::Partial(keys.clone()));
            }
            SourceEvent::Listed { source, keys, .. } => {
                self.silent.remove(&source.position);
                self.unread.remove(source);
                self.keys.observe(source.clone(), SourceReading::Complete(keys.clone()));
            }
            SourceEvent::Gone { source } => {
                self.unread.remove(source);
                self.keys.remove_source(source);
            }
            SourceEvent::Decided { source, decision } => {
                // Of an older ring nothing is taken, and nothing is waited for either: what is recorded is later.
                self.silent.remove(&source.position);
                followed = self.keys.decide(decision.clone());
            }
            SourceEvent::Failed { source, .. } => self.keys.source_failed(source),
        }
        self.complete |= self.all_read();
        followed
    }

    /// Whether every source was read whole since the start.
    fn all_read(&self) -> bool {
        self.silent.is_empty() && self.unread.is_empty()
    }

    /// Takes over what another proven writer of the same issuer published and withdrew.
    pub fn adopt(&mut self, decision: u64, published: Vec<PublicKey>, withdrawn: Vec<Withdrawal>) {
        self.keys.adopt(OtherDecision { decision, published, withdrawn });
    }

    /// Takes over what another replica has recorded.
    pub fn merge(&mut self, record: &KeyRecord) {
        self.keys.merge(record);
    }

    /// Goes on publishing keys that stood at a target before we came; returns those that were not known.
    pub fn import(&mut self, keys: Vec<PublicKey>) -> Vec<KeyId> {
        self.keys.import(keys)
    }

    /// Takes out keys that a person does not want published any more.
    pub fn retire(&mut self, kids: &[KeyId]) {
        kids.iter().for_each(|kid| self.keys.withdraw(kid, WithdrawalCause::Retired));
    }

    /// Lets time pass and returns the keys that expire by it.
    pub fn elapse(&mut self, elapsed: Duration) -> Vec<KeyId> {
        let all_read = self.all_read();
        self.keys.elapse(elapsed, all_read)
    }

    /// Stops waiting for sources that have not answered; what was recorded and read must do.
    pub fn stop_waiting(&mut self) {
        self.complete = true;
    }

    /// Whether every source was read at least once, or is not waited for any more.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// What to publish, which is a new decision if it differs from the last; that must be recorded before it is shown.
    /// `None` while a source is still waited for, since a smaller set than before the restart would reject tokens, and
    /// while there is no key.
    pub fn publish(&mut self) -> Option<Arc<Publication>> {
        if !self.is_complete() {
            return None;
        }
        let published = self.keys.publish()?;
        let documents = DocumentSet::new(self.issuer.clone(), published.jwks, self.cache);
        let (withdrawals, decision) = (published.withdrawals, published.decision);
        Some(Arc::new(Publication { documents, withdrawals, decision }))
    }

    /// What must survive a restart.
    pub fn record(&self) -> KeyRecord {
        self.keys.record()
    }

    /// How long until a vanished key is withdrawn, if one waits for it.
    pub fn next_withdrawal(&self) -> Option<Duration> {
        self.keys.retention().next_expiry(self.all_read())
    }

    /// Keys that no source shows any more.
    pub fn vanished(&self) -> Vec<KeyId> {
        self.keys.retention().retained().map(|retained| retained.key.key_id().clone()).collect()
    }

    /// For how long a key stays that no source shows any more; nothing for any other.
    pub fn leaves_after(&self, kid: &KeyId) -> Option<Duration> {
        let retained = self.keys.retention().retained().find(|retained| retained.key.key_id() == kid)?;
        Some(self.retention.saturating_sub(retained.missing_for))
    }

    /// Every withdrawn key.
    pub fn withdrawals(&self) -> &Withdrawals {
        self.keys.withdrawals()
    }

    /// All keys that are published.
    pub fn keys(&self) -> Vec<PublicKey> {
        self.keys.keys().as_ref().map(Jwks::keys).map(<[PublicKey]>::to_vec).unwrap_or_default()
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
        let keys = chancery_core::key_file::read_public_keys(KEY).keys;
        assert_eq!(keys.len(), 1);
        SourceEvent::Listed { source, keys, skipped: Vec::new(), unread: Vec::new() }
    }

    fn index(sources: usize) -> Index {
        let issuer = "https://id.example.com".parse().unwrap();
        let (cache, retention) = (CachePolicy::default(), Duration::from_secs(60));
        Index::new(
            IndexSettings { issuer, cache, retention, sources, has_ring: false },
            &KeyRecord::default(),
        )
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
            index.apply(&event).unwrap();
            assert!(index.publish().is_none(), "{event:?}");
        }
        index.apply(&listed(source(0, "b"))).unwrap();
        assert!(index.publish().is_some());
        index.apply(&SourceEvent::Found { source: source(0, "c") }).unwrap();
        assert!(index.publish().is_some(), "a replica that joins later takes nothing away");
    }

    #[test]
    fn a_source_with_a_part_that_was_never_read_adds_and_withdraws_nothing() {
        let kids = |index: &Index| index.keys().len();
        let mut before = index(1);
        before.apply(&listed(source(0, "files"))).unwrap();
        let (issuer, cache, retention) =
            (before.issuer.clone(), CachePolicy::default(), Duration::from_secs(60));
        let mut index = Index::new(
            IndexSettings { issuer, cache, retention, sources: 1, has_ring: false },
            &before.record(),
        );
        let incomplete = |keys: Vec<PublicKey>| SourceEvent::Listed {
            source: source(0, "files"),
            keys,
            skipped: Vec::new(),
            unread: vec!["b.pub".to_owned()],
        };
        index.apply(&incomplete(vec![crate::source::tests::key()])).unwrap();
        assert!(index.publish().is_none() && kids(&index) == 2);
        index.stop_waiting();
        assert_eq!(index.elapse(Duration::from_secs(1000)), [], "what cannot be read may be there still");
        index.apply(&incomplete(Vec::new())).unwrap();
        assert_eq!((kids(&index), index.vanished().len()), (2, 1));
        index.apply(&listed(source(0, "files"))).unwrap();
        assert_eq!(index.elapse(Duration::from_secs(1000)).len(), 1, "it was read, and one key is not there");
    }

    #[test]
    fn time_does_not_run_for_a_dropped_key_while_its_source_cannot_be_read() {
        let mut index = index(2);
        let lists = |position: usize, keys: Vec<PublicKey>| SourceEvent::Listed {
            source: source(position, if position == 0 { "a" } else { "b" }),
            keys,
            skipped: Vec::new(),
            unread: Vec::new(),
        };
        let fails = SourceEvent::Failed { source: source(1, "b"), error: "down".to_owned() };
        let dropped = crate::source::tests::key();
        index.apply(&listed(source(0, "a"))).unwrap();
        index.apply(&lists(1, vec![dropped])).unwrap();
        index.apply(&lists(1, Vec::new())).unwrap();
        assert_eq!(index.elapse(Duration::from_secs(50)), []);
        index.apply(&fails).unwrap();
        assert_eq!((index.elapse(Duration::from_secs(1000)), index.next_withdrawal()), (Vec::new(), None));
        index.apply(&lists(1, Vec::new())).unwrap();
        assert_eq!(index.next_withdrawal(), Some(Duration::from_secs(10)), "it goes on where it stood still");
        assert_eq!(index.elapse(Duration::from_secs(10)).len(), 1);
    }

    #[test]
    fn a_replica_that_leaves_or_a_lost_patience_ends_the_wait() {
        let mut leaving = index(1);
        leaving.apply(&SourceEvent::Found { source: source(0, "a") }).unwrap();
        leaving.apply(&SourceEvent::Found { source: source(0, "b") }).unwrap();
        leaving.apply(&listed(source(0, "a"))).unwrap();
        leaving.apply(&SourceEvent::Gone { source: source(0, "b") }).unwrap();
        assert!(leaving.publish().is_some());

        let mut waiting = index(2);
        waiting.apply(&listed(source(1, "files"))).unwrap();
        waiting.stop_waiting();
        assert!(waiting.publish().is_some());
    }
}

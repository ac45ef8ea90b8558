//! What the targets hold and held lately, so that what is served can be held against it.
//!
//! It is kept over restarts and shared by replicas, in the document of the visibility record: a cache that still serves
//! what was published before a restart, or by another replica, is an old cache and not an intruder.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chancery_core::{DocumentKind, DocumentSet, KeyId};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// How many contents of a holder are known again in an old cache.
const KEPT: usize = 8;
/// How many keys all of them may have, but for the newest: what is shared must stay small.
const KEYS_KEPT: usize = 512;

/// By holder what it holds now, after what it held before. Shared behind an `Arc`.
#[derive(Debug, Default)]
pub struct PublishedHistory(Mutex<Holders>);

#[derive(Debug, Default)]
struct Holders {
    by_name: BTreeMap<String, Holder>,
    revision: u64,
    /// Whether what was held before this process started was handed over to it.
    is_handed_over: bool,
}

#[derive(Debug, Default)]
struct Holder {
    contents: VecDeque<PublishedContent>,
    /// Whether this process knows that the newest is there now.
    is_current: bool,
}

/// The two documents that somebody held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PublishedContent {
    /// SHA-256 in base64url, in the order of [`DocumentKind::ALL`].
    digests: [String; 2],
    kids: BTreeSet<KeyId>,
}

/// The history as it is written down, the newest last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HistoryRecord(BTreeMap<String, VecDeque<PublishedContent>>);

/// What was served at one edge: the two bodies, in the order of [`DocumentKind::ALL`], and the keys in them.
#[derive(Clone, Copy, Debug)]
pub struct ServedDocuments<'a> {
    /// The bodies.
    pub bodies: [&'a [u8]; 2],
    /// The keys that a relying party takes from them.
    pub kids: &'a [KeyId],
}

/// How what is served compares with what is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServedComparison {
    /// It is what one of the holders holds.
    AsHeld,
    /// It is what one of them held before: a cache has not asked again yet.
    Stale,
    /// Nobody of ours ever held it.
    Altered,
    /// The same, and it shows keys that none of ours ever held.
    ForeignKeys(Vec<KeyId>),
    /// It cannot be told: what one of the holders holds is not known to this replica.
    Unknown,
}

impl PublishedHistory {
    /// Notes what `holder` holds from now on.
    pub fn holds(&self, holder: &str, documents: &DocumentSet) {
        let digests = DocumentKind::ALL.map(|kind| digest(&documents.document(kind).bytes));
        let kids = documents.jwks().keys().iter().map(|key| key.key_id().clone()).collect();
        let content = PublishedContent { digests, kids };
        let mut holders = self.lock();
        let known = holders.by_name.entry(holder.to_owned()).or_default();
        known.is_current = true;
        if known.contents.back() != Some(&content) {
            known.push(content);
            holders.revision += 1;
        }
    }

    /// Notes that somebody else writes there now.
    pub fn is_written_by_another(&self, holder: &str) {
        if let Some(holder) = self.lock().by_name.get_mut(holder) {
            holder.is_current = false;
        }
    }

    /// Takes what another process, or this one before a restart, has written down; what this process knows to be there
    /// now is newer.
    pub fn restore(&self, record: &HistoryRecord) {
        let mut holders = self.lock();
        holders.is_handed_over |= !record.0.is_empty();
        for (name, contents) in &record.0 {
            let holder = holders.by_name.entry(name.clone()).or_default();
            let known = std::mem::take(&mut holder.contents);
            let newer = if holder.is_current { known } else { VecDeque::new() };
            contents.iter().cloned().chain(newer).for_each(|content| holder.push(content));
        }
    }

    /// What is to be written down.
    pub fn record(&self) -> HistoryRecord {
        let holders = self.lock();
        let contents = holders.by_name.iter().map(|(name, holder)| (name.clone(), holder.contents.clone()));
        HistoryRecord(contents.collect())
    }

    /// Another number after every change.
    pub fn revision(&self) -> u64 {
        self.lock().revision
    }

    /// Whether it reaches back to before this process started.
    pub fn is_handed_over(&self) -> bool {
        self.lock().is_handed_over
    }

    /// Holds what was served against what `holders` hold, any of whom may stand behind it.
    pub fn compare(&self, holders: &[String], served: ServedDocuments<'_>) -> ServedComparison {
        let known = self.lock();
        let listed: Vec<_> = holders.iter().map(|holder| known.by_name.get(holder)).collect();
        let digests = served.bodies.map(digest);
        let contents = || listed.iter().copied().flatten().map(|holder| &holder.contents);
        if contents().any(|contents| contents.back().is_some_and(|now| now.digests == digests)) {
            return ServedComparison::AsHeld;
        }
        // Each document is cached by itself: an old one may come beside a new one.
        let was_held = |position: usize| {
            contents().flatten().any(|content| content.digests.get(position) == digests.get(position))
        };
        if was_held(0) && was_held(1) {
            return ServedComparison::Stale;
        }
        if !listed.iter().all(|holder| holder.is_some_and(|holder| holder.is_current)) {
            return ServedComparison::Unknown;
        }
        let ours = |kid: &KeyId| contents().flatten().any(|content| content.kids.contains(kid));
        let foreign: Vec<KeyId> = served.kids.iter().filter(|kid| !ours(kid)).cloned().collect();
        match foreign.is_empty() {
            true => ServedComparison::Altered,
            false => ServedComparison::ForeignKeys(foreign),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Holders> {
        // No code that holds the lock can leave the map half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Holder {
    /// Adds what is held from now on, and drops the oldest if there is too much.
    fn push(&mut self, content: PublishedContent) {
        self.contents.retain(|earlier| *earlier != content);
        self.contents.push_back(content);
        let keys =
            |contents: &VecDeque<PublishedContent>| contents.iter().map(|it| it.kids.len()).sum::<usize>();
        while self.contents.len() > KEPT || self.contents.len() > 1 && keys(&self.contents) > KEYS_KEPT {
            self.contents.pop_front();
        }
    }
}

fn digest(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use chancery_core::{CachePolicy, Jwks, PublicKey};

    use super::*;

    fn key() -> PublicKey {
        let pair = rcgen::KeyPair::generate().unwrap();
        PublicKey::from_spki_der(&rcgen::PublicKeyData::subject_public_key_info(&pair)).unwrap()
    }

    fn documents(keys: &[PublicKey]) -> DocumentSet {
        let issuer = "https://id.example.com".parse().unwrap();
        DocumentSet::new(issuer, Jwks::new(keys.to_vec()).unwrap(), CachePolicy::default())
    }

    fn compare(
        held: &PublishedHistory,
        holders: &[&str],
        [jwks, discovery]: [&DocumentSet; 2],
    ) -> ServedComparison {
        let bodies =
            [jwks.document(DocumentKind::Jwks).bytes, discovery.document(DocumentKind::Discovery).bytes];
        let kids: Vec<KeyId> = jwks.jwks().keys().iter().map(|key| key.key_id().clone()).collect();
        let holders: Vec<String> = holders.iter().map(|holder| (*holder).to_owned()).collect();
        held.compare(&holders, ServedDocuments { bodies: [&bodies[0], &bodies[1]], kids: &kids })
    }

    #[test]
    fn what_is_served_is_told_from_what_was_and_from_what_never_was() {
        let keys = [key(), key(), key()];
        let (old, new, strange) = (documents(&keys[..1]), documents(&keys[..2]), documents(&keys));
        let less = documents(&keys[1..2]);
        let held = PublishedHistory::default();
        assert_eq!(compare(&held, &["a"], [&new, &new]), ServedComparison::Unknown);
        held.holds("a", &old);
        held.holds("a", &new);
        assert_eq!(compare(&held, &["a"], [&new, &new]), ServedComparison::AsHeld);
        assert_eq!(compare(&held, &["a"], [&old, &new]), ServedComparison::Stale);
        assert_eq!(compare(&held, &["a"], [&less, &new]), ServedComparison::Altered);
        let foreign = vec![keys[2].key_id().clone()];
        assert_eq!(compare(&held, &["a"], [&strange, &new]), ServedComparison::ForeignKeys(foreign));
        assert_eq!(compare(&held, &["a", "b"], [&strange, &new]), ServedComparison::Unknown);
        held.holds("b", &strange);
        assert_eq!(compare(&held, &["a", "b"], [&strange, &new]), ServedComparison::AsHeld);
        held.is_written_by_another("b");
        let another = documents(&[key()]);
        assert_eq!(compare(&held, &["a", "b"], [&another, &another]), ServedComparison::Unknown);
        held.holds("a", &old);
        assert_eq!(compare(&held, &["a"], [&old, &old]), ServedComparison::AsHeld, "rolled back");
    }

    #[test]
    fn what_was_published_before_a_restart_is_an_old_cache_and_no_intruder() {
        let keys = [key(), key(), key()];
        let (before, now) = (documents(&keys[..1]), documents(&keys[1..2]));
        let first = PublishedHistory::default();
        first.holds("a", &before);
        let text = serde_json::to_string(&first.record()).unwrap();
        let second = PublishedHistory::default();
        second.holds("a", &now);
        assert!(!second.is_handed_over());
        second.restore(&serde_json::from_str(&text).unwrap());
        assert!(second.is_handed_over());
        assert_eq!(compare(&second, &["a"], [&before, &before]), ServedComparison::Stale);
        assert_eq!(
            compare(&second, &["a"], [&now, &now]),
            ServedComparison::AsHeld,
            "what is known is newer"
        );
        let strange = documents(&keys);
        let foreign = vec![keys[2].key_id().clone()];
        assert_eq!(compare(&second, &["a"], [&strange, &now]), ServedComparison::ForeignKeys(foreign));
    }

    #[test]
    fn the_history_stays_small() {
        let history = PublishedHistory::default();
        let many: Vec<PublicKey> = (0..200).map(|_| key()).collect();
        for number in 1..=20 {
            history.holds("a", &documents(&many[..10 * number]));
        }
        let HistoryRecord(record) = history.record();
        let contents = &record["a"];
        assert!(
            contents.len() <= KEPT && contents.iter().map(|it| it.kids.len()).sum::<usize>() <= KEYS_KEPT
        );
        assert_eq!(contents.back().unwrap().kids.len(), 200);
    }
}

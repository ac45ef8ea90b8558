//! What the targets hold, so that what is served can be held against it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use chancery_core::{DocumentKind, DocumentSet, KeyId};
use sha2::{Digest, Sha256};

/// How many earlier contents of a target are known again in an old cache.
const KEPT: usize = 8;

/// By holder what it holds now, after what it held before. Shared behind an `Arc`.
#[derive(Debug, Default)]
pub struct Held(Mutex<BTreeMap<String, VecDeque<Content>>>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Content {
    digests: [[u8; 32]; 2],
    kids: BTreeSet<KeyId>,
}

/// What was served at one edge: the two bodies, in the order of [`DocumentKind::ALL`], and the keys in them.
#[derive(Clone, Copy, Debug)]
pub struct Served<'a> {
    /// The bodies.
    pub bodies: [&'a [u8]; 2],
    /// The keys that a relying party takes from them.
    pub kids: &'a [KeyId],
}

/// How what is served compares with what is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Comparison {
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

impl Held {
    /// Notes what `holder` holds from now on.
    pub fn holds(&self, holder: &str, documents: &DocumentSet) {
        let digests = DocumentKind::ALL.map(|kind| Sha256::digest(&documents.document(kind).bytes).into());
        let kids = documents.jwks().keys().iter().map(|key| key.key_id().clone()).collect();
        let content = Content { digests, kids };
        let mut held = self.lock();
        let history = held.entry(holder.to_owned()).or_default();
        if history.back() != Some(&content) {
            history.retain(|earlier| *earlier != content);
            history.push_back(content);
            if history.len() > KEPT {
                history.pop_front();
            }
        }
    }

    /// Drops what is not known any more, as somebody else writes there now.
    pub fn forget(&self, holder: &str) {
        self.lock().remove(holder);
    }

    /// Holds what was served against what `holders` hold, any of whom may stand behind it.
    pub fn compare(&self, holders: &[String], served: Served<'_>) -> Comparison {
        let held = self.lock();
        let histories: Vec<_> = holders.iter().map(|holder| held.get(holder)).collect();
        let digests = served.bodies.map(|body| <[u8; 32]>::from(Sha256::digest(body)));
        let known = || histories.iter().copied().flatten();
        if known().any(|history| history.back().is_some_and(|now| now.digests == digests)) {
            return Comparison::AsHeld;
        }
        // Each document is cached by itself: an old one may come beside a new one.
        let was_held = |position: usize| {
            known().flatten().any(|content| content.digests.get(position) == digests.get(position))
        };
        if was_held(0) && was_held(1) {
            return Comparison::Stale;
        }
        if histories.iter().any(Option::is_none) {
            return Comparison::Unknown;
        }
        let ours = |kid: &KeyId| known().flatten().any(|content| content.kids.contains(kid));
        let foreign: Vec<KeyId> = served.kids.iter().filter(|kid| !ours(kid)).cloned().collect();
        if foreign.is_empty() { Comparison::Altered } else { Comparison::ForeignKeys(foreign) }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, VecDeque<Content>>> {
        // No code that holds the lock can leave the map half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
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

    fn compare(held: &Held, holders: &[&str], [jwks, discovery]: [&DocumentSet; 2]) -> Comparison {
        let bodies =
            [jwks.document(DocumentKind::Jwks).bytes, discovery.document(DocumentKind::Discovery).bytes];
        let kids: Vec<KeyId> = jwks.jwks().keys().iter().map(|key| key.key_id().clone()).collect();
        let holders: Vec<String> = holders.iter().map(|holder| (*holder).to_owned()).collect();
        held.compare(&holders, Served { bodies: [&bodies[0], &bodies[1]], kids: &kids })
    }

    #[test]
    fn what_is_served_is_told_from_what_was_and_from_what_never_was() {
        let keys = [key(), key(), key()];
        let (old, new, strange) = (documents(&keys[..1]), documents(&keys[..2]), documents(&keys));
        let less = documents(&keys[1..2]);
        let held = Held::default();
        assert_eq!(compare(&held, &["a"], [&new, &new]), Comparison::Unknown);
        held.holds("a", &old);
        held.holds("a", &new);
        assert_eq!(compare(&held, &["a"], [&new, &new]), Comparison::AsHeld);
        assert_eq!(compare(&held, &["a"], [&old, &new]), Comparison::Stale);
        assert_eq!(compare(&held, &["a"], [&less, &new]), Comparison::Altered);
        let foreign = vec![keys[2].key_id().clone()];
        assert_eq!(compare(&held, &["a"], [&strange, &new]), Comparison::ForeignKeys(foreign));
        assert_eq!(compare(&held, &["a", "b"], [&strange, &new]), Comparison::Unknown);
        held.holds("b", &strange);
        assert_eq!(compare(&held, &["a", "b"], [&strange, &new]), Comparison::AsHeld);
        held.forget("b");
        held.holds("a", &old);
        assert_eq!(compare(&held, &["a"], [&old, &old]), Comparison::AsHeld, "rolled back");
    }
}

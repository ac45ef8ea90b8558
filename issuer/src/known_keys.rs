//! What this replica knows of the keys of one issuer beside what the documents say, for operators.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chancery_core::ring::{KeyState, Position};
use chancery_core::{KeyId, KeyRing};
use jiff::Timestamp;

/// Where it is told and read. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct KnownKeys(Arc<Mutex<KnownOfKeys>>);

/// What is known at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownOfKeys {
    /// Of each published key.
    pub keys: Vec<KnownKey>,
    /// Of the key ring, where one decides. Boxed: most issuers have none.
    pub ring: Option<Box<KnownRing>>,
    /// How far the ring had come that was followed last.
    pub followed: Option<Position>,
}

/// What is known of one published key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownKey {
    /// Its id.
    pub kid: KeyId,
    /// When this replica first saw it.
    pub first_seen: Timestamp,
    /// For how long it stays, in accumulated time, when no source shows it any more.
    pub leaves_after: Option<Duration>,
}

/// What a key ring said when it was read last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownRing {
    /// How far it has come.
    pub position: Position,
    /// What each of its keys is for.
    pub states: Vec<(KeyId, KeyState)>,
    /// When a key was activated last, by the wall clock of whoever rotates.
    pub activated: Option<Timestamp>,
    /// Whether a person asked for a rotation that has not begun.
    pub is_rotation_asked: bool,
}

impl From<&KeyRing> for KnownRing {
    fn from(ring: &KeyRing) -> Self {
        let activated = i64::try_from(ring.activated().0).ok().filter(|second| *second > 0);
        Self {
            position: ring.position(),
            states: ring.keys().iter().map(|key| (key.kid().clone(), key.state)).collect(),
            activated: activated.and_then(|second| Timestamp::from_second(second).ok()),
            is_rotation_asked: ring.is_rotation_asked(),
        }
    }
}

impl KnownKeys {
    /// These are the published keys.
    pub fn keys_are(&self, keys: Vec<KnownKey>) {
        self.lock().keys = keys;
    }

    /// The ring was read. Whether it is followed is decided elsewhere.
    pub fn ring_is(&self, ring: KnownRing) {
        self.lock().ring = Some(Box::new(ring));
    }

    /// The ring at this position was followed last, over restarts.
    pub fn follows(&self, position: Position) {
        self.lock().followed = Some(position);
    }

    /// What is known now.
    pub fn now(&self) -> KnownOfKeys {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, KnownOfKeys> {
        // No code that holds the lock can leave it half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KnownOfKeys {
    /// What is known of a key.
    pub fn key(&self, kid: &KeyId) -> Option<&KnownKey> {
        self.keys.iter().find(|key| key.kid == *kid)
    }

    /// What the ring has a key for.
    pub fn ring_state(&self, kid: &KeyId) -> Option<KeyState> {
        let states = &self.ring.as_ref()?.states;
        states.iter().find(|(known, _)| known == kid).map(|(_, state)| *state)
    }

    /// Whether the ring that lies there is older than one that was followed: it comes from a backup.
    pub fn ring_is_older(&self) -> bool {
        self.ring.as_ref().map(|ring| ring.position) < self.followed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_that_is_older_than_the_one_that_was_followed_is_told_apart() {
        let at = |epoch| Position { epoch, generation: 1 };
        let known = KnownKeys::default();
        assert!(!known.now().ring_is_older(), "there is none");
        for (ring, followed, is_older) in
            [(1, None, false), (2, Some(2), false), (3, Some(2), false), (1, Some(2), true)]
        {
            let ring = KnownRing { position: at(ring), ..KnownRing::from(&KeyRing::new()) };
            known.0.lock().unwrap().followed = None;
            known.ring_is(ring);
            followed.into_iter().for_each(|epoch| known.follows(at(epoch)));
            assert_eq!(known.now().ring_is_older(), is_older, "{:?}", known.now());
        }
    }

    #[test]
    fn a_ring_that_never_activated_a_key_has_no_date() {
        assert_eq!(KnownRing::from(&KeyRing::new()).activated, None);
    }
}

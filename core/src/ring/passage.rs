//! Time that passes, and what was heard meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Acknowledgement, KeyRing, KeyState, RingKey, TokenLifetimes, WallTime};
use crate::KeyId;

/// What has happened since a writer read the version of the ring that it is about to replace.
#[derive(Clone, Copy, Debug)]
pub struct Passage<'a> {
    /// Time by a monotonic clock since then. Whole seconds count; the caller keeps the fraction.
    pub elapsed: Duration,
    /// The wall clock.
    pub now: WallTime,
    /// What signers have acknowledged, by name.
    pub acknowledgements: &'a BTreeMap<String, Acknowledgement>,
    /// The signers that there should be, heard or not.
    pub expected_signers: &'a BTreeSet<String>,
    /// Keys that somebody else was seen to sign with.
    pub used_elsewhere: &'a BTreeSet<KeyId>,
    /// Keys that are tried with tokens of our own, and how long those live at most.
    pub tried: &'a BTreeMap<KeyId, TokenLifetimes>,
    /// The longest lifetimes that signers may sign from now on.
    pub allowed: TokenLifetimes,
}

impl KeyRing {
    /// Counts time, and takes in what was heard. This is no change: the position stays.
    pub fn pass(&mut self, passage: Passage<'_>) {
        let seconds = passage.elapsed.as_secs();
        // Time counts for what was so at its beginning and is so at its end.
        let expected = passage.expected_signers;
        let had_stopped: Vec<bool> = self.keys.iter().map(|key| self.has_stopped(key, expected)).collect();
        self.latest_wall = self.latest_wall.max(passage.now);
        self.allowed = passage.allowed;
        for (name, said) in passage.acknowledgements {
            self.hear(name, said);
        }
        for key in &mut self.keys {
            key.used_elsewhere = passage.used_elsewhere.contains(key.kid());
            if let Some(tried) = passage.tried.get(key.kid()) {
                key.signed = key.signed.longest_of(*tried);
            }
            if key.state == KeyState::Active || key.state.is_draining() {
                key.allowed = key.allowed.longest_of(passage.allowed);
            }
        }
        let has_stopped: Vec<bool> = self.keys.iter().map(|key| self.has_stopped(key, expected)).collect();
        for (key, (before, now)) in self.keys.iter_mut().zip(had_stopped.into_iter().zip(has_stopped)) {
            match key.state {
                KeyState::Active => key.active_seconds = key.active_seconds.saturating_add(seconds),
                _ if !now => key.drained_seconds = 0,
                _ if before => key.drained_seconds = key.drained_seconds.saturating_add(seconds),
                _ => {}
            }
        }
    }

    /// Whether `newer` differs from this in nothing but time that has passed. It may be written later then: a crash
    /// costs the time alone. Time that starts again is news.
    pub fn has_only_aged(&self, newer: &Self) -> bool {
        let mut aged = self.clone();
        aged.latest_wall = aged.latest_wall.max(newer.latest_wall);
        for (key, newer) in aged.keys.iter_mut().zip(&newer.keys) {
            key.active_seconds = key.active_seconds.max(newer.active_seconds);
            key.drained_seconds = key.drained_seconds.max(newer.drained_seconds);
        }
        aged == *newer
    }

    /// Whether nobody signs with a key any more, as far as is known.
    fn has_stopped(&self, key: &RingKey, expected: &BTreeSet<String>) -> bool {
        let may_lie_elsewhere = key.adopted && !self.unheard(expected).is_empty();
        key.state.is_draining()
            && !key.used_elsewhere
            && !may_lie_elsewhere
            && self.signing_still(key).is_empty()
    }

    fn hear(&mut self, name: &str, said: &Acknowledgement) {
        // What it said before it was forgotten is no sign of life.
        if self.forgotten.get(name) == Some(said) {
            return;
        }
        self.forgotten.remove(name);
        let known = self.signers.insert(name.to_owned(), said.clone());
        for key in &mut self.keys {
            if let Some(signed) = said.signed.get(key.kid()) {
                key.signed = key.signed.longest_of(*signed);
            }
            if known.as_ref().is_some_and(|known| known.boot != said.boot && may_sign_with(known, key)) {
                key.signed_in_the_dark = true;
            }
        }
    }

    /// Takes a signer that will never speak again for one that signed up to now whatever it was allowed to.
    pub(super) fn give_up(&mut self, name: &str) {
        let Some(last) = self.signers.remove(name) else { return };
        for key in self.keys.iter_mut().filter(|key| may_sign_with(&last, key)) {
            key.signed_in_the_dark = true;
            key.drained_seconds = 0;
        }
        self.forgotten.insert(name.to_owned(), last);
    }
}

/// Whether a signer may have signed with a key since it said this.
fn may_sign_with(last: &Acknowledgement, key: &RingKey) -> bool {
    key.state == KeyState::Active
        || last.signs.as_ref() == Some(key.kid())
        || key.stopped_by_epoch.is_some_and(|epoch| last.position.epoch < epoch)
}

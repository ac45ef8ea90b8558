//! A signer and the kube-apiserver beside it, by the rules that a signer keeps.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use chancery_core::KeyRing;
use chancery_core::ring::{Acknowledgement, Position, TokenLifetimes};

use crate::dice::Dice;
use crate::keys::{Number, number};

#[derive(Default)]
pub struct Signer {
    pub name: String,
    boot: u64,
    /// The ring by which it signs.
    position: Position,
    active: Option<Number>,
    loaded: BTreeSet<Number>,
    /// Whether it has read the ring from the store since its start.
    has_read: bool,
    /// Whether anybody has taken an acknowledgement of it since its start.
    is_known: bool,
    signed: BTreeMap<Number, TokenLifetimes>,
    /// Ticks for which it does not reach the store, does nothing at all, or is not there yet.
    pub apart: u64,
    pub frozen: u64,
    pub absent: u64,
    /// Ticks until its node is through with joining; its acknowledgements are heard, its keys are of an older copy.
    pub joining: u64,
    pub is_dead: bool,
    /// What its kube-apiserver verifies with.
    verifies: BTreeSet<Number>,
    older: Option<Rc<KeyRing>>,
}

impl Signer {
    pub fn new(name: String, absent: u64) -> Self {
        Self { name, absent, ..Self::default() }
    }

    pub fn is_serving(&self) -> bool {
        !self.is_dead && self.absent == 0 && self.has_read
    }

    pub fn epoch(&self) -> Option<u64> {
        (self.is_serving() && self.is_known && self.active.is_some()).then_some(self.position.epoch)
    }

    pub fn is_reachable(&self) -> bool {
        !self.is_dead && self.absent == 0 && self.apart == 0 && self.frozen == 0
    }

    /// Starts anew, from a copy of the ring that is older than what it had.
    pub fn restart(&mut self, signs_at_once: bool) {
        self.boot += 1;
        (self.has_read, self.is_known) = (signs_at_once, signs_at_once);
        self.signed.clear();
        if let Some(older) = self.older.take() {
            self.load(&older);
        }
    }

    fn load(&mut self, ring: &KeyRing) {
        self.position = ring.position();
        self.active = ring.active().map(|key| number(key.kid()));
        self.loaded = ring.verification_keys().map(|key| number(key.public_key.key_id())).collect();
    }

    /// Lets a minute pass. Returns the acknowledgement that arrives, if one does.
    pub fn tick(&mut self, ring: &Rc<KeyRing>, dice: &mut Dice, refresh: u64) -> Option<Acknowledgement> {
        if self.is_dead || self.absent > 0 || self.frozen > 0 {
            self.absent = self.absent.saturating_sub(1);
            self.frozen = self.frozen.saturating_sub(1);
            return None;
        }
        let mut arrives = None;
        if self.apart > 0 {
            self.apart -= 1;
        } else if dice.in_thousand(500) {
            let is_newer =
                ring.position() > self.position || !self.has_read && ring.position() >= self.position;
            if is_newer {
                if dice.in_thousand(300) {
                    self.older = Some(Rc::clone(ring));
                }
                self.load(ring);
            }
            // A ring that is older than its own is no reading of the store.
            self.has_read |= ring.position() >= self.position;
            if self.has_read && dice.in_thousand(900) {
                arrives = Some(self.acknowledgement());
                self.is_known |= dice.in_thousand(900);
            }
        }
        if self.joining > 0 {
            self.joining -= 1;
        } else if self.has_read && dice.in_thousand(refresh) {
            self.verifies = self.loaded.clone();
        }
        arrives
    }

    fn acknowledgement(&self) -> Acknowledgement {
        let kid = |number: &Number| crate::keys::key(*number).key_id().clone();
        Acknowledgement {
            boot: format!("boot-{}", self.boot),
            position: self.position,
            loaded: self.loaded.iter().map(kid).collect(),
            signed: self.signed.iter().map(|(number, lifetimes)| (kid(number), *lifetimes)).collect(),
            signs: None,
        }
    }

    /// The key that it signs a token of this lifetime with.
    pub fn sign(&mut self, lifetime_minutes: u64, is_external: bool) -> Option<Number> {
        if !self.is_serving() || !self.is_known || self.frozen > 0 {
            return None;
        }
        let active = self.active?;
        let seconds = lifetime_minutes * 60;
        let one = match is_external {
            true => TokenLifetimes { external_seconds: seconds, api_server_seconds: 0 },
            false => TokenLifetimes { external_seconds: 0, api_server_seconds: seconds },
        };
        let signed = self.signed.entry(active).or_default();
        *signed = signed.longest_of(one);
        Some(active)
    }

    /// A node that joins comes with an older copy of the keys.
    pub fn join_with(&mut self, verifies: BTreeSet<Number>, joining: u64) {
        (self.verifies, self.joining) = (verifies, joining);
    }

    pub fn verifies(&self, number: Number) -> bool {
        self.verifies.contains(&number)
    }

    pub fn verified_with(&self) -> &BTreeSet<Number> {
        &self.verifies
    }
}

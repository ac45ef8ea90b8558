//! Every key of one issuer, whoever showed it, and the decisions about them: what is to be published.
//!
//! Sources differ in what they may say. One that *observes* (files, kube-apiserver, a ConfigMap, a Secret) shows keys,
//! and what it shows no more stays for the retention time. One that *decides* (a key ring) says which keys there are:
//! what it takes out is withdrawn at once. What it said last is recorded, and holds until it is read again: a ring that
//! cannot be read takes no key away. [`published`] unites them. Rules, in this order:
//!
//! 1. What a withdrawal for a stronger cause than [`Expired`](WithdrawalCause::Expired) names is not published,
//!    whoever shows it. A revoked key never is.
//! 2. Published is what the deciding source shows, then what observing sources show, then what is retained, then what
//!    was imported. An expired key comes back when a source shows it.
//! 3. Keys that stood at a target before we came, or that another proven writer of this issuer put there, are
//!    imported: they stay until somebody decides, since nobody here knows who signs with them. Time never removes them.
//! 4. Each other set of published keys, and each revocation, is one decision. Decisions are counted, and the count is
//!    recorded before the set is shown to anybody, so what was written from an older decision is known as old. The
//!    order of the keys decides nothing: as long as the set is the same, it stays.
//! 5. What another proven writer of this issuer published is adopted: our state comes from a backup, or another replica
//!    decided. What it has revoked is revoked. What it publishes is published, unless that was withdrawn by a later
//!    decision or revoked. Where its decision is not older than our last one, what it has withdrawn is withdrawn, though
//!    what a source shows does not expire, and what we know from our record alone, and it does not publish, has expired.
//! 6. A ring that is older than one that was followed before comes from a backup, and decides nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::marker::WITHDRAWN_KEPT;
use crate::retention::{RetainedKey, Retention, SourceId, SourceReading};
use crate::ring::{Position, RingDecision};
use crate::withdrawal::{Withdrawal, WithdrawalCause, Withdrawals};
use crate::{Jwks, KeyId, PublicKey};

mod record;

pub use record::{KeyRecord, RecordedKey, RecordedRing};

/// Every key of one issuer, and what was decided about them.
#[derive(Clone, Debug)]
pub struct IssuerKeys {
    retention: Retention,
    decided: Decided,
    imported: Vec<PublicKey>,
    withdrawals: Withdrawals,
    decision: Decision,
}

/// What the source that decides said last.
#[derive(Clone, Debug, Default)]
struct Decided {
    position: Position,
    keys: Vec<PublicKey>,
}

/// A ring comes from a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the key ring is at {found}, and was at {known} before: it comes from a backup, and what it says is not followed. Bring back the later one, or reset this one so that it goes on after it (`chancery ring reset`)"
)]
pub struct OlderRing {
    /// How far the ring that was followed last had come.
    pub known: Position,
    /// How far this one has.
    pub found: Position,
}

/// The last decision that was shown to anybody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Decision {
    /// Counted from 1; 0 before the first.
    number: u64,
    /// The published keys in their order; `None` before the first.
    published: Option<Vec<KeyId>>,
    /// How many revoked keys a marker named then.
    revoked: usize,
}

/// What is to be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedKeys {
    /// The keys; none when every key was revoked.
    pub jwks: Jwks,
    /// Every withdrawn key.
    pub withdrawals: Withdrawals,
    /// By which decision.
    pub decision: u64,
}

/// What another writer of this issuer has published, and proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherDecision {
    /// Which decision.
    pub decision: u64,
    /// Every key that is published.
    pub published: Vec<PublicKey>,
    /// What is withdrawn, as far as the marker has room for it.
    pub withdrawn: Vec<Withdrawal>,
}

/// The keys to publish, each once; nothing when nobody shows a key that is not withdrawn.
pub fn published<'a>(
    decided: &'a [PublicKey],
    retention: &'a Retention,
    imported: &'a [PublicKey],
    withdrawals: &Withdrawals,
) -> Option<Jwks> {
    let retained =
        retention.retained().map(|retained| &retained.key).filter(|k| !withdrawals.contains(k.key_id()));
    let imported = imported.iter().filter(|key| !withdrawals.contains(key.key_id()));
    let shown =
        decided.iter().chain(retention.live()).filter(|key| !withdrawals.outranks_sources(key.key_id()));
    Jwks::new(shown.chain(retained).chain(imported).cloned())
}

impl IssuerKeys {
    /// No key yet; those that vanish from their sources will stay for `retention`.
    pub fn new(retention: Duration) -> Self {
        Self::restore(retention, &KeyRecord::default())
    }

    /// Takes a successful reading of a source that observes.
    pub fn observe(&mut self, source: SourceId, reading: SourceReading) {
        self.retention.apply(source, reading);
        self.settle();
    }

    /// A reading of a source that observes failed; see [`Retention::fail`].
    pub fn source_failed(&mut self, source: &SourceId) {
        self.retention.fail(source);
    }

    /// Forgets a source that is gone for good. Its keys are retained.
    pub fn remove_source(&mut self, source: &SourceId) {
        self.retention.remove(source);
    }

    /// Takes what the ring says: its keys are all there are, and what it has withdrawn was taken out. A key that it shows
    /// is no longer retired, but never again trusted once it was revoked.
    ///
    /// # Errors
    /// When the ring is older than the one that was followed last; then nothing changes.
    pub fn decide(&mut self, ring: RingDecision) -> Result<(), OlderRing> {
        let RingDecision { position, keys, withdrawn } = ring;
        if position < self.decided.position {
            return Err(OlderRing { known: self.decided.position, found: position });
        }
        for (kid, cause) in withdrawn {
            self.withdraw(&kid, cause);
        }
        keys.iter().for_each(|key| self.withdrawals.lift(key.key_id(), WithdrawalCause::Retired));
        self.retention.decided(!keys.is_empty());
        self.decided = Decided { position, keys };
        self.settle();
        Ok(())
    }

    /// There is no source any more that decides. The keys of the last one stay for the retention time, as those of any
    /// source that is gone.
    pub fn release_decided(&mut self) {
        self.retention.decided(false);
        for key in std::mem::take(&mut self.decided.keys) {
            if !self.retention.is_live(key.key_id()) {
                self.retention.retain(RetainedKey {
                    key,
                    shown_by: BTreeSet::new(),
                    missing_for: Duration::ZERO,
                });
            }
        }
        self.settle();
    }

    /// Lets time pass and returns the keys that expire by it; see [`Retention::elapse`].
    pub fn elapse(&mut self, elapsed: Duration, all_read: bool) -> Vec<KeyId> {
        let expired = self.retention.elapse(elapsed, all_read);
        expired.iter().for_each(|kid| self.withdraw(kid, WithdrawalCause::Expired));
        expired
    }

    /// Withdraws a key by a decision that outranks every source, unless the cause is that it expired.
    pub fn withdraw(&mut self, kid: &KeyId, cause: WithdrawalCause) {
        let decision = self.decision.number.saturating_add(1);
        self.withdrawals.add(Withdrawal { key: kid.into(), cause, decision });
        self.settle();
    }

    /// Goes on publishing `keys`, which stood at a target before we came. Returns those that were not known. What was
    /// withdrawn stays withdrawn.
    pub fn import(&mut self, keys: impl IntoIterator<Item = PublicKey>) -> Vec<KeyId> {
        let mut new = Vec::new();
        for key in keys {
            if !self.knows(key.key_id()) && !self.withdrawals.contains(key.key_id()) {
                new.push(key.key_id().clone());
                self.imported.push(key);
            }
        }
        new
    }

    /// Takes over what another proven writer decided, by rule 5 at the head of this module.
    pub fn adopt(&mut self, other: OtherDecision) {
        let OtherDecision { decision, published, withdrawn } = other;
        let order: Vec<KeyId> = published.iter().map(|key| key.key_id().clone()).collect();
        order.iter().for_each(|kid| self.withdrawals.lift_before(kid, decision));
        let is_later = decision >= self.decision.number;
        let revoked = |withdrawal: &Withdrawal| withdrawal.cause == WithdrawalCause::Revoked;
        let revoked_there = withdrawn.iter().filter(|withdrawal| revoked(withdrawal)).count();
        let names_published = |withdrawal: &Withdrawal| order.iter().any(|kid| withdrawal.key.is(kid));
        // The marker names the latest first.
        for withdrawal in withdrawn.into_iter().rev() {
            if revoked(&withdrawal) || (is_later && !names_published(&withdrawal)) {
                self.withdrawals.add(withdrawal);
            }
        }
        if is_later {
            let unconfirmed = self.retention.unconfirmed().map(PublicKey::key_id);
            let absent: Vec<KeyId> = unconfirmed.filter(|kid| !order.contains(kid)).cloned().collect();
            for kid in absent {
                let (key, cause) = ((&kid).into(), WithdrawalCause::Expired);
                self.withdrawals.add(Withdrawal { key, cause, decision });
            }
        }
        self.settle();
        self.import(published);
        if is_later {
            // Where we publish something else, that will be a decision of its own.
            self.decision = Decision { number: decision, published: Some(order), revoked: revoked_there };
        }
    }

    /// Takes over what another replica has recorded since: what it has seen, withdrawn and decided.
    pub fn merge(&mut self, record: &KeyRecord) {
        let theirs = Self::restore(Duration::ZERO, record);
        for withdrawal in theirs.withdrawals.iter() {
            self.withdrawals.add(withdrawal.clone());
        }
        for retained in theirs.retention.retained() {
            if !self.knows(retained.key.key_id()) {
                self.retention.retain(retained.clone());
            }
        }
        self.settle();
        self.import(theirs.imported);
        if theirs.decided.position > self.decided.position {
            self.decided = theirs.decided;
            self.settle();
        }
        if theirs.decision.number > self.decision.number {
            self.decision = theirs.decision;
        }
    }

    /// What is to be published now. A set that differs from the last one is a new decision, which must be recorded
    /// before it is shown to anybody. `None` while there is no key and none was revoked.
    pub fn publish(&mut self) -> Option<PublishedKeys> {
        let jwks = match self.keys() {
            Some(jwks) => jwks,
            None if self.revoked() > 0 => Jwks::empty(),
            None => return None,
        };
        let kids: Vec<KeyId> = jwks.keys().iter().map(|key| key.key_id().clone()).collect();
        if self.decision.published.as_ref() != Some(&kids) || self.decision.revoked != self.revoked() {
            let number = self.decision.number.saturating_add(1);
            self.decision = Decision { number, published: Some(kids), revoked: self.revoked() };
        }
        Some(PublishedKeys { jwks, withdrawals: self.withdrawals.clone(), decision: self.decision.number })
    }

    /// The keys that are to be published.
    pub fn keys(&self) -> Option<Jwks> {
        let jwks = published(&self.decided.keys, &self.retention, &self.imported, &self.withdrawals)?;
        Some(self.decision.published.as_ref().and_then(|order| jwks.in_order(order)).unwrap_or(jwks))
    }

    /// What observing sources show and have shown.
    pub fn retention(&self) -> &Retention {
        &self.retention
    }

    /// Every withdrawn key, the latest last.
    pub fn withdrawals(&self) -> &Withdrawals {
        &self.withdrawals
    }

    /// By which decision the last set was published that anybody was shown; 0 before the first.
    pub fn decision(&self) -> u64 {
        self.decision.number
    }

    /// How many revoked keys a marker names.
    fn revoked(&self) -> usize {
        let revoked = self.withdrawals.iter().filter(|w| w.cause == WithdrawalCause::Revoked);
        revoked.count().min(WITHDRAWN_KEPT)
    }

    fn knows(&self, kid: &KeyId) -> bool {
        let imported = self.imported.iter().chain(&self.decided.keys).map(PublicKey::key_id);
        self.retention.is_live(kid)
            || self
                .retention
                .retained()
                .map(|retained| retained.key.key_id())
                .chain(imported)
                .any(|known| known == kid)
    }

    /// Drops what a withdrawal or a better source has made pointless.
    fn settle(&mut self) {
        let live: BTreeSet<KeyId> =
            self.retention.live().chain(&self.decided.keys).map(|k| k.key_id().clone()).collect();
        live.iter().for_each(|kid| self.withdrawals.lift(kid, WithdrawalCause::Expired));
        let withdrawals = &self.withdrawals;
        self.imported.retain(|key| !live.contains(key.key_id()) && !withdrawals.contains(key.key_id()));
        let retained = self.retention.retained().map(|retained| retained.key.key_id());
        let gone: Vec<KeyId> = retained.filter(|kid| withdrawals.contains(kid)).cloned().collect();
        gone.iter().for_each(|kid| self.retention.forget(kid));
    }
}

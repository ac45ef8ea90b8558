//! What sources show that only observe, and how long a key stays after the last of them dropped it.
//!
//! A rolling change of a control plane makes every replica show another set for a while, and a replica that flaps
//! shows less from one minute to the next. Whatever was seen once stays published until it has been missing from
//! every source for the retention time: tokens signed with it may live that long.
//!
//! Rules, in the order in which the code applies them:
//!
//! 1. Only a complete, successful reading of a source takes keys away. One in which parts could not be read adds keys
//!    and drops none; a failed one changes nothing.
//! 2. A key that the last source dropped is retained. A retained key that shows up again is live again.
//! 3. Time is accumulated, never read from a clock, and does not run for anybody while no source shows a key: an
//!    empty source is far more often a mistake than a wish to stop every workload. A source that decides counts here.
//! 4. Time does not run either for a key whose own sources were not read whole since the start, or cannot be read now:
//!    a file that cannot be read after a restart has dropped nothing, and a key may have come back behind a source that
//!    has fallen silent.
//! 5. A retained key whose time is up has expired.
//!
//! The order follows from the record and the readings alone, so a restart changes no byte.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::{KeyId, PublicKey};

/// A source of keys: its place in the configuration, which fixes the published order, and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId {
    /// Position in the configuration.
    pub position: usize,
    /// What a person calls it; tells the replicas at one position apart.
    pub name: String,
}

/// What a source showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceReading {
    /// Everything it has.
    Complete(Vec<PublicKey>),
    /// What could be read of it, while other parts of it were not read since the start.
    Partial(Vec<PublicKey>),
}

/// Every key that a source shows or has shown, and that has not expired.
#[derive(Clone, Debug)]
pub struct Retention {
    period: Duration,
    sources: BTreeMap<SourceId, Box<ShownBySource>>,
    retained: BTreeMap<KeyId, RetainedKey>,
    /// The order of the keys in the record, kept for those that no source has shown since.
    recorded: Vec<KeyId>,
    /// Whether a source that decides shows keys, so that a set of observing sources which is empty is no mistake.
    is_decided: bool,
}

#[derive(Clone, Debug, Default)]
struct ShownBySource {
    keys: Vec<PublicKey>,
    /// Whether it was read whole since the start, and every reading since has succeeded.
    is_confirmed: bool,
}

/// A key that no source shows any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetainedKey {
    /// The key.
    pub key: PublicKey,
    /// The names of the sources that showed it last; empty where that was not recorded.
    pub shown_by: BTreeSet<String>,
    /// Accumulated time since the last of them dropped it.
    pub missing_for: Duration,
}

impl Retention {
    /// Nothing seen yet; vanished keys will stay for `period`.
    pub fn new(period: Duration) -> Self {
        Self::restore(period, Vec::new())
    }

    /// The keys as they were before a restart. They are retained until a source shows them again.
    pub fn restore(period: Duration, recorded: Vec<RetainedKey>) -> Self {
        let mut order = Vec::new();
        let mut retained = BTreeMap::new();
        for key in recorded {
            order.push(key.key.key_id().clone());
            retained.entry(key.key.key_id().clone()).or_insert(key);
        }
        Self { period, sources: BTreeMap::new(), retained, recorded: order, is_decided: false }
    }

    /// Takes a successful reading of one source.
    pub fn apply(&mut self, source: SourceId, reading: SourceReading) {
        let shown = self.sources.entry(source.clone()).or_default();
        let before = std::mem::take(&mut shown.keys);
        match reading {
            SourceReading::Complete(keys) => {
                shown.keys = keys;
                shown.is_confirmed = true;
            }
            SourceReading::Partial(keys) => {
                let missing = before.iter().filter(|key| !keys.contains(key)).cloned();
                shown.keys = keys.iter().cloned().chain(missing).collect();
            }
        }
        self.settle(&source, before);
    }

    /// A reading of a source failed: what it showed last holds, and nobody can tell whether a key that it dropped has come
    /// back.
    pub fn fail(&mut self, source: &SourceId) {
        if let Some(shown) = self.sources.get_mut(source) {
            shown.is_confirmed = false;
        }
    }

    /// Forgets a source that is gone for good, as a replica that left the control plane. Its keys are retained.
    pub fn remove(&mut self, source: &SourceId) {
        let shown = *self.sources.remove(source).unwrap_or_default();
        self.settle(source, shown.keys);
    }

    /// Lets time pass and returns the keys that expire by it. `all_read` says that every configured source was read
    /// whole since the start: if each can still be read, it is certain that nobody shows a retained key, wherever it came
    /// from.
    pub fn elapse(&mut self, elapsed: Duration, all_read: bool) -> Vec<KeyId> {
        if !self.runs() {
            return Vec::new();
        }
        let (period, ages) = (self.period, self.aging(all_read));
        let mut expired = Vec::new();
        for (kid, retained) in &mut self.retained {
            if ages.contains(kid) {
                retained.missing_for = retained.missing_for.saturating_add(elapsed);
                if retained.missing_for >= period {
                    expired.push(kid.clone());
                }
            }
        }
        expired.iter().for_each(|kid| self.forget(kid));
        expired
    }

    /// Says whether a source that decides shows keys.
    pub(crate) fn decided(&mut self, is_decided: bool) {
        self.is_decided = is_decided;
    }

    /// Whether time runs at all.
    fn runs(&self) -> bool {
        self.is_decided || self.live().next().is_some()
    }

    /// How long until the next retained key expires, if time runs for one.
    pub fn next_expiry(&self, all_read: bool) -> Option<Duration> {
        if !self.runs() {
            return None;
        }
        let ages = self.aging(all_read);
        let running = self.retained.iter().filter(|(kid, _)| ages.contains(*kid));
        let longest = running.map(|(_, retained)| retained.missing_for).max()?;
        Some(self.period.saturating_sub(longest))
    }

    /// The retained keys for which time runs.
    fn aging(&self, all_read: bool) -> BTreeSet<KeyId> {
        let confirmed = self.sources.iter().filter(|(_, shown)| shown.is_confirmed);
        let confirmed: BTreeSet<&str> = confirmed.map(|(source, _)| source.name.as_str()).collect();
        let all_confirmed = all_read && self.sources.values().all(|shown| shown.is_confirmed);
        let is_missing = |retained: &RetainedKey| {
            let mut shown_by = retained.shown_by.iter();
            all_confirmed || (shown_by.len() > 0 && shown_by.all(|name| confirmed.contains(name.as_str())))
        };
        let aging = self.retained.iter().filter(|(_, retained)| is_missing(retained));
        aging.map(|(kid, _)| kid.clone()).collect()
    }

    /// Retains a key that another replica has seen.
    pub fn retain(&mut self, key: RetainedKey) {
        if !self.is_live(key.key.key_id()) {
            self.retained.entry(key.key.key_id().clone()).or_insert(key);
        }
    }

    /// Takes a retained key out. A live key stays.
    pub fn forget(&mut self, kid: &KeyId) {
        self.retained.remove(kid);
        self.recorded.retain(|recorded| recorded != kid);
    }

    /// The keys that a source shows, in the order of the sources; one that several show is there several times.
    pub fn live(&self) -> impl Iterator<Item = &PublicKey> {
        self.sources.values().flat_map(|shown| &shown.keys)
    }

    /// Whether a source shows a key.
    pub fn is_live(&self, kid: &KeyId) -> bool {
        self.live().any(|key| key.key_id() == kid)
    }

    /// The keys that no source shows: those of the record in its order, then the others by key id.
    pub fn retained(&self) -> impl Iterator<Item = &RetainedKey> {
        let recorded = self.recorded.iter().filter_map(|kid| self.retained.get(kid));
        let others = self.retained.iter().filter(|(kid, _)| !self.recorded.contains(kid));
        recorded.chain(others.map(|(_, retained)| retained))
    }

    /// The keys of the record that no source has shown since the start.
    pub fn unconfirmed(&self) -> impl Iterator<Item = &PublicKey> {
        self.recorded.iter().filter_map(|kid| self.retained.get(kid)).map(|retained| &retained.key)
    }

    /// Every key, each once, with what must be known of it after a restart: live ones, then retained ones.
    pub fn record(&self) -> Vec<RetainedKey> {
        let mut record: Vec<RetainedKey> = Vec::new();
        for (source, key) in self.sources.iter().flat_map(|(s, shown)| shown.keys.iter().map(move |k| (s, k)))
        {
            match record.iter_mut().find(|known| known.key.key_id() == key.key_id()) {
                Some(known) => drop(known.shown_by.insert(source.name.clone())),
                None => record.push(RetainedKey {
                    key: key.clone(),
                    shown_by: [source.name.clone()].into(),
                    missing_for: Duration::ZERO,
                }),
            }
        }
        record.extend(self.retained().cloned());
        record
    }

    fn settle(&mut self, source: &SourceId, dropped: Vec<PublicKey>) {
        let live: BTreeSet<KeyId> = self.live().map(|key| key.key_id().clone()).collect();
        self.retained.retain(|id, _| !live.contains(id));
        self.recorded.retain(|id| !live.contains(id));
        for key in dropped.into_iter().filter(|key| !live.contains(key.key_id())) {
            let shown_by = [source.name.clone()].into();
            let retained = RetainedKey { key, shown_by, missing_for: Duration::ZERO };
            self.retained.entry(retained.key.key_id().clone()).or_insert(retained);
        }
    }
}

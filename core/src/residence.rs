//! The union of what several key sources show, and how long a key stays after the last of them dropped it.
//!
//! A rolling change of a control plane makes every replica show another set for a while, and a replica that flaps
//! shows less from one minute to the next. Whatever was seen once stays published until it has been missing from
//! every source for the residence time: tokens signed with it may live that long.
//!
//! Rules, in the order in which the code applies them:
//!
//! 1. Only a complete, successful reading of a source is applied; a failed one changes nothing.
//! 2. A key that the last source dropped becomes a resident. A resident that shows up again is live again, and
//!    its tombstone, if it had one, is lifted.
//! 3. Time is accumulated, never read from a clock, and does not run for anybody while no source shows a key: an
//!    empty source is far more often a mistake than a wish to stop every workload.
//! 4. A resident whose time is up is tombstoned: this writer published it, so this writer may withdraw it.
//! 5. What somebody of the same issuer wrote since we last looked at a target is adopted before we write there: our
//!    state is a restored backup, or another replica decided. A key that is published then is no longer for us to
//!    withdraw, and one that was withdrawn does not come back unless a source shows it.
//! 6. Keys that were found published after the state was lost are imported: they stay, after all others, until a
//!    source shows them or a person withdraws them. Time never removes them, since nobody knows who signs with them.
//!
//! The published order follows from the record and the readings alone, so a restart changes no byte.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, de};

use crate::{Jwks, KeyId, PublicKey, pem};

/// A source of keys: its place in the configuration, which fixes the published order, and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId {
    /// Position in the configuration.
    pub position: usize,
    /// What a person calls it; tells the replicas at one position apart.
    pub name: String,
}

/// Every key seen and not yet withdrawn.
#[derive(Clone, Debug)]
pub struct KeyUnion {
    residence: Duration,
    sources: BTreeMap<SourceId, Vec<PublicKey>>,
    residents: BTreeMap<KeyId, Resident>,
    imported: Vec<PublicKey>,
    /// The order of the keys in the record, kept for those that no source has shown since.
    recorded: Vec<KeyId>,
    /// The latest last.
    tombstones: Vec<KeyId>,
}

#[derive(Clone, Debug)]
struct Resident {
    key: PublicKey,
    missing_for: Duration,
}

impl KeyUnion {
    /// An empty union whose vanished keys stay for `residence`.
    pub fn new(residence: Duration) -> Self {
        Self::restore(residence, &Record::default())
    }

    /// The union as it was before a restart. Its keys are residents until a source shows them again.
    pub fn restore(residence: Duration, record: &Record) -> Self {
        let mut union = Self {
            residence,
            sources: BTreeMap::new(),
            residents: BTreeMap::new(),
            imported: record.imported.iter().flat_map(|pem| pem::read_public_keys(pem).keys).collect(),
            recorded: Vec::new(),
            tombstones: record.tombstones.clone(),
        };
        for recorded in &record.keys {
            let Some(key) = pem::read_public_keys(&recorded.public_key).keys.into_iter().next() else {
                continue;
            };
            let (id, missing_for) = (key.key_id().clone(), Duration::from_secs(recorded.missing_for_seconds));
            union.tombstones.retain(|tombstone| *tombstone != id);
            union.recorded.push(id.clone());
            union.residents.entry(id).or_insert(Resident { key, missing_for });
        }
        union
    }

    /// What must survive a restart: every key this writer has seen, and the tombstones.
    pub fn record(&self) -> Record {
        let jwks = Jwks::new(self.seen().cloned());
        let keys = jwks.iter().flat_map(Jwks::keys).map(|key| RecordedKey {
            public_key: key.to_pem(),
            missing_for_seconds: self.residents.get(key.key_id()).map_or(0, |r| r.missing_for.as_secs()),
        });
        Record {
            keys: keys.collect(),
            imported: self.imported.iter().map(PublicKey::to_pem).collect(),
            tombstones: self.tombstones.clone(),
        }
    }

    /// Takes a complete reading of one source.
    pub fn apply(&mut self, source: SourceId, keys: Vec<PublicKey>) {
        let dropped = self.sources.insert(source, keys).unwrap_or_default();
        self.settle(dropped);
    }

    /// Forgets a source that is gone for good, as a replica that left the control plane. Its keys become residents.
    pub fn remove(&mut self, source: &SourceId) {
        let dropped = self.sources.remove(source).unwrap_or_default();
        self.settle(dropped);
    }

    /// Lets time pass and returns the keys that are withdrawn by it.
    pub fn elapse(&mut self, elapsed: Duration) -> Vec<KeyId> {
        if self.live().is_empty() {
            return Vec::new();
        }
        for resident in self.residents.values_mut() {
            resident.missing_for = resident.missing_for.saturating_add(elapsed);
        }
        let residence = self.residence;
        let over = self.residents.iter().filter(|(_, resident)| resident.missing_for >= residence);
        let withdrawn: Vec<KeyId> = over.map(|(id, _)| id.clone()).collect();
        for id in &withdrawn {
            self.residents.remove(id);
            self.tombstones.push(id.clone());
        }
        withdrawn
    }

    /// Takes over what another writer of the same issuer left on a target: the keys it `published`, and those it has
    /// `withdrawn`. Keys that a source shows are never withdrawn by this.
    pub fn adopt(&mut self, published: &[KeyId], withdrawn: &[KeyId]) {
        let live: BTreeSet<KeyId> = self.live().into_iter().map(|key| key.key_id().clone()).collect();
        self.tombstones.retain(|id| !published.contains(id));
        for id in withdrawn.iter().filter(|id| !live.contains(id)) {
            self.residents.remove(id);
            self.imported.retain(|key| key.key_id() != id);
            if !self.tombstones.contains(id) {
                self.tombstones.push(id.clone());
            }
        }
    }

    /// Goes on publishing `keys`, which were found published under our own id. Returns those that were not known.
    pub fn import(&mut self, keys: impl IntoIterator<Item = PublicKey>) -> Vec<KeyId> {
        let mut new = Vec::new();
        for key in keys {
            let known = self.seen().chain(&self.imported).any(|seen| seen.key_id() == key.key_id());
            if !known && !self.tombstones.contains(key.key_id()) {
                new.push(key.key_id().clone());
                self.imported.push(key);
            }
        }
        new
    }

    /// The keys to publish: those of the sources in their order, then those not seen since the restart in the
    /// recorded order, then the other residents by key id, then the imported ones. `None` until there is one.
    pub fn jwks(&self) -> Option<Jwks> {
        Jwks::new(self.seen().chain(&self.imported).cloned())
    }

    /// Keys that a source shows or has shown.
    fn seen(&self) -> impl Iterator<Item = &PublicKey> {
        let recorded = self.recorded.iter().filter_map(|id| self.residents.get(id));
        let residents = recorded.chain(self.residents.values()).map(|resident| &resident.key);
        self.live().into_iter().chain(residents)
    }

    /// Keys that this writer published and has withdrawn, the latest last.
    pub fn tombstones(&self) -> &[KeyId] {
        &self.tombstones
    }

    /// Keys that no source shows any more, with the time they have been missing.
    pub fn residents(&self) -> impl Iterator<Item = (&KeyId, Duration)> {
        self.residents.iter().map(|(id, resident)| (id, resident.missing_for))
    }

    /// How long until the next resident's time is up, if time runs.
    pub fn next_withdrawal(&self) -> Option<Duration> {
        let longest = self.residents.values().map(|resident| resident.missing_for).max()?;
        (!self.live().is_empty()).then(|| self.residence.saturating_sub(longest))
    }

    fn live(&self) -> Vec<&PublicKey> {
        self.sources.values().flatten().collect()
    }

    fn settle(&mut self, dropped: Vec<PublicKey>) {
        let live: BTreeSet<KeyId> = self.live().into_iter().map(|key| key.key_id().clone()).collect();
        self.residents.retain(|id, _| !live.contains(id));
        self.recorded.retain(|id| !live.contains(id));
        self.imported.retain(|key| !live.contains(key.key_id()));
        self.tombstones.retain(|id| !live.contains(id));
        for key in dropped.into_iter().filter(|key| !live.contains(key.key_id())) {
            let resident = Resident { key, missing_for: Duration::ZERO };
            self.residents.entry(resident.key.key_id().clone()).or_insert(resident);
        }
    }
}

/// The part of a [`KeyUnion`] that outlives the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Record {
    /// Every key seen and not withdrawn.
    pub keys: Vec<RecordedKey>,
    /// Keys found published after a loss of state, as `PUBLIC KEY` PEM blocks.
    #[serde(default, deserialize_with = "public_key_pems")]
    pub imported: Vec<String>,
    /// Keys withdrawn by us, the latest last.
    pub tombstones: Vec<KeyId>,
}

/// One key of a [`Record`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RecordedKey {
    /// A `PUBLIC KEY` PEM block. Reading a record fails when it is not one, since forgetting a key may reject tokens.
    #[serde(deserialize_with = "public_key_pem")]
    pub public_key: String,
    /// Accumulated seconds since the last source dropped it; downtime does not count.
    pub missing_for_seconds: u64,
}

fn public_key_pem<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    one_public_key(String::deserialize(deserializer)?).map_err(de::Error::custom)
}

fn public_key_pems<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    texts.into_iter().map(|text| one_public_key(text).map_err(de::Error::custom)).collect()
}

fn one_public_key(text: String) -> Result<String, String> {
    let read = pem::read_public_keys(&text);
    if read.keys.len() == 1 && read.skipped.is_empty() {
        return Ok(text);
    }
    let reason =
        read.skipped.first().map_or_else(|| format!("{} keys", read.keys.len()), ToString::to_string);
    Err(format!("expected one PUBLIC KEY PEM block, found {reason}"))
}

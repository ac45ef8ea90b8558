//! What a signer must not forget: the longest lifetimes that it has signed, and the newest ring that it has signed by.
//!
//! A key is given up when the longest token that it has signed is dead. So a longer lifetime than is recorded is recorded,
//! and synced to the disk, before a token with it is handed out; any other signature waits for no disk. Lifetimes are
//! durations, so a wrong clock makes none of them shorter.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use chancery_cluster::cell::{Cell, CellError, CellStore, LaterFields, Schema, Stored, Swap, Version};
use chancery_core::ring::TokenLifetimes;
use chancery_core::{IssuerUrl, KeyId, KeyRing};
use serde::{Deserialize, Serialize};

/// The document's kind.
const SCHEMA: Schema = Schema { name: "signer-record", version: 1 };

/// How often a lost race over the document is run again: this process is its only writer, and its own write whose answer
/// was lost is the only rival.
const TRIES: usize = 3;

/// What is kept of one signer of one issuer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignerRecord {
    /// The longest lifetimes that were ever signed, by key.
    #[serde(default)]
    pub signed: BTreeMap<KeyId, TokenLifetimes>,
    /// The newest ring that this signer has taken over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring: Option<KeyRing>,
    #[serde(flatten)]
    later: LaterFields,
}

/// Keeps the record of one signer, in memory and, if there is a place for it, durably.
#[derive(Debug)]
pub struct RecordKeeper {
    cell: Option<Cell<SignerRecord>>,
    /// What is on the disk.
    durable: Mutex<SignerRecord>,
    /// What shall be there with the next write.
    wanted: Mutex<BTreeMap<KeyId, TokenLifetimes>>,
    /// One write at a time; those who wait for it find theirs done with it.
    writing: tokio::sync::Mutex<Option<Version>>,
}

impl RecordKeeper {
    /// A record that ends with the process.
    pub fn in_memory() -> Self {
        Self::holding(None, None)
    }

    /// The record of `issuer` in a state directory.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn open(store: &CellStore, issuer: &IssuerUrl) -> Result<Self, CellError> {
        let cell = store.cell(issuer.as_str(), SCHEMA);
        let stored = cell.load().await?;
        Ok(Self::holding(Some(cell), stored))
    }

    fn holding(cell: Option<Cell<SignerRecord>>, stored: Option<Stored<SignerRecord>>) -> Self {
        let (document, version) = stored.map(|it| (it.document, it.version)).unzip();
        Self {
            cell,
            durable: Mutex::new(document.unwrap_or_default()),
            wanted: Mutex::default(),
            writing: tokio::sync::Mutex::new(version),
        }
    }

    /// What is recorded.
    pub fn recorded(&self) -> SignerRecord {
        lock(&self.durable).clone()
    }

    /// Returns once it is recorded that `kid` signs tokens that live so long: at once, if it has signed longer ones.
    ///
    /// # Errors
    /// When it cannot be written. Such a token must not be handed out.
    pub async fn cover(&self, kid: &KeyId, lifetimes: TokenLifetimes) -> Result<(), RecordError> {
        if self.covers(kid, lifetimes) {
            return Ok(());
        }
        {
            let mut wanted = lock(&self.wanted);
            let known = wanted.entry(kid.clone()).or_default();
            *known = known.longest_of(lifetimes);
        }
        let mut version = self.writing.lock().await;
        if self.covers(kid, lifetimes) {
            return Ok(());
        }
        self.write(&mut version, |_| {}).await
    }

    /// Records the ring by which this signer signs from now on, and forgets the lifetimes of keys that are over in it.
    ///
    /// # Errors
    /// When it cannot be written. The ring must not be acknowledged then.
    pub async fn take_over(&self, ring: &KeyRing) -> Result<(), RecordError> {
        let mut version = self.writing.lock().await;
        let ring = ring.clone();
        self.write(&mut version, move |record| {
            record.signed.retain(|kid, _| ring.tombstone(kid).is_none());
            record.ring = Some(ring.clone());
        })
        .await
    }

    /// Whether it is recorded that `kid` signs tokens that live so long.
    pub fn covers(&self, kid: &KeyId, lifetimes: TokenLifetimes) -> bool {
        let known = lock(&self.durable).signed.get(kid).copied();
        known.is_some_and(|known| known.longest_of(lifetimes) == known)
    }

    async fn write(
        &self,
        version: &mut Option<Version>,
        change: impl Fn(&mut SignerRecord),
    ) -> Result<(), RecordError> {
        let mut record = self.recorded();
        let wanted = lock(&self.wanted).clone();
        for tries_left in (0..TRIES).rev() {
            for (kid, lifetimes) in &wanted {
                let known = record.signed.entry(kid.clone()).or_default();
                *known = known.longest_of(*lifetimes);
            }
            change(&mut record);
            let Some(cell) = &self.cell else { break };
            match cell.swap(&record, version.as_ref()).await? {
                Swap::Swapped(written) => {
                    *version = Some(written);
                    break;
                }
                Swap::Lost(_) if tries_left == 0 => return Err(RecordError::Contended(cell.place())),
                Swap::Lost(found) => {
                    let (found, there) = found.map(|it| (it.document, it.version)).unzip();
                    *version = there;
                    record.absorb(found.unwrap_or_default());
                }
            }
        }
        *lock(&self.durable) = record;
        lock(&self.wanted).retain(|kid, lifetimes| wanted.get(kid) != Some(&*lifetimes));
        Ok(())
    }
}

impl SignerRecord {
    /// Takes in what else was found recorded.
    fn absorb(&mut self, other: Self) {
        for (kid, lifetimes) in other.signed {
            let known = self.signed.entry(kid).or_default();
            *known = known.longest_of(lifetimes);
        }
        if other.ring.as_ref().map(KeyRing::position) > self.ring.as_ref().map(KeyRing::position) {
            self.ring = other.ring;
        }
        self.later = other.later;
    }
}

/// Why something could not be recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The store refused or does not answer.
    #[error(transparent)]
    Cell(#[from] CellError),
    /// Somebody else writes there.
    #[error("{0} is written by somebody else all the time; give this signer a state directory of its own")]
    Contended(String),
}

/// A poisoned lock guards whole values still: each is replaced in one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use chancery_cluster::cell::StoreMode;
    use chancery_keygen::{KeySpec, PrivateKey};

    use super::*;

    fn kid() -> KeyId {
        PrivateKey::generate(KeySpec::P256).unwrap().public_key().key_id().clone()
    }

    fn external(external_seconds: u64) -> TokenLifetimes {
        TokenLifetimes { external_seconds, api_server_seconds: 0 }
    }

    #[tokio::test]
    async fn the_longest_of_each_class_is_there_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let issuer: IssuerUrl = "https://id.example.com".parse().unwrap();
        let (a, b) = (kid(), kid());
        let store = CellStore::directory(folder.path(), StoreMode::ReadWrite).await.unwrap();
        let keeper = RecordKeeper::open(&store, &issuer).await.unwrap();
        for (kid, lifetimes) in [
            (&a, external(3600)),
            (&a, external(600)),
            (&a, TokenLifetimes { external_seconds: 0, api_server_seconds: 86_400 }),
            (&b, external(60)),
        ] {
            keeper.cover(kid, lifetimes).await.unwrap();
            assert!(keeper.covers(kid, lifetimes));
        }
        drop(keeper);
        let keeper = RecordKeeper::open(&store, &issuer).await.unwrap();
        let expected = TokenLifetimes { external_seconds: 3600, api_server_seconds: 86_400 };
        assert_eq!(keeper.recorded().signed, BTreeMap::from([(a, expected), (b, external(60))]));
    }

    #[tokio::test]
    async fn many_at_once_are_all_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let issuer: IssuerUrl = "https://id.example.com".parse().unwrap();
        let store = CellStore::directory(folder.path(), StoreMode::ReadWrite).await.unwrap();
        let keeper = std::sync::Arc::new(RecordKeeper::open(&store, &issuer).await.unwrap());
        let kid = kid();
        let mut covering = tokio::task::JoinSet::new();
        for seconds in 1..=100 {
            let (keeper, kid) = (keeper.clone(), kid.clone());
            covering.spawn(async move {
                keeper.cover(&kid, external(seconds)).await.unwrap();
                assert!(keeper.covers(&kid, external(seconds)));
            });
        }
        covering.join_all().await;
        assert_eq!(keeper.recorded().signed[&kid], external(100));
        assert!(keeper.wanted.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn what_cannot_be_written_is_not_covered() {
        let folder = tempfile::tempdir().unwrap();
        let issuer: IssuerUrl = "https://id.example.com".parse().unwrap();
        let store = CellStore::directory(folder.path(), StoreMode::ReadOnly).await.unwrap();
        let keeper = RecordKeeper::open(&store, &issuer).await.unwrap();
        let kid = kid();
        assert!(keeper.cover(&kid, external(1)).await.is_err());
        assert!(keeper.cover(&kid, external(1)).await.is_err());
        assert_eq!(keeper.recorded().signed, BTreeMap::new());
    }
}

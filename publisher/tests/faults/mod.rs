//! A store that fails as it is told, counts what it is asked for and watches that no key vanishes.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use chancery_core::jwks::ObservedJwks;
use chancery_core::publication::{Desired, Returning, StoredObject, Version, WriterMemory};
use chancery_core::{
    CachePolicy, DocumentKind, DocumentSet, Jwks, KeyId, Owner, PublicKey, WithdrawalCause, Withdrawals,
};
use chancery_publisher::store::memory::MemoryStore;
use chancery_publisher::store::{ConditionalRead, Operation, Put};
use chancery_publisher::{DocumentStore, StoreError, StoreErrorKind, publish};

/// What happens to one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// It fails and has no effect.
    Before(StoreErrorKind),
    /// It takes effect and its answer is lost.
    After(StoreErrorKind),
    /// Another writer of the same issuer, who wants these keys, publishes first.
    Rival(Vec<u8>),
    /// The process dies before it.
    CrashBefore,
    /// The process dies after it.
    CrashAfter,
}

/// Memory with faults. Faults are used up, one per operation; then all goes well.
#[derive(Debug, Default)]
pub struct FaultyStore {
    memory: Watched,
    read_faults: Mutex<VecDeque<Fault>>,
    write_faults: Mutex<VecDeque<Fault>>,
    pub reads: AtomicUsize,
    pub writes: AtomicUsize,
}

impl FaultyStore {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    pub fn fail_reads(&self, faults: impl IntoIterator<Item = Fault>) {
        self.read_faults.lock().unwrap().extend(faults);
    }

    pub fn fail_writes(&self, faults: impl IntoIterator<Item = Fault>) {
        self.write_faults.lock().unwrap().extend(faults);
    }

    pub fn heal(&self) {
        self.read_faults.lock().unwrap().clear();
        self.write_faults.lock().unwrap().clear();
    }

    /// Reads and writes since the last call.
    pub fn take_counts(&self) -> (usize, usize) {
        (self.reads.swap(0, Ordering::SeqCst), self.writes.swap(0, Ordering::SeqCst))
    }

    /// Whose vanishing is no loss, from now on.
    pub fn withdrawn(&self, keys: &BTreeSet<KeyId>) {
        *self.memory.withdrawn.lock().unwrap() = keys.clone();
    }

    pub fn place(&self, kind: DocumentKind, object: StoredObject) {
        self.memory.inner.place(kind.path(), object);
    }

    /// Keys whose loss was seen, in words.
    pub fn losses(&self) -> Vec<String> {
        self.memory.losses.lock().unwrap().clone()
    }

    pub async fn published(&self) -> BTreeSet<KeyId> {
        self.memory.published().await
    }

    fn error(&self, kind: StoreErrorKind, operation: Operation, path: &str) -> StoreError {
        StoreError {
            kind,
            target: self.describe(),
            operation,
            path: path.to_owned(),
            cause: "a fault of the test".into(),
            remedy: "none",
            request_id: None,
        }
    }

    async fn suffer<T>(
        &self,
        fault: Fault,
        at: (Operation, &str),
        effect: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        match fault {
            Fault::None => effect.await,
            Fault::Before(kind) => Err(self.error(kind, at.0, at.1)),
            Fault::After(kind) => effect.await.and_then(|_| Err(self.error(kind, at.0, at.1))),
            Fault::Rival(keys) => {
                publish_keys(&self.memory, &keys, &BTreeSet::new()).await;
                effect.await
            }
            Fault::CrashBefore => std::future::pending().await,
            Fault::CrashAfter => {
                let _ = effect.await;
                std::future::pending().await
            }
        }
    }
}

#[async_trait]
impl DocumentStore for FaultyStore {
    async fn read_unless(&self, path: &str, known: Option<&Version>) -> Result<ConditionalRead, StoreError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        let fault = self.read_faults.lock().unwrap().pop_front().unwrap_or(Fault::None);
        self.suffer(fault, (Operation::Read, path), self.memory.read_unless(path, known)).await
    }

    async fn write(&self, put: Put<'_>) -> Result<Version, StoreError> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        let fault = self.write_faults.lock().unwrap().pop_front().unwrap_or(Fault::None);
        self.suffer(fault, (Operation::Write, put.path), self.memory.write(put)).await
    }

    fn describe(&self) -> String {
        "faulty memory".to_owned()
    }
}

/// Memory that compares each JWKS with the one before it, whoever writes.
#[derive(Debug, Default)]
struct Watched {
    inner: MemoryStore,
    withdrawn: Mutex<BTreeSet<KeyId>>,
    losses: Mutex<Vec<String>>,
}

impl Watched {
    async fn published(&self) -> BTreeSet<KeyId> {
        let object = self.inner.read(DocumentKind::Jwks.path()).await.unwrap();
        let jwks = object.map(|object| ObservedJwks::parse(&object.bytes).unwrap_or_default());
        jwks.unwrap_or_default().keys().map(|key| key.key_id().clone()).collect()
    }

    fn report(&self, loss: String) {
        self.losses.lock().unwrap().push(loss);
    }
}

#[async_trait]
impl DocumentStore for Watched {
    async fn read_unless(&self, path: &str, known: Option<&Version>) -> Result<ConditionalRead, StoreError> {
        self.inner.read_unless(path, known).await
    }

    async fn write(&self, put: Put<'_>) -> Result<Version, StoreError> {
        let before = self.published().await;
        let version = self.inner.write(put).await?;
        let after = self.published().await;
        let withdrawn = self.withdrawn.lock().unwrap().clone();
        if let Some(lost) = before.iter().find(|id| !after.contains(id) && !withdrawn.contains(id)) {
            self.report(format!("{lost} vanished"));
        }
        if after.is_empty() {
            self.report(format!("{} was written and no key is visible", put.path));
        }
        Ok(version)
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

pub fn owner() -> Owner {
    "us".parse().unwrap()
}

/// The key with this number: an RSA key as far as anybody can see without factoring it.
pub fn key(number: u8) -> PublicKey {
    let mut modulus = [0xc5; 128];
    modulus[64] = number;
    PublicKey::from_rsa(&modulus, &[1, 0, 1]).unwrap()
}

pub fn id(number: u8) -> KeyId {
    key(number).key_id().clone()
}

pub fn ids(numbers: impl IntoIterator<Item = u8>) -> BTreeSet<KeyId> {
    numbers.into_iter().map(id).collect()
}

/// These keys, withdrawn as a pipeline withdraws them.
pub fn withdrawals(ids: &BTreeSet<KeyId>) -> Withdrawals {
    Withdrawals::of(ids.iter().cloned(), WithdrawalCause::Retired, 1)
}

/// A pipeline that may publish again what it has withdrawn.
pub const PIPELINE: WriterMemory<'static> = WriterMemory::Stateless {
    writer_key: None,
    returning: Returning::Allowed,
    may_empty: false,
    first_decision: 1,
};

/// The documents for keys, of which there is one at least.
pub fn documents(keys: &[u8]) -> DocumentSet {
    let jwks = Jwks::new(keys.iter().copied().map(key)).unwrap();
    DocumentSet::new("https://id.example.com/a".parse().unwrap(), jwks, CachePolicy::default())
}

pub async fn publish_keys(store: &dyn DocumentStore, keys: &[u8], withdrawn: &BTreeSet<KeyId>) {
    let (documents, owner, withdrawals) = (documents(keys), owner(), withdrawals(withdrawn));
    let desired = Desired {
        documents: &documents,
        withdrawals: &withdrawals,
        owner: &owner,
        memory: PIPELINE,
        adopt_unmarked: false,
    };
    publish(store, desired).await.unwrap();
}

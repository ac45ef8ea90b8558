//! A store in memory, for tests.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use chancery_core::publication::{StoredObject, Version};

use super::{ConditionalRead, DocumentStore, Operation, Put, StoreError, check};

/// Objects of one process. Versions are the numbers of its writes.
#[derive(Debug, Default)]
pub struct MemoryStore {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    objects: BTreeMap<String, StoredObject>,
    writes: u64,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts an object there as a stranger would, without a condition. `version` is replaced.
    pub fn place(&self, path: &str, object: StoredObject) {
        self.lock().insert(path, object);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No code that holds the lock can leave the map half changed.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn insert(&mut self, path: &str, object: StoredObject) -> Version {
        self.writes += 1;
        let version = Version(self.writes.to_string());
        self.objects.insert(path.to_owned(), StoredObject { version: version.clone(), ..object });
        version
    }
}

#[async_trait]
impl DocumentStore for MemoryStore {
    async fn read_unless(&self, path: &str, known: Option<&Version>) -> Result<ConditionalRead, StoreError> {
        Ok(ConditionalRead::of(self.lock().objects.get(path).cloned(), known))
    }

    async fn write(&self, put: Put<'_>) -> Result<Version, StoreError> {
        let mut inner = self.lock();
        let current = inner.objects.get(put.path).map(|object| &object.version);
        check(put.precondition, current)
            .map_err(|failure| failure.at(self.describe(), Operation::Write, put.path))?;
        let object = StoredObject {
            bytes: put.bytes.to_vec(),
            media_type: Some(put.media_type.to_owned()),
            cache_control: Some(put.cache_control.to_owned()),
            marker: Some(put.marker.clone()),
            version: Version(String::new()),
        };
        Ok(inner.insert(put.path, object))
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}

//! A store in memory, for tests.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use chancery_core::publication::{StoredObject, Version};

use super::{ConditionalRead, DocumentStore, LARGEST_OBJECT, Operation, Put, StoreError, check};

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
        let mut object = self.lock().objects.get(path).cloned();
        object.iter_mut().for_each(|object| object.bytes.truncate(LARGEST_OBJECT + 1));
        Ok(ConditionalRead::of(object, known))
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
            damage: None,
            version: Version(String::new()),
        };
        Ok(inner.insert(put.path, object))
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn of_what_is_too_large_the_beginning_is_read() {
        let store = MemoryStore::new();
        let (bytes, version) = (vec![b' '; LARGEST_OBJECT + 2], Version(String::new()));
        let (media_type, cache_control, marker, damage) = (None, None, None, None);
        let object = StoredObject { bytes, media_type, cache_control, marker, damage, version };
        store.place("openid/v1/jwks", object);
        let read = store.read("openid/v1/jwks").await.unwrap().unwrap();
        assert_eq!(read.bytes.len(), LARGEST_OBJECT + 1);
    }
}

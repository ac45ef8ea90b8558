//! The battery on the stores that need no server.

use super::run_all;
use crate::store::directory::DirectoryStore;
use crate::store::memory::MemoryStore;
use crate::{DocumentStore, TargetConfig};

async fn passes(store: &dyn DocumentStore) {
    let passed = run_all(store).await.unwrap_or_else(|failed| panic!("{}: {failed}", store.describe()));
    println!("{}: {} checks passed: {}", store.describe(), passed.len(), passed.join(", "));
    assert!(!passed.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn memory() {
    passes(&MemoryStore::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn directory() {
    let dir = tempfile::tempdir().unwrap();
    passes(&DirectoryStore::new(dir.path().join("not/yet/there")).unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn directory_opened_from_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let text = format!("directory: {{ path: {:?} }}", dir.path());
    let config: TargetConfig = serde_saphyr::from_str(&text).unwrap();
    passes(crate::open_target(&config).await.unwrap().as_ref()).await;
}

/// The battery is worth nothing if it does not notice: each store here breaks one promise.
mod notices {
    use async_trait::async_trait;
    use chancery_core::publication::{Precondition, Version};

    use super::{MemoryStore, run_all};
    use crate::conformance::{Deviation, run_expecting};
    use crate::store::{ConditionalRead, Put};
    use crate::{DocumentStore, StoreError};

    #[derive(Clone, Copy, Debug)]
    enum Breach {
        IgnoresPreconditions,
        DropsMarker,
        DropsMediaType,
        DropsCacheControl,
        SameVersionForSameLength,
        SameVersionForSameBytes,
        ReadsAgain,
    }

    #[derive(Debug)]
    struct Broken(MemoryStore, Breach);

    #[async_trait]
    impl DocumentStore for Broken {
        async fn read_unless(
            &self,
            path: &str,
            known: Option<&Version>,
        ) -> Result<ConditionalRead, StoreError> {
            let known = known.filter(|_| !matches!(self.1, Breach::ReadsAgain));
            let reading = self.0.read_unless(path, known).await?;
            let ConditionalRead::Found(mut object) = reading else { return Ok(reading) };
            match self.1 {
                Breach::IgnoresPreconditions | Breach::ReadsAgain => {}
                Breach::DropsMarker => object.marker = None,
                Breach::DropsMediaType => object.media_type = None,
                Breach::DropsCacheControl => object.cache_control = None,
                Breach::SameVersionForSameLength => object.version = Version(object.bytes.len().to_string()),
                Breach::SameVersionForSameBytes => object.version = Version(format!("{:?}", object.bytes)),
            }
            Ok(ConditionalRead::Found(object))
        }

        async fn write(&self, put: Put<'_>) -> Result<Version, StoreError> {
            let there = self.0.read(put.path).await?;
            let condition = there.map_or(Precondition::Absent, |o| Precondition::Unchanged(o.version));
            match self.1 {
                Breach::IgnoresPreconditions => self.0.write(Put { precondition: &condition, ..put }).await,
                _ => self.0.write(put).await,
            }
        }

        fn describe(&self) -> String {
            format!("{:?}", self.1)
        }
    }

    #[tokio::test]
    async fn each_broken_promise() {
        for (breach, check) in [
            (Breach::IgnoresPreconditions, "of_concurrent_creates_one_wins"),
            (Breach::IgnoresPreconditions, "replacing_an_absent_object_conflicts"),
            (Breach::DropsMarker, "a_created_object_reads_back_exactly"),
            (Breach::DropsMediaType, "a_good_version_replaces_everything"),
            (Breach::DropsCacheControl, "a_created_object_reads_back_exactly"),
            (Breach::SameVersionForSameLength, "the_version_written_is_the_version_read"),
            (Breach::SameVersionForSameBytes, "other_attributes_are_another_version"),
            (Breach::ReadsAgain, "a_known_version_is_not_read_again"),
        ] {
            let report = run_all(&Broken(MemoryStore::new(), breach)).await.unwrap_err();
            assert!(report.failed.iter().any(|(name, _)| *name == check), "{breach:?}: {report}");
        }
    }

    #[tokio::test]
    async fn a_known_deviation_and_its_end() {
        let deviation = Deviation {
            check: "a_known_version_is_not_read_again",
            because: "it reads again whatever is known",
        };
        let broken = Broken(MemoryStore::new(), Breach::ReadsAgain);
        run_expecting(&broken, &[deviation]).await.unwrap();
        let mended = run_expecting(&MemoryStore::new(), &[deviation]).await.unwrap_err();
        assert_eq!(mended.failed.len(), 1, "{mended}");
        assert!(mended.to_string().contains("it passed, although it reads again"), "{mended}");
    }
}

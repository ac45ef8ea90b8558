//! The time that a writer of a ring may count: since it read the version that it replaces, by a monotonic clock.

use std::time::Duration;

use chancery_cluster::cell::Version;
use tokio::time::Instant;

/// Counts for one process. Of several, each counts for itself, and only the one whose swap succeeds has counted: the
/// others begin again with the version that they read next.
#[derive(Debug, Default)]
pub(super) struct Counter {
    since: Option<Since>,
}

/// When a version was read first, or what of its time was not counted.
#[derive(Debug)]
struct Since {
    version: Version,
    at: Instant,
}

impl Counter {
    /// Time since `version` was read first; it was read just now, after `now`.
    pub fn elapsed(&mut self, version: &Version, now: Instant) -> Duration {
        match &self.since {
            Some(since) if since.version == *version => now.saturating_duration_since(since.at),
            _ => {
                // Not before it was read: what happened earlier is another one's to count.
                self.since = Some(Since { version: version.clone(), at: Instant::now() });
                Duration::ZERO
            }
        }
    }

    /// `version` has replaced the one before, with its whole seconds of `elapsed` counted.
    pub fn wrote(&mut self, version: Version, elapsed: Duration) {
        let at = match &self.since {
            Some(since) => since.at + Duration::from_secs(elapsed.as_secs()),
            None => Instant::now(),
        };
        self.since = Some(Since { version, at });
    }
}

#[cfg(test)]
mod tests {
    use chancery_cluster::cell::{CellStore, Schema, StoreMode, Swap};
    use tokio::time::advance;

    use super::*;

    async fn versions() -> [Version; 2] {
        let folder = tempfile::tempdir().unwrap();
        let store = CellStore::directory(folder.path(), StoreMode::ReadWrite).await.unwrap();
        let cell = store.cell::<serde_json::Value>("a", Schema { name: "b", version: 1 });
        let Swap::Swapped(one) = cell.swap(&serde_json::json!({ "a": 1 }), None).await.unwrap() else {
            panic!("nothing was there")
        };
        let Swap::Swapped(two) = cell.swap(&serde_json::json!({ "a": 2 }), Some(&one)).await.unwrap() else {
            panic!("nobody else writes")
        };
        [one, two]
    }

    #[tokio::test]
    async fn fractions_are_kept_and_the_time_of_others_is_not_counted() {
        let [one, two] = versions().await;
        tokio::time::pause();
        let mut counter = Counter::default();
        assert_eq!(counter.elapsed(&one, Instant::now()), Duration::ZERO);
        advance(Duration::from_millis(1700)).await;
        let elapsed = counter.elapsed(&one, Instant::now());
        assert_eq!(elapsed, Duration::from_millis(1700));
        counter.wrote(two.clone(), elapsed);
        advance(Duration::from_millis(400)).await;
        assert_eq!(counter.elapsed(&two, Instant::now()), Duration::from_millis(1100));
        assert_eq!(counter.elapsed(&one, Instant::now()), Duration::ZERO, "somebody else has written");
    }
}

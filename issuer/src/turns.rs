//! Thousands of issuers that begin together, one after another.

use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// Lets so many of the same kind of work go on at once: what each takes meanwhile, a stack or the buffers of a
/// connection, stays with the process when thousands have had it at the same time.
///
/// Nobody waits for those that hang: whoever has waited for long enough goes on without a turn.
#[derive(Debug)]
pub(crate) struct Turns {
    free: Semaphore,
    longest_wait: Duration,
}

impl Turns {
    /// `at_once` turns.
    pub const fn new(at_once: usize, longest_wait: Duration) -> Self {
        Self { free: Semaphore::const_new(at_once), longest_wait }
    }

    /// A turn, held until it is dropped; `None` after [`Self::new`]'s longest wait.
    pub async fn take(&self) -> Option<SemaphorePermit<'_>> {
        timeout(self.longest_wait, self.free.acquire()).await.ok()?.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_waited_for_long_enough_goes_on_without_a_turn() {
        let turns = Turns::new(1, Duration::from_secs(30));
        let hanging = turns.take().await;
        assert!(hanging.is_some());
        let waited = tokio::time::Instant::now();
        assert!(turns.take().await.is_none());
        assert_eq!(waited.elapsed(), Duration::from_secs(30));
        drop(hanging);
        assert!(turns.take().await.is_some());
    }
}

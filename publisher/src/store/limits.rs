//! How much is asked of one server at a time, and how long an answer may take.

use std::time::Duration;

use tokio::sync::Semaphore;

use super::{Failure, StoreErrorKind};

/// Requests under way to one server. Each needs a connection, which stays open for a while after it: a thousand issuers
/// that start at once must not open a thousand.
const AT_ONCE: usize = 32;

/// The limits of one server's operations.
#[derive(Debug)]
pub(crate) struct Limits {
    /// How long one operation may take, all its attempts together, once it has begun.
    each: Duration,
    turns: Semaphore,
}

impl Limits {
    pub(crate) fn new(each: Duration) -> Self {
        Self { each, turns: Semaphore::new(AT_ONCE) }
    }

    /// Waits for its turn, then for the operation.
    pub(crate) async fn keep<T>(
        &self,
        operation: impl Future<Output = Result<T, Failure>> + Send,
    ) -> Result<T, Failure> {
        // It is never closed.
        let _turn = self.turns.acquire().await.ok();
        tokio::time::timeout(self.each, operation).await.unwrap_or_else(|elapsed| Err(timed_out(elapsed)))
    }
}

/// No answer in time.
pub(crate) fn timed_out(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Failure {
    Failure::new(
        StoreErrorKind::TimedOut,
        cause,
        "try again; if it stays, look at the network and the server, or raise `timeoutSeconds`",
    )
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn so_many_at_once_and_waiting_for_a_turn_takes_none_of_the_time() {
        let limits = Limits::new(Duration::from_secs(2));
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let operation = || async {
            most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(1)).await;
            now.fetch_sub(1, Ordering::Relaxed);
            Ok(())
        };
        let all = join_all((0..AT_ONCE * 5).map(|_| limits.keep(operation()))).await;
        assert!(all.iter().all(Result::is_ok));
        assert_eq!(most.into_inner(), AT_ONCE);
    }

    #[tokio::test(start_paused = true)]
    async fn an_operation_without_an_end_is_ended() {
        let limits = Limits::new(Duration::from_secs(2));
        let failure = limits.keep(std::future::pending::<Result<(), _>>()).await.unwrap_err();
        assert_eq!(failure.kind, StoreErrorKind::TimedOut);
    }
}

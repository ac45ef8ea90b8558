//! How often and how long a call is made again.

use std::fmt::Display;
use std::time::{Duration, SystemTime};

/// The pauses of a [`RetryBudget`], for a loop that [`RetryBudget::run`] cannot be.
pub use backon::ExponentialBackoff as Pauses;
use backon::{BackoffBuilder, ExponentialBuilder, Retryable as _};
use http::HeaderMap;
use http::header::RETRY_AFTER;
use tokio::time::Instant;

/// How often and how long a call is made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryBudget {
    /// How often the call is made at most, the first time included.
    pub attempts: u32,
    /// The first pause where the answer asks for none; each further one is twice as long.
    pub first_pause: Duration,
    /// The longest pause, also where an answer asks for a longer one.
    pub longest_pause: Duration,
    /// The longest time from the first attempt to the start of the last one. Whoever is given a token that soon expires
    /// must not come too late with it.
    pub total: Duration,
    /// Whether each pause of our own is lengthened by a random part of itself, so that many who failed together do not
    /// come back together.
    pub jitter: bool,
}

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError<E> {
    /// Making it again can help.
    Transient {
        /// What came.
        error: E,
        /// How long the answer asked to wait ([`retry_after`]).
        retry_after: Option<Duration>,
    },
    /// It cannot.
    Permanent(E),
}

impl<E> From<E> for CallError<E> {
    fn from(error: E) -> Self {
        Self::Permanent(error)
    }
}

impl<E> CallError<E> {
    /// What came.
    pub fn into_error(self) -> E {
        match self {
            Self::Transient { error, .. } | Self::Permanent(error) => error,
        }
    }
}

impl RetryBudget {
    /// A budget without jitter and without a limit on the whole.
    pub const fn of_attempts(attempts: u32, first_pause: Duration, longest_pause: Duration) -> Self {
        Self { attempts, first_pause, longest_pause, total: Duration::MAX, jitter: false }
    }

    /// The pauses between attempts, one fewer than those.
    pub fn pauses(self) -> Pauses {
        let builder = ExponentialBuilder::new()
            .with_factor(2.0)
            .with_min_delay(self.first_pause)
            .with_max_delay(self.longest_pause)
            .with_max_times(usize::try_from(self.attempts.saturating_sub(1)).unwrap_or(usize::MAX));
        if self.jitter { builder.with_jitter().build() } else { builder.build() }
    }

    /// Makes a call, and again after a pause while that can help and the budget lasts. Each attempt is made anew by
    /// `attempt`, so that what it takes along may be fresh.
    ///
    /// # Errors
    /// The error of the last attempt.
    pub async fn run<T, E, F>(self, attempt: impl FnMut() -> F) -> Result<T, E>
    where
        E: Display,
        F: Future<Output = Result<T, CallError<E>>>,
    {
        let started = Instant::now();
        let last = attempt
            .retry(self)
            .when(|error: &CallError<E>| matches!(error, CallError::Transient { .. }))
            .adjust(|error, planned| self.pause(error, planned?, started.elapsed()))
            .notify(|error, pause| {
                if let CallError::Transient { error, .. } = error {
                    let pause_seconds = pause.as_secs_f64();
                    tracing::info!(pause_seconds, "asked for patience; trying again: {error}");
                }
            })
            .await;
        last.map_err(CallError::into_error)
    }

    /// The pause before another attempt; `None` where it would come too late.
    fn pause<E>(&self, error: &CallError<E>, planned: Duration, elapsed: Duration) -> Option<Duration> {
        let asked = match error {
            CallError::Transient { retry_after, .. } => *retry_after,
            CallError::Permanent(_) => None,
        };
        let pause = asked.unwrap_or(planned).min(self.longest_pause);
        (elapsed.saturating_add(pause) <= self.total).then_some(pause)
    }
}

impl BackoffBuilder for RetryBudget {
    type Backoff = Pauses;

    fn build(self) -> Self::Backoff {
        self.pauses()
    }
}

/// How long an answer asks to wait (RFC 9110 section 10.2.3): seconds, or a date held against `now`. The wall clock can
/// only lengthen a wait, and [`RetryBudget::longest_pause`] bounds it.
pub fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    match text.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => Some(httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default()),
    }
}

/// Whether a status says of itself that the same request may succeed a little later (RFC 9110, RFC 6585, RFC 8470).
pub fn is_transient_status(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500..=599)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn budget(attempts: u32) -> RetryBudget {
        RetryBudget::of_attempts(attempts, SECOND, 10 * SECOND)
    }

    /// How often a call was made that always fails like this, and how long that took.
    async fn failing(budget: RetryBudget, error: CallError<&'static str>) -> (u32, Duration) {
        let (made, started) = (Cell::new(0), Instant::now());
        let result: Result<(), _> = budget
            .run(|| {
                made.set(made.get() + 1);
                let error = error.clone();
                async move { Err(error) }
            })
            .await;
        assert_eq!(result, Err("no"));
        (made.get(), started.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn patience_grows_and_ends() {
        let transient = |retry_after| CallError::Transient { error: "no", retry_after };
        for (budget, error, made, seconds) in [
            (budget(4), transient(None), 4, 1 + 2 + 4),
            (budget(6), transient(None), 6, 1 + 2 + 4 + 8 + 10),
            (budget(3), transient(Some(5 * SECOND)), 3, 5 + 5),
            (budget(3), transient(Some(Duration::ZERO)), 3, 0),
            (budget(3), transient(Some(Duration::MAX)), 3, 10 + 10),
            (budget(4), CallError::Permanent("no"), 1, 0),
            (budget(1), transient(None), 1, 0),
            (budget(0), transient(None), 1, 0),
            (RetryBudget { total: 3 * SECOND, ..budget(9) }, transient(None), 3, 1 + 2),
            (RetryBudget { total: 3 * SECOND, ..budget(9) }, transient(Some(4 * SECOND)), 1, 0),
        ] {
            let took = failing(budget, error.clone()).await;
            assert_eq!((took.0, took.1.as_secs()), (made, seconds), "{budget:?} {error:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_succeeds_is_not_made_again() {
        let made = Cell::new(0);
        let result: Result<u32, &str> = budget(5)
            .run(|| {
                made.set(made.get() + 1);
                let made = made.get();
                async move {
                    if made < 3 {
                        Err(CallError::Transient { error: "no", retry_after: None })
                    } else {
                        Ok(made)
                    }
                }
            })
            .await;
        assert_eq!(result, Ok(3));
    }

    #[test]
    fn both_forms_of_retry_after_are_read() {
        let now = httpdate::parse_http_date("Sat, 21 Nov 2026 12:00:00 GMT").unwrap();
        for (text, seconds) in [
            ("7", Some(7)),
            (" 0 ", Some(0)),
            ("Sat, 21 Nov 2026 12:01:00 GMT", Some(60)),
            ("Sat, 21 Nov 2026 11:00:00 GMT", Some(0)),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
        ] {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]);
            assert_eq!(retry_after(&headers, now), seconds.map(Duration::from_secs), "{text}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }
}

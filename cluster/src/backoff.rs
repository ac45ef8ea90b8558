//! Pauses between tries that double up to a limit, spread so that replicas do not try in step.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

/// Doubling pauses.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    /// Pauses from about `first` to about `longest`.
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first }
    }

    /// The pause before the next try, between three quarters and five quarters of the doubling series.
    pub fn next_pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        // The standard library seeds its hashers from the system's randomness; jitter needs nothing better.
        let dice = RandomState::new().build_hasher().finish() % 512;
        pause * 3 / 4 + pause * u32::try_from(dice).unwrap_or_default() / 1024
    }

    /// Starts over after a success.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_limit_within_its_spread() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(4));
        for expected in [1, 2, 4, 4] {
            let (pause, expected) = (backoff.next_pause(), Duration::from_secs(expected));
            assert!(pause >= expected * 3 / 4 && pause <= expected * 5 / 4, "{pause:?} for {expected:?}");
        }
        backoff.reset();
        assert!(backoff.next_pause() <= Duration::from_millis(1250));
    }
}

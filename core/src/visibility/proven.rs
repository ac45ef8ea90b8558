//! Time that observations prove.

use std::time::Duration;

/// How an observation lies to the last complete one before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interval {
    /// From the end of the last complete observation to the end of this one; `None` when that is longer than
    /// two observations connect over, or there was none.
    pub apart: Option<Duration>,
    /// What this observation took.
    pub took: Duration,
}

/// For how long something was found in every complete observation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ProvenTime {
    /// Since it was found otherwise, intervals without observation left out.
    pub total: Duration,
    /// Since it was found otherwise, or was not observed for too long.
    pub unbroken: Duration,
    /// Whether the last complete observation found it.
    running: bool,
    /// What that observation took, if it was not the first such: it is confirmed by the next.
    unconfirmed: Duration,
}

impl ProvenTime {
    /// What was proven before a restart, which is an interval without observation.
    pub fn before_restart(total: Duration) -> Self {
        Self { total, ..Self::default() }
    }

    /// Takes a complete observation that found it. Whether time runs only from now on.
    pub fn confirm(&mut self, interval: Interval) -> bool {
        let begins = !self.running;
        match interval.apart.filter(|_| self.running) {
            Some(apart) => {
                let confirmed = apart.saturating_add(self.unconfirmed).saturating_sub(interval.took);
                self.total = self.total.saturating_add(confirmed);
                self.unbroken = self.unbroken.saturating_add(confirmed);
                self.unconfirmed = interval.took;
            }
            None => (self.unbroken, self.unconfirmed) = (Duration::ZERO, Duration::ZERO),
        }
        self.running = true;
        begins
    }

    /// Whether nothing is known.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

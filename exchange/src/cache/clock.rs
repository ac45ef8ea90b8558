//! Two clocks, of which the one that says less time is left is believed.

use std::time::Duration;

use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};

/// What both clocks say at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The wall clock, which people set.
    pub wall: Timestamp,
    /// The time since the machine began, suspension included, which nobody sets.
    pub elapsed: Duration,
}

impl Reading {
    /// How long ago `earlier` was, by the clock by which it is longer ago: neither a wall clock that was set back nor a
    /// machine that slept makes a credential younger.
    pub fn since(&self, earlier: &Self) -> Duration {
        let wall = self.wall.duration_since(earlier.wall);
        let wall = if wall.is_negative() { Duration::ZERO } else { wall.unsigned_abs() };
        wall.max(self.elapsed.saturating_sub(earlier.elapsed))
    }
}

/// Tells the time.
pub trait Clock: Send + Sync {
    /// What both clocks say now.
    fn read(&self) -> Reading;
}

/// The clocks of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn read(&self) -> Reading {
        // CLOCK_MONOTONIC stands still while the machine sleeps, and tokens do not (clock_gettime(2)).
        let boot = clock_gettime(ClockId::Boottime);
        let seconds = Duration::from_secs(boot.tv_sec.try_into().unwrap_or_default());
        let elapsed = seconds + Duration::from_nanos(boot.tv_nsec.try_into().unwrap_or_default());
        Reading { wall: Timestamp::now(), elapsed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_11_the_more_pessimistic_clock_wins() {
        let at = |wall, elapsed| Reading {
            wall: Timestamp::from_second(wall).unwrap(),
            elapsed: Duration::from_secs(elapsed),
        };
        let start = at(1000, 50);
        assert_eq!(at(1010, 60).since(&start), Duration::from_secs(10));
        assert_eq!(at(4600, 60).since(&start), Duration::from_secs(3600), "the wall clock was set forward");
        assert_eq!(at(10, 60).since(&start), Duration::from_secs(10), "the wall clock was set back");
        assert_eq!(at(1000, 9050).since(&start), Duration::from_secs(9000), "the wall clock stood still");
        let (one, other) = (SystemClock.read(), SystemClock.read());
        assert!(other.elapsed >= one.elapsed);
    }
}

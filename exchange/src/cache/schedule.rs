//! When a credential is renewed, and when it is no longer handed out. Pure: time and chance are arguments.
//!
//! 1. A credential is usable for its life without a margin, min(10 %, 60 s), and never longer than the operator's
//!    longest duration: that is what a revocation at the cloud has to be waited for.
//! 2. From 80 % of that life on, less a random part of up to 10 %, it is renewed when it is asked for, while it is
//!    handed out still.
//! 3. A credential that lives 30 s or less is used once.

use std::time::Duration;

/// A credential that lives no longer than this is used once.
const TOO_SHORT: Duration = Duration::from_secs(30);
/// The longest margin before the end.
const LONGEST_MARGIN: Duration = Duration::from_secs(60);
/// The longest pause between two tries to renew.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The ages of a credential at which something changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// From this age on it is renewed.
    pub renew: Duration,
    /// From this age on it is not handed out.
    pub end: Duration,
    /// Its life.
    pub lifetime: Duration,
}

/// What is done with a credential of some age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// It is handed out.
    Fresh,
    /// It is handed out, and renewed.
    Aging,
    /// It is not handed out.
    Gone,
}

impl Schedule {
    /// The schedule of a credential that lives this long, or nothing where it is used once. `chance` is between 0 and 1.
    pub fn new(lifetime: Duration, longest: Duration, chance: f64) -> Option<Self> {
        if lifetime <= TOO_SHORT || longest.is_zero() {
            return None;
        }
        let margin = (lifetime / 10).min(LONGEST_MARGIN);
        let end = (lifetime - margin).min(longest);
        let renew = lifetime.min(longest).mul_f64(0.8 - 0.1 * chance.clamp(0.0, 1.0));
        Some(Self { renew: renew.min(end), end, lifetime })
    }

    /// What is done at an age.
    pub fn at(&self, age: Duration) -> Freshness {
        match age {
            age if age < self.renew => Freshness::Fresh,
            age if age < self.end => Freshness::Aging,
            _ => Freshness::Gone,
        }
    }

    /// How long it is good for at an age.
    pub fn remaining(&self, age: Duration) -> Duration {
        self.lifetime.saturating_sub(age)
    }
}

/// How long to wait after `failures` failures before a credential is renewed again that is good for `left` more:
/// a random part of 1 s, 2 s, 4 s and so on, at most a minute and a quarter of what is left.
pub fn pause(failures: u32, left: Duration, chance: f64) -> Duration {
    let grown =
        Duration::from_secs(1).saturating_mul(1_u32.checked_shl(failures.min(10)).unwrap_or(u32::MAX) / 2);
    let longest = LONGEST_PAUSE.min(left / 4);
    grown.min(longest).mul_f64(chance.clamp(0.0, 1.0)).max(Duration::from_millis(100))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn c_09_a_credential_is_renewed_at_four_fifths_and_capped() {
        let hour = Schedule::new(HOUR, HOUR, 0.0).unwrap();
        assert_eq!((hour.renew, hour.end), (seconds(2880), seconds(3540)));
        assert_eq!(hour.at(seconds(2879)), Freshness::Fresh);
        assert_eq!(hour.at(seconds(2880)), Freshness::Aging);
        assert_eq!(hour.at(seconds(3540)), Freshness::Gone);
        assert_eq!(Schedule::new(HOUR, HOUR, 1.0).unwrap().renew, seconds(2520));
        let registry = Schedule::new(12 * HOUR, HOUR, 0.0).unwrap();
        assert_eq!((registry.renew, registry.end), (seconds(2880), HOUR));
        let short = Schedule::new(HOUR, seconds(300), 0.0).unwrap();
        assert_eq!((short.renew, short.end), (seconds(240), seconds(300)));
    }

    #[test]
    fn c_16_the_margin_is_a_part_of_the_life() {
        let five_minutes = Schedule::new(seconds(300), HOUR, 0.0).unwrap();
        assert_eq!((five_minutes.renew, five_minutes.end), (seconds(240), seconds(270)));
        assert_eq!(Schedule::new(seconds(30), HOUR, 0.0), None, "used once");
        assert!(Schedule::new(seconds(31), HOUR, 0.0).is_some());
    }

    #[test]
    fn pauses_grow_within_what_is_left() {
        assert_eq!(pause(1, HOUR, 1.0), seconds(1));
        assert_eq!(pause(4, HOUR, 1.0), seconds(8));
        assert_eq!(pause(60, HOUR, 1.0), seconds(60));
        assert_eq!(pause(60, seconds(40), 1.0), seconds(10));
        assert_eq!(pause(1, Duration::ZERO, 1.0), Duration::from_millis(100));
    }

    proptest! {
        #[test]
        fn nothing_is_handed_out_after_its_end(life in 0_u64..100_000, longest in 0_u64..100_000, chance in 0.0..1.0_f64) {
            if let Some(schedule) = Schedule::new(seconds(life), seconds(longest), chance) {
                prop_assert!(schedule.renew <= schedule.end);
                prop_assert!(schedule.end < seconds(life) && schedule.end <= seconds(longest));
            }
        }
    }
}

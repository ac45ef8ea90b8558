//! A line of the log for what may happen thousands of times in a second.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time between two lines of one kind.
const PACE: Duration = Duration::from_secs(1);

/// Lets one line pass in a second, and counts those that it held back.
#[derive(Debug, Default)]
pub struct LogPace(Mutex<Pace>);

#[derive(Debug, Default)]
struct Pace {
    last: Option<Instant>,
    held_back: u64,
}

impl LogPace {
    /// Whether a line may be written now, and how many were held back since the last one.
    pub fn may_log(&self) -> Option<u64> {
        let mut pace = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if pace.last.is_some_and(|last| last.elapsed() < PACE) {
            pace.held_back += 1;
            return None;
        }
        pace.last = Some(Instant::now());
        Some(std::mem::take(&mut pace.held_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_passes_and_the_rest_is_counted() {
        let pace = LogPace::default();
        assert_eq!([pace.may_log(), pace.may_log(), pace.may_log()], [Some(0), None, None]);
        pace.0.lock().unwrap().last = None;
        assert_eq!(pace.may_log(), Some(2));
    }
}

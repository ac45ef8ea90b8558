//! A time of a wall clock.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Seconds since 1970 UTC by somebody's wall clock, which may be wrong: it may delay a rotation, and never advance it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WallTime(pub u64);

impl WallTime {
    /// So much later.
    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time.as_secs()))
    }
}

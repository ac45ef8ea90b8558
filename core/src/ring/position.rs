//! How far a ring has come, so that of two readers one knows that it is behind.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The largest number that every JSON reader keeps exactly (RFC 7493 section 2.2), and far more than a ring that
/// changes every second reaches. A larger one was not counted but damaged or planted, and would leave no room above.
pub const HIGHEST_COUNT: u64 = (1 << 53) - 1;

/// How many changes a ring is granted before its generation is taken for poisoned: one in a second for 34 years.
pub const HIGHEST_GENERATION: u64 = 1 << 30;

/// Epoch, then generation: the higher one is the later one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Position {
    /// Counts activations and resets.
    pub epoch: u64,
    /// Counts changes of any kind since the last reset. Time that passes is none.
    pub generation: u64,
}

impl Position {
    /// After a change.
    pub(super) fn changed(self) -> Self {
        Self { generation: self.generation.saturating_add(1), ..self }
    }

    /// After an activation.
    pub(super) fn activated(self) -> Self {
        Self { epoch: self.epoch.saturating_add(1), ..self.changed() }
    }

    /// After a reset: later than everything of the epoch before, and counted from nothing.
    pub(super) fn reset(self) -> Self {
        Self { epoch: self.epoch.saturating_add(1), generation: 0 }
    }

    /// Whether it cannot have been counted.
    pub fn is_poisoned(self) -> bool {
        self.epoch > HIGHEST_COUNT || self.generation > HIGHEST_GENERATION
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epoch {} generation {}", self.epoch, self.generation)
    }
}

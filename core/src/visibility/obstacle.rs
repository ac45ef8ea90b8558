//! What is in the way of a key that is to sign.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::{EdgeSight, View};
use crate::KeyId;

/// Why a key is not visible everywhere for long enough.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Obstacle {
    /// There is no view at all.
    NoView,
    /// The view has not been read since this process started.
    NotRead {
        /// Which view.
        view: String,
    },
    /// The last reading of the view is too old to speak of now.
    ReadTooLongAgo {
        /// Which view.
        view: String,
        /// How old it is, in whole seconds.
        seconds: u64,
    },
    /// No address to read the view at is known.
    NoEdge {
        /// Which view.
        view: String,
    },
    /// An edge was read and does not show the key.
    Missing {
        /// Which view.
        view: String,
        /// Which edge.
        edge: String,
    },
    /// An edge could not be read.
    Unreadable {
        /// Which view.
        view: String,
        /// Which edge.
        edge: String,
        /// Why not.
        why: String,
    },
    /// Every edge shows the key, but not for long enough yet.
    TooShort {
        /// Which view.
        view: String,
        /// Time for which it was seen without a gap, in whole seconds.
        visible_seconds: u64,
        /// How long still, in seconds, rounded up.
        still_seconds: u64,
    },
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoView => f.write_str("nobody looks from outside"),
            Self::NotRead { view } => write!(f, "{view} has not been read since the start"),
            Self::ReadTooLongAgo { view, seconds } => write!(f, "{view} was last read {seconds} s ago"),
            Self::NoEdge { view } => write!(f, "{view} has no address to be read at"),
            Self::Missing { view, edge } => write!(f, "{view} does not show it at {edge}"),
            Self::Unreadable { view, edge, why } => write!(f, "{view} cannot be read at {edge}: {why}"),
            Self::TooShort { view, visible_seconds, still_seconds } => {
                write!(f, "{view} has shown it for {visible_seconds} s, {still_seconds} s more are needed")
            }
        }
    }
}

impl View {
    /// What is in the way of `kid` in this view, called `name`, which must have shown it for `needed`.
    pub(super) fn obstacles(
        &self,
        kid: &KeyId,
        (name, needed, patience): (&str, Duration, Duration),
    ) -> Vec<Obstacle> {
        let view = name.to_owned();
        let Some(unseen_for) = self.unseen_for else { return vec![Obstacle::NotRead { view }] };
        if unseen_for > patience {
            return vec![Obstacle::ReadTooLongAgo { view, seconds: unseen_for.as_secs() }];
        }
        if self.edges.is_empty() {
            return vec![Obstacle::NoEdge { view }];
        }
        let edges = self.edges.iter().filter_map(|(edge, sight)| match sight {
            EdgeSight::Read(seen) if seen.kids.contains(kid) => None,
            EdgeSight::Read(_) => Some(Obstacle::Missing { view: view.clone(), edge: edge.clone() }),
            EdgeSight::Unreadable(why) => {
                Some(Obstacle::Unreadable { view: view.clone(), edge: edge.clone(), why: why.clone() })
            }
        });
        let mut obstacles: Vec<Obstacle> = edges.collect();
        let visible_for = self.keys.get(kid).map(|key| key.visible_for).unwrap_or_default();
        let still = needed.saturating_sub(visible_for);
        if obstacles.is_empty() && !still.is_zero() {
            let still_seconds = still.as_secs().saturating_add(u64::from(still.subsec_nanos() > 0));
            obstacles.push(Obstacle::TooShort {
                view,
                visible_seconds: visible_for.as_secs(),
                still_seconds,
            });
        }
        obstacles
    }
}

//! Whether a key may sign by the record, and what is in the way.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::{EdgeRecord, UNBROKEN_AT_MOST, ViewRecord, VisibilityRecord};
use crate::KeyId;

/// Why a key is not visible everywhere for long enough.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Obstacle {
    /// There is no view at all.
    NoView,
    /// No record was read yet.
    NoRecord,
    /// The record has not moved since this process reads it: nobody may be observing any more.
    RecordAtRest,
    /// The record was last moved too long ago to speak of now.
    RecordTooOld {
        /// How long ago, in whole seconds, rounded up.
        seconds: u64,
    },
    /// The view has not been read since its observer started.
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
        /// How long still, in seconds.
        still_seconds: u64,
    },
    /// Every edge has shown the key for long enough, but for a part of that nobody looked, and a cache may have taken up
    /// a set without it then.
    Interrupted {
        /// Which view.
        view: String,
        /// Time for which it was seen since then, in whole seconds.
        unbroken_seconds: u64,
        /// How long still, in seconds.
        still_seconds: u64,
    },
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoView => f.write_str("nobody looks from outside"),
            Self::NoRecord => f.write_str("the visibility record has not been read yet"),
            Self::RecordAtRest => f.write_str("the visibility record has not moved since it is being read"),
            Self::RecordTooOld { seconds } => write!(f, "the visibility record last moved {seconds} s ago"),
            Self::NotRead { view } => write!(f, "{view} has not been read since the start"),
            Self::ReadTooLongAgo { view, seconds } => write!(f, "{view} was last read {seconds} s ago"),
            Self::NoEdge { view } => write!(f, "{view} has no address to be read at"),
            Self::Missing { view, edge } => write!(f, "{view} does not show it at {edge}"),
            Self::Unreadable { view, edge, why } => write!(f, "{view} cannot be read at {edge}: {why}"),
            Self::TooShort { view, visible_seconds, still_seconds } => {
                write!(f, "{view} has shown it for {visible_seconds} s, {still_seconds} s more are needed")
            }
            Self::Interrupted { view, unbroken_seconds, still_seconds } => write!(
                f,
                "{view} has shown it for {unbroken_seconds} s since it was last not looked at, {still_seconds} s more are needed"
            ),
        }
    }
}

/// What a key needs in each view, in whole seconds.
#[derive(Clone, Copy)]
struct Needed {
    visible: u64,
    unbroken: u64,
    longest_gap: u64,
}

impl VisibilityRecord {
    /// Whether every view shows a key on every edge now, and has done so without a gap for [`Self::wait`].
    ///
    /// `for_at_least` is what the relying parties need that keep a set of their own accord, whatever its headers say.
    ///
    /// # Errors
    /// Everything that is in the way, by view and edge.
    pub fn is_visible_everywhere(&self, kid: &KeyId, for_at_least: Duration) -> Result<(), Vec<Obstacle>> {
        let seconds = |time: Duration| time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0));
        let needed = Needed {
            visible: seconds(self.wait(for_at_least)),
            unbroken: seconds(self.wait(for_at_least.min(UNBROKEN_AT_MOST))),
            longest_gap: self.longest_gap().as_secs(),
        };
        let mut obstacles = Vec::new();
        if self.views().next().is_none() {
            obstacles.push(Obstacle::NoView);
        }
        for (name, view) in self.views() {
            obstacles.extend(view.obstacles(name, kid, needed));
        }
        if obstacles.is_empty() { Ok(()) } else { Err(obstacles) }
    }

    /// The wait that is kept when `asked` is asked for. A cache in front, perhaps one that we do not see, may hand out
    /// the set without the key for as long as it was served with; whoever got it there last keeps it for `asked` or for
    /// that lifetime, whichever is longer. A lifetime that was served last before all of that is over asks for nothing.
    pub fn wait(&self, asked: Duration) -> Duration {
        let matter = self.lifetimes().filter(|served| !served.is_over(asked));
        matter.map(|served| served.kept_at_most(asked)).max().unwrap_or(asked)
    }
}

impl ViewRecord {
    fn obstacles(&self, name: &str, kid: &KeyId, needed: Needed) -> Vec<Obstacle> {
        let view = name.to_owned();
        let Some(seconds) = self.read_seconds_ago else { return vec![Obstacle::NotRead { view }] };
        if seconds > needed.longest_gap {
            return vec![Obstacle::ReadTooLongAgo { view, seconds }];
        }
        if self.edges.is_empty() {
            return vec![Obstacle::NoEdge { view }];
        }
        let known = self.keys.get(kid);
        let edges = self.edges.iter().filter_map(|(edge, record)| match record {
            EdgeRecord::Read { missing, .. } if known.is_some() && !missing.contains(kid) => None,
            EdgeRecord::Read { .. } => Some(Obstacle::Missing { view: view.clone(), edge: edge.clone() }),
            EdgeRecord::Unreadable(why) => {
                Some(Obstacle::Unreadable { view: view.clone(), edge: edge.clone(), why: why.clone() })
            }
        });
        let mut obstacles: Vec<Obstacle> = edges.collect();
        if obstacles.is_empty() {
            obstacles.extend(known.and_then(|key| {
                let visible = needed.visible.saturating_sub(key.visible_seconds);
                let unbroken = needed.unbroken.saturating_sub(key.unbroken_seconds);
                match (visible, unbroken) {
                    (0, 0) => None,
                    (visible, unbroken) if visible >= unbroken => Some(Obstacle::TooShort {
                        view,
                        visible_seconds: key.visible_seconds,
                        still_seconds: visible,
                    }),
                    (_, unbroken) => Some(Obstacle::Interrupted {
                        view,
                        unbroken_seconds: key.unbroken_seconds,
                        still_seconds: unbroken,
                    }),
                }
            }));
        }
        obstacles
    }
}

//! The record as it is written down, shared between processes, and asked.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::lifetimes::{CacheLifetimes, ServedLifetime};
use super::proven::ProvenTime;
use super::view::ObservedView;
use super::{EdgeKeys, EdgeObservation, Visibility};
use crate::KeyId;

/// What one writer knows of one issuer, in whole seconds: times that let a key sign are rounded down, times that make
/// it wait are rounded up.
///
/// It has one writer. Others tell by [`VisibilityRecord::observations`] whether it goes on observing, see
/// [`super::RecordReader`]. Fields that are not known are passed over. The default is a record in which nothing was
/// ever seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VisibilityRecord {
    /// How many observations were taken since the record was begun.
    #[serde(default)]
    observations: u64,
    /// How far apart two observations of a view may be and still connect.
    #[serde(default)]
    longest_gap_seconds: u64,
    /// The views by name.
    #[serde(default)]
    views: BTreeMap<String, ViewRecord>,
    /// Lifetimes of views that are not listed any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    former_lifetimes: Vec<LifetimeRecord>,
}

/// What is known of one view.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ViewRecord {
    /// Time since the last observation; `None` before the first one of the writing process.
    #[serde(default)]
    pub read_seconds_ago: Option<u64>,
    /// What each edge said then.
    #[serde(default)]
    pub edges: BTreeMap<String, EdgeRecord>,
    /// The keys that some edge showed then, or that were seen before the writer's last restart.
    #[serde(default)]
    pub keys: BTreeMap<KeyId, KeyRecord>,
    /// The times for which answers of this view may be held, the longest first.
    #[serde(default)]
    lifetimes: Vec<LifetimeRecord>,
}

/// For how long one key was visible in one view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyRecord {
    /// Without a gap, intervals without observation left out.
    pub visible_seconds: u64,
    /// Without a gap and without such an interval.
    #[serde(default)]
    pub unbroken_seconds: u64,
}

/// What one edge said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum EdgeRecord {
    /// It was read to the end.
    Read {
        /// The keys of the view that it does not show.
        #[serde(default)]
        missing: BTreeSet<KeyId>,
        /// How many keys it shows that do not concern us.
        #[serde(default)]
        others: usize,
        /// How long the older of the two documents had been in a cache.
        #[serde(default)]
        age_seconds: Option<u64>,
        /// How long one of them may be kept.
        #[serde(default)]
        lifetime_seconds: Option<u64>,
    },
    /// It could not be read, and why.
    Unreadable(String),
}

/// A time for which an answer may be kept, and for how long it was not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LifetimeRecord {
    seconds: u64,
    #[serde(default)]
    unserved_seconds: u64,
}

impl VisibilityRecord {
    /// The name of the kind of document that the record is kept in, as its member `record`.
    pub const DOCUMENT: &'static str = "visibility";
    /// The newest form of that document that this program knows.
    pub const DOCUMENT_VERSION: u32 = 1;

    pub(super) fn of(visibility: &Visibility) -> Self {
        let gap = visibility.bounds.longest_gap;
        let views = visibility.views.iter().map(|(name, view)| (name.clone(), ViewRecord::of(view, gap)));
        Self {
            observations: visibility.observations,
            longest_gap_seconds: gap.as_secs(),
            views: views.collect(),
            former_lifetimes: visibility.former.iter().map(LifetimeRecord::from).collect(),
        }
    }

    /// Moved by its writer with every observation, so that others see that it is alive.
    pub fn observations(&self) -> u64 {
        self.observations
    }

    /// The views by name.
    pub fn views(&self) -> impl Iterator<Item = (&str, &ViewRecord)> {
        self.views.iter().map(|(name, view)| (name.as_str(), view))
    }

    /// The longest time for which an answer may still be held because of its header, of whatever view.
    pub fn longest_lifetime(&self) -> Option<Duration> {
        longest(self.lifetimes())
    }

    /// Every lifetime that may matter still, of whatever view.
    pub(super) fn lifetimes(&self) -> impl Iterator<Item = ServedLifetime> {
        let views = self.views.values().flat_map(|view| &view.lifetimes);
        views.chain(&self.former_lifetimes).map(ServedLifetime::from)
    }

    /// How far apart two observations may be and still connect.
    pub(super) fn longest_gap(&self) -> Duration {
        Duration::from_secs(self.longest_gap_seconds)
    }

    /// The same record after a time in which nobody has observed.
    #[must_use]
    pub fn after(mut self, elapsed: Duration) -> Self {
        for ago in self.views.values_mut().filter_map(|view| view.read_seconds_ago.as_mut()) {
            *ago = ago.saturating_add(rounded_up(elapsed));
        }
        self
    }
}

impl Visibility {
    /// The record as it was before a restart, for these views: of those that are not listed any more, only how long
    /// their documents may be kept is remembered. Time does not run for any key before everything was seen again.
    pub fn restore<V: Into<String>>(
        views: impl IntoIterator<Item = V>,
        longest_gap: Duration,
        record: &VisibilityRecord,
    ) -> Self {
        let mut restored = Self::new(views, longest_gap);
        restored.observations = record.observations;
        let mut former: Vec<_> = record.former_lifetimes.iter().map(ServedLifetime::from).collect();
        for (name, recorded) in &record.views {
            let lifetimes = recorded.lifetimes.iter().map(ServedLifetime::from);
            match restored.views.get_mut(name) {
                None => former.extend(lifetimes),
                Some(view) => {
                    let keys = recorded.keys.iter().filter(|(_, key)| key.visible_seconds > 0);
                    let keys = keys.map(|(kid, key)| (kid.clone(), Duration::from_secs(key.visible_seconds)));
                    **view = ObservedView::restored(keys, CacheLifetimes::collect(lifetimes));
                }
            }
        }
        restored.former = CacheLifetimes::collect(former);
        restored
    }
}

impl ViewRecord {
    fn of(view: &ObservedView, longest_gap: Duration) -> Self {
        let known: BTreeSet<&KeyId> = view.keys().map(|(kid, _)| kid).collect();
        let edges = view.edges(longest_gap);
        Self {
            read_seconds_ago: view.unread_for().map(rounded_up),
            edges: edges
                .iter()
                .map(|(name, edge)| ((*name).to_owned(), EdgeRecord::of(edge, &known)))
                .collect(),
            keys: view.keys().map(|(kid, time)| (kid.clone(), KeyRecord::from(time))).collect(),
            lifetimes: view.lifetimes().iter().map(LifetimeRecord::from).collect(),
        }
    }

    /// Whether every edge showed the key when they were read last.
    pub fn shows(&self, kid: &KeyId) -> bool {
        let shows =
            |edge: &EdgeRecord| matches!(edge, EdgeRecord::Read { missing, .. } if !missing.contains(kid));
        self.keys.contains_key(kid) && !self.edges.is_empty() && self.edges.values().all(shows)
    }

    /// How many edges could be read last.
    pub fn edges_read(&self) -> usize {
        self.edges.values().filter(|edge| matches!(edge, EdgeRecord::Read { .. })).count()
    }

    /// The longest time for which an answer of this view may still be held because of its header.
    pub fn longest_lifetime(&self) -> Option<Duration> {
        longest(self.lifetimes.iter().map(ServedLifetime::from))
    }
}

impl EdgeRecord {
    fn of(edge: &EdgeObservation, known: &BTreeSet<&KeyId>) -> Self {
        match edge {
            EdgeObservation::Unreadable(why) => Self::Unreadable(why.clone()),
            EdgeObservation::Read(EdgeKeys { kids, others, age, lifetime }) => Self::Read {
                missing: known.iter().filter(|kid| !kids.contains(**kid)).map(|kid| (*kid).clone()).collect(),
                others: *others,
                age_seconds: age.map(|age| age.as_secs()),
                lifetime_seconds: lifetime.map(rounded_up),
            },
        }
    }
}

impl From<&ProvenTime> for KeyRecord {
    fn from(time: &ProvenTime) -> Self {
        Self { visible_seconds: time.total.as_secs(), unbroken_seconds: time.unbroken.as_secs() }
    }
}

impl From<&ServedLifetime> for LifetimeRecord {
    fn from(served: &ServedLifetime) -> Self {
        Self { seconds: rounded_up(served.lifetime), unserved_seconds: served.unserved.total.as_secs() }
    }
}

impl From<&LifetimeRecord> for ServedLifetime {
    fn from(record: &LifetimeRecord) -> Self {
        Self {
            lifetime: Duration::from_secs(record.seconds),
            unserved: ProvenTime::before_restart(Duration::from_secs(record.unserved_seconds)),
        }
    }
}

fn longest(lifetimes: impl Iterator<Item = ServedLifetime>) -> Option<Duration> {
    lifetimes.filter(|served| !served.is_over(Duration::ZERO)).map(|served| served.lifetime).max()
}

/// What makes others wait is never rounded down.
fn rounded_up(duration: Duration) -> u64 {
    duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0))
}

//! One view in the hands of the record's writer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::lifetimes::CacheLifetimes;
use super::proven::{Interval, ProvenTime};
use super::{Bounds, Change, EdgeKeys, EdgeObservation};
use crate::KeyId;

/// What is known of one view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ObservedView {
    /// Boxed: a node of the map has room for eleven, and most issuers have one or two.
    keys: BTreeMap<KeyId, Box<ProvenTime>>,
    /// By name.
    edges: Vec<(String, EdgeObservation)>,
    origins: BTreeMap<String, Origin>,
    lifetimes: CacheLifetimes,
    /// Time since the end of the last observation; `None` before the first one of this process.
    unread_for: Option<Duration>,
    /// Time since the end of the last one in which every edge was read.
    incomplete_for: Option<Duration>,
}

/// What stands behind the view, as its writer read it last.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Origin {
    kids: BTreeSet<KeyId>,
    unread_for: Duration,
}

impl ObservedView {
    /// What was known before a restart.
    pub fn restored(keys: impl IntoIterator<Item = (KeyId, Duration)>, lifetimes: CacheLifetimes) -> Self {
        let keys = keys.into_iter().map(|(kid, total)| (kid, Box::new(ProvenTime::before_restart(total))));
        Self { keys: keys.collect(), lifetimes, ..Self::default() }
    }

    pub fn keys(&self) -> impl Iterator<Item = (&KeyId, &ProvenTime)> {
        self.keys.iter().map(|(kid, time)| (kid, time.as_ref()))
    }

    /// What each edge said last, the origins that are not too old among them.
    pub fn edges(&self, longest_gap: Duration) -> BTreeMap<&str, EdgeObservation> {
        let origins = self.origins.iter().filter(|(_, origin)| origin.unread_for <= longest_gap);
        let origins = origins.map(|(name, origin)| {
            let keys = EdgeKeys { kids: origin.kids.clone(), ..EdgeKeys::default() };
            (name.as_str(), EdgeObservation::Read(keys))
        });
        self.edges.iter().map(|(name, edge)| (name.as_str(), edge.clone())).chain(origins).collect()
    }

    pub fn lifetimes(&self) -> &CacheLifetimes {
        &self.lifetimes
    }

    pub fn limit_lifetimes(&mut self, limit: Duration) {
        self.lifetimes.limit_to(limit);
    }

    pub fn unread_for(&self) -> Option<Duration> {
        self.unread_for
    }

    pub fn elapse(&mut self, elapsed: Duration) {
        for time in [&mut self.unread_for, &mut self.incomplete_for].into_iter().flatten() {
            *time = time.saturating_add(elapsed);
        }
        for origin in self.origins.values_mut() {
            origin.unread_for = origin.unread_for.saturating_add(elapsed);
        }
    }

    pub fn observe(
        &mut self,
        edges: BTreeMap<String, EdgeObservation>,
        took: Duration,
        bounds: Bounds,
    ) -> Vec<Change> {
        let Bounds { longest_gap, longest_lifetime } = bounds;
        self.edges = edges.into_iter().collect();
        self.unread_for = Some(Duration::ZERO);
        self.origins.retain(|_, origin| origin.unread_for <= longest_gap);
        let mut changes = Vec::new();
        for (edge, keys) in read(&self.edges) {
            changes.extend(gaps(&mut self.keys, edge, &keys.kids));
        }
        let shown: BTreeSet<&KeyId> = read(&self.edges).flat_map(|(_, keys)| &keys.kids).collect();
        // A key that nobody shows any more is as one that nobody ever showed.
        self.keys.retain(|kid, time| !time.is_nothing() || shown.contains(kid));
        for kid in shown {
            self.keys.entry(kid.clone()).or_default();
        }
        let is_complete = !self.edges.is_empty() && read(&self.edges).count() == self.edges.len();
        let apart = self.incomplete_for.filter(|apart| *apart <= longest_gap);
        let complete = is_complete.then_some(Interval { apart, took });
        let served = read(&self.edges).filter_map(|(_, keys)| keys.lifetime).max();
        self.lifetimes.observe(served.map(|served| served.min(longest_lifetime)), complete);
        if let Some(interval) = complete {
            self.incomplete_for = Some(Duration::ZERO);
            changes.extend(self.confirm(interval));
        }
        changes
    }

    /// Lets the time of every key run that all edges and origins show.
    fn confirm(&mut self, interval: Interval) -> Vec<Change> {
        let (edges, origins) = (&self.edges, &self.origins);
        let everywhere = |kid: &KeyId| {
            read(edges).all(|(_, keys)| keys.kids.contains(kid))
                && origins.values().all(|origin| origin.kids.contains(kid))
        };
        let shown = self.keys.iter_mut().filter(|(kid, _)| everywhere(kid));
        let appeared = shown.filter_map(|(kid, time)| time.confirm(interval).then(|| kid.clone()));
        appeared.map(|kid| Change::Appeared { kid }).collect()
    }

    pub fn observe_origin(&mut self, name: String, kids: BTreeSet<KeyId>) -> Vec<Change> {
        let changes = gaps(&mut self.keys, &name, &kids);
        self.origins.insert(name, Origin { kids, unread_for: Duration::ZERO });
        changes
    }

    pub fn keep_only(&mut self, keep: impl Fn(&KeyId) -> bool) {
        self.keys.retain(|kid, _| keep(kid));
    }
}

/// Takes their time from the keys that an edge does not show.
fn gaps(keys: &mut BTreeMap<KeyId, Box<ProvenTime>>, edge: &str, shown: &BTreeSet<KeyId>) -> Vec<Change> {
    let mut changes = Vec::new();
    for (kid, time) in keys.iter_mut().filter(|(kid, time)| !time.is_nothing() && !shown.contains(*kid)) {
        changes.push(Change::Gap { kid: kid.clone(), edge: edge.to_owned(), after: time.total });
        **time = ProvenTime::default();
    }
    changes
}

pub(super) fn read(edges: &[(String, EdgeObservation)]) -> impl Iterator<Item = (&String, &EdgeKeys)> {
    edges.iter().filter_map(|(name, edge)| match edge {
        EdgeObservation::Read(keys) => Some((name, keys)),
        EdgeObservation::Unreadable(_) => None,
    })
}

//! What is seen from outside, and what changed on targets behind our back.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Mutex, PoisonError};

use chancery_core::drift::DriftKind;
use chancery_core::visibility::ViewRecord;
use chancery_core::{IssuerUrl, KeyId};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::labels::{DriftLabels, TargetLabels, ViewLabels, VisibleLabels};

/// Keys of a view that nobody wants there and that have a series all the same: enough to find an old key, and a bound to
/// what a stranger's document costs.
const MOST_UNWANTED: usize = 16;

/// The gauges of the visibility record, and the counter of drift.
#[derive(Default)]
pub struct VisibilityMetrics {
    visible: Family<VisibleLabels, Gauge>,
    kids: Mutex<BTreeMap<ViewLabels, BTreeSet<String>>>,
    longest_max_age: Family<ViewLabels, Gauge>,
    edges: Family<ViewLabels, Gauge>,
    edges_readable: Family<ViewLabels, Gauge>,
    drift: Family<DriftLabels, Counter>,
}

impl VisibilityMetrics {
    /// A view was read: those of its keys that are `wanted`, also when nobody shows them, a few of the others, and its
    /// edges.
    pub fn observed<'a>(
        &self,
        labels: &ViewLabels,
        view: &ViewRecord,
        wanted: impl Iterator<Item = &'a KeyId>,
    ) {
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let seconds = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX);
        self.edges.get_or_create(labels).set(count(view.edges.len()));
        self.edges_readable.get_or_create(labels).set(count(view.edges_read()));
        let longest = view.longest_lifetime().unwrap_or_default();
        self.longest_max_age.get_or_create(labels).set(seconds(longest.as_secs()));
        let wanted: BTreeSet<&KeyId> = wanted.collect();
        let keys = || view.keys.iter().map(|(kid, key)| (kid, key.visible_seconds));
        // Whoever serves the documents chooses what else is in them.
        let strange = keys().filter(|(kid, _)| !wanted.contains(kid)).take(MOST_UNWANTED);
        let known = keys().filter(|(kid, _)| wanted.contains(kid));
        let missing = wanted.iter().map(|kid| (*kid, 0));
        let times: BTreeMap<&KeyId, u64> = missing.chain(known).chain(strange).collect();
        for (kid, visible_seconds) in &times {
            let gauge = self.visible.get_or_create_owned(&VisibleLabels::new(labels, kid.as_str()));
            gauge.set(seconds(*visible_seconds));
        }
        let present: BTreeSet<String> = times.into_keys().map(ToString::to_string).collect();
        let mut known = self.kids.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.insert(labels.clone(), present.clone()).unwrap_or_default();
        for gone in before.difference(&present) {
            self.visible.remove(&VisibleLabels::new(labels, gone));
        }
    }

    /// Something on a target changed, and not by us.
    pub fn drifted(&self, target: &TargetLabels, kind: &DriftKind) {
        self.drift.get_or_create(&DriftLabels::new(target, kind.name())).inc();
    }

    /// Drops what is counted of the views of an issuer that has gone.
    pub(super) fn forget_views(&self, issuer: &IssuerUrl) {
        let mut known = self.kids.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|view, kids| {
            if !view.is_of(issuer) {
                return true;
            }
            kids.iter().for_each(|kid| _ = self.visible.remove(&VisibleLabels::new(view, kid)));
            for family in [&self.longest_max_age, &self.edges, &self.edges_readable] {
                family.remove(view);
            }
            false
        });
    }

    /// Drops what is counted of the drift of a target that has gone.
    pub(super) fn forget_target(&self, target: &TargetLabels) {
        for kind in DriftKind::NAMES {
            self.drift.remove(&DriftLabels::new(target, kind));
        }
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "key_visible",
            "Time for which every edge of a view has shown a key without a gap",
            Unit::Seconds,
            self.visible.clone(),
        );
        registry.register_with_unit(
            "longest_max_age",
            "The longest time for which a cache may still hold what a view has served",
            Unit::Seconds,
            self.longest_max_age.clone(),
        );
        registry.register("edges", "Edges of a view at the last look", self.edges.clone());
        let readable = self.edges_readable.clone();
        registry.register("edges_readable", "Edges of a view that could be read at the last look", readable);
        registry.register("drift", "Changes on a target that we did not make", self.drift.clone());
    }
}

impl fmt::Debug for VisibilityMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VisibilityMetrics").finish_non_exhaustive()
    }
}

//! What is seen from outside, and what changed on targets behind our back.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use chancery_core::KeyId;
use chancery_core::drift::DriftKind;
use chancery_core::visibility::View;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::labels::{DriftLabels, TargetLabels, ViewLabels, VisibleLabels};

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
    /// A view was read: its keys, all of them, those of `wanted` also when nobody shows them, and its edges.
    pub fn seen<'a>(&self, labels: &ViewLabels, view: &View, wanted: impl Iterator<Item = &'a KeyId>) {
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let seconds = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX);
        self.edges.get_or_create(labels).set(count(view.edges().count()));
        self.edges_readable.get_or_create(labels).set(count(view.edges_read()));
        if let Some(longest) = view.longest_max_age() {
            self.longest_max_age.get_or_create(labels).set(seconds(longest.as_secs()));
        }
        let wanted = wanted.map(|kid| (kid, Duration::ZERO));
        let times: BTreeMap<&KeyId, Duration> = wanted.chain(view.keys()).collect();
        for (kid, visible_for) in &times {
            let gauge = self.visible.get_or_create_owned(&VisibleLabels::new(labels, kid.as_str()));
            gauge.set(seconds(visible_for.as_secs()));
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

    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "key_visible",
            "Time for which every edge of a view has shown a key without a gap",
            Unit::Seconds,
            self.visible.clone(),
        );
        registry.register_with_unit(
            "longest_max_age",
            "The longest time for which a document that was ever served may be kept",
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

//! What is counted of `Issuer` objects.

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::labels::ObjectLabels;

/// The metrics of `Issuer` objects.
#[derive(Debug, Default)]
pub struct ObjectMetrics {
    objects: Family<ObjectLabels, Gauge>,
}

impl ObjectMetrics {
    /// So many objects are in this state.
    pub fn are(&self, state: &'static str, count: usize) {
        self.objects.get_or_create(&ObjectLabels { state }).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("issuer_objects", "Issuer objects by state", self.objects.clone());
    }
}

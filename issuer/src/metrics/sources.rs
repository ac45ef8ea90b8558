//! What is counted of key sources.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use chancery_core::IssuerUrl;
use jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::labels::SourceLabels;

/// The metrics of the key sources.
#[derive(Debug, Default)]
pub struct SourceMetrics {
    last_success: Family<SourceLabels, Gauge>,
    failures: Family<SourceLabels, Counter>,
    unannounced: Family<SourceLabels, Gauge>,
    /// Sources come and go, as replicas do.
    known: Mutex<BTreeSet<SourceLabels>>,
}

impl SourceMetrics {
    /// A source was read completely at `now`, or is known to be as it was read before.
    pub fn read(&self, source: &SourceLabels, now: Timestamp) {
        self.know(source);
        self.last_success.get_or_create(source).set(now.as_second());
    }

    /// When a source was last read completely.
    pub fn last_success(&self, source: &SourceLabels) -> Option<Timestamp> {
        Timestamp::from_second(self.last_success.get(source)?.get()).ok()
    }

    /// A reading of a source failed.
    pub fn failed(&self, source: &SourceLabels) {
        self.know(source);
        self.failures.get_or_create(source).inc();
    }

    /// Whether a source signs with a key that not every relying party can have.
    #[cfg(feature = "kube")]
    pub fn unannounced(&self, source: &SourceLabels, is: bool) {
        self.know(source);
        self.unannounced.get_or_create(source).set(is.into());
    }

    /// There is no such source any more, as a replica that left its control plane.
    pub fn gone(&self, source: &SourceLabels) {
        self.known().remove(source);
        self.last_success.remove(source);
        self.failures.remove(source);
        self.unannounced.remove(source);
    }

    /// The issuer of these sources has gone.
    pub(super) fn forget(&self, issuer: &IssuerUrl) {
        let gone: Vec<_> = self.known().iter().filter(|source| source.is_of(issuer)).cloned().collect();
        gone.iter().for_each(|source| self.gone(source));
    }

    fn know(&self, source: &SourceLabels) {
        let mut known = self.known();
        if !known.contains(source) {
            known.insert(source.clone());
        }
    }

    fn known(&self) -> MutexGuard<'_, BTreeSet<SourceLabels>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "source_last_success_timestamp",
            "When a key source was last read completely",
            Unit::Seconds,
            self.last_success.clone(),
        );
        let failures = self.failures.clone();
        registry.register("source_failures", "Readings of a key source that failed", failures);
        let help = "Whether a kube-apiserver signs with a key that not every relying party can have";
        registry.register("source_unannounced_activation", help, self.unannounced.clone());
    }
}

//! What is counted of relying parties that are given the keys themselves.

use chancery_core::IssuerUrl;
use jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::PublishResult;
use super::labels::{SinkLabels, UploadLabels};

/// The metrics of the sinks.
#[derive(Debug, Default)]
pub struct SinkMetrics {
    uploads: Family<UploadLabels, Counter>,
    last_upload: Family<SinkLabels, Gauge>,
    up_to_date: Family<SinkLabels, Gauge>,
    foreign_keys: Family<SinkLabels, Gauge>,
}

impl SinkMetrics {
    /// An attempt to bring a sink up to date ended at `now`.
    pub fn uploaded(&self, sink: &SinkLabels, result: PublishResult, now: Timestamp) {
        self.uploads.get_or_create(&UploadLabels::new(sink, result)).inc();
        self.up_to_date.get_or_create(sink).set(result.is_up_to_date().into());
        if result.is_up_to_date() {
            self.last_upload.get_or_create(sink).set(now.as_second());
        }
    }

    /// When a sink was last written or found up to date.
    pub fn last_upload(&self, sink: &SinkLabels) -> Option<Timestamp> {
        Timestamp::from_second(self.last_upload.get(sink)?.get()).ok()
    }

    /// How many keys of a sink are not ours.
    pub fn foreign_keys_are(&self, sink: &SinkLabels, count: usize) {
        self.foreign_keys.get_or_create(sink).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Drops what is counted of these sinks of an issuer that has gone.
    pub(super) fn forget(&self, issuer: &IssuerUrl, sinks: &[String]) {
        for sink in sinks {
            let labels = SinkLabels::new(issuer, sink);
            for result in PublishResult::ALL {
                self.uploads.remove(&UploadLabels::new(&labels, result));
            }
            for family in [&self.last_upload, &self.up_to_date, &self.foreign_keys] {
                family.remove(&labels);
            }
        }
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("uploads", "Attempts to bring a sink up to date", self.uploads.clone());
        registry.register_with_unit(
            "last_upload_timestamp",
            "When a sink was last written or found up to date",
            Unit::Seconds,
            self.last_upload.clone(),
        );
        let up_to_date = self.up_to_date.clone();
        registry.register(
            "sink_up_to_date",
            "Whether the last attempt left the sink as it should be",
            up_to_date,
        );
        let foreign = self.foreign_keys.clone();
        registry.register("sink_foreign_keys", "Keys of a sink that are not ours", foreign);
    }
}

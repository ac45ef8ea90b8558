//! What the issuer counts, in one value that is handed to whoever has something to say. There are no globals.
//!
//! | metric | labels | type | what it says |
//! |---|---|---|---|
//! | `chancery_build_info` | `version` | info | which build runs |
//! | `chancery_leader` | | gauge | 1 on the replica that publishes, 0 on the others |
//! | `chancery_keys` | `issuer`, `state` | gauge | keys that are `live` (a source shows them), `retained` (vanished, still published), `withdrawn` (tombstoned by us) |
//! | `chancery_key_age_seconds` | `issuer`, `kid` | gauge | time since this replica first saw a published key |
//! | `chancery_source_last_success_timestamp_seconds` | `issuer`, `source` | gauge | when a key source was last read completely, also without a change (Unix time) |
//! | `chancery_source_failures_total` | `issuer`, `source` | counter | readings of a key source that failed and changed nothing |
//! | `chancery_publish_total` | `issuer`, `target`, `result` | counter | attempts: `written`, `unchanged`, `raced`, `blocked`, `failed` |
//! | `chancery_last_publish_timestamp_seconds` | `issuer`, `target` | gauge | when a target was last written or found up to date (Unix time) |
//! | `chancery_target_up_to_date` | `issuer`, `target` | gauge | 1 if the last attempt left the target as it should be, else 0 |
//! | `chancery_foreign_keys` | `issuer`, `target` | gauge | keys on the target that are not ours; they stay |
//! | `chancery_uploads_total` | `issuer`, `sink`, `result` | counter | rounds of a sink: `written`, `unchanged`, `raced`, `blocked`, `failed` |
//! | `chancery_last_upload_timestamp_seconds` | `issuer`, `sink` | gauge | when a sink was last written or found up to date (Unix time) |
//! | `chancery_sink_up_to_date` | `issuer`, `sink` | gauge | 1 if the last round left the sink as it should be, else 0 |
//! | `chancery_sink_foreign_keys` | `issuer`, `sink` | gauge | keys of the sink that are not ours; they stay |
//! | `chancery_last_verify_timestamp_seconds` | `issuer` | gauge | when an anonymous read of the public URL was last completed (Unix time) |
//! | `chancery_verify_findings` | `issuer`, `severity` | gauge | findings of that read: `note`, `warning`, `error` |
//! | `chancery_key_visible_seconds` | `issuer`, `view`, `kid` | gauge | time for which every edge of a view has shown a key without a gap |
//! | `chancery_longest_max_age_seconds` | `issuer`, `view` | gauge | the longest time for which a document that was ever served there may be kept |
//! | `chancery_edges` | `issuer`, `view` | gauge | edges of a view (addresses, plain and past caches) at the last look |
//! | `chancery_edges_readable` | `issuer`, `view` | gauge | how many of them could be read |
//! | `chancery_drift_total` | `issuer`, `target`, `kind` | counter | changes on a target that we did not make: `Changed`, `Vanished`, `Oversize`, `MarkerReplaced`, `RolledBack`, `ForeignKeys` |
//! | `chancery_http_requests_total` | `code` | counter | answers of the public server by status code |
//! | `chancery_certificate_reload_total` | `result` | counter | changed serving certificates: `replaced`, `refused` (the old pair stays) |
//! | `chancery_issuer_objects` | `state` | gauge | `Issuer` objects: `running`, `refused` (an earlier spec runs, or nothing), `collided` (another has what they need) |
//! | `chancery_certificate_expiry_timestamp_seconds` | certificate | gauge | when the serving certificate in use expires (Unix time) |

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

use chancery_core::lint::Severity;
use chancery_core::{IssuerUrl, KeyId};
use jiff::Timestamp;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

mod labels;
mod objects;
mod page;
mod read;
mod requests;
mod sinks;
mod sources;
mod visibility;

pub use labels::{
    CertificateReload, KeyState, PublishResult, SinkLabels, SourceLabels, TargetLabels, ViewLabels,
};
pub use objects::ObjectMetrics;
pub use page::MetricsPage;
pub use requests::RequestCounters;
pub use sinks::SinkMetrics;
pub use sources::SourceMetrics;
pub use visibility::VisibilityMetrics;

use labels::{
    CertificateLabels, IssuerLabels, KeyLabels, PublishLabels, ReloadLabels, SeverityLabels, StateLabels,
    VersionLabels,
};

/// The media type of [`Metrics::render`] (OpenMetrics 1.0).
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A gauge of seconds with fractions.
type Seconds = Gauge<f64, AtomicU64>;

/// Every metric of the process. Share it behind an `Arc`.
pub struct Metrics {
    registry: Registry,
    leader: Gauge,
    keys: Family<StateLabels, Gauge>,
    key_age: Family<KeyLabels, Seconds>,
    first_seen: Mutex<BTreeMap<KeyLabels, FirstSeen>>,
    sources: SourceMetrics,
    publish: Family<PublishLabels, Counter>,
    last_publish: Family<TargetLabels, Gauge>,
    up_to_date: Family<TargetLabels, Gauge>,
    foreign_keys: Family<TargetLabels, Gauge>,
    sinks: SinkMetrics,
    last_verify: Family<IssuerLabels, Gauge>,
    verify_findings: Family<SeverityLabels, Gauge>,
    visibility: VisibilityMetrics,
    objects: ObjectMetrics,
    requests: RequestCounters,
    certificate_reload: Family<ReloadLabels, Counter>,
    certificate_expiry: Family<CertificateLabels, Gauge>,
}

/// When a published key was first seen, and the gauge of its age: found once, so that a rendering holds the lock no longer
/// than it takes to set them.
struct FirstSeen {
    since: Timestamp,
    age: Seconds,
}

/// The names by which metrics tell the parts of an issuer apart.
#[derive(Clone, Debug, Default)]
pub struct IssuerSeries {
    /// Its targets.
    pub targets: Vec<String>,
    /// Its sinks.
    pub sinks: Vec<String>,
}

impl Metrics {
    /// All metrics at nothing, for a build called `version`.
    pub fn new(version: &str) -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("chancery"),
            leader: Gauge::default(),
            keys: Family::default(),
            key_age: Family::default(),
            first_seen: Mutex::default(),
            sources: SourceMetrics::default(),
            publish: Family::default(),
            last_publish: Family::default(),
            up_to_date: Family::default(),
            foreign_keys: Family::default(),
            sinks: SinkMetrics::default(),
            last_verify: Family::default(),
            verify_findings: Family::default(),
            visibility: VisibilityMetrics::default(),
            objects: ObjectMetrics::default(),
            requests: RequestCounters::default(),
            certificate_reload: Family::default(),
            certificate_expiry: Family::default(),
        };
        let build = Info::new(VersionLabels { version: version.to_owned() });
        metrics.registry.register("build", "Which build runs", build);
        metrics.register_keys();
        metrics.sources.register(&mut metrics.registry);
        metrics.register_targets();
        metrics.sinks.register(&mut metrics.registry);
        metrics.visibility.register(&mut metrics.registry);
        metrics.objects.register(&mut metrics.registry);
        metrics.register_serving();
        metrics
    }

    /// Whether this replica publishes.
    pub fn leads(&self, leader: bool) {
        self.leader.set(leader.into());
    }

    /// The keys of an issuer, all of them: keys that are not named any more lose their age.
    ///
    /// `seen` gives for each published key its state and when this replica first saw it.
    pub fn keys_are<'a>(
        &self,
        issuer: &IssuerUrl,
        seen: impl IntoIterator<Item = (&'a KeyId, KeyState, Timestamp)>,
    ) {
        let mut counts: BTreeMap<KeyState, i64> = KeyState::ALL.map(|state| (state, 0)).into();
        let mut present = BTreeSet::new();
        let mut first_seen = self.first_seen.lock().unwrap_or_else(PoisonError::into_inner);
        for (key_id, state, since) in seen {
            *counts.entry(state).or_default() += 1;
            if state != KeyState::Withdrawn {
                let labels = KeyLabels { issuer: issuer.to_string(), kid: key_id.to_string() };
                present.insert(labels.clone());
                let age = self.key_age.get_or_create_owned(&labels);
                first_seen.insert(labels, FirstSeen { since, age });
            }
        }
        first_seen.retain(|labels, _| {
            let stays = labels.issuer != issuer.as_str() || present.contains(labels);
            if !stays {
                self.key_age.remove(labels);
            }
            stays
        });
        for (state, count) in counts {
            let labels = StateLabels { issuer: issuer.to_string(), state };
            self.keys.get_or_create(&labels).set(count);
        }
    }

    /// What is counted of key sources.
    pub fn sources(&self) -> &SourceMetrics {
        &self.sources
    }

    /// An attempt to publish ended at `now`.
    pub fn published(&self, target: &TargetLabels, result: PublishResult, now: Timestamp) {
        self.publish.get_or_create(&PublishLabels::new(target, result)).inc();
        self.up_to_date.get_or_create(target).set(result.is_up_to_date().into());
        if result.is_up_to_date() {
            self.last_publish.get_or_create(target).set(now.as_second());
        }
    }

    /// When a target was last written or found up to date by this replica.
    pub fn last_published(&self, target: &TargetLabels) -> Option<Timestamp> {
        let seconds = self.last_publish.get(target)?.get();
        Timestamp::from_second(seconds).ok()
    }

    /// What is counted of `Issuer` objects.
    pub fn objects(&self) -> &ObjectMetrics {
        &self.objects
    }

    /// How many keys on a target are not ours.
    pub fn foreign_keys_are(&self, target: &TargetLabels, count: usize) {
        self.foreign_keys.get_or_create(target).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// An anonymous read of the public URL was completed at `now` with these findings.
    pub fn verified(&self, issuer: &IssuerUrl, findings: impl IntoIterator<Item = Severity>, now: Timestamp) {
        let mut counts = [(Severity::Note, 0), (Severity::Warning, 0), (Severity::Error, 0)];
        for finding in findings {
            counts.iter_mut().filter(|(severity, _)| *severity == finding).for_each(|(_, count)| *count += 1);
        }
        for (severity, count) in counts {
            let labels = SeverityLabels { issuer: issuer.to_string(), severity: severity.as_str() };
            self.verify_findings.get_or_create(&labels).set(count);
        }
        let labels = IssuerLabels { issuer: issuer.to_string() };
        self.last_verify.get_or_create(&labels).set(now.as_second());
    }

    /// Drops what is counted of an issuer that has gone, whose targets and sinks are called so.
    pub fn forget(&self, issuer: &IssuerUrl, series: &IssuerSeries) {
        self.keys_are(issuer, []);
        for state in KeyState::ALL {
            self.keys.remove(&StateLabels { issuer: issuer.to_string(), state });
        }
        self.sources.forget(issuer);
        for target in &series.targets {
            let labels = TargetLabels::new(issuer, target);
            for result in PublishResult::ALL {
                self.publish.remove(&PublishLabels::new(&labels, result));
            }
            for family in [&self.last_publish, &self.up_to_date, &self.foreign_keys] {
                family.remove(&labels);
            }
            self.visibility.forget_target(&labels);
        }
        self.sinks.forget(issuer, &series.sinks);
        self.visibility.forget_views(issuer);
        for severity in [Severity::Note, Severity::Warning, Severity::Error] {
            let severity = severity.as_str();
            self.verify_findings.remove(&SeverityLabels { issuer: issuer.to_string(), severity });
        }
        self.last_verify.remove(&IssuerLabels { issuer: issuer.to_string() });
    }

    /// What is counted of sinks.
    pub fn sinks(&self) -> &SinkMetrics {
        &self.sinks
    }

    /// What is seen from outside, and what changed on targets behind our back.
    pub fn visibility(&self) -> &VisibilityMetrics {
        &self.visibility
    }

    /// The counters of the public server.
    pub fn requests(&self) -> &RequestCounters {
        &self.requests
    }

    /// The serving certificate's files changed.
    pub fn certificate_reloaded(&self, result: CertificateReload) {
        self.certificate_reload.get_or_create(&ReloadLabels { result }).inc();
    }

    /// When the serving certificate of a file, which is in use, expires.
    pub fn certificate_expires(&self, certificate: &str, at: Timestamp) {
        let labels = CertificateLabels { certificate: certificate.to_owned() };
        self.certificate_expiry.get_or_create(&labels).set(at.as_second());
    }

    /// Everything as OpenMetrics text, the ages as of `now`.
    ///
    /// # Errors
    /// None in practice: writing to a `String` does not fail.
    pub fn render(&self, now: Timestamp) -> Result<String, fmt::Error> {
        {
            let first_seen = self.first_seen.lock().unwrap_or_else(PoisonError::into_inner);
            for key in first_seen.values() {
                key.age.set(now.duration_since(key.since).as_secs_f64().max(0.0));
            }
        }
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }

    fn register_keys(&mut self) {
        let registry = &mut self.registry;
        registry.register("leader", "Whether this replica publishes", self.leader.clone());
        registry.register("keys", "Keys by state", self.keys.clone());
        registry.register_with_unit(
            "key_age",
            "Time since this replica first saw a published key",
            Unit::Seconds,
            self.key_age.clone(),
        );
    }

    fn register_targets(&mut self) {
        let registry = &mut self.registry;
        registry.register("publish", "Attempts to publish to a target", self.publish.clone());
        registry.register_with_unit(
            "last_publish_timestamp",
            "When a target was last written or found up to date",
            Unit::Seconds,
            self.last_publish.clone(),
        );
        let up_to_date = self.up_to_date.clone();
        registry.register(
            "target_up_to_date",
            "Whether the last attempt left the target as it should be",
            up_to_date,
        );
        registry.register("foreign_keys", "Keys on a target that are not ours", self.foreign_keys.clone());
        registry.register_with_unit(
            "last_verify_timestamp",
            "When an anonymous read of the public URL was last completed",
            Unit::Seconds,
            self.last_verify.clone(),
        );
        let findings = self.verify_findings.clone();
        registry.register("verify_findings", "Findings of the last anonymous read", findings);
    }

    fn register_serving(&mut self) {
        let registry = &mut self.registry;
        registry.register("http_requests", "Answers of the public server", self.requests.family());
        let reload = self.certificate_reload.clone();
        registry.register("certificate_reload", "Changes of the serving certificate's files", reload);
        registry.register_with_unit(
            "certificate_expiry_timestamp",
            "When the serving certificate in use expires",
            Unit::Seconds,
            self.certificate_expiry.clone(),
        );
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "metrics/tests.rs"]
mod tests;

//! What the webhook counts.
//!
//! | metric | labels | type | what it says |
//! |---|---|---|---|
//! | `chancery_webhook_admissions_total` | `outcome` | counter | pods: `mutated`, `unchanged`, `refused`, `unknown` (let in although its ServiceAccount could not be read), `undecided`; requests that are no question: `invalid` |
//! | `chancery_webhook_clouds_total` | `cloud` | counter | pods that were given something of a cloud |
//! | `chancery_webhook_refusals_total` | `cloud`, `reason` | counter | why pods were refused |
//! | `chancery_webhook_warnings_total` | | counter | warnings that were sent back |
//! | `chancery_webhook_lookups_total` | `result` | counter | ServiceAccounts that the cache did not have: `found`, `missing`, `failed` |
//! | `chancery_webhook_service_accounts` | | gauge | ServiceAccounts in the cache |
//! | `chancery_webhook_registration` | `state` | gauge | 1 for how our registration stands: `good`, `wrong` (kube-apiserver would not believe our certificate), `missing`, `unreadable`, `ignored` |
//! | `chancery_webhook_certificate_reloads_total` | `result` | counter | changed serving certificates: `replaced`, `refused` (the old pair stays) |
//! | `chancery_webhook_certificate_expiry_timestamp_seconds` | | gauge | when the serving certificate in use expires (Unix time) |

use std::fmt;
use std::path::Path;

use chancery_cluster::listener::{CertificateObserver, CertificateStanding, Reload};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::cloud::{Cloud, Refusal};

/// The media type of [`Metrics::render`] (OpenMetrics 1.0).
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How a registration may stand.
const REGISTERED: [&str; 5] = ["good", "ignored", "missing", "unreadable", "wrong"];

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Something was added.
    Mutated,
    /// Nothing was asked for, or nothing was missing.
    Unchanged,
    /// It was kept out.
    Refused,
    /// It was let in without knowing whether its ServiceAccount asks for something.
    Unknown,
    /// It asks by itself, and its ServiceAccount could not be read.
    Undecided,
    /// It was no question of kube-apiserver's.
    Invalid,
}

impl Outcome {
    const ALL: [Self; 6] =
        [Self::Mutated, Self::Unchanged, Self::Refused, Self::Unknown, Self::Undecided, Self::Invalid];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Mutated => "mutated",
            Self::Unchanged => "unchanged",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
            Self::Undecided => "undecided",
            Self::Invalid => "invalid",
        }
    }
}

/// What a look at the API server came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The ServiceAccount is there.
    Found,
    /// It is not.
    Missing,
    /// It could not be asked for.
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CloudLabels {
    cloud: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabels {
    cloud: &'static str,
    reason: &'static str,
}

/// Every metric of the process. Share it behind an `Arc`.
#[derive(Debug, Default)]
pub struct Metrics {
    registry: Registry,
    admissions: Family<OutcomeLabels, Counter>,
    clouds: Family<CloudLabels, Counter>,
    refusals: Family<RefusalLabels, Counter>,
    warnings: Counter,
    lookups: Family<ResultLabels, Counter>,
    accounts: Gauge,
    reloads: Family<ResultLabels, Counter>,
    expiry: Gauge,
    registration: Family<StateLabels, Gauge>,
}

impl Metrics {
    /// All of them at nothing.
    pub fn new() -> Self {
        let mut metrics = Self { registry: Registry::with_prefix("chancery_webhook"), ..Self::default() };
        // A series that is not there until something goes wrong cannot be alerted on.
        for outcome in Outcome::ALL {
            drop(metrics.admissions.get_or_create(&OutcomeLabels { outcome: outcome.as_str() }));
        }
        for result in ["found", "missing", "failed"] {
            drop(metrics.lookups.get_or_create(&ResultLabels { result }));
        }
        for state in REGISTERED {
            drop(metrics.registration.get_or_create(&StateLabels { state }));
        }
        let registry = &mut metrics.registry;
        registry.register("admissions", "Requests, by what became of them", metrics.admissions.clone());
        registry.register("clouds", "Pods that were given something of a cloud", metrics.clouds.clone());
        registry.register("refusals", "Why pods were refused", metrics.refusals.clone());
        registry.register("warnings", "Warnings that were sent back", metrics.warnings.clone());
        registry.register("lookups", "ServiceAccounts that the cache did not have", metrics.lookups.clone());
        registry.register("service_accounts", "ServiceAccounts in the cache", metrics.accounts.clone());
        registry.register("certificate_reloads", "Changed serving certificates", metrics.reloads.clone());
        let help = "When the serving certificate in use expires";
        registry.register("certificate_expiry_timestamp_seconds", help, metrics.expiry.clone());
        registry.register("registration", "How our registration stands", metrics.registration.clone());
        metrics
    }

    /// One more request.
    pub fn admitted(&self, outcome: Outcome) {
        self.admissions.get_or_create(&OutcomeLabels { outcome: outcome.as_str() }).inc();
    }

    /// A pod was given something of these clouds.
    pub fn served(&self, clouds: impl IntoIterator<Item = Cloud>) {
        for cloud in clouds {
            self.clouds.get_or_create(&CloudLabels { cloud: cloud.as_str() }).inc();
        }
    }

    /// A pod was refused, or warned about.
    pub fn told(&self, refusals: &[Refusal], warnings: usize) {
        for Refusal { cloud, reason, .. } in refusals {
            self.refusals.get_or_create(&RefusalLabels { cloud: cloud.as_str(), reason }).inc();
        }
        self.warnings.inc_by(u64::try_from(warnings).unwrap_or_default());
    }

    /// The API server was asked for a ServiceAccount.
    pub fn looked(&self, result: Lookup) {
        let result = match result {
            Lookup::Found => "found",
            Lookup::Missing => "missing",
            Lookup::Failed => "failed",
        };
        self.lookups.get_or_create(&ResultLabels { result }).inc();
    }

    /// So many ServiceAccounts are known.
    pub fn accounts(&self, number: usize) {
        self.accounts.set(i64::try_from(number).unwrap_or(i64::MAX));
    }

    /// How our registration stands now.
    pub fn registered(&self, now: &str) {
        for state in REGISTERED {
            let is_so = i64::from(state == now);
            self.registration.get_or_create(&StateLabels { state }).set(is_so);
        }
    }

    /// Everything as OpenMetrics text.
    ///
    /// # Errors
    /// None in practice: writing to a `String` does not fail.
    pub fn render(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

impl CertificateObserver for Metrics {
    fn looked(&self, _: &Path, reload: &Reload, standing: &CertificateStanding) {
        let result = match reload {
            Reload::Unchanged => None,
            Reload::Replaced => Some("replaced"),
            Reload::Refused(_) => Some("refused"),
        };
        if let Some(result) = result {
            self.reloads.get_or_create(&ResultLabels { result }).inc();
        }
        self.expiry.set(standing.not_after.as_second());
    }
}

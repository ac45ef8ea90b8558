//! What a signer counts, as OpenMetrics text.
//!
//! Key ids are labels: of a ring there are about ten at a time.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chancery_core::ring::TokenLifetimes;
use chancery_core::{IssuerUrl, KeyId};
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::signer_keys::SignerKeys;

/// The media type of [`Metrics::render`] (OpenMetrics 1.0).
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// From a signature with ECDSA to one that waited long, in seconds.
const SIGN_BUCKETS: [f64; 9] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5];

/// How a call of Sign ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SignOutcome {
    /// With a signature.
    Signed,
    /// The claims are not signed.
    Refused,
    /// Too many waited.
    Shed,
    /// No key signs, or nothing can be recorded.
    Unavailable,
    /// The key failed.
    Failed,
}

impl SignOutcome {
    const ALL: [Self; 5] = [Self::Signed, Self::Refused, Self::Shed, Self::Unavailable, Self::Failed];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Signed => "signed",
            Self::Refused => "refused",
            Self::Shed => "shed",
            Self::Unavailable => "unavailable",
            Self::Failed => "failed",
        }
    }
}

impl EncodeLabelValue for SignOutcome {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        self.as_str().encode(encoder)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SignLabels {
    outcome: SignOutcome,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KeyLabels {
    kid: String,
    role: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LifetimeLabels {
    kid: String,
    class: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SignerLabels {
    version: String,
    issuer: String,
}

/// Every metric of the process. Share it behind an `Arc`.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    sign: Family<SignLabels, Counter>,
    sign_seconds: Histogram,
    fetch_keys: Counter,
    fetch_keys_failures: Counter,
    metadata: Counter,
    source_failures: Counter,
    keys: Family<KeyLabels, Gauge>,
    lifetimes: Family<LifetimeLabels, Gauge>,
    data_timestamp: Gauge,
    epoch: Gauge,
    generation: Gauge,
    behind: Gauge,
}

impl Metrics {
    /// All metrics at nothing, for a build called `version` that signs for `issuer`.
    pub fn new(version: &str, issuer: &IssuerUrl) -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("chancery_signer"),
            sign: Family::default(),
            sign_seconds: Histogram::new(SIGN_BUCKETS),
            fetch_keys: Counter::default(),
            fetch_keys_failures: Counter::default(),
            metadata: Counter::default(),
            source_failures: Counter::default(),
            keys: Family::default(),
            lifetimes: Family::default(),
            data_timestamp: Gauge::default(),
            epoch: Gauge::default(),
            generation: Gauge::default(),
            behind: Gauge::default(),
        };
        for outcome in SignOutcome::ALL {
            // A series that is not there until something goes wrong cannot be alerted on.
            let _ = metrics.sign.get_or_create(&SignLabels { outcome });
        }
        metrics.register(SignerLabels { version: version.to_owned(), issuer: issuer.to_string() });
        metrics
    }

    /// Everything as OpenMetrics text: what was counted, and the keys and lifetimes as they are.
    ///
    /// # Errors
    /// None in practice: writing to a `String` does not fail.
    pub fn render(&self, now: &Shown) -> Result<String, fmt::Error> {
        self.keys.clear();
        for key in now.keys.iter().flat_map(|keys| keys.verification()) {
            let kid = key.public_key.key_id().to_string();
            let role = if key.is_excluded { "excluded" } else { "shown" };
            self.keys.get_or_create(&KeyLabels { kid, role }).set(1);
        }
        if let Some(active) = now.keys.as_ref().and_then(|keys| keys.active()) {
            let kid = active.public_key().key_id().to_string();
            self.keys.get_or_create(&KeyLabels { kid, role: "signs" }).set(1);
        }
        self.lifetimes.clear();
        for (kid, signed) in &now.signed {
            for (class, seconds) in
                [("external", signed.external_seconds), ("apiserver", signed.api_server_seconds)]
            {
                let labels = LifetimeLabels { kid: kid.to_string(), class };
                self.lifetimes.get_or_create(&labels).set(whole(seconds));
            }
        }
        let confirmed = now.keys.as_ref().map(|keys| keys.confirmed_at().as_second());
        self.data_timestamp.set(confirmed.unwrap_or_default());
        let position = now.keys.as_ref().and_then(|keys| keys.position()).unwrap_or_default();
        self.epoch.set(whole(position.epoch));
        self.generation.set(whole(position.generation));
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }

    /// A call of Sign ended after so long.
    pub fn signed(&self, outcome: SignOutcome, after: Duration) {
        self.sign.get_or_create(&SignLabels { outcome }).inc();
        if outcome == SignOutcome::Signed {
            self.sign_seconds.observe(after.as_secs_f64());
        }
    }

    /// FetchKeys was called.
    pub fn fetched(&self, answered: bool) {
        self.fetch_keys.inc();
        if !answered {
            self.fetch_keys_failures.inc();
        }
    }

    /// Metadata was called: a kube-apiserver has started.
    pub fn asked_for_metadata(&self) {
        self.metadata.inc();
    }

    /// The keys could not be read, or not be taken over.
    pub fn source_failed(&self) {
        self.source_failures.inc();
    }

    /// Whether the ring that was read is older than the one by which is signed.
    pub fn ring_is_behind(&self, is_behind: bool) {
        self.behind.set(is_behind.into());
    }

    fn register(&mut self, labels: SignerLabels) {
        use prometheus_client::metrics::info::Info;
        let registry = &mut self.registry;
        registry.register("build", "Which build signs for which issuer", Info::new(labels));
        registry.register("sign", "Calls of Sign by how they ended", self.sign.clone());
        let time = "How long a call of Sign took that ended with a signature";
        registry.register_with_unit("sign_duration", time, Unit::Seconds, self.sign_seconds.clone());
        registry.register("fetch_keys", "Calls of FetchKeys", self.fetch_keys.clone());
        let failures = self.fetch_keys_failures.clone();
        registry.register("fetch_keys_failures", "Calls of FetchKeys before there were keys", failures);
        registry.register(
            "metadata",
            "Calls of Metadata, one for each start of kube-apiserver",
            self.metadata.clone(),
        );
        let failures = self.source_failures.clone();
        registry.register(
            "source_failures",
            "Times that the keys could not be read or not be taken over",
            failures,
        );
        registry.register("key", "Keys by what they are for", self.keys.clone());
        let longest = "The longest lifetime of a token that a key has signed";
        registry.register_with_unit("max_lifetime", longest, Unit::Seconds, self.lifetimes.clone());
        let confirmed = "When the keys were last confirmed against where they are kept";
        registry.register_with_unit("data_timestamp", confirmed, Unit::Seconds, self.data_timestamp.clone());
        registry.register("ring_epoch", "The epoch of the ring that is signed by", self.epoch.clone());
        registry.register(
            "ring_generation",
            "The generation of the ring that is signed by",
            self.generation.clone(),
        );
        let behind = "Whether the ring that was read last is older than the one that is signed by";
        registry.register("ring_behind", behind, self.behind.clone());
    }
}

/// What is shown as it is, and not counted.
#[derive(Debug)]
pub struct Shown {
    /// The keys.
    pub keys: Option<Arc<SignerKeys>>,
    /// The longest lifetimes that were signed.
    pub signed: Vec<(KeyId, TokenLifetimes)>,
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

//! Who asked for credentials, and what came of it, as OpenMetrics text (C-15).
//!
//! The labels are those of the object that asked, as in Flux: its kind, namespace and name, and what it asked for. No
//! token, subject, role or account is a label, and objects that are gone are [forgotten](Metrics::forget) with their
//! counts.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::cache::{Cache, Tally};
use crate::error::ExchangeError;

/// The media type of [`Metrics::render`] (OpenMetrics 1.0).
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How many objects have counts of their own; the rest are counted together.
const MOST_OBJECTS: usize = 10_000;

/// Who asks, and what for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
pub struct Object {
    /// Its kind, such as `HelmRepository`, or `ServiceAccount` where that is all that is known.
    pub kind: String,
    /// Its namespace; empty for what has none.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What it does with the credential, such as `reconcile`.
    pub operation: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Failed {
    kind: String,
    namespace: String,
    name: String,
    operation: String,
    class: &'static str,
    code: &'static str,
}

/// The counts of a process. Share it behind an `Arc`.
pub struct Metrics {
    registry: Registry,
    hits: Family<Object, Counter>,
    misses: Family<Object, Counter>,
    stale: Family<Object, Counter>,
    failures: Family<Failed, Counter>,
    objects: Mutex<HashMap<Object, Counts>>,
}

struct Counts {
    tally: Tally,
    failures: Vec<(&'static str, &'static str)>,
}

impl Metrics {
    /// Counts of who asks `cache`, which counts as a whole.
    pub fn new(cache: &Cache) -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("chancery_exchange"),
            hits: Family::default(),
            misses: Family::default(),
            stale: Family::default(),
            failures: Family::default(),
            objects: Mutex::default(),
        };
        let registry = &mut metrics.registry;
        registry.register("cache_hits", "Credentials that were there, by object", metrics.hits.clone());
        let help = "Credentials that had to be waited for, by object";
        registry.register("cache_misses", help, metrics.misses.clone());
        let help = "Credentials that were handed out although renewing them had failed, by object";
        registry.register("cache_stale_served", help, metrics.stale.clone());
        let help = "Requests without a credential, by object, class and code";
        registry.register("failures", help, metrics.failures.clone());
        registry.register_collector(Box::new(Whole(cache.clone())));
        metrics
    }

    /// The counts of an object, for [`Ask`](crate::cache::Ask).
    pub fn of(&self, object: &Object) -> Tally {
        let mut objects = self.objects();
        let object = bounded(&objects, object);
        self.counts(&mut objects, &object).tally.clone()
    }

    /// An object was given no credential.
    pub fn failed(&self, object: &Object, error: &ExchangeError) {
        let mut objects = self.objects();
        let object = bounded(&objects, object);
        let cause = (error.class().as_str(), error.code());
        let failures = &mut self.counts(&mut objects, &object).failures;
        if !failures.contains(&cause) {
            failures.push(cause);
        }
        self.failures.get_or_create(&labels(&object, cause)).inc();
    }

    /// An object is gone, and its counts with it, whatever it did.
    pub fn forget(&self, kind: &str, namespace: &str, name: &str) {
        let is_it = |object: &Object| {
            (object.kind.as_str(), object.namespace.as_str(), object.name.as_str()) == (kind, namespace, name)
        };
        self.objects().retain(|object, counts| {
            if !is_it(object) {
                return true;
            }
            for family in [&self.hits, &self.misses, &self.stale] {
                family.remove(object);
            }
            for cause in &counts.failures {
                self.failures.remove(&labels(object, *cause));
            }
            false
        });
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

    fn counts<'a>(&self, objects: &'a mut HashMap<Object, Counts>, object: &Object) -> &'a mut Counts {
        objects.entry(object.clone()).or_insert_with(|| Counts {
            tally: Tally {
                hits: self.hits.get_or_create_owned(object),
                misses: self.misses.get_or_create_owned(object),
                stale: self.stale.get_or_create_owned(object),
            },
            failures: Vec::new(),
        })
    }

    fn objects(&self) -> std::sync::MutexGuard<'_, HashMap<Object, Counts>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bounded(objects: &HashMap<Object, Counts>, object: &Object) -> Object {
    if objects.len() < MOST_OBJECTS || objects.contains_key(object) {
        return object.clone();
    }
    let others = || "others".to_owned();
    Object { kind: others(), namespace: others(), name: others(), operation: others() }
}

fn labels(object: &Object, (class, code): (&'static str, &'static str)) -> Failed {
    let Object { kind, namespace, name, operation } = object.clone();
    Failed { kind, namespace, name, operation, class, code }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

/// What a cache counts as a whole.
#[derive(Debug)]
struct Whole(Cache);

impl Collector for Whole {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let counts = self.0.counts();
        for (name, help, value) in [
            ("exchanges", "Exchanges that were begun", counts.exchanges()),
            ("cache_evicted", "Credentials that made room for others", counts.evicted()),
        ] {
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)?;
        }
        let gauge = ConstGauge::new(i64::try_from(self.0.len()).unwrap_or(i64::MAX));
        let help = "Credentials that are held, or on their way";
        gauge.encode(encoder.encode_descriptor("cache_entries", help, None, gauge.metric_type())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::CacheOptions;

    fn object(name: &str) -> Object {
        let text = str::to_owned;
        Object { kind: text("Bucket"), namespace: text("team-a"), name: text(name), operation: text("read") }
    }

    #[test]
    fn c_15_counts_are_an_objects_and_go_with_it() {
        let metrics = Metrics::new(&Cache::new(CacheOptions::default()));
        metrics.of(&object("one")).hits.inc_by(2);
        metrics.of(&object("one")).misses.inc();
        metrics.of(&object("other")).misses.inc();
        metrics.failed(&object("one"), &ExchangeError::configuration("x"));
        let text = metrics.render().unwrap();
        let labels = r#"{kind="Bucket",namespace="team-a",name="one",operation="read""#;
        for line in [
            format!("chancery_exchange_cache_hits_total{labels}}} 2\n"),
            format!("chancery_exchange_cache_misses_total{labels}}} 1\n"),
            format!("chancery_exchange_cache_stale_served_total{labels}}} 0\n"),
            format!("chancery_exchange_failures_total{labels},class=\"permanent\",code=\"x\"}} 1\n"),
            "chancery_exchange_cache_entries 0\n".to_owned(),
            "chancery_exchange_exchanges_total 0\n".to_owned(),
        ] {
            assert!(text.contains(&line), "{line} is missing in\n{text}");
        }
        metrics.forget("Bucket", "team-a", "one");
        let text = metrics.render().unwrap();
        assert!(!text.contains("name=\"one\"") && text.contains("name=\"other\""), "{text}");
    }

    #[test]
    fn c_15_objects_without_number_are_counted_together() {
        let metrics = Metrics::new(&Cache::new(CacheOptions::default()));
        for number in 0..MOST_OBJECTS + 5 {
            metrics.of(&object(&number.to_string())).hits.inc();
        }
        let text = metrics.render().unwrap();
        assert!(text.lines().any(|line| line.contains("name=\"others\"") && line.ends_with(" 5")));
        assert_eq!(text.matches("chancery_exchange_cache_hits_total{").count(), MOST_OBJECTS + 1);
    }
}

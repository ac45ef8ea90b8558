//! Keys in ConfigMaps, such as OpenShift's `openshift-kube-apiserver/bound-sa-token-signing-certs`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use chancery_cluster::access::ClusterChoice;

use k8s_openapi::api::core::v1::ConfigMap;
use serde::Deserialize;

use super::SourceError;
use super::objects::Objects;
use super::parts::{self, PartLook, Parts};
use super::reporter::SourceReporter;
use super::selection::Selection;

/// `configMap`: PEM values of one ConfigMap, or of several by label.
///
/// ```yaml
/// configMap:
///   namespace: openshift-kube-apiserver
///   name: bound-sa-token-signing-certs
///   keys: ["service-account-*.pub"]
/// ```
///
/// Needs `get`, `list` and `watch` of the ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ConfigMapSource {
    /// Its namespace.
    pub namespace: String,
    /// Its name; or `labelSelector`.
    pub name: Option<String>,
    /// A label selector in kubectl's form, instead of `name`.
    pub label_selector: Option<String>,
    /// Which values of `data` are read; `*` in a pattern stands for any characters. When missing, every value that
    /// holds a PEM block.
    #[serde(default)]
    pub keys: Vec<String>,
    /// The kubeconfig of the cluster; when missing, the cluster in which this process is a pod.
    pub kubeconfig: Option<PathBuf>,
    /// The context in the kubeconfig; its current one when missing.
    pub context: Option<String>,
}

impl ConfigMapSource {
    /// Which ConfigMaps are read.
    pub fn selection(&self) -> Selection<'_> {
        let (name, label_selector) = (self.name.as_deref(), self.label_selector.as_deref());
        Selection { namespace: &self.namespace, name, label_selector }
    }

    /// Why there is no key.
    fn nothing(&self, is_missing: bool) -> String {
        let problem = match (is_missing, self.keys.is_empty()) {
            (true, _) => "is not there; create it, or correct the name",
            (false, true) => "holds no PEM; put the keys into its `data`",
            (false, false) => "has no key like those in `keys`; correct the patterns",
        };
        format!("configmap {} {problem}", self.selection())
    }

    fn is_read(&self, parts: &Parts, entry: &Entry<'_>) -> bool {
        let Entry { part, key, value } = entry;
        match self.keys.as_slice() {
            // A value that lost its PEM is damaged, one that never had any is something else.
            [] => value.contains("-----BEGIN ") || parts.names().any(|name| name == *part),
            patterns => patterns.iter().any(|pattern| matches(pattern, key)),
        }
    }
}

/// A [`ConfigMapSource`] with a client.
#[derive(Debug)]
pub(super) struct ConfigMaps {
    config: ConfigMapSource,
    objects: Objects<ConfigMap>,
    parts: Parts,
}

impl ConfigMaps {
    pub async fn open(config: &ConfigMapSource, base_dir: &Path) -> Result<Self, SourceError> {
        let (kubeconfig, context) = (config.kubeconfig.as_deref(), config.context.as_deref());
        let cluster = ClusterChoice { kubeconfig, context, base: base_dir };
        let objects = config.selection().open(cluster).await?;
        Ok(Self { config: config.clone(), objects, parts: Parts::default() })
    }

    pub async fn run(mut self, mut reporter: SourceReporter) {
        loop {
            match self.objects.next_or_quiet().await {
                Some(Ok(objects)) => {
                    let read = read(&self.config, &self.parts, objects);
                    let mut reading = self.parts.apply(read);
                    if reading.keys.is_empty() && reading.error.is_none() {
                        reading.complain(vec![self.config.nothing(objects.is_empty())]);
                    }
                    reporter.report(reading).await;
                }
                Some(Err(error)) => reporter.fail(error).await,
                None => reporter.holds(),
            }
        }
    }
}

/// A value of a ConfigMap.
struct Entry<'a> {
    /// What the part of the source is called.
    part: String,
    key: &'a str,
    value: &'a str,
}

/// Every value that is read, by ConfigMap and key.
fn read(config: &ConfigMapSource, parts: &Parts, objects: &BTreeMap<String, ConfigMap>) -> Vec<PartLook> {
    let values = objects.iter().flat_map(|(object, config_map)| {
        let data = config_map.data.iter().flatten();
        data.map(move |(key, value)| {
            let part = format!("configmap {}/{object} key {key}", config.namespace);
            Entry { part, key, value }
        })
    });
    let read = values.filter(|entry| config.is_read(parts, entry));
    read.map(|entry| (entry.part, parts::public_keys(entry.value))).collect()
}

/// Whether `text` has the form of `pattern`, in which `*` stands for any characters.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == text };
    let Some(rest) = text.strip_prefix(head) else { return false };
    let places = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    places.filter_map(|at| rest.get(at..)).any(|rest| matches(tail, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::tests::key;

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, text, expected) in [
            ("sa.pub", "sa.pub", true),
            ("sa.pub", "sa.pub2", false),
            ("*", "", true),
            ("service-account-*.pub", "service-account-002.pub", true),
            ("service-account-*.pub", "service-account-002.crt", false),
            ("*.pub", ".pub", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("*é", "caf\u{e9}", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn values_with_pem_are_read_unless_keys_are_named() {
        let (one, two) = (key(), key());
        let data = [("a.pub", one.to_pem()), ("b.txt", two.to_pem()), ("note", "hello".to_owned())];
        let data = data.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let objects =
            BTreeMap::from([("certs".to_owned(), ConfigMap { data: Some(data), ..Default::default() })]);
        for (keys, shown, fails) in [
            ("[]", vec![one.clone(), two.clone()], false),
            ("['*.pub']", vec![one.clone()], false),
            ("['a*', note]", vec![one.clone()], true),
        ] {
            let config: ConfigMapSource =
                serde_saphyr::from_str(&format!("{{namespace: n, name: certs, keys: {keys}}}")).unwrap();
            let mut parts = Parts::default();
            let reading = parts.apply(read(&config, &parts, &objects));
            assert_eq!(reading.keys, shown, "{keys}");
            assert_eq!(reading.error.is_some(), fails, "{keys}: {:?}", reading.error);
        }
    }

    #[test]
    fn a_value_that_loses_its_pem_keeps_its_key_until_it_is_deleted() {
        let one = key();
        let config: ConfigMapSource = serde_saphyr::from_str("{namespace: n, name: certs}").unwrap();
        let mut parts = Parts::default();
        for (value, shown) in [(Some(one.to_pem()), 1), (Some(String::new()), 1), (None, 0)] {
            let data = value.map(|value| BTreeMap::from([("a.pub".to_owned(), value)]));
            let objects = BTreeMap::from([("certs".to_owned(), ConfigMap { data, ..Default::default() })]);
            let read = read(&config, &parts, &objects);
            assert_eq!(parts.apply(read).keys.len(), shown);
        }
    }
}

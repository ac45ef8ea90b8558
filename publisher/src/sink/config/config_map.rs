//! A ConfigMap, as configuration names it.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;

use super::error::SinkConfigError;

/// A ConfigMap that carries the JWKS, for whoever mounts it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ConfigMapPlace {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The key of `data` under which the JWKS lies.
    #[serde(default = "default_key")]
    pub key: String,
    /// The key of `data` under which the discovery document lies; not written when missing.
    #[serde(default)]
    pub discovery_key: Option<String>,
    /// The kubeconfig of the cluster; when missing, the cluster in which this process is a pod.
    #[serde(default)]
    pub kubeconfig: Option<PathBuf>,
    /// The context in the kubeconfig; its current one when missing.
    #[serde(default)]
    pub context: Option<String>,
}

fn default_key() -> String {
    "jwks.json".to_owned()
}

impl ConfigMapPlace {
    pub(super) fn check(&self) -> Result<(), SinkConfigError> {
        let lower = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
        for (field, name) in [("configMap.namespace", &self.namespace), ("configMap.name", &self.name)] {
            if name.is_empty() || name.len() > 253 || !name.chars().all(lower) {
                let remedy = "expected 1 to 253 lower-case letters, digits, `-` and `.`";
                return Err(SinkConfigError::illegal(field, name, remedy));
            }
        }
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        let keys =
            [("configMap.key", Some(&self.key)), ("configMap.discoveryKey", self.discovery_key.as_ref())];
        for (field, key) in keys {
            let Some(key) = key else { continue };
            if key.is_empty() || key.len() > 253 || !key.chars().all(legal) {
                let remedy = "expected 1 to 253 letters, digits, `-`, `.` and `_`, as in `jwks.json`";
                return Err(SinkConfigError::illegal(field, key, remedy));
            }
        }
        if self.discovery_key.as_ref() == Some(&self.key) {
            let remedy = "expected another one than `key`, which is the JWKS'";
            return Err(SinkConfigError::illegal("configMap.discoveryKey", &self.key, remedy));
        }
        Ok(())
    }
}

impl fmt::Display for ConfigMapPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "configmap {}/{}", self.namespace, self.name)
    }
}

//! Where conditions are reported in a cluster.

use std::path::PathBuf;

use serde::Deserialize;

/// Where conditions are reported: `report`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ReportConfig {
    /// The ConfigMap that carries the conditions.
    pub config_map: ReportConfigMap,
    /// Whether Events are written about it.
    #[serde(default = "on")]
    pub events: bool,
    /// What we call ourselves in the annotation `chancery-owner` on it, and as the Events' reporting controller.
    #[serde(default = "default_owner")]
    pub owner: String,
    /// A kubeconfig, outside a cluster.
    pub kubeconfig: Option<PathBuf>,
}

/// A ConfigMap by name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ReportConfigMap {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

fn on() -> bool {
    true
}

fn default_owner() -> String {
    "chancery-issuer".to_owned()
}

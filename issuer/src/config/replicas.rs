//! Who of several replicas publishes.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::values;

/// Leader election by a Lease.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct LeaderElectionConfig {
    /// On, off, or on in a cluster when missing.
    pub enabled: Option<bool>,
    /// The Lease's namespace; the pod's own when missing.
    pub namespace: Option<String>,
    /// The Lease's name; `chancery-issuer` when missing.
    pub name: Option<String>,
    /// What this replica calls itself; the host name when missing.
    pub identity: Option<String>,
    /// A kubeconfig, outside a cluster.
    pub kubeconfig: Option<PathBuf>,
    /// client-go's default when missing: 15 s.
    #[serde(deserialize_with = "values::optional_duration")]
    pub lease_duration: Option<Duration>,
    /// client-go's default when missing: 10 s.
    #[serde(deserialize_with = "values::optional_duration")]
    pub renew_deadline: Option<Duration>,
    /// client-go's default when missing: 2 s.
    #[serde(deserialize_with = "values::optional_duration")]
    pub retry_period: Option<Duration>,
}

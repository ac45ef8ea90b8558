//! Where objects of a cluster declare issuers, and what those objects may name: `resources`.

use std::path::PathBuf;

use serde::Deserialize;

/// Where `Issuer` objects are followed. What an object alone may not decide, since it takes files or credentials of this
/// process, is said here once for all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct ResourcesConfig {
    /// The namespace whose objects are followed, and in which their ConfigMaps, Secrets and ServiceAccounts are; the pod's
    /// own when missing.
    pub namespace: Option<String>,
    /// A kubeconfig, outside a cluster. The sources of objects are read with it too.
    pub kubeconfig: Option<PathBuf>,
    /// The folder below which objects have directories as targets; they can have none when missing.
    pub directory: Option<PathBuf>,
    /// The endpoints of storage that objects may name, each written as they write it. Our credentials are sent there.
    pub endpoints: Vec<String>,
    /// PEM certificates of a private CA by which the issuers of objects are read from outside, instead of the public ones.
    pub ca: Option<PathBuf>,
}

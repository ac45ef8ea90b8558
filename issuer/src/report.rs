//! Tells a cluster what the conditions say: one ConfigMap with all of them, and Events about it.
//!
//! Only the replica that publishes reports, since it alone knows what the targets hold. The ConfigMap is written when
//! something changed and never otherwise, on the resourceVersion that was read. It must exist: a right to create
//! ConfigMaps cannot be limited to one name, a right to update one can.

use std::path::PathBuf;

use serde::Deserialize;

#[cfg(feature = "kube")]
mod cluster;
#[cfg(feature = "kube")]
mod text;

#[cfg(feature = "kube")]
pub use cluster::{ReportError, Reporter};

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

#[cfg(not(feature = "kube"))]
pub use absent::{ReportError, Reporter};

#[cfg(not(feature = "kube"))]
mod absent {
    //! A build that cannot reach a cluster.

    use std::path::Path;
    use std::sync::Arc;

    use super::ReportConfig;
    use crate::conditions::Board;
    use crate::leadership::Leading;

    /// Cannot be made in this build.
    #[derive(Debug)]
    pub enum Reporter {}

    impl Reporter {
        /// Refuses.
        ///
        /// # Errors
        /// Always: this build cannot reach a cluster.
        pub async fn open(_: &ReportConfig, _: &Path, _: (Arc<Board>, Leading)) -> Result<Self, ReportError> {
            Err(ReportError)
        }

        /// Never called.
        pub async fn run(self) {
            match self {}
        }
    }

    /// A build without the feature `kube`.
    #[derive(Debug, thiserror::Error)]
    #[error(
        "`report` needs a cluster, which this build cannot reach; build with `--features kube` or remove it"
    )]
    pub struct ReportError;
}

//! A provider of a workload identity pool, as configuration names it.

use std::fmt;
use std::path::PathBuf;

use chancery_core::trust::gcp::names::{Project, ResourceId, provider};
use serde::Deserialize;

/// An OIDC provider that is given the keys.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct GcpProviderPlace {
    /// The id or number of its project.
    pub project: Project,
    /// The id of its pool.
    pub pool: ResourceId,
    /// Its id.
    pub provider: ResourceId,
    /// A file of credentials as gcloud writes them, the only place then that credentials are taken from. Otherwise
    /// Application Default Credentials.
    #[serde(default)]
    pub credentials_file: Option<PathBuf>,
    /// Another address than `https://iam.googleapis.com`.
    #[serde(default)]
    pub endpoint: Option<String>,
}

impl GcpProviderPlace {
    pub(super) fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        self.credentials_file.iter_mut()
    }
}

impl fmt::Display for GcpProviderPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "provider {}", provider(&self.project, &self.pool, &self.provider))
    }
}

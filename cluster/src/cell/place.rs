//! Where documents are kept, as a configuration names it.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{CellError, CellStore, StoreMode};
#[cfg(feature = "kube")]
use crate::access::{AccessError, ClusterChoice, client};

/// A place for documents: a directory, or ConfigMaps of a cluster. Exactly one of the two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CellStoreConfig {
    /// A directory, which must exist.
    pub directory: Option<PathBuf>,
    /// ConfigMaps that several processes share.
    pub config_map: Option<ConfigMapsConfig>,
}

/// ConfigMaps that hold documents, one each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ConfigMapsConfig {
    /// Their namespace; the pod's own when missing.
    pub namespace: Option<String>,
    /// What their names begin with. They are made when they are not there.
    pub name: String,
    /// A kubeconfig, outside a cluster.
    pub kubeconfig: Option<PathBuf>,
}

impl CellStoreConfig {
    /// The documents in a directory.
    pub fn of_directory(path: impl Into<PathBuf>) -> Self {
        Self { directory: Some(path.into()), config_map: None }
    }

    /// Opens the place; relative paths start at `base`.
    ///
    /// # Errors
    /// When there is no place or two, it cannot be reached, another process writes there, or this build lacks it.
    pub async fn open(&self, base: &Path, mode: StoreMode) -> Result<CellStore, CellStoreError> {
        match (&self.directory, &self.config_map) {
            (Some(directory), None) => Ok(CellStore::directory(&base.join(directory), mode).await?),
            (None, Some(place)) => open_config_maps(place, base, mode).await,
            _ => Err(CellStoreError::OnePlace),
        }
    }
}

impl fmt::Display for CellStoreConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.directory, &self.config_map) {
            (Some(directory), _) => write!(f, "{}", directory.display()),
            (None, Some(ConfigMapsConfig { namespace: Some(namespace), name, .. })) => {
                write!(f, "configmaps {namespace}/{name}-*")
            }
            (None, Some(ConfigMapsConfig { name, .. })) => write!(f, "configmaps {name}-*"),
            (None, None) => f.write_str("nowhere"),
        }
    }
}

#[cfg(feature = "kube")]
async fn open_config_maps(
    place: &ConfigMapsConfig,
    base: &Path,
    mode: StoreMode,
) -> Result<CellStore, CellStoreError> {
    let choice = ClusterChoice { kubeconfig: place.kubeconfig.as_deref(), context: None, base };
    let access = choice.config().await?;
    let namespace = place.namespace.clone().unwrap_or_else(|| access.default_namespace.clone());
    Ok(CellStore::cluster(client(access)?, &namespace, &place.name, mode))
}

#[cfg(not(feature = "kube"))]
async fn open_config_maps(_: &ConfigMapsConfig, _: &Path, _: StoreMode) -> Result<CellStore, CellStoreError> {
    Err(CellStoreError::NotBuilt)
}

/// Why a place for documents cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CellStoreError {
    /// Nowhere or at two places.
    #[error("names no place or two; expected one of `directory` and `configMap`")]
    OnePlace,
    /// It cannot be used, or another process writes there.
    #[error(transparent)]
    Cell(#[from] CellError),
    /// The cluster cannot be reached by what configuration and environment say.
    #[cfg(feature = "kube")]
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A build without the feature `kube`.
    #[error("`configMap` needs a cluster, which this build cannot reach; build with `--features kube`")]
    NotBuilt,
}

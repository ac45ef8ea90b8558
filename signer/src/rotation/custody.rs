//! Where the private halves of a ring are, as a policy names it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg(feature = "kube")]
use chancery_cluster::access::{AccessError, ClusterChoice, client};
use chancery_cluster::cell::ConfigMapsConfig;
use chancery_keygen::Passphrase;
use serde::Deserialize;

#[cfg(feature = "kube")]
use crate::vault::SecretVault;
use crate::vault::{KeyVault, PassphraseFileError, SealedDirectory, VaultError, read_passphrase};

/// A place for private halves: a directory of sealed files, or Secrets. Exactly one of the two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CustodyConfig {
    /// Sealed files in a directory, which must exist and be closed to others.
    pub directory: Option<PathBuf>,
    /// One Secret for each.
    pub secrets: Option<ConfigMapsConfig>,
    /// The passphrase that seals them; Secrets may be without.
    pub passphrase_file: Option<PathBuf>,
}

impl CustodyConfig {
    /// Opens the place; relative paths start at `base`.
    ///
    /// # Errors
    /// When there is no place or two, it cannot be used, or this build lacks it.
    pub async fn open(&self, base: &Path) -> Result<Arc<dyn KeyVault>, CustodyError> {
        let passphrase =
            self.passphrase_file.as_deref().map(|path| read_passphrase(&base.join(path))).transpose()?;
        match (&self.directory, &self.secrets) {
            (Some(directory), None) => {
                let passphrase = passphrase.ok_or(CustodyError::NoPassphrase)?;
                Ok(Arc::new(SealedDirectory::open(&base.join(directory), passphrase)?))
            }
            (None, Some(place)) => secrets(place, base, passphrase).await,
            _ => Err(CustodyError::OnePlace),
        }
    }
}

#[cfg(feature = "kube")]
async fn secrets(
    place: &ConfigMapsConfig,
    base: &Path,
    passphrase: Option<Passphrase>,
) -> Result<Arc<dyn KeyVault>, CustodyError> {
    let choice = ClusterChoice { kubeconfig: place.kubeconfig.as_deref(), context: None, base };
    let access = choice.config().await?;
    let namespace = place.namespace.clone().unwrap_or_else(|| access.default_namespace.clone());
    Ok(Arc::new(SecretVault::new(client(access)?, &namespace, &place.name, passphrase)))
}

#[cfg(not(feature = "kube"))]
async fn secrets(
    _: &ConfigMapsConfig,
    _: &Path,
    _: Option<Passphrase>,
) -> Result<Arc<dyn KeyVault>, CustodyError> {
    Err(CustodyError::NotBuilt)
}

/// Why the place cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CustodyError {
    /// Nowhere or at two places.
    #[error("`keys` names no place or two; expected one of `directory` and `secrets`")]
    OnePlace,
    /// Sealed files, and nothing to open them with.
    #[error("`keys` names a directory of sealed keys and no passphrase; give `passphraseFile`")]
    NoPassphrase,
    /// The passphrase cannot be had.
    #[error(transparent)]
    Passphrase(#[from] PassphraseFileError),
    /// The place is no vault.
    #[error(transparent)]
    Vault(#[from] VaultError),
    /// The cluster cannot be reached by what configuration and environment say.
    #[cfg(feature = "kube")]
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A build without the feature `kube`.
    #[error("`secrets` needs a cluster, which this build cannot reach; build with `--features kube`")]
    NotBuilt,
}

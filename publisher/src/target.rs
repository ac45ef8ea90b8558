//! A target as configuration names it, and how it becomes a store.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chancery_core::{IssuerUrl, Owner};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::store::DocumentStore;
use crate::store::directory::DirectoryStore;

mod azure;
mod gcs;
mod location;

pub use azure::{AzureBlobTarget, AzureCredential, AzureIdentity};
pub use gcs::GcsTarget;
#[cfg(feature = "gcp")]
pub(crate) use gcs::is_loopback;
pub use location::{DirectoryTarget, Location, S3Target};

/// One place that relying parties read from. Exactly one of the locations is given.
///
/// ```yaml
/// - name: public bucket
///   s3:
///     bucket: oidc-example-com
///     region: eu-central-1
///     prefix: cluster-a
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TargetConfig {
    /// What logs and metrics call it; its place, when not given.
    #[serde(default)]
    pub name: Option<String>,
    /// Whether documents without an ownership marker are taken over. A foreign marker always stops us.
    #[serde(default)]
    pub adopt: bool,
    /// A directory that a web server serves.
    #[serde(default)]
    pub directory: Option<DirectoryTarget>,
    /// A bucket of Amazon S3 or of a server that speaks its protocol.
    #[serde(default)]
    pub s3: Option<S3Target>,
    /// A container of Azure Blob Storage.
    #[serde(default)]
    pub azure_blob: Option<AzureBlobTarget>,
    /// A bucket of Google Cloud Storage.
    pub gcs: Option<GcsTarget>,
}

impl TargetConfig {
    /// The one location that is given.
    ///
    /// # Errors
    /// When none is given or more than one, or its values cannot be meant so.
    pub fn location(&self) -> Result<Location<'_>, TargetError> {
        let given = [
            self.directory.as_ref().map(Location::Directory),
            self.s3.as_ref().map(Location::S3),
            self.azure_blob.as_ref().map(Location::AzureBlob),
            self.gcs.as_ref().map(Location::Gcs),
        ];
        let mut given = given.into_iter().flatten();
        let Some(location) = given.next() else { return Err(TargetError::NoLocation) };
        let others: Vec<&str> = given.map(Location::field).collect();
        if !others.is_empty() {
            let given = std::iter::once(location.field()).chain(others).collect::<Vec<_>>().join("` and `");
            return Err(TargetError::SeveralLocations { given });
        }
        location.check()?;
        Ok(location)
    }

    /// Makes the store. Reads configuration and credentials of this machine, but does not touch the place itself.
    ///
    /// # Errors
    /// As [`Self::location`], and when the location needs a feature that this build does not have.
    pub async fn open(&self) -> Result<Arc<dyn DocumentStore>, TargetError> {
        match self.location()? {
            Location::Directory(directory) => {
                let store = DirectoryStore::new(&directory.path)
                    .map_err(|error| TargetError::illegal("directory.path", &directory.path, error))?;
                Ok(Arc::new(store))
            }
            Location::S3(s3) => open_s3(s3).await,
            Location::AzureBlob(azure) => open_azure_blob(azure).await,
            Location::Gcs(gcs) => open_gcs(gcs).await,
        }
    }

    /// What a person calls it: its name, otherwise its place.
    pub fn display_name(&self) -> String {
        let place = || self.location().map_or_else(|_| "target".to_owned(), |place| place.to_string());
        self.name.clone().unwrap_or_else(place)
    }
}

#[cfg(feature = "s3")]
async fn open_s3(s3: &S3Target) -> Result<Arc<dyn DocumentStore>, TargetError> {
    Ok(Arc::new(crate::store::s3::S3Store::connect(s3).await?))
}

#[cfg(not(feature = "s3"))]
async fn open_s3(_: &S3Target) -> Result<Arc<dyn DocumentStore>, TargetError> {
    Err(TargetError::NotBuilt { location: "s3", feature: "s3" })
}

#[cfg(feature = "azure")]
async fn open_azure_blob(azure: &AzureBlobTarget) -> Result<Arc<dyn DocumentStore>, TargetError> {
    Ok(Arc::new(crate::store::azure_blob::AzureBlobStore::connect(azure)?))
}

#[cfg(not(feature = "azure"))]
async fn open_azure_blob(_: &AzureBlobTarget) -> Result<Arc<dyn DocumentStore>, TargetError> {
    Err(TargetError::NotBuilt { location: "azureBlob", feature: "azure" })
}

#[cfg(feature = "gcp")]
async fn open_gcs(gcs: &GcsTarget) -> Result<Arc<dyn DocumentStore>, TargetError> {
    Ok(Arc::new(crate::store::gcs::GcsStore::connect(gcs).await?))
}

#[cfg(not(feature = "gcp"))]
async fn open_gcs(_: &GcsTarget) -> Result<Arc<dyn DocumentStore>, TargetError> {
    Err(TargetError::NotBuilt { location: "gcs", feature: "gcp" })
}

/// The ownership marker of an issuer that sets none: the same for every process that publishes this issuer, another
/// for every other issuer. `chancery-` and the first 22 characters (132 bits) of base64url(SHA-256(issuer URL)).
pub fn default_owner(issuer: &IssuerUrl) -> Owner {
    let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(issuer.as_str()));
    let marker: String = "chancery-".chars().chain(digest.chars().take(22)).collect();
    #[expect(clippy::expect_used, reason = "31 characters of base64url and a hyphen are a legal marker")]
    marker.parse().expect("a legal marker")
}

/// Why a target cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// Nothing says where.
    #[error("a target names no place; expected one of `directory`, `s3`, `azureBlob` and `gcs`")]
    NoLocation,
    /// More than one place.
    #[error("a target names several places, `{given}`; expected one, so make a target of each")]
    SeveralLocations {
        /// The fields that are set.
        given: String,
    },
    /// A value that cannot be meant so.
    #[error("the target's `{field}` is {came}; {remedy}")]
    IllegalValue {
        /// The field, as configuration spells it.
        field: &'static str,
        /// What came.
        came: String,
        /// What is expected.
        remedy: String,
    },
    /// The program was built without it.
    #[error("the target names `{location}`, which this build lacks; build with `--features {feature}`")]
    NotBuilt {
        /// The field of the configuration.
        location: &'static str,
        /// The cargo feature.
        feature: &'static str,
    },
}

impl TargetError {
    pub(crate) fn illegal(
        field: &'static str,
        came: impl std::fmt::Debug,
        remedy: impl std::fmt::Display,
    ) -> Self {
        Self::IllegalValue { field, came: format!("{came:?}"), remedy: remedy.to_string() }
    }
}

#[cfg(test)]
mod tests;

//! A target as configuration names it: data alone, parsed and checked. [`crate::open`] makes stores of it.

use serde::Deserialize;

mod azure;
mod check;
mod directory;
mod error;
mod gcs;
mod location;
mod s3;

pub use azure::{AzureBlobTarget, AzureCredential, AzureIdentity};
pub use directory::DirectoryTarget;
pub use error::TargetError;
pub use gcs::GcsTarget;
pub use location::Location;
pub use s3::S3Target;

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

    /// What a person calls it: its name, otherwise its place.
    pub fn display_name(&self) -> String {
        let place = || self.location().map_or_else(|_| "target".to_owned(), |place| place.to_string());
        self.name.clone().unwrap_or_else(place)
    }
}

#[cfg(test)]
mod tests;

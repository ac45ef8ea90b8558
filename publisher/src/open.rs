//! Opens targets: makes the stores that configuration names.
//!
//! A client of a cloud takes some hundred kilobytes, with its connections, their TLS states and the credentials that it
//! keeps renewed. All targets that reach one server with the same credentials share one, so that a thousand issuers
//! with a prefix each cost as much as one.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Weak};

use tokio::sync::Mutex;

use crate::store::DocumentStore;
#[cfg(feature = "azure")]
use crate::store::azure_blob::{AzureBlobConnection, AzureBlobStore};
use crate::store::directory::DirectoryStore;
#[cfg(feature = "gcp")]
use crate::store::gcs::{GcsConnection, GcsStore};
#[cfg(feature = "s3")]
use crate::store::s3::{S3Connection, S3Store};
use crate::target::{
    AzureBlobTarget, DirectoryTarget, GcsTarget, Location, S3Target, TargetConfig, TargetError,
};

/// Opens targets, and remembers the connections of those that are open.
#[derive(Debug, Default)]
pub struct TargetOpener {
    #[cfg(feature = "s3")]
    s3: Shared<S3Target, S3Connection>,
    #[cfg(feature = "azure")]
    azure_blob: Shared<AzureBlobTarget, AzureBlobConnection>,
    #[cfg(feature = "gcp")]
    gcs: Shared<GcsTarget, GcsConnection>,
}

/// Makes the store of one target, with a connection of its own.
///
/// # Errors
/// As [`TargetOpener::open`].
pub async fn open_target(target: &TargetConfig) -> Result<Arc<dyn DocumentStore>, TargetError> {
    TargetOpener::default().open(target).await
}

impl TargetOpener {
    /// Makes the store. Reads configuration and credentials of this machine, but does not touch the place itself.
    ///
    /// # Errors
    /// As [`TargetConfig::location`], when the credentials cannot be used, and when the location needs a feature that
    /// this build does not have.
    pub async fn open(&self, target: &TargetConfig) -> Result<Arc<dyn DocumentStore>, TargetError> {
        match target.location()? {
            Location::Directory(directory) => open_directory(directory),
            Location::S3(s3) => self.open_s3(s3).await,
            Location::AzureBlob(azure) => self.open_azure_blob(azure).await,
            Location::Gcs(gcs) => self.open_gcs(gcs).await,
        }
    }

    #[cfg(feature = "s3")]
    async fn open_s3(&self, s3: &S3Target) -> Result<Arc<dyn DocumentStore>, TargetError> {
        let connection = self.s3.get(s3.reached_by(), S3Connection::open(s3)).await?;
        Ok(Arc::new(S3Store::new(connection, s3)))
    }

    #[cfg(not(feature = "s3"))]
    async fn open_s3(&self, _: &S3Target) -> Result<Arc<dyn DocumentStore>, TargetError> {
        Err(TargetError::NotBuilt { location: "s3", feature: "s3" })
    }

    #[cfg(feature = "azure")]
    async fn open_azure_blob(&self, azure: &AzureBlobTarget) -> Result<Arc<dyn DocumentStore>, TargetError> {
        let opening = async { AzureBlobConnection::open(azure) };
        let connection = self.azure_blob.get(azure.reached_by(), opening).await?;
        Ok(Arc::new(AzureBlobStore::new(connection, azure)?))
    }

    #[cfg(not(feature = "azure"))]
    async fn open_azure_blob(&self, _: &AzureBlobTarget) -> Result<Arc<dyn DocumentStore>, TargetError> {
        Err(TargetError::NotBuilt { location: "azureBlob", feature: "azure" })
    }

    #[cfg(feature = "gcp")]
    async fn open_gcs(&self, gcs: &GcsTarget) -> Result<Arc<dyn DocumentStore>, TargetError> {
        let connection = self.gcs.get(gcs.reached_by(), GcsConnection::open(gcs)).await?;
        Ok(Arc::new(GcsStore::new(connection, gcs)))
    }

    #[cfg(not(feature = "gcp"))]
    async fn open_gcs(&self, _: &GcsTarget) -> Result<Arc<dyn DocumentStore>, TargetError> {
        Err(TargetError::NotBuilt { location: "gcs", feature: "gcp" })
    }
}

fn open_directory(directory: &DirectoryTarget) -> Result<Arc<dyn DocumentStore>, TargetError> {
    let store = DirectoryStore::new(&directory.path)
        .map_err(|error| TargetError::illegal("directory.path", &directory.path, error))?;
    Ok(Arc::new(store))
}

/// One connection for each way to reach a server, as long as a store uses it.
#[cfg_attr(
    not(any(feature = "s3", feature = "azure", feature = "gcp")),
    allow(dead_code, reason = "no cloud is built in")
)]
#[derive(Debug)]
struct Shared<K, V>(Mutex<HashMap<K, Weak<V>>>);

impl<K, V> Default for Shared<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

#[cfg_attr(
    not(any(feature = "s3", feature = "azure", feature = "gcp")),
    allow(dead_code, reason = "no cloud is built in")
)]
impl<K: Eq + Hash, V> Shared<K, V> {
    /// The connection that is there; otherwise what `opening` gives, which is only then begun.
    async fn get(
        &self,
        key: K,
        opening: impl Future<Output = Result<V, TargetError>>,
    ) -> Result<Arc<V>, TargetError> {
        let mut open = self.0.lock().await;
        if let Some(connection) = open.get(&key).and_then(Weak::upgrade) {
            return Ok(connection);
        }
        let connection = Arc::new(opening.await?);
        open.retain(|_, connection| connection.strong_count() > 0);
        open.insert(key, Arc::downgrade(&connection));
        Ok(connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_connection_serves_everybody_of_the_same_key_as_long_as_it_is_used() {
        let shared = Shared::default();
        let mut opened = 0;
        let mut get = async |key: &'static str| {
            let opening = async {
                opened += 1;
                Ok(opened)
            };
            shared.get(key, opening).await.unwrap()
        };
        let first = get("a").await;
        assert!(Arc::ptr_eq(&first, &get("a").await));
        assert_eq!(*get("b").await, 2, "another key, another connection");
        drop(first);
        assert_eq!(*get("a").await, 3, "nobody used it any more");
    }

    #[tokio::test]
    async fn a_connection_that_cannot_be_opened_is_tried_again() {
        let shared = Shared::default();
        let refused = async { Err(TargetError::NoLocation) };
        assert!(shared.get("a", refused).await.is_err());
        assert_eq!(*shared.get("a", async { Ok(1) }).await.unwrap(), 1);
    }

    #[cfg(not(feature = "azure"))]
    #[tokio::test]
    async fn names_the_feature_that_azure_needs() {
        let azure =
            AzureBlobTarget { account: Some("abc".to_owned()), ..AzureBlobTarget::of_container("abc") };
        let target = TargetConfig { azure_blob: Some(azure), ..TargetConfig::default() };
        let error = open_target(&target).await.unwrap_err().to_string();
        assert!(error.contains("--features azure"), "{error}");
    }

    #[cfg(not(feature = "s3"))]
    #[tokio::test]
    async fn names_the_feature_that_is_not_built() {
        let target = TargetConfig { s3: Some(S3Target::of_bucket("b")), ..TargetConfig::default() };
        let error = open_target(&target).await.unwrap_err().to_string();
        assert!(error.contains("--features s3"), "{error}");
    }
}

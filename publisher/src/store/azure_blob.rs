//! A store in a container of Azure Blob Storage.
//!
//! Versions are ETags. Conditions are `If-None-Match: *` and `If-Match` on Put Blob, and `If-None-Match` on Get Blob
//! (<https://learn.microsoft.com/rest/api/storageservices/specifying-conditional-headers-for-blob-service-operations>).
//! The marker's fields are metadata, `x-ms-meta-chancery_owner` and so on: the names of metadata are those of C#, which
//! have no hyphens. Everything is set in the one request that writes. What Azure answers is translated in [`answer`].

use std::num::NonZero;
use std::sync::Arc;

use async_trait::async_trait;
use azure_core::credentials::TokenCredential;
use azure_core::http::{AsyncResponseBody, ClientOptions, Etag, RequestContent, StatusCode, Url};
use azure_storage_blob::models::{
    BlobClientDownloadOptions, BlobClientDownloadResult, BlockBlobClientUploadOptions, HttpRange,
};
use azure_storage_blob::{BlobClient, BlobClientOptions};
use chancery_core::marker::MarkerField;
use chancery_core::publication::{Precondition, StoredObject, Version};
use futures_util::TryStreamExt as _;

use self::answer::AzureRefusal;
use super::limits::Limits;
use super::{
    ConditionalRead, DocumentStore, Failure, LARGEST_OBJECT, Operation, Put, StoreError, StoreErrorKind,
    StoreRequest, append, no_etag, read_marker,
};
use crate::target::{AzureBlobTarget, TargetError};

mod answer;
mod client;

/// How requests are sent and signed, and what holds for all operations. Stores of several containers and prefixes may
/// share it.
#[derive(Debug)]
pub struct AzureBlobConnection {
    credential: Option<Arc<dyn TokenCredential>>,
    options: ClientOptions,
    limits: Limits,
}

impl AzureBlobConnection {
    /// What a target is reached by. Reads what this machine has of credentials; nothing is asked of the server.
    ///
    /// # Errors
    /// When no credentials are to be had.
    pub fn open(target: &AzureBlobTarget) -> Result<Self, TargetError> {
        let (credential, options) = client::credentials(target)?;
        Ok(Self { credential, options, limits: Limits::new(client::operation_limit(target)) })
    }
}

/// Documents in a container.
#[derive(Debug)]
pub struct AzureBlobStore {
    connection: Arc<AzureBlobConnection>,
    /// Of the container, or of the prefix in it.
    base: Url,
    name: String,
}

impl AzureBlobStore {
    /// The store of a target that is reached by `connection`.
    ///
    /// # Errors
    /// When the endpoint cannot be used with its credentials.
    pub fn new(connection: Arc<AzureBlobConnection>, target: &AzureBlobTarget) -> Result<Self, TargetError> {
        let base = client::base(target, connection.credential.is_some())?;
        Ok(Self { connection, base, name: target.to_string() })
    }

    fn blob(&self, path: &str) -> Result<BlobClient, Failure> {
        let (connection, mut url) = (&self.connection, self.base.clone());
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.extend(path.split('/'));
        }
        let options =
            BlobClientOptions { client_options: connection.options.clone(), ..BlobClientOptions::default() };
        BlobClient::new(url, connection.credential.clone(), Some(options)).map_err(|error| {
            Failure::new(
                StoreErrorKind::Misconfigured,
                crate::azure::words(&error),
                "correct the target's `endpoint` and `container`",
            )
        })
    }

    async fn get(&self, path: &str, known: Option<&Version>) -> Result<ConditionalRead, Failure> {
        let options = BlobClientDownloadOptions {
            if_none_match: known.map(|version| Etag::from(version.0.as_str())),
            // One request, and one byte more than is taken, so that too much is noticed and never fetched.
            range: Some(HttpRange::new(0, LARGEST_OBJECT as u64 + 1)),
            partition_size: NonZero::new(LARGEST_OBJECT + 1),
            ..BlobClientDownloadOptions::default()
        };
        let error = match self.blob(path)?.download(Some(options)).await {
            Ok(found) => return stored(found).await.map(ConditionalRead::Found),
            Err(error) => error,
        };
        if known.is_some() && error.http_status() == Some(StatusCode::NotModified) {
            return Ok(ConditionalRead::Unchanged);
        }
        let answer = AzureRefusal::of(&error)?;
        if answer.is_absence() {
            Ok(ConditionalRead::Absent)
        } else {
            Err(answer.into_failure(StoreRequest::Read))
        }
    }

    async fn put(&self, put: &Put<'_>) -> Result<Version, Failure> {
        let fields = put.marker.fields();
        let mut options = BlockBlobClientUploadOptions {
            blob_content_type: Some(put.media_type.to_owned()),
            blob_cache_control: Some(put.cache_control.to_owned()),
            metadata: Some(fields.map(|(field, value)| (field.identifier().to_owned(), value)).collect()),
            // One request: a blob made of blocks is written by several.
            partition_size: Some(NonZero::<u64>::MAX),
            ..BlockBlobClientUploadOptions::default()
        };
        let request = match put.precondition {
            Precondition::Absent => {
                options.if_none_match = Some(Etag::from("*"));
                StoreRequest::Create
            }
            Precondition::Unchanged(version) => {
                options.if_match = Some(Etag::from(version.0.as_str()));
                StoreRequest::Replace
            }
        };
        let content = RequestContent::from(put.bytes.to_vec());
        match self.blob(put.path)?.block_blob_client().upload(content, Some(options)).await {
            Ok(written) => written.etag.map(|etag| Version(etag.to_string())).ok_or_else(no_etag),
            Err(error) => Err(AzureRefusal::of(&error)?.into_failure(request)),
        }
    }
}

#[async_trait]
impl DocumentStore for AzureBlobStore {
    async fn read_unless(&self, path: &str, known: Option<&Version>) -> Result<ConditionalRead, StoreError> {
        let result = self.connection.limits.keep(self.get(path, known)).await;
        result.map_err(|failure| failure.at(self.describe(), Operation::Read, path))
    }

    async fn write(&self, put: Put<'_>) -> Result<Version, StoreError> {
        let result = self.connection.limits.keep(self.put(&put)).await;
        result.map_err(|failure| failure.at(self.describe(), Operation::Write, put.path))
    }

    fn describe(&self) -> String {
        self.name.clone()
    }
}

async fn stored(found: BlobClientDownloadResult) -> Result<StoredObject, Failure> {
    let BlobClientDownloadResult { mut body, properties, .. } = found;
    let field = |field: MarkerField| properties.metadata.get(field.identifier()).map(String::as_str);
    let (marker, damage) = read_marker(field);
    let version = properties.etag.map(|etag| Version(etag.to_string())).ok_or_else(no_etag)?;
    Ok(StoredObject {
        bytes: collect(&mut body).await?,
        media_type: properties.content_type,
        cache_control: properties.cache_control,
        marker,
        damage,
        version,
    })
}

async fn collect(body: &mut AsyncResponseBody) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    while let Some(chunk) = body.try_next().await.map_err(|error| answer::broken_off(&error))? {
        if append(&mut bytes, &chunk).is_break() {
            break;
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;

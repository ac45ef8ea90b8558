//! A store in a bucket of Google Cloud Storage, through its JSON API.
//!
//! Versions are generation and metageneration ([`stamp`]). Conditions are `ifGenerationMatch` (0 where there is to be
//! nothing) and `ifMetagenerationMatch` on uploads, and `If-None-Match` with the object's ETag on downloads: an ETag
//! changes with the attributes too, which `ifGenerationNotMatch` would hide
//! (<https://docs.cloud.google.com/storage/docs/request-preconditions>). The marker's fields are custom metadata.
//!
//! `Cache-Control` is always set, in the same write: without it, public objects are served for an hour
//! (<https://docs.cloud.google.com/storage/docs/caching>). A download does not tell it: its own header speaks of that
//! one answer, and the SDK does not pass it on. So a copy stands in the custom metadata, and the metageneration says
//! whether it still holds: it starts at 1 with each upload and grows with each change of an attribute. Such a change
//! costs no second request, and one write that puts everything back.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chancery_core::marker::MarkerField;
use chancery_core::publication::{Precondition, StoredObject, Version};
use google_cloud_storage::client::Storage;
use google_cloud_storage::read_object::ReadObjectResponse;

use self::answer::GcsRefusal;
use self::stamp::Stamp;
use super::limits::Limits;
use super::{
    ConditionalRead, DocumentStore, Failure, Operation, Put, StoreError, StoreErrorKind, StoreRequest,
    append, read_marker,
};
use crate::target::{GcsTarget, TargetError};

mod answer;
mod client;
mod condition;
mod stamp;

/// The answer to a conditional read of an object that is what was known.
const NOT_MODIFIED: u16 = 304;
/// Where the copy of `Cache-Control` stands among the custom metadata.
const CACHE_CONTROL: &str = "chancery-cache-control";

/// A client, and what holds for all of its operations. Stores of several buckets and prefixes may share it.
#[derive(Debug)]
pub struct GcsConnection {
    client: Storage,
    /// An operation is tried once: whoever publishes tries again, with a fresh reading.
    limits: Limits,
}

impl GcsConnection {
    /// What a target is reached by. Reads this machine's credentials; nothing is asked of the server.
    ///
    /// # Errors
    /// When the credentials cannot be used.
    pub async fn open(target: &GcsTarget) -> Result<Self, TargetError> {
        let limits = Limits::new(Duration::from_secs(target.timeout_seconds.into()));
        Ok(Self { client: client::connect(target).await?, limits })
    }
}

/// Documents in a bucket.
#[derive(Debug)]
pub struct GcsStore {
    connection: Arc<GcsConnection>,
    /// As the SDK wants it, `projects/_/buckets/NAME`.
    bucket: String,
    prefix: String,
    name: String,
}

impl GcsStore {
    /// The store of a target that is reached by `connection`.
    pub fn new(connection: Arc<GcsConnection>, target: &GcsTarget) -> Self {
        Self {
            connection,
            bucket: format!("projects/_/buckets/{}", target.bucket),
            prefix: target.trimmed_prefix().to_owned(),
            name: target.to_string(),
        }
    }

    fn key(&self, path: &str) -> String {
        if self.prefix.is_empty() { path.to_owned() } else { format!("{}/{path}", self.prefix) }
    }

    async fn get(&self, path: &str, known: Option<&Version>) -> Result<ConditionalRead, Failure> {
        let known = known.map(Stamp::parse).transpose()?;
        let etag = known.as_ref().and_then(Stamp::header);
        let request = self.connection.client.read_object(&self.bucket, self.key(path)).send();
        let response = match condition::unless(etag, request).await {
            Ok(response) => response,
            Err(error) => {
                let answer = GcsRefusal::of(&error, StoreRequest::Read)?;
                return match answer.status {
                    NOT_MODIFIED if known.is_some() => Ok(ConditionalRead::Unchanged),
                    _ if answer.is_absence() => Ok(ConditionalRead::Absent),
                    _ => Err(answer.into_failure(StoreRequest::Read)),
                };
            }
        };
        let stamp = Stamp::of_read(&response.object());
        // A server that does not look at the condition sends the whole object again.
        if known.is_some_and(|known| known.is_same(&stamp)) {
            return Ok(ConditionalRead::Unchanged);
        }
        stored(response, &stamp).await.map(ConditionalRead::Found)
    }

    async fn put(&self, put: &Put<'_>) -> Result<Version, Failure> {
        let (kind, expected) = match put.precondition {
            Precondition::Absent => (StoreRequest::Create, None),
            Precondition::Unchanged(version) => (StoreRequest::Replace, Some(Stamp::parse(version)?)),
        };
        let marker = put.marker.fields().map(|(field, value)| (field.name().to_owned(), value));
        let cache = (CACHE_CONTROL.to_owned(), put.cache_control.to_owned());
        let mut request = self
            .connection
            .client
            .write_object(&self.bucket, self.key(put.path), Bytes::copy_from_slice(put.bytes))
            .set_content_type(put.media_type)
            .set_cache_control(put.cache_control)
            .set_metadata(marker.chain([cache]))
            .set_if_generation_match(expected.as_ref().map_or(0, |stamp| stamp.generation));
        if let Some(stamp) = expected {
            request = request.set_if_metageneration_match(stamp.metageneration);
        }
        match request.send_buffered().await {
            Ok(object) => Stamp::of_written(&object).map(|stamp| stamp.version()).ok_or_else(no_generation),
            Err(error) => Err(GcsRefusal::of(&error, kind)?.into_failure(kind)),
        }
    }
}

#[async_trait]
impl DocumentStore for GcsStore {
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

async fn stored(response: ReadObjectResponse, stamp: &Stamp) -> Result<StoredObject, Failure> {
    let object = response.object();
    let field = |field: MarkerField| object.metadata.get(field.name()).map(String::as_str);
    let (marker, damage) = read_marker(field);
    let cache_control = object.metadata.get(CACHE_CONTROL).filter(|_| stamp.is_as_written()).cloned();
    Ok(StoredObject {
        bytes: collect(response).await?,
        media_type: Some(object.content_type).filter(|text| !text.is_empty()),
        cache_control,
        marker,
        damage,
        version: stamp.version(),
    })
}

async fn collect(mut response: ReadObjectResponse) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.next().await {
        let chunk = chunk.map_err(|error| answer::broken_off(&error))?;
        if append(&mut bytes, &chunk).is_break() {
            break;
        }
    }
    Ok(bytes)
}

fn no_generation() -> Failure {
    Failure::new(
        StoreErrorKind::Misconfigured,
        "the answer names no generation",
        "without versions no write can be safe: use Google Cloud Storage itself, and no proxy that drops its headers",
    )
}

#[cfg(test)]
mod tests;

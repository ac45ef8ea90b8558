//! A store in a bucket of Amazon S3, or of any server that speaks its protocol and knows conditional writes.
//!
//! A version is the ETag and a digest of the headers ([`version`]); what is known is compared with the answer to a
//! HeadObject. Conditions are `If-None-Match: *` and `If-Match` on PutObject, which know the ETag alone
//! (<https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html>). The marker's fields are user
//! metadata, `x-amz-meta-chancery-owner` and so on. What servers answer is translated in [`answer`]; what a refused
//! reading means, [`presence`] decides.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_s3::Client;
use aws_sdk_s3::operation::get_object::GetObjectOutput;
use aws_sdk_s3::primitives::ByteStream;
use chancery_core::marker::MarkerField;
use chancery_core::publication::{Precondition, StoredObject, Version};

use tokio::time::Instant;

use self::answer::{Absence, S3Refusal};
use self::presence::{Meaning, Presence};
use super::limits::Limits;
use super::{
    ConditionalRead, DocumentStore, Failure, Operation, Put, StoreError, StoreErrorKind, StoreRequest,
    append, no_etag, read_marker,
};
use crate::target::{S3Target, TargetError};

mod answer;
mod client;
mod presence;
mod version;

/// A client, and what holds for all of its operations. Stores of several buckets and prefixes may share it.
#[derive(Debug)]
pub struct S3Connection {
    client: Client,
    limits: Limits,
}

impl S3Connection {
    /// What a target is reached by. Reads this machine's AWS configuration; nothing is asked of the server.
    ///
    /// # Errors
    /// When no region is to be had or the credentials file is missing.
    pub async fn open(target: &S3Target) -> Result<Self, TargetError> {
        let limits = Limits::new(client::operation_limit(target));
        Ok(Self { client: client::connect(target).await?, limits })
    }
}

/// Documents in a bucket.
#[derive(Debug)]
pub struct S3Store {
    connection: Arc<S3Connection>,
    bucket: String,
    prefix: String,
    name: String,
    /// Which objects are there, as far as is known without reading them.
    presence: Mutex<Presence>,
}

impl S3Store {
    /// The store of a target that is reached by `connection`.
    pub fn new(connection: Arc<S3Connection>, target: &S3Target) -> Self {
        Self {
            connection,
            bucket: target.bucket.clone(),
            prefix: target.trimmed_prefix().to_owned(),
            name: target.to_string(),
            presence: Mutex::default(),
        }
    }

    fn key(&self, path: &str) -> String {
        below(&self.prefix, path)
    }

    async fn get(&self, path: &str, known: Option<&Version>) -> Result<ConditionalRead, Failure> {
        if let Some(known) = known
            && self.is_still(path, known).await?
        {
            self.presence().found(path);
            return Ok(ConditionalRead::Unchanged);
        }
        let request = self.connection.client.get_object().bucket(&self.bucket).key(self.key(path));
        let answer = match request.send().await {
            Ok(output) => {
                self.presence().found(path);
                return stored(output).await.map(ConditionalRead::Found);
            }
            Err(error) => S3Refusal::of(&error)?,
        };
        match answer.absence() {
            Some(Absence::Certain) => {
                self.presence().absent(path);
                Ok(ConditionalRead::Absent)
            }
            Some(Absence::Possible) => self.refused(path, answer),
            None => Err(answer.into_failure(StoreRequest::Read)),
        }
    }

    /// Whether the object is the version `known`. What a refusal means, only a GET tells: the answer to a HEAD has no
    /// body.
    async fn is_still(&self, path: &str, known: &Version) -> Result<bool, Failure> {
        let request = self.connection.client.head_object().bucket(&self.bucket).key(self.key(path));
        match request.send().await {
            Ok(output) => Ok(version::of_head(&output)? == *known),
            Err(error) => match S3Refusal::of(&error)? {
                answer if answer.needs_its_body() => Ok(false),
                answer => Err(answer.into_failure(StoreRequest::Read)),
            },
        }
    }

    fn refused(&self, path: &str, answer: S3Refusal) -> Result<ConditionalRead, Failure> {
        let meaning = self.presence().refused(path, Instant::now());
        match meaning {
            Meaning::Hidden => Err(answer.into_hidden()),
            Meaning::Absent { first } => {
                if first {
                    tracing::warn!(
                        target.name = %self.name,
                        document.path = path,
                        s3.answer = %answer,
                        "{path} at {} may not be read; taken for absent, since without s3:ListBucket S3 says so of absent objects too",
                        self.name,
                    );
                }
                Ok(ConditionalRead::Absent)
            }
        }
    }

    async fn put(&self, put: &Put<'_>) -> Result<Version, Failure> {
        let mut request = self
            .connection
            .client
            .put_object()
            .bucket(&self.bucket)
            .key(self.key(put.path))
            .body(ByteStream::from(put.bytes.to_vec()))
            .content_type(put.media_type)
            .cache_control(put.cache_control);
        for (field, value) in put.marker.fields() {
            request = request.metadata(field.name(), value);
        }
        let (request, kind) = match put.precondition {
            Precondition::Absent => (request.if_none_match("*"), StoreRequest::Create),
            Precondition::Unchanged(version) => {
                (request.if_match(version::etag(version)), StoreRequest::Replace)
            }
        };
        let failure = match request.send().await {
            Ok(output) => {
                self.presence().found(put.path);
                return output.e_tag().map(|etag| version::of_written(put, etag)).ok_or_else(no_etag);
            }
            Err(error) => S3Refusal::of(&error).map_or_else(|failure| failure, |a| a.into_failure(kind)),
        };
        if kind == StoreRequest::Create && failure.kind == StoreErrorKind::Conflict {
            self.presence().in_the_way(put.path);
        }
        Err(failure)
    }

    fn presence(&self) -> MutexGuard<'_, Presence> {
        // No code that holds the lock can leave the map half changed.
        self.presence.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The client of a target, for whoever asks the bucket more than a store does.
pub(crate) async fn client_of(target: &S3Target) -> Result<Client, TargetError> {
    client::connect(target).await
}

/// The AWS configuration of a target, its credentials included.
pub(crate) async fn configuration_of(target: &S3Target) -> Result<SdkConfig, TargetError> {
    client::load(target).await
}

/// The key of the object that a store calls `path`.
pub(crate) fn key_of(target: &S3Target, path: &str) -> String {
    below(target.trimmed_prefix(), path)
}

fn below(prefix: &str, path: &str) -> String {
    if prefix.is_empty() { path.to_owned() } else { format!("{prefix}/{path}") }
}

#[async_trait]
impl DocumentStore for S3Store {
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

async fn stored(output: GetObjectOutput) -> Result<StoredObject, Failure> {
    let field = |field: MarkerField| output.metadata.as_ref()?.get(field.name()).map(String::as_str);
    let (marker, damage) = read_marker(field);
    let version = version::of_read(&output)?;
    Ok(StoredObject {
        bytes: collect(output.body).await?,
        media_type: output.content_type,
        cache_control: output.cache_control,
        marker,
        damage,
        version,
    })
}

async fn collect(mut body: ByteStream) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    while let Some(chunk) = body.next().await {
        let chunk = chunk.map_err(|error| {
            Failure::new(StoreErrorKind::Unavailable, error, "the answer broke off; try again")
        })?;
        if append(&mut bytes, &chunk).is_break() {
            break;
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;

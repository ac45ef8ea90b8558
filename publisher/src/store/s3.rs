//! A store in a bucket of Amazon S3, or of any server that speaks its protocol and knows conditional writes.
//!
//! Versions are ETags. Conditions are `If-None-Match: *` and `If-Match` on PutObject
//! (<https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html>), and `If-None-Match` on GetObject.
//! The marker's fields are user metadata, `x-amz-meta-chancery-owner` and so on. What servers answer is translated in [`answer`].

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_s3::Client;
use aws_sdk_s3::operation::get_object::GetObjectOutput;
use aws_sdk_s3::primitives::ByteStream;
use chancery_core::marker::MarkerField;
use chancery_core::publication::{Precondition, StoredObject, Version};

use self::answer::{Absence, Answer, Request};
use super::{
    DocumentStore, Failure, Operation, Put, Reading, StoreError, StoreErrorKind, append, no_etag, read_marker,
};
use crate::target::{Location, S3Target, TargetError};

mod answer;
mod client;

/// The answer to a conditional read of an object that is what was known.
const NOT_MODIFIED: u16 = 304;

/// Documents in a bucket.
#[derive(Debug)]
pub struct S3Store {
    client: Client,
    bucket: String,
    prefix: String,
    name: String,
    /// How long one operation may take, all its attempts together.
    limit: Duration,
    /// Paths whose reading was refused in a way that does not tell whether there is an object.
    unseen: Mutex<BTreeSet<String>>,
}

impl S3Store {
    /// The store of a target. Reads this machine's AWS configuration; the bucket is not touched.
    ///
    /// # Errors
    /// When no region is to be had or the credentials file is missing.
    pub async fn connect(target: &S3Target) -> Result<Self, TargetError> {
        Ok(Self {
            client: client::connect(target).await?,
            bucket: target.bucket.clone(),
            prefix: target.trimmed_prefix().to_owned(),
            name: Location::S3(target).to_string(),
            limit: client::operation_limit(target),
            unseen: Mutex::default(),
        })
    }

    fn key(&self, path: &str) -> String {
        below(&self.prefix, path)
    }

    async fn get(&self, path: &str, known: Option<&Version>) -> Result<Reading, Failure> {
        let request = self.client.get_object().bucket(&self.bucket).key(self.key(path));
        let request = request.set_if_none_match(known.map(|version| version.0.clone()));
        let answer = match request.send().await {
            Ok(output) => return stored(output).await.map(Reading::Found),
            Err(error) => Answer::of(&error)?,
        };
        if known.is_some() && answer.status == NOT_MODIFIED {
            return Ok(Reading::Unchanged);
        }
        match answer.absence() {
            Some(Absence::Certain) => Ok(Reading::Absent),
            Some(Absence::Possible) => {
                self.report_unseen(path, &answer);
                Ok(Reading::Absent)
            }
            None => Err(answer.into_failure(Request::Read)),
        }
    }

    async fn put(&self, put: &Put<'_>) -> Result<Version, Failure> {
        let mut request = self
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
            Precondition::Absent => (request.if_none_match("*"), Request::Create),
            Precondition::Unchanged(version) => (request.if_match(&version.0), Request::Replace),
        };
        match request.send().await {
            Ok(output) => output.e_tag.map(Version).ok_or_else(no_etag),
            Err(error) => {
                let failure = Answer::of(&error).map_or_else(|failure| failure, |a| a.into_failure(kind));
                Err(if self.is_unseen(put.path) { hidden(failure) } else { failure })
            }
        }
    }

    fn report_unseen(&self, path: &str, answer: &Answer) {
        let new = self.unseen.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned());
        if new {
            tracing::warn!(
                target.name = %self.name,
                document.path = path,
                s3.answer = %answer,
                "{path} at {} may not be read; taken for absent, since without s3:ListBucket S3 says so of absent objects too",
                self.name,
            );
        }
    }

    fn is_unseen(&self, path: &str) -> bool {
        self.unseen.lock().unwrap_or_else(PoisonError::into_inner).contains(path)
    }

    async fn limited<T>(&self, work: impl Future<Output = Result<T, Failure>> + Send) -> Result<T, Failure> {
        tokio::time::timeout(self.limit, work).await.unwrap_or_else(|elapsed| Err(answer::timed_out(elapsed)))
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
    async fn read_unless(&self, path: &str, known: Option<&Version>) -> Result<Reading, StoreError> {
        let result = self.limited(self.get(path, known)).await;
        result.map_err(|failure| failure.at(self.describe(), Operation::Read, path))
    }

    async fn write(&self, put: Put<'_>) -> Result<Version, StoreError> {
        let result = self.limited(self.put(&put)).await;
        result.map_err(|failure| failure.at(self.describe(), Operation::Write, put.path))
    }

    fn describe(&self) -> String {
        self.name.clone()
    }
}

async fn stored(output: GetObjectOutput) -> Result<StoredObject, Failure> {
    let field = |field: MarkerField| output.metadata.as_ref()?.get(field.name()).map(String::as_str);
    let marker = read_marker(field)?;
    let version = output.e_tag.map(Version).ok_or_else(no_etag)?;
    Ok(StoredObject {
        bytes: collect(output.body).await?,
        media_type: output.content_type,
        cache_control: output.cache_control,
        marker,
        version,
    })
}

async fn collect(mut body: ByteStream) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    while let Some(chunk) = body.next().await {
        let chunk = chunk.map_err(|error| {
            Failure::new(StoreErrorKind::Unavailable, error, "the answer broke off; try again")
        })?;
        append(&mut bytes, &chunk)?;
    }
    Ok(bytes)
}

/// Losing to an object that we were refused to read is no race: reading it again would not help.
fn hidden(failure: Failure) -> Failure {
    if failure.kind != StoreErrorKind::Conflict {
        return failure;
    }
    Failure::new(
        StoreErrorKind::Denied,
        format!("reading it was refused, and {}", failure.cause),
        "the object is there but may not be read: grant s3:GetObject on it",
    )
}

#[cfg(test)]
mod tests;

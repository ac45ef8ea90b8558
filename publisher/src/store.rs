//! Where documents are kept: one trait with two operations, and the errors by meaning.
//!
//! An adapter translates its vendor's answers into [`StoreErrorKind`]s; nobody above it knows a vendor.

use std::fmt;
#[cfg(any(feature = "s3", feature = "azure", feature = "gcp"))]
use std::ops::ControlFlow;

use async_trait::async_trait;
use chancery_core::Marker;
use chancery_core::marker::{DamagedMarker, MarkerField};
pub use chancery_core::publication::LARGEST_OBJECT;
use chancery_core::publication::{Precondition, StoredObject, Version};
use chancery_core::quoted::one_line;

#[cfg(feature = "azure")]
pub mod azure_blob;
pub mod directory;
#[cfg(feature = "gcp")]
pub mod gcs;
#[cfg(any(feature = "s3", feature = "azure", feature = "gcp"))]
pub(crate) mod limits;
#[cfg(any(test, feature = "conformance"))]
pub mod memory;
#[cfg(feature = "s3")]
pub mod s3;

/// A place for small objects that can be written on a condition. Every implementation passes `conformance`.
#[async_trait]
pub trait DocumentStore: Send + Sync + fmt::Debug {
    /// The object at `path`, unless it is still the version `known`; of one that is larger than [`LARGEST_OBJECT`] its
    /// beginning, one byte more than that. Changes nothing.
    ///
    /// # Errors
    /// When the place cannot be read; see [`StoreErrorKind`].
    async fn read_unless(&self, path: &str, known: Option<&Version>) -> Result<ConditionalRead, StoreError>;

    /// The object at `path`, or `None` when there is none. Changes nothing.
    ///
    /// # Errors
    /// As [`Self::read_unless`].
    async fn read(&self, path: &str) -> Result<Option<StoredObject>, StoreError> {
        Ok(match self.read_unless(path, None).await? {
            ConditionalRead::Found(object) => Some(object),
            ConditionalRead::Absent | ConditionalRead::Unchanged => None,
        })
    }

    /// Writes one object whole, if its condition holds, and returns the new version.
    ///
    /// # Errors
    /// [`StoreErrorKind::Conflict`] when the condition does not hold; otherwise see [`StoreErrorKind`].
    async fn write(&self, put: Put<'_>) -> Result<Version, StoreError>;

    /// What a person calls this place: `directory /srv/www`, `s3://bucket/prefix`.
    fn describe(&self) -> String;
}

/// What a conditional read found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConditionalRead {
    /// There is no object.
    Absent,
    /// It is still the version that was known. Never the answer where none was.
    Unchanged,
    /// Another version than the one known.
    Found(StoredObject),
}

impl ConditionalRead {
    /// The reading of a store that had to read the whole object to know its version.
    pub(crate) fn of(object: Option<StoredObject>, known: Option<&Version>) -> Self {
        match object {
            None => Self::Absent,
            Some(object) if Some(&object.version) == known => Self::Unchanged,
            Some(object) => Self::Found(object),
        }
    }
}

/// One conditional write.
#[derive(Clone, Copy, Debug)]
pub struct Put<'a> {
    /// Relative to the place, without a leading slash; [`chancery_core::DocumentKind::path`] spells it.
    pub path: &'a str,
    /// The whole content.
    pub bytes: &'a [u8],
    /// `Content-Type`.
    pub media_type: &'a str,
    /// `Cache-Control`.
    pub cache_control: &'a str,
    /// The ownership marker.
    pub marker: &'a Marker,
    /// What must hold for the write to be made.
    pub precondition: &'a Precondition,
}

/// What went wrong, by what the caller should do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The condition does not hold: somebody else was faster. Nothing was written; read again.
    Conflict,
    /// The bucket or root does not exist. Somebody has to make it.
    NoSuchContainer,
    /// We may not. Somebody has to grant it.
    Denied,
    /// The place does not answer or asks for patience. Try again later.
    Unavailable,
    /// No answer came, or none in time. A write may have taken effect; read again.
    TimedOut,
    /// The place and our settings for it do not fit. Somebody has to change one of them.
    Misconfigured,
}

impl StoreErrorKind {
    /// Whether trying again can help by itself.
    pub fn is_transient(self) -> bool {
        matches!(self, Self::Conflict | Self::Unavailable | Self::TimedOut)
    }
}

impl fmt::Display for StoreErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Conflict => "it is no longer what was read",
            Self::NoSuchContainer => "the place does not exist",
            Self::Denied => "access was denied",
            Self::Unavailable => "the place is not available",
            Self::TimedOut => "no answer came",
            Self::Misconfigured => "the place does not fit its configuration",
        })
    }
}

/// What was being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// [`DocumentStore::read_unless`].
    Read,
    /// [`DocumentStore::write`].
    Write,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
        })
    }
}

/// How many characters of a cause are told, which may be in somebody else's words.
const LONGEST_CAUSE: usize = 1000;

/// A failed operation on a store. Its text holds the cause, so that one line of a log says everything; the same problem
/// has the same text each time, so that it can be said once.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {path} at {target}: {kind} ({}); {remedy}", one_line(&cause.to_string(), LONGEST_CAUSE))]
pub struct StoreError {
    /// What the caller should do about it.
    pub kind: StoreErrorKind,
    /// The place, as [`DocumentStore::describe`] calls it.
    pub target: String,
    /// What was being done.
    pub operation: Operation,
    /// To which object.
    pub path: String,
    /// What the file system, the network or the vendor said.
    pub cause: Box<dyn std::error::Error + Send + Sync>,
    /// What helps.
    pub remedy: &'static str,
    /// What the vendor calls this one request; another one each time, so it is no part of the text.
    pub request_id: Option<String>,
}

/// What a store was asked for, which says what right a refusal is about.
#[cfg(any(feature = "s3", feature = "azure", feature = "gcp"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreRequest {
    Read,
    /// A write on the condition that there is nothing.
    Create,
    /// A write on the condition that there is a certain version.
    Replace,
}

/// Why an operation failed, without the place: what the rooms inside an adapter return.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) kind: StoreErrorKind,
    pub(crate) cause: Box<dyn std::error::Error + Send + Sync>,
    pub(crate) remedy: &'static str,
    pub(crate) request_id: Option<String>,
}

impl Failure {
    pub(crate) fn new(
        kind: StoreErrorKind,
        cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
        remedy: &'static str,
    ) -> Self {
        Self { kind, cause: cause.into(), remedy, request_id: None }
    }

    /// Of the request that the vendor calls so; an empty id is none.
    #[cfg(any(feature = "s3", feature = "azure"))]
    pub(crate) fn of_request(self, id: String) -> Self {
        Self { request_id: Some(id).filter(|id| !id.is_empty()), ..self }
    }

    pub(crate) fn conflict(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::new(StoreErrorKind::Conflict, cause, "read it again and decide anew")
    }

    pub(crate) fn at(self, target: String, operation: Operation, path: &str) -> StoreError {
        let Self { kind, cause, remedy, request_id } = self;
        StoreError { kind, target, operation, path: path.to_owned(), cause, remedy, request_id }
    }
}

/// The marker of an object, or what is wrong with it.
pub(crate) fn read_marker<'a>(
    field: impl Fn(MarkerField) -> Option<&'a str>,
) -> (Option<Marker>, Option<Box<DamagedMarker>>) {
    match Marker::read(field) {
        Ok(marker) => (marker, None),
        Err(damage) => (None, Some(Box::new(damage))),
    }
}

/// Adds a part of an object that is being read, up to one byte more than [`LARGEST_OBJECT`], and says whether to go on.
#[cfg(any(feature = "s3", feature = "azure", feature = "gcp"))]
pub(crate) fn append(bytes: &mut Vec<u8>, chunk: &[u8]) -> ControlFlow<()> {
    let room = (LARGEST_OBJECT + 1).saturating_sub(bytes.len());
    bytes.extend(chunk.iter().take(room));
    if bytes.len() > LARGEST_OBJECT { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// An answer of a store whose versions are ETags has none.
#[cfg(any(feature = "s3", feature = "azure"))]
pub(crate) fn no_etag() -> Failure {
    Failure::new(
        StoreErrorKind::Misconfigured,
        "the answer has no ETag",
        "without versions no write can be safe: use a server that gives ETags, and no proxy that drops them",
    )
}

/// Whether `precondition` holds for an object that is `current` now.
pub(crate) fn check(precondition: &Precondition, current: Option<&Version>) -> Result<(), Failure> {
    match (precondition, current) {
        (Precondition::Absent, None) => Ok(()),
        (Precondition::Unchanged(expected), Some(version)) if expected == version => Ok(()),
        (Precondition::Absent, Some(_)) => {
            Err(Failure::conflict("it was to be created but is already there"))
        }
        (Precondition::Unchanged(_), Some(_)) => Err(Failure::conflict("it was written in the meantime")),
        (Precondition::Unchanged(_), None) => Err(Failure::conflict("it was removed in the meantime")),
    }
}

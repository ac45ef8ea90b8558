//! What a file cannot carry about a document: whose it is, its media type and its cache header.
//!
//! Each record names the content it describes by digest. A document that no record describes is a stranger's, or
//! was changed by hand: it has no marker. The first record describes the content written last, the second the one
//! before it, so that the document is described whether or not a write got past its sidecar.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chancery_core::marker::{Marker, MarkerError};
use chancery_core::publication::{StoredObject, Version};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

use crate::store::{Failure, Put, StoreErrorKind};

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Sidecar {
    records: Vec<Record>,
}

/// The description of one content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Record {
    /// base64url(SHA-256(content)).
    content: String,
    /// The fields of the marker by name.
    marker: BTreeMap<String, String>,
    media_type: String,
    cache_control: String,
}

impl Record {
    pub(super) fn of(put: &Put<'_>) -> Self {
        Self {
            content: digest(put.bytes),
            marker: fields(put.marker),
            media_type: put.media_type.to_owned(),
            cache_control: put.cache_control.to_owned(),
        }
    }

    /// The description of an object that is there, if it has one.
    fn of_stored(object: &StoredObject) -> Option<Self> {
        Some(Self {
            content: digest(&object.bytes),
            marker: fields(object.marker.as_ref()?),
            media_type: object.media_type.clone()?,
            cache_control: object.cache_control.clone()?,
        })
    }

    fn read_marker(&self) -> Result<Option<Marker>, MarkerError> {
        Marker::read(|field| self.marker.get(field.name()).map(String::as_str))
    }
}

fn fields(marker: &Marker) -> BTreeMap<String, String> {
    marker.fields().map(|(field, value)| (field.name().to_owned(), value)).collect()
}

impl Sidecar {
    /// The sidecar with which `record` is about to replace `current`.
    pub(super) fn of(record: Record, current: Option<&StoredObject>) -> Self {
        Self { records: std::iter::once(record).chain(current.and_then(Record::of_stored)).collect() }
    }

    /// Reads a sidecar; a missing one describes nothing.
    pub(super) fn parse(bytes: Option<&[u8]>, path: &Path) -> Result<Self, Failure> {
        let Some(bytes) = bytes else { return Ok(Self::default()) };
        let sidecar: Self = serde_json::from_slice(bytes).map_err(|error| broken(path, &error))?;
        // A marker that cannot be read must not pass for no marker.
        for record in &sidecar.records {
            record.read_marker().map_err(|error| broken(path, &error))?;
        }
        Ok(sidecar)
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        // Strings and lists serialise without failing.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// A document's content with what is known about it.
    pub(super) fn describe(&self, bytes: Vec<u8>) -> StoredObject {
        let content = digest(&bytes);
        let record = self.records.iter().find(|record| record.content == content);
        let version = Version(digest(format!("{content} {record:?}").as_bytes()));
        StoredObject {
            bytes,
            media_type: record.map(|record| record.media_type.clone()),
            cache_control: record.map(|record| record.cache_control.clone()),
            marker: record.and_then(|record| record.read_marker().ok().flatten()),
            version,
        }
    }
}

fn digest(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(bytes))
}

fn broken(path: &Path, error: &dyn std::error::Error) -> Failure {
    Failure::new(
        StoreErrorKind::Misconfigured,
        format!("{}: {error}", path.display()),
        "look at the document; if it is ours, remove this hidden file and adopt the document (`--adopt`)",
    )
}

//! What a file cannot carry about a document: whose it is, its media type and its cache header.
//!
//! Each record names the content it describes by digest. A document that no record describes is a stranger's, or
//! was changed by hand: it has no marker. A sidecar that cannot be read is a damaged marker of whatever content. The first record describes the content written last, the second the one
//! before it, so that the document is described whether or not a write got past its sidecar.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chancery_core::Marker;
use chancery_core::marker::DamagedMarker;
use chancery_core::publication::{StoredObject, Version};
use chancery_core::quoted::one_line;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

use crate::store::{Put, read_marker};

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Sidecar {
    records: Vec<Record>,
    /// Why it cannot be read, if it cannot.
    #[serde(skip)]
    damage: Option<Box<DamagedMarker>>,
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
}

fn fields(marker: &Marker) -> BTreeMap<String, String> {
    marker.fields().map(|(field, value)| (field.name().to_owned(), value)).collect()
}

impl Sidecar {
    /// The sidecar with which `record` is about to replace `current`.
    pub(super) fn of(record: Record, current: Option<&StoredObject>) -> Self {
        let records = std::iter::once(record).chain(current.and_then(Record::of_stored)).collect();
        Self { records, damage: None }
    }

    /// Reads a sidecar; a missing one describes nothing.
    pub(super) fn parse(bytes: Option<&[u8]>, path: &Path) -> Self {
        let Some(bytes) = bytes else { return Self::default() };
        serde_json::from_slice(bytes).unwrap_or_else(|error| {
            let problem = format!("{}: {}", path.display(), one_line(&error.to_string(), 200));
            Self { records: Vec::new(), damage: Some(Box::new(DamagedMarker { owner: None, problem })) }
        })
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        // Strings and lists serialise without failing.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// A document's content with what is known about it.
    pub(super) fn describe(&self, bytes: Vec<u8>) -> StoredObject {
        let content = digest(&bytes);
        let record = self.records.iter().find(|record| record.content == content);
        let version = Version(digest(format!("{content} {record:?} {:?}", self.damage).as_bytes()));
        let (marker, damage) = match record {
            Some(record) => read_marker(|field| record.marker.get(field.name()).map(String::as_str)),
            None => (None, self.damage.clone()),
        };
        StoredObject {
            bytes,
            media_type: record.map(|record| record.media_type.clone()),
            cache_control: record.map(|record| record.cache_control.clone()),
            marker,
            damage,
            version,
        }
    }
}

fn digest(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(bytes))
}

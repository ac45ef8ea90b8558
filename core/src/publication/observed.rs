//! What a target holds, as it was read.

use crate::DocumentKind;
use crate::marker::{DamagedMarker, Edition, Marker};

/// The version of a stored object, as its store names it: an ETag, a generation, a digest. Compared, never read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(pub String);

/// The largest object that is read whole, in bytes. A key set of a hundred keys has 50 kB: what is larger is not ours.
pub const LARGEST_OBJECT: usize = 8 << 20;

/// An object as it was read from a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredObject {
    /// The exact bytes; of a larger object than [`LARGEST_OBJECT`] its beginning, one byte more than that.
    pub bytes: Vec<u8>,
    /// `Content-Type` as stored.
    pub media_type: Option<String>,
    /// `Cache-Control` as stored.
    pub cache_control: Option<String>,
    /// The ownership marker, if there is one that can be read.
    pub marker: Option<Marker>,
    /// Why the marker cannot be read, where there is one that cannot.
    pub damage: Option<Box<DamagedMarker>>,
    /// What a conditional write must name.
    pub version: Version,
}

impl StoredObject {
    /// Whether only its beginning was read.
    pub fn is_oversize(&self) -> bool {
        self.bytes.len() > LARGEST_OBJECT
    }

    /// Which writing of it this is; `None` when it carries no marker.
    pub fn edition(&self) -> Option<Edition> {
        Edition::of(&self.bytes, self.marker.as_ref())
    }
}

/// What a target holds below one issuer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// The object at the JWKS' path.
    pub jwks: Option<StoredObject>,
    /// The object at the discovery document's path.
    pub discovery: Option<StoredObject>,
}

impl Observed {
    /// The object of one kind.
    pub fn object(&self, kind: DocumentKind) -> Option<&StoredObject> {
        match kind {
            DocumentKind::Jwks => self.jwks.as_ref(),
            DocumentKind::Discovery => self.discovery.as_ref(),
        }
    }

    /// The place of the object of one kind.
    pub fn object_mut(&mut self, kind: DocumentKind) -> &mut Option<StoredObject> {
        match kind {
            DocumentKind::Jwks => &mut self.jwks,
            DocumentKind::Discovery => &mut self.discovery,
        }
    }
}

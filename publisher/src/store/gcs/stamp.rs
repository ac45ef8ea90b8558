//! The version of an object: which upload it is, and how often its attributes were changed since.

use chancery_core::publication::Version;
use google_cloud_storage::model::Object;
use google_cloud_storage::model_ext::ObjectHighlights;
use http::HeaderValue;

use crate::store::{Failure, StoreErrorKind};

/// The metageneration of an object whose attributes are those of its upload.
const AS_WRITTEN: i64 = 1;

/// What a [`Version`] of this store spells as `GENERATION/METAGENERATION/ETAG`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) generation: i64,
    pub(super) metageneration: i64,
    etag: String,
}

impl Stamp {
    fn new(generation: i64, metageneration: i64, etag: &str) -> Self {
        // A server that does not say has never changed an attribute in place.
        let metageneration = metageneration.max(AS_WRITTEN);
        Self { generation, metageneration, etag: etag.trim_matches('"').to_owned() }
    }

    /// Of a download, which always has a generation: the SDK refuses one without.
    pub(super) fn of_read(object: &ObjectHighlights) -> Self {
        Self::new(object.generation, object.metageneration, &object.etag)
    }

    /// Of an upload; `None` when the answer does not say which one it is.
    pub(super) fn of_written(object: &Object) -> Option<Self> {
        (object.generation > 0).then(|| Self::new(object.generation, object.metageneration, &object.etag))
    }

    pub(super) fn parse(version: &Version) -> Result<Self, Failure> {
        let mut parts = version.0.splitn(3, '/');
        let mut number = || parts.next()?.parse().ok();
        let (generation, metageneration) = number().zip(number()).ok_or_else(|| {
            let cause = format!("{:?} is no version of an object in Google Cloud Storage", version.0);
            Failure::new(StoreErrorKind::Misconfigured, cause, "read the object first")
        })?;
        Ok(Self::new(generation, metageneration, parts.next().unwrap_or_default()))
    }

    pub(super) fn version(&self) -> Version {
        Version(format!("{}/{}/{}", self.generation, self.metageneration, self.etag))
    }

    /// Whether both are the same upload with the same attributes.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (self.generation, self.metageneration) == (other.generation, other.metageneration)
    }

    /// Whether nobody has changed an attribute since the upload.
    pub(super) fn is_as_written(&self) -> bool {
        self.metageneration == AS_WRITTEN
    }

    /// The ETag as a condition. Google's own clients send it without quotes, as its answers have it.
    pub(super) fn header(&self) -> Option<HeaderValue> {
        if self.etag.is_empty() { None } else { HeaderValue::from_str(&self.etag).ok() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_comes_back_whatever_its_etag() {
        for (text, generation, metageneration, etag) in [
            ("1732190000123456/1/CKih16GjycICEAE=", 1_732_190_000_123_456, 1, "CKih16GjycICEAE="),
            ("7/3/a/b+c=", 7, 3, "a/b+c="),
            ("7/1/", 7, 1, ""),
        ] {
            let stamp = Stamp::parse(&Version(text.to_owned())).unwrap();
            assert_eq!(stamp, Stamp { generation, metageneration, etag: etag.to_owned() });
            assert_eq!(stamp.version().0, text);
            assert_eq!(stamp.header().is_some(), !etag.is_empty());
        }
        for text in ["", "7", "\"etag\"", "7/x/etag", "x/7/etag"] {
            assert!(Stamp::parse(&Version(text.to_owned())).is_err(), "{text}");
        }
    }

    #[test]
    fn an_attribute_changed_in_place_is_another_version() {
        let written = Stamp::new(7, 1, "a");
        assert!(written.is_same(&Stamp::new(7, 0, "\"b\"")) && written.is_as_written());
        let patched = Stamp::new(7, 2, "a");
        assert!(!written.is_same(&patched) && !patched.is_as_written());
    }
}

//! What a version of an object in S3 is: its ETag, and a digest of everything that an answer tells beside the bytes.
//!
//! An ETag speaks of the bytes alone (unless they are encrypted with a KMS key): whoever copies an object onto itself
//! gives the same bytes other headers and another marker under the same ETag
//! (<https://docs.aws.amazon.com/AmazonS3/latest/API/API_CopyObject.html>). So a 304 to the ETag proves nothing, and
//! what is known is compared with what a HeadObject tells. `Last-Modified` and the id of a bucket's versioning take no
//! part: the answer to a write does not tell the first, and few buckets have the second.

use std::collections::BTreeMap;

use aws_sdk_s3::operation::get_object::GetObjectOutput;
use aws_sdk_s3::operation::head_object::HeadObjectOutput;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chancery_core::publication::Version;
use sha2::{Digest, Sha256};

use crate::store::{Failure, Put, no_etag};

/// What relying parties and we are told beside the bytes, by the names of the headers.
#[derive(Debug, Default, PartialEq, Eq)]
struct Attributes<'a>(BTreeMap<String, &'a str>);

impl<'a> Attributes<'a> {
    /// An empty header says as much as none.
    fn add(&mut self, name: &str, value: Option<&'a str>) {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            self.0.insert(name.to_owned(), value);
        }
    }

    fn add_metadata(&mut self, name: &str, value: &'a str) {
        self.add(&format!("x-amz-meta-{name}"), Some(value));
    }

    fn digest(&self) -> String {
        let mut digest = Sha256::new();
        for (name, value) in &self.0 {
            // No header holds a line feed, so no two sets of headers spell the same text.
            digest.update(format!("{name}: {value}\n"));
        }
        URL_SAFE_NO_PAD.encode(digest.finalize())
    }

    /// `ETAG DIGEST`; an ETag has no space (RFC 9110 section 8.8.3).
    fn version(&self, etag: &str) -> Version {
        Version(format!("{etag} {}", self.digest()))
    }
}

/// Both kinds of answer have the same fields.
macro_rules! version_of {
    ($output:expr) => {{
        let output = $output;
        let mut attributes = Attributes::default();
        attributes.add("content-type", output.content_type());
        attributes.add("cache-control", output.cache_control());
        attributes.add("content-encoding", output.content_encoding());
        attributes.add("content-disposition", output.content_disposition());
        attributes.add("content-language", output.content_language());
        attributes.add("expires", output.expires_string());
        attributes.add("x-amz-website-redirect-location", output.website_redirect_location());
        for (name, value) in output.metadata().into_iter().flatten() {
            attributes.add_metadata(name, value);
        }
        output.e_tag().map(|etag| attributes.version(etag)).ok_or_else(no_etag)
    }};
}

/// The version of an object that was read.
pub(super) fn of_read(output: &GetObjectOutput) -> Result<Version, Failure> {
    version_of!(output)
}

/// The version of an object that was asked for without its bytes.
pub(super) fn of_head(output: &HeadObjectOutput) -> Result<Version, Failure> {
    version_of!(output)
}

/// The version of an object that was written, whose answer tells its ETag alone.
pub(super) fn of_written(put: &Put<'_>, etag: &str) -> Version {
    let mut attributes = Attributes::default();
    attributes.add("content-type", Some(put.media_type));
    attributes.add("cache-control", Some(put.cache_control));
    let fields: Vec<_> = put.marker.fields().collect();
    for (field, value) in &fields {
        attributes.add_metadata(field.name(), value);
    }
    attributes.version(etag)
}

/// The condition of a write. S3 compares the ETag alone.
pub(super) fn etag(version: &Version) -> &str {
    version.0.split_once(' ').map_or(version.0.as_str(), |(etag, _)| etag)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read() -> aws_sdk_s3::operation::get_object::builders::GetObjectOutputBuilder {
        GetObjectOutput::builder().e_tag("\"e\"").content_type("a/b").cache_control("no-store")
    }

    #[test]
    fn every_attribute_is_part_of_the_version() {
        let version = |output: GetObjectOutput| of_read(&output).unwrap();
        let plain = version(read().build());
        assert_eq!(etag(&plain), "\"e\"");
        let others = [
            read().e_tag("\"f\""),
            read().content_type("a/c"),
            read().cache_control("max-age=1"),
            read().content_encoding("gzip"),
            read().content_disposition("attachment"),
            read().content_language("en"),
            read().expires_string("Thu, 01 Jan 1970 00:00:00 GMT"),
            read().website_redirect_location("https://example.com"),
            read().metadata("chancery-owner", "them"),
            read().metadata("other", "them"),
        ];
        let versions: Vec<_> = others.into_iter().map(|output| version(output.build())).collect();
        for (number, other) in versions.iter().enumerate() {
            assert_ne!(*other, plain, "{number}");
            assert!(!versions[..number].contains(other), "{number}");
        }
        assert_eq!(version(read().content_language("").build()), plain, "empty is none");
        assert!(of_read(&GetObjectOutput::builder().build()).is_err());
    }

    #[test]
    fn what_was_written_reads_back_as_the_same_version() {
        let marker = chancery_core::Marker::of("us".parse().unwrap());
        let precondition = chancery_core::publication::Precondition::Absent;
        let put = Put {
            path: "p",
            bytes: b"",
            media_type: "a/b",
            cache_control: "no-store",
            marker: &marker,
            precondition: &precondition,
        };
        let ours = read().metadata("chancery-owner", "us");
        assert_eq!(of_written(&put, "\"e\""), of_read(&ours.build()).unwrap());
        let head = HeadObjectOutput::builder().e_tag("\"e\"").content_type("a/b").cache_control("no-store");
        assert_eq!(
            of_written(&put, "\"e\""),
            of_head(&head.metadata("chancery-owner", "us").build()).unwrap()
        );
    }
}

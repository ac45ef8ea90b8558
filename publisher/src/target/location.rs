//! The places that configuration can name.

use std::fmt;

use super::azure::AzureBlobTarget;
use super::directory::DirectoryTarget;
use super::error::TargetError;
use super::gcs::GcsTarget;
use super::s3::S3Target;

/// A place, checked.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Location<'a> {
    /// A directory.
    Directory(&'a DirectoryTarget),
    /// A bucket.
    S3(&'a S3Target),
    /// A container.
    AzureBlob(&'a AzureBlobTarget),
    /// A bucket of Google's.
    Gcs(&'a GcsTarget),
}

impl Location<'_> {
    /// The field that names it in configuration.
    pub(super) fn field(self) -> &'static str {
        match self {
            Self::Directory(_) => "directory",
            Self::S3(_) => "s3",
            Self::AzureBlob(_) => "azureBlob",
            Self::Gcs(_) => "gcs",
        }
    }

    pub(super) fn check(self) -> Result<(), TargetError> {
        match self {
            Self::Directory(directory) => directory.check(),
            Self::S3(s3) => s3.check(),
            Self::AzureBlob(azure) => azure.check(),
            Self::Gcs(gcs) => gcs.check(),
        }
    }
}

impl fmt::Display for Location<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(directory) => directory.fmt(f),
            Self::S3(s3) => s3.fmt(f),
            Self::AzureBlob(azure) => azure.fmt(f),
            Self::Gcs(gcs) => gcs.fmt(f),
        }
    }
}

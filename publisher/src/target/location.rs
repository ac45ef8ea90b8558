//! The places that configuration can name.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;

use super::{AzureBlobTarget, GcsTarget, TargetError};

/// A directory.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct DirectoryTarget {
    /// What corresponds to the issuer URL: the documents lie below it at their paths.
    pub path: PathBuf,
}

/// A bucket, or a prefix in one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct S3Target {
    /// The bucket's name.
    pub bucket: String,
    /// Its region. Otherwise what `AWS_REGION` or the profile says; `us-east-1` where an `endpoint` is given.
    #[serde(default)]
    pub region: Option<String>,
    /// What corresponds to the issuer URL within the bucket: the path of the issuer, as a rule.
    #[serde(default)]
    pub prefix: String,
    /// Another server than Amazon's, `https://HOST[:PORT][/PATH]`.
    #[serde(default)]
    pub endpoint: Option<String>,
    /// Whether the bucket is the first part of the path instead of the host name.
    #[serde(default)]
    pub path_style: bool,
    /// Seconds that one attempt may take.
    #[serde(default = "default_timeout_seconds")]
    pub timeout_seconds: u32,
    /// A profile of the shared configuration files, or of `credentialsFile`.
    #[serde(default)]
    pub profile: Option<String>,
    /// A file in the form of `~/.aws/credentials`, the only place then that credentials are taken from. Read again
    /// every 15 minutes.
    #[serde(default)]
    pub credentials_file: Option<PathBuf>,
}

impl S3Target {
    /// A bucket with everything else at its default.
    pub fn of_bucket(bucket: impl Into<String>) -> Self {
        Self {
            bucket: bucket.into(),
            region: None,
            prefix: String::new(),
            endpoint: None,
            path_style: false,
            timeout_seconds: default_timeout_seconds(),
            profile: None,
            credentials_file: None,
        }
    }

    /// The prefix without slashes around it.
    pub(crate) fn trimmed_prefix(&self) -> &str {
        self.prefix.trim_matches('/')
    }
}

/// A key set is a few kilobytes: whoever needs longer is not well, and trying again beats waiting.
pub(super) fn default_timeout_seconds() -> u32 {
    5
}

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
            Self::Directory(directory) if directory.path.as_os_str().is_empty() => {
                Err(TargetError::illegal("directory.path", "", "name a directory"))
            }
            Self::Directory(_) => Ok(()),
            Self::S3(s3) => check_s3(s3),
            Self::AzureBlob(azure) => azure.check(),
            Self::Gcs(gcs) => gcs.check(),
        }
    }
}

impl fmt::Display for Location<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(directory) => write!(f, "directory {}", directory.path.display()),
            Self::S3(s3) => {
                write!(f, "s3://{}", s3.bucket)?;
                if !s3.trimmed_prefix().is_empty() {
                    write!(f, "/{}", s3.trimmed_prefix())?;
                }
                s3.endpoint.as_ref().map_or(Ok(()), |endpoint| write!(f, " at {endpoint}"))
            }
            Self::AzureBlob(azure) => azure.fmt(f),
            Self::Gcs(gcs) => gcs.fmt(f),
        }
    }
}

fn check_s3(s3: &S3Target) -> Result<(), TargetError> {
    let name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    if s3.bucket.is_empty() || !s3.bucket.chars().all(name) {
        let remedy = "expected a bucket's name alone, without `s3://` and slashes; a path goes into `prefix`";
        return Err(TargetError::illegal("s3.bucket", &s3.bucket, remedy));
    }
    check_prefix("s3.prefix", &s3.prefix)?;
    check_timeout("s3.timeoutSeconds", s3.timeout_seconds)?;
    let credentials = "give credentials by `credentialsFile`, `profile` or the environment";
    s3.endpoint.as_deref().map_or(Ok(()), |endpoint| check_base_url("s3.endpoint", endpoint, credentials))
}

/// What lies between the place's root and the documents.
pub(super) fn check_prefix(field: &'static str, prefix: &str) -> Result<(), TargetError> {
    let trimmed = prefix.trim_matches('/');
    if trimmed.is_empty() || !trimmed.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Ok(());
    }
    let remedy = "expected a path without empty parts, `.` and `..`; relying parties could not ask for it";
    Err(TargetError::illegal(field, prefix, remedy))
}

pub(super) fn check_timeout(field: &'static str, seconds: u32) -> Result<(), TargetError> {
    if (1..=300).contains(&seconds) {
        return Ok(());
    }
    Err(TargetError::illegal(field, seconds, "expected seconds from 1 to 300"))
}

/// A server, `https://HOST[:PORT][/PATH]`; `credentials` says where those go instead.
pub(super) fn check_base_url(
    field: &'static str,
    url: &str,
    credentials: &'static str,
) -> Result<(), TargetError> {
    let host = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let host = host.map(|host| host.strip_suffix('/').unwrap_or(host));
    // The value may hold a password or a signature: it is not repeated.
    let secret = |came: &str| TargetError::IllegalValue {
        field,
        came: came.to_owned(),
        remedy: format!("expected https://HOST[:PORT][/PATH]; {credentials}"),
    };
    match host {
        Some(host) if host.contains('@') => Err(secret("a URL with user information")),
        Some(host) if host.contains(['?', '#']) => Err(secret("a URL with a query")),
        Some(host) if !host.starts_with('/') && !host.is_empty() => Ok(()),
        _ => Err(TargetError::illegal(field, url, "expected https://HOST[:PORT][/PATH]")),
    }
}

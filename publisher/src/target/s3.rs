//! A bucket of Amazon S3, or of a server that speaks its protocol, as configuration names it.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;

use super::check::{check_base_url, check_prefix, check_timeout, default_timeout_seconds};
use super::error::TargetError;

/// A bucket, or a prefix in one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
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

    /// What of it a client is made from: two targets that are the same here share one.
    #[cfg(feature = "s3")]
    pub(crate) fn reached_by(&self) -> Self {
        Self { bucket: String::new(), prefix: String::new(), ..self.clone() }
    }

    /// What the types alone cannot say.
    pub(super) fn check(&self) -> Result<(), TargetError> {
        let name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        if self.bucket.is_empty() || !self.bucket.chars().all(name) {
            let remedy =
                "expected a bucket's name alone, without `s3://` and slashes; a path goes into `prefix`";
            return Err(TargetError::illegal("s3.bucket", &self.bucket, remedy));
        }
        check_prefix("s3.prefix", &self.prefix)?;
        check_timeout("s3.timeoutSeconds", self.timeout_seconds)?;
        let credentials = "give credentials by `credentialsFile`, `profile` or the environment";
        let check = |endpoint| check_base_url("s3.endpoint", endpoint, credentials);
        self.endpoint.as_deref().map_or(Ok(()), check)
    }
}

impl fmt::Display for S3Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}", self.bucket)?;
        if !self.trimmed_prefix().is_empty() {
            write!(f, "/{}", self.trimmed_prefix())?;
        }
        self.endpoint.as_ref().map_or(Ok(()), |endpoint| write!(f, " at {endpoint}"))
    }
}

//! A bucket of Google Cloud Storage as configuration names it.

use std::fmt;
use std::path::PathBuf;

use chancery_wire::{Endpoint, EndpointRule};
use serde::Deserialize;

use super::check::{check_base_url, check_prefix, check_timeout, default_timeout_seconds};
use super::error::TargetError;

/// A bucket of Google Cloud Storage, or a prefix in one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct GcsTarget {
    /// The bucket's name.
    pub bucket: String,
    /// What corresponds to the issuer URL within the bucket: the path of the issuer, as a rule.
    #[serde(default)]
    pub prefix: String,
    /// Another address than `https://storage.googleapis.com`: a regional or private one, or another server.
    #[serde(default)]
    pub endpoint: Option<String>,
    /// A file of credentials as gcloud writes them, the only place then that credentials are taken from. Otherwise
    /// Application Default Credentials.
    #[serde(default)]
    pub credentials_file: Option<PathBuf>,
    /// Whether no credentials are sent at all, as emulators want it.
    #[serde(default)]
    pub anonymous: bool,
    /// Seconds that one attempt may take.
    #[serde(default = "default_timeout_seconds")]
    pub timeout_seconds: u32,
}

impl GcsTarget {
    /// A bucket with everything else at its default.
    pub fn of_bucket(bucket: impl Into<String>) -> Self {
        Self {
            bucket: bucket.into(),
            prefix: String::new(),
            endpoint: None,
            credentials_file: None,
            anonymous: false,
            timeout_seconds: default_timeout_seconds(),
        }
    }

    /// The prefix without slashes around it.
    pub(crate) fn trimmed_prefix(&self) -> &str {
        self.prefix.trim_matches('/')
    }

    /// What of it a client is made from: two targets that are the same here share one.
    #[cfg(feature = "gcp")]
    pub(crate) fn reached_by(&self) -> Self {
        Self { bucket: String::new(), prefix: String::new(), ..self.clone() }
    }

    /// What the types alone cannot say.
    pub(super) fn check(&self) -> Result<(), TargetError> {
        let name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.' | '_');
        if self.bucket.is_empty() || !self.bucket.chars().all(name) {
            let remedy =
                "expected a bucket's name alone, without `gs://` and slashes; a path goes into `prefix`";
            return Err(TargetError::illegal("gcs.bucket", &self.bucket, remedy));
        }
        check_prefix("gcs.prefix", &self.prefix)?;
        check_timeout("gcs.timeoutSeconds", self.timeout_seconds)?;
        if self.anonymous && self.credentials_file.is_some() {
            let remedy = "expected either that or `gcs.credentialsFile`";
            return Err(TargetError::illegal("gcs.anonymous", self.anonymous, remedy));
        }
        self.endpoint.as_deref().map_or(Ok(()), |endpoint| self.check_endpoint(endpoint))
    }

    /// A bearer token is as good as a password: it does not cross a network in the clear.
    fn check_endpoint(&self, endpoint: &str) -> Result<(), TargetError> {
        const FIELD: &str = "gcs.endpoint";
        check_base_url(FIELD, endpoint, "give credentials by `credentialsFile` or the environment")?;
        if self.anonymous || Endpoint::parse(endpoint, &EndpointRule::any_host()).is_ok() {
            return Ok(());
        }
        let remedy =
            "expected https://, since the access token would be sent in the clear, or `anonymous: true`";
        Err(TargetError::illegal(FIELD, endpoint, remedy))
    }
}

impl fmt::Display for GcsTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gs://{}", self.bucket)?;
        if !self.trimmed_prefix().is_empty() {
            write!(f, "/{}", self.trimmed_prefix())?;
        }
        self.endpoint.as_ref().map_or(Ok(()), |endpoint| write!(f, " at {endpoint}"))
    }
}

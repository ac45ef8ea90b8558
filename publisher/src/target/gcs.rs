//! A bucket of Google Cloud Storage as configuration names it.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;

use super::TargetError;

/// A bucket of Google Cloud Storage, or a prefix in one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
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

    pub(super) fn check(&self) -> Result<(), TargetError> {
        let name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.' | '_');
        if self.bucket.is_empty() || !self.bucket.chars().all(name) {
            let remedy =
                "expected a bucket's name alone, without `gs://` and slashes; a path goes into `prefix`";
            return Err(TargetError::illegal("gcs.bucket", &self.bucket, remedy));
        }
        let parts = || self.trimmed_prefix().split('/');
        if !self.trimmed_prefix().is_empty() && parts().any(|part| matches!(part, "" | "." | "..")) {
            let remedy =
                "expected a path without empty parts, `.` and `..`; relying parties could not ask for it";
            return Err(TargetError::illegal("gcs.prefix", &self.prefix, remedy));
        }
        if !(1..=300).contains(&self.timeout_seconds) {
            let remedy = "expected seconds from 1 to 300";
            return Err(TargetError::illegal("gcs.timeoutSeconds", self.timeout_seconds, remedy));
        }
        if self.anonymous && self.credentials_file.is_some() {
            let remedy = "expected either that or `gcs.credentialsFile`";
            return Err(TargetError::illegal("gcs.anonymous", self.anonymous, remedy));
        }
        self.endpoint.as_deref().map_or(Ok(()), |endpoint| self.check_endpoint(endpoint))
    }

    /// A bearer token is as good as a password: it does not cross a network in the clear.
    fn check_endpoint(&self, endpoint: &str) -> Result<(), TargetError> {
        let uri = endpoint.parse::<http::Uri>().ok();
        let host = uri.as_ref().and_then(http::Uri::host).unwrap_or_default();
        let scheme = uri.as_ref().and_then(http::Uri::scheme_str);
        let said = uri.as_ref().and_then(http::Uri::authority).map(http::uri::Authority::as_str);
        if said.is_some_and(|authority| authority.contains('@')) {
            // The value may hold a password: it is not repeated.
            return Err(TargetError::IllegalValue {
                field: "gcs.endpoint",
                came: "a URL with user information".to_owned(),
                remedy: "give credentials by `credentialsFile` or the environment".to_owned(),
            });
        }
        let plain = uri.as_ref().is_some_and(|uri| uri.query().is_none()) && !endpoint.contains('#');
        match scheme {
            Some("https") if plain && !host.is_empty() => Ok(()),
            Some("http") if plain && (self.anonymous || is_loopback(host)) => Ok(()),
            Some("http") if plain => {
                let remedy = "expected https://, since the access token would be sent in the clear, or `anonymous: true`";
                Err(TargetError::illegal("gcs.endpoint", endpoint, remedy))
            }
            _ => Err(TargetError::illegal("gcs.endpoint", endpoint, "expected https://HOST[:PORT][/PATH]")),
        }
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

fn default_timeout_seconds() -> u32 {
    5
}

/// Whether what is sent to this host stays on the machine.
pub(crate) fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

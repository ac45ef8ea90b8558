//! What was read, what was found, and which keys are visible.

use std::time::Duration;

use chancery_core::lint::{Finding, Severity};
use chancery_core::{DocumentKind, IssuerUrl, KeyId};
use serde::{Serialize, Serializer};

use super::failure::FetchError;
use super::fetch::Fetched;

/// What the reader brought back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The GET of the discovery document.
    pub discovery: Result<Fetched, FetchError>,
    /// The GET of the advertised `jwks_uri`; `None` when there was none that could be read.
    pub jwks: Option<Result<Fetched, FetchError>>,
    /// Whether certificates were checked against a CA that others may not have.
    pub private_trust: bool,
}

impl Reading {
    /// The answer for one document, of whatever status, if there was one.
    pub fn fetched(&self, kind: DocumentKind) -> Option<&Fetched> {
        match kind {
            DocumentKind::Discovery => self.discovery.as_ref().ok(),
            DocumentKind::Jwks => self.jwks.as_ref()?.as_ref().ok(),
        }
    }

    /// Why there was no answer for one document, if it was asked for.
    pub fn failure(&self, kind: DocumentKind) -> Option<&FetchError> {
        match kind {
            DocumentKind::Discovery => self.discovery.as_ref().err(),
            DocumentKind::Jwks => self.jwks.as_ref()?.as_ref().err(),
        }
    }
}

/// A published key in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PublishedKey {
    /// `kid`, if there is one.
    pub kid: Option<String>,
    /// `alg`, if there is one.
    pub alg: Option<String>,
    /// What a person calls the key: `RSA-2048`, or the `kty` of one that is not known.
    pub description: String,
}

/// What an anonymous relying party sees of an issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Whose documents were read.
    pub issuer: IssuerUrl,
    /// What came.
    pub reading: Reading,
    /// The entries of the JWKS, in its order; none when it could not be read.
    pub keys: Vec<PublishedKey>,
    /// What is wrong, the worst first.
    pub findings: Vec<Finding>,
    /// The keys that a relying party which trusts this issuer would accept tokens of.
    pub visible: Vec<KeyId>,
    /// The longest time for which a document that was served now may be served again from a cache. `None` when
    /// no answer said so.
    pub max_age: Option<Duration>,
}

impl Report {
    /// How bad the worst finding is.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }

    /// Whether keys are visible and nothing is wrong; notes are not.
    pub fn is_good(&self) -> bool {
        !self.visible.is_empty() && self.worst().is_none_or(|worst| worst < Severity::Warning)
    }

    /// Whether a key is visible.
    pub fn shows(&self, key_id: &KeyId) -> bool {
        self.visible.contains(key_id)
    }

    /// How long one document took, if it came.
    pub fn latency(&self, kind: DocumentKind) -> Option<Duration> {
        self.reading.fetched(kind).map(|fetched| fetched.elapsed)
    }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let document = |kind| Wire::of(&self.reading, kind);
        WireReport {
            issuer: self.issuer.as_str(),
            good: self.is_good(),
            visible: &self.visible,
            max_age_seconds: self.max_age.map(|age| age.as_secs()),
            discovery: document(DocumentKind::Discovery),
            jwks: document(DocumentKind::Jwks),
            keys: &self.keys,
            findings: &self.findings,
        }
        .serialize(serializer)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireReport<'a> {
    issuer: &'a str,
    good: bool,
    visible: &'a [KeyId],
    max_age_seconds: Option<u64>,
    discovery: Option<Wire<'a>>,
    jwks: Option<Wire<'a>>,
    keys: &'a [PublishedKey],
    findings: &'a [Finding],
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Wire<'a> {
    Answer(&'a Fetched),
    Failure(&'a FetchError),
}

impl<'a> Wire<'a> {
    fn of(reading: &'a Reading, kind: DocumentKind) -> Option<Self> {
        reading.fetched(kind).map(Self::Answer).or_else(|| reading.failure(kind).map(Self::Failure))
    }
}

/// Whether a finding is more than a note.
pub(super) fn is_bad(finding: &Finding) -> bool {
    finding.severity >= Severity::Warning
}

/// Writes a duration as seconds with a fraction.
pub(super) fn seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}

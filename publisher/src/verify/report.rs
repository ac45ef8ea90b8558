//! What was read, what was found, and which keys are visible.

use std::time::Duration;

use chancery_core::lint::{Finding, Severity};
use chancery_core::{DocumentKind, IssuerUrl, KeyId};
use serde::{Serialize, Serializer};

use super::failure::FetchError;
use super::fetch::FetchedDocument;

/// What the reader brought back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentFetches {
    /// The GET of the discovery document.
    pub discovery: Result<FetchedDocument, FetchError>,
    /// The GET of the advertised `jwks_uri`; `None` when there was none that could be read.
    pub jwks: Option<Result<FetchedDocument, FetchError>>,
    /// Why the advertised `jwks_uri` was not asked for although it could be read: it leads into somebody's network.
    pub jwks_refused: Option<String>,
    /// Whether certificates were checked against a CA that others may not have.
    pub private_trust: bool,
}

impl DocumentFetches {
    /// The answer for one document, of whatever status, if there was one.
    pub fn fetched(&self, kind: DocumentKind) -> Option<&FetchedDocument> {
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
pub struct VerifyReport {
    /// Whose documents were read.
    pub issuer: IssuerUrl,
    /// What came.
    pub fetches: DocumentFetches,
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

impl VerifyReport {
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
        self.fetches.fetched(kind).map(|fetched| fetched.elapsed)
    }
}

impl Serialize for VerifyReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let document = |kind| Wire::of(&self.fetches, kind);
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
    Answer(&'a FetchedDocument),
    Failure(&'a FetchError),
}

impl<'a> Wire<'a> {
    fn of(fetches: &'a DocumentFetches, kind: DocumentKind) -> Option<Self> {
        fetches.fetched(kind).map(Self::Answer).or_else(|| fetches.failure(kind).map(Self::Failure))
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

//! Every object we may write. Nobody else spells a path, a media type or a cache header.

use std::fmt;
use std::time::Duration;

use crate::{Discovery, IssuerUrl, Jwks};

/// The kinds of object we write below an issuer, in the order in which they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DocumentKind {
    /// The key set.
    Jwks,
    /// The discovery document, which names the key set and so comes after it.
    Discovery,
}

impl DocumentKind {
    /// All kinds, in write order.
    pub const ALL: [Self; 2] = [Self::Jwks, Self::Discovery];

    /// The path below the issuer URL, without a leading slash.
    pub fn path(self) -> &'static str {
        match self {
            Self::Jwks => "openid/v1/jwks",
            Self::Discovery => ".well-known/openid-configuration",
        }
    }

    /// The media type kube-apiserver serves it with (RFC 7517 section 8.5.2 for the JWKS).
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Jwks => "application/jwk-set+json",
            Self::Discovery => "application/json",
        }
    }
}

impl fmt::Display for DocumentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Jwks => "JWKS",
            Self::Discovery => "discovery document",
        })
    }
}

/// How long relying parties may serve a document from their cache.
///
/// This is part of safety: some relying parties do not look for a new key before the `max-age` they were served
/// has passed, so no key may sign sooner than that after it was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachePolicy {
    /// Seconds of `max-age`.
    max_age_seconds: u32,
}

impl CachePolicy {
    /// A policy of whole seconds.
    pub const fn of_seconds(max_age_seconds: u32) -> Self {
        Self { max_age_seconds }
    }

    /// The longest time a cache that obeys us keeps a document.
    pub fn max_age(self) -> Duration {
        Duration::from_secs(self.max_age_seconds.into())
    }

    /// The value of the `Cache-Control` header.
    pub fn header(self) -> String {
        format!("public, max-age={}", self.max_age_seconds)
    }
}

impl Default for CachePolicy {
    /// Ten minutes: short enough that a new key is seen within one, long enough to spare the origin.
    fn default() -> Self {
        Self::of_seconds(600)
    }
}

/// One object to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// What it is, and so where it goes.
    pub kind: DocumentKind,
    /// The exact bytes.
    pub bytes: Vec<u8>,
    /// How long it may be cached.
    pub cache: CachePolicy,
}

/// The two documents of one issuer for one key set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentSet {
    issuer: IssuerUrl,
    jwks: Jwks,
    cache: CachePolicy,
}

impl DocumentSet {
    /// The documents of `issuer` that publish `jwks`.
    pub fn new(issuer: IssuerUrl, jwks: Jwks, cache: CachePolicy) -> Self {
        Self { issuer, jwks, cache }
    }

    /// Whose documents these are.
    pub fn issuer(&self) -> &IssuerUrl {
        &self.issuer
    }

    /// The published keys.
    pub fn jwks(&self) -> &Jwks {
        &self.jwks
    }

    /// How long the documents may be cached.
    pub fn cache(&self) -> CachePolicy {
        self.cache
    }

    /// One document, rendered.
    pub fn document(&self, kind: DocumentKind) -> Document {
        let bytes = match kind {
            DocumentKind::Jwks => self.jwks.to_json(),
            DocumentKind::Discovery => Discovery::new(self.issuer.clone(), &self.jwks).to_json(),
        };
        Document { kind, bytes, cache: self.cache }
    }
}

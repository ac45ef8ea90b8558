//! The outside view: an issuer as an anonymous relying party sees it.
//!
//! [`Verifier::verify`] reads the discovery document below the issuer URL, then the JWKS at the *advertised*
//! `jwks_uri`, without credentials, cookies, redirects or a proxy that nobody named. [`judge::judge`], which is pure, holds what
//! came against what relying parties expect. A key counts as visible only when the whole path to it holds: a
//! certificate that is trusted, status 200 twice, the issuer equal byte for byte, and the numbers of the key
//! hashing to its key id.
//!
//! | module | what is in it |
//! |---|---|
//! | [`fetch`] | one GET, bounded in time and size; decides nothing |
//! | [`address`] | servers that are asked instead of those in DNS |
//! | [`probe`] | every address of the host, as caches answer there and past them |
//! | [`failure`] | why a GET brought no answer, told apart in words |
//! | [`judge`] | from what came to findings, as pure functions |
//! | [`rule`] | the names of the rules |
//! | [`report`] | the result |

pub mod address;
pub mod failure;
pub mod fetch;
pub mod judge;
pub mod probe;
pub mod report;
pub mod rule;

mod resolve;
pub(crate) mod tls;

use std::collections::BTreeMap;
use std::time::Duration;

use chancery_core::profile::RelyingParty;
use chancery_core::{CachePolicy, DocumentKind, DocumentSet, IssuerUrl, KeyId};

use self::address::Addresses;
use self::failure::FetchError;
use self::fetch::{Fetched, Reader};
use self::judge::Standard;
use self::report::{Reading, Report};

/// Whose certificates are believed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// The roots of this machine, as a public relying party has its own.
    #[default]
    Platform,
    /// Those, and the certificates of a PEM file.
    PlatformAnd(Vec<u8>),
    /// Nothing but the certificates of a PEM file.
    Only(Vec<u8>),
}

/// How to read.
#[derive(Clone, Debug)]
pub struct VerifyOptions {
    /// Whose certificates are believed.
    pub trust: Trust,
    /// The longest time for one document, from looking up the name to the last byte.
    pub timeout: Duration,
    /// Host names that are not looked up. The port counts only for a URL that names none; 0 is then 443.
    pub addresses: Addresses,
    /// An `http://` or `https://` proxy, without user information. The proxies of the environment are never used: a probe that
    /// quietly takes the operator's way out proves nothing about anybody else's.
    pub proxy: Option<String>,
    /// The relying parties that matter; what breaks none of them is left out of the report.
    pub parties: Vec<RelyingParty>,
}

impl Default for VerifyOptions {
    /// The roots of this machine, no proxy, every relying party, and five seconds: what AWS STS grants an issuer.
    fn default() -> Self {
        Self {
            trust: Trust::default(),
            timeout: Duration::from_secs(5),
            addresses: Addresses::default(),
            proxy: None,
            parties: RelyingParty::ALL.to_vec(),
        }
    }
}

/// What must be seen, beyond documents that relying parties accept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expectation {
    /// Keys that must be visible. When empty, any set will do.
    pub keys: Vec<KeyId>,
    /// The exact bytes of a document.
    pub bytes: BTreeMap<DocumentKind, Vec<u8>>,
    /// The longest time the documents may be cached.
    pub cache: CachePolicy,
}

impl Expectation {
    /// Expects nothing in particular.
    pub fn none() -> Self {
        Self::default()
    }

    /// Expects these keys, whatever else is there.
    pub fn of_keys(keys: impl IntoIterator<Item = KeyId>) -> Self {
        Self { keys: keys.into_iter().collect(), ..Self::default() }
    }

    /// Expects exactly these documents.
    pub fn of_documents(documents: &DocumentSet) -> Self {
        let keys = documents.jwks().keys().iter().map(|key| key.key_id().clone());
        let bytes = DocumentKind::ALL.into_iter().map(|kind| (kind, documents.document(kind).bytes));
        Self { keys: keys.collect(), bytes: bytes.collect(), cache: documents.cache() }
    }
}

/// Reads issuers as an anonymous relying party does.
///
/// Each document is read over a connection of its own, without TLS session resumption: a reader that keeps one
/// would not notice that the certificate has expired since.
#[derive(Clone, Debug)]
pub struct Verifier {
    reader: Reader,
    parties: Vec<RelyingParty>,
}

impl Verifier {
    /// A verifier that reads as `options` say.
    ///
    /// # Errors
    /// When the certificates cannot be read, this machine has no trusted roots, or the proxy is not a URL.
    pub fn new(options: VerifyOptions) -> Result<Self, VerifierError> {
        Ok(Self { reader: Reader::new(&options)?, parties: options.parties })
    }

    /// Reads both documents of `issuer` and holds them against `expected`. Never fails: what cannot be read is
    /// a finding. Takes at most twice the timeout.
    pub async fn verify(&self, issuer: &IssuerUrl, expected: &Expectation) -> Report {
        let got = read(&self.reader, Place { issuer, base: None }, None).await;
        self.judge(issuer, expected, got)
    }

    /// Like [`Verifier::verify`], but reads both documents below `base`, an `https` URL that some relying parties
    /// are given instead of the issuer URL (Kubernetes' `discoveryURL`), or that a load balancer hides.
    pub async fn verify_mirror(&self, base: &str, issuer: &IssuerUrl, expected: &Expectation) -> Report {
        let got = read(&self.reader, Place { issuer, base: Some(base) }, None).await;
        self.judge(issuer, expected, got)
    }

    fn judge(&self, issuer: &IssuerUrl, expected: &Expectation, got: Got) -> Report {
        let (discovery, jwks) = got;
        let reading = Reading { discovery, jwks, private_trust: self.reader.has_private_trust() };
        judge::judge(Standard { issuer, expected, parties: &self.parties }, reading)
    }
}

/// Where an issuer is read.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The issuer.
    pub issuer: &'a IssuerUrl,
    /// The `https` URL below which both documents are read when that is not the issuer URL.
    pub base: Option<&'a str>,
}

impl Place<'_> {
    fn url(&self, kind: DocumentKind) -> String {
        match (self.base, kind) {
            (Some(base), _) => format!("{}/{}", base.strip_suffix('/').unwrap_or(base), kind.path()),
            (None, DocumentKind::Discovery) => self.issuer.discovery_url(),
            (None, DocumentKind::Jwks) => self.issuer.jwks_uri(),
        }
    }
}

/// Reads both documents, the JWKS where the discovery document says unless they are read below a base of their own.
/// With a `nonce`, which no cache has seen before, the origin behind the caches is asked.
async fn read(reader: &Reader, place: Place<'_>, nonce: Option<u64>) -> Got {
    let past = |url: String| match nonce {
        Some(nonce) => probe::past_caches(&url, nonce),
        None => url,
    };
    let discovery = reader.get(&past(place.url(DocumentKind::Discovery))).await;
    let jwks_uri = match place.base {
        Some(_) => Some(place.url(DocumentKind::Jwks)),
        None => discovery.as_ref().ok().and_then(judge::readable_jwks_uri),
    };
    let jwks = match jwks_uri {
        Some(url) => Some(reader.get(&past(url)).await),
        None => None,
    };
    (discovery, jwks)
}

/// The discovery document and, if it could be asked for, the JWKS.
type Got = (Result<Fetched, FetchError>, Option<Result<Fetched, FetchError>>);

/// Why a [`Verifier`] cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifierError {
    /// The PEM file holds no certificate, or a broken one.
    #[error(
        "the CA file {reason}; expected PEM blocks `-----BEGIN CERTIFICATE-----` of the authorities that sign the issuer's certificate"
    )]
    Certificates {
        /// What is wrong with it.
        reason: String,
    },
    /// No root to believe.
    #[error(
        "this machine has no trusted root certificates ({0}); install the package ca-certificates, or name a CA file"
    )]
    NoRoots(String),
    /// The proxy cannot be used.
    #[error("the proxy {0}; expected http://HOST:PORT or https://HOST:PORT")]
    Proxy(&'static str),
    /// The HTTP client cannot be set up.
    #[error("cannot set up the HTTP client")]
    Client(#[source] reqwest::Error),
}

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
//! | [`jwks_host`] | where a key set may be read that is at another host than the issuer |
//! | [`probe`] | every address of every host, as caches answer there and past them |
//! | [`failure`] | why a GET brought no answer, told apart in words |
//! | [`judge`] | from what came to findings, as pure functions |
//! | [`rule`] | the names of the rules |
//! | [`report`] | the result |

pub mod address;
pub mod failure;
pub mod fetch;
pub mod judge;
pub mod jwks_host;
pub mod probe;
pub mod report;
pub mod rule;

mod elsewhere;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use chancery_core::profile::RelyingParty;
use chancery_core::{CachePolicy, DocumentKind, DocumentSet, IssuerUrl, KeyId};
pub use chancery_wire::{CertificateTrust as Trust, ClientError as VerifierError};

use self::address::Addresses;
use self::elsewhere::NoRoute;
use self::failure::FetchError;
use self::fetch::{FetchedDocument, Reader, Route};
use self::judge::Standard;
use self::jwks_host::{AllowedJwksHosts, IssuerReach};
use self::report::{DocumentFetches, VerifyReport};

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
    /// Hosts that a key set is read at although they are in a network where the issuer is not.
    pub allowed_jwks_hosts: AllowedJwksHosts,
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
            allowed_jwks_hosts: AllowedJwksHosts::default(),
            parties: RelyingParty::USUAL.to_vec(),
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
    allowed: AllowedJwksHosts,
    parties: Vec<RelyingParty>,
}

impl Verifier {
    /// A verifier that reads as `options` say.
    ///
    /// # Errors
    /// When the certificates cannot be read, this machine has no trusted roots, or the proxy is not a URL.
    pub fn new(options: VerifyOptions) -> Result<Self, VerifierError> {
        let reader = Reader::new(&options)?;
        Ok(Self { reader, allowed: options.allowed_jwks_hosts, parties: options.parties })
    }

    /// Reads both documents of `issuer` and holds them against `expected`. Never fails: what cannot be read is
    /// a finding. Takes at most twice the timeout, and the time to look up another host.
    pub async fn verify(&self, issuer: &IssuerUrl, expected: &Expectation) -> VerifyReport {
        let fetches = self.read(IssuerPlace { issuer, base: None }).await;
        self.judge(issuer, expected, fetches)
    }

    /// Like [`Verifier::verify`], but reads both documents below `base`, an `https` URL that some relying parties
    /// are given instead of the issuer URL (Kubernetes' `discoveryURL`), or that a load balancer hides.
    pub async fn verify_mirror(
        &self,
        base: &str,
        issuer: &IssuerUrl,
        expected: &Expectation,
    ) -> VerifyReport {
        let fetches = self.read(IssuerPlace { issuer, base: Some(base) }).await;
        self.judge(issuer, expected, fetches)
    }

    fn judge(&self, issuer: &IssuerUrl, expected: &Expectation, fetches: DocumentFetches) -> VerifyReport {
        judge::judge(Standard { issuer, expected, parties: &self.parties }, fetches)
    }

    /// Reads both documents, the JWKS where the discovery document says unless they are read below a base of their own.
    async fn read(&self, place: IssuerPlace<'_>) -> DocumentFetches {
        let discovery = self.reader.get(&place.url(DocumentKind::Discovery)).await;
        let mut fetches = self.fetched(discovery);
        let Some(url) = place.jwks_url(&fetches) else { return fetches };
        if !place.is_elsewhere(&url) {
            fetches.jwks = Some(self.reader.get(&url).await);
            return fetches;
        }
        let issuer = IssuerReach::new(place.issuer.host(), fetches.discovery.iter().filter_map(direct_peer));
        match self.routes_elsewhere(&url, &issuer).await {
            Ok(routes) => {
                let reader = routes.first().map_or(&self.reader, |route| &route.reader);
                fetches.jwks = Some(reader.get(&url).await);
            }
            Err(NoRoute::Failed(error)) => fetches.jwks = Some(Err(error)),
            Err(NoRoute::Refused(why)) => fetches.jwks_refused = Some(why),
        }
        fetches
    }

    /// A discovery document, without a JWKS yet.
    fn fetched(&self, discovery: Result<FetchedDocument, FetchError>) -> DocumentFetches {
        let private_trust = self.reader.has_private_trust();
        DocumentFetches { discovery, jwks: None, jwks_refused: None, private_trust }
    }
}

/// Who answered, unless a proxy stood between.
fn direct_peer(fetched: &FetchedDocument) -> Option<IpAddr> {
    fetched.peer.filter(|_| fetched.route != Route::Proxied).map(|peer| peer.ip())
}

/// Where an issuer is read.
#[derive(Clone, Copy, Debug)]
pub struct IssuerPlace<'a> {
    /// The issuer.
    pub issuer: &'a IssuerUrl,
    /// The `https` URL below which both documents are read when that is not the issuer URL.
    pub base: Option<&'a str>,
}

impl IssuerPlace<'_> {
    fn url(&self, kind: DocumentKind) -> String {
        match (self.base, kind) {
            (Some(base), _) => format!("{}/{}", base.strip_suffix('/').unwrap_or(base), kind.path()),
            (None, DocumentKind::Discovery) => self.issuer.discovery_url(),
            (None, DocumentKind::Jwks) => self.issuer.jwks_uri(),
        }
    }

    /// Where the JWKS is: where the discovery document says, if that can be read by everybody.
    fn jwks_url(&self, fetches: &DocumentFetches) -> Option<String> {
        match self.base {
            Some(_) => Some(self.url(DocumentKind::Jwks)),
            None => fetches.discovery.as_ref().ok().and_then(judge::readable_jwks_uri),
        }
    }

    /// Whether the discovery document places the JWKS at another host. Below a base, nobody is asked where it is.
    fn is_elsewhere(&self, url: &str) -> bool {
        self.base.is_none() && elsewhere::is_at_another_host(url, self.issuer.host())
    }
}

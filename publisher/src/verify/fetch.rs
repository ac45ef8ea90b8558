//! One anonymous GET, bounded in time and size. Decides nothing about what came.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use chancery_wire::resolve::Resolver;
use chancery_wire::{
    CertificateTrust, ClientOptions, GivenAddresses, HttpClient, HttpResponse, Proxies, TransportError,
};
use http::HeaderName;
use http::header::{AGE, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, LOCATION};
use reqwest::Url;
use serde::Serialize;

use super::failure::FetchError;
use super::{VerifierError, VerifyOptions, jwks_host};

/// The longest body that is read, 1 MiB: a hundred keys with room for a thousand more.
pub const BODY_LIMIT: usize = 1 << 20;

/// An answer, of whatever status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FetchedDocument {
    /// What was asked for.
    pub url: String,
    /// The status code.
    pub status: u16,
    /// `HTTP/1.1`, `HTTP/2.0`.
    pub protocol: String,
    /// The headers that matter here.
    #[serde(flatten)]
    pub headers: Headers,
    /// The whole body.
    #[serde(skip)]
    pub body: Vec<u8>,
    /// From looking up the name to the last byte of the body.
    #[serde(serialize_with = "super::report::seconds", rename = "seconds")]
    pub elapsed: Duration,
    /// Who answered.
    pub peer: Option<SocketAddr>,
    /// How the reader got there.
    pub route: Route,
}

/// The headers of an answer that matter here, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Headers {
    /// `Content-Type`.
    pub content_type: Option<String>,
    /// `Content-Encoding`, which was not asked for.
    pub content_encoding: Option<String>,
    /// `Cache-Control`.
    pub cache_control: Option<String>,
    /// `Age`, which a cache in front adds.
    pub age: Option<String>,
    /// `ETag`.
    pub etag: Option<String>,
    /// `Location`.
    pub location: Option<String>,
}

/// How the reader found the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Route {
    /// By the name service of this machine.
    Resolved,
    /// By an address that the caller gave.
    Given,
    /// Through a proxy that the caller named.
    Proxied,
}

/// Makes GETs as an anonymous reader. Readers of the same options share what they are made of: a thousand issuers look
/// through one, and none keeps a connection that another could take.
#[derive(Clone, Debug)]
pub(super) struct Reader(Arc<ReaderParts>);

#[derive(Debug)]
struct ReaderParts {
    client: HttpClient,
    resolver: Resolver,
    options: ClientOptions,
}

/// The readers in use.
static SHARED: Mutex<Vec<Weak<ReaderParts>>> = Mutex::new(Vec::new());

/// How a host is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HostAddresses {
    /// There is one way to ask it: the URL names the address, or a proxy looks the name up.
    OneWay { host: String, address: Option<SocketAddr> },
    /// The caller gave these.
    Given { host: String, addresses: Vec<SocketAddr> },
    /// The name service gave these.
    Resolved { host: String, addresses: Vec<SocketAddr> },
    /// The name has no address, and why.
    NotFound(String),
}

impl Reader {
    pub(super) fn new(options: &VerifyOptions) -> Result<Self, VerifierError> {
        let options = ClientOptions {
            certificates: options.trust.clone(),
            proxies: options.proxy.clone().map_or(Proxies::None, Proxies::Named),
            addresses: options.addresses.clone(),
            user_agent: "chancery-verify",
            https_only: true,
            fresh_connections: true,
            ..ClientOptions::new(options.timeout, BODY_LIMIT)
        };
        Self::with_options(options)
    }

    fn with_options(options: ClientOptions) -> Result<Self, VerifierError> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = shared.iter().filter_map(Weak::upgrade).find(|parts| parts.options == options) {
            return Ok(Self(known));
        }
        let client = HttpClient::new(&options)?;
        let resolver = Resolver::new(options.addresses.clone());
        let parts = Arc::new(ReaderParts { client, resolver, options });
        shared.retain(|parts| parts.strong_count() > 0);
        shared.push(Arc::downgrade(&parts));
        Ok(Self(parts))
    }

    /// A reader that finds `host` at one address alone. The name in the request and in TLS stays.
    pub(super) fn at(&self, host: &str, address: SocketAddr) -> Result<Self, VerifierError> {
        let addresses: GivenAddresses = self.0.resolver.given().with_only(host, address);
        Self::with_options(ClientOptions { addresses, ..self.0.options.clone() })
    }

    /// How the host of a URL is found, and every address at which it can be asked by itself.
    pub(super) async fn find(&self, url: &str) -> HostAddresses {
        let Ok(parsed) = Url::parse(url) else { return HostAddresses::NotFound("not a URL".to_owned()) };
        let host = parsed.host_str().unwrap_or_default().to_owned();
        if self.is_proxied() || parsed.domain().is_none() {
            let address = jwks_host::host_address(&host).map(|ip| SocketAddr::new(ip, 0));
            return HostAddresses::OneWay { host, address };
        }
        match self.0.resolver.addresses(&host).await {
            Err(error) => HostAddresses::NotFound(error.0),
            Ok(mut addresses) => {
                addresses.sort_unstable();
                addresses.dedup();
                match self.0.resolver.given().of(&host).is_some() {
                    true => HostAddresses::Given { host, addresses },
                    false => HostAddresses::Resolved { host, addresses },
                }
            }
        }
    }

    /// Whether a certificate that is accepted here may be unknown to everybody else.
    pub(super) fn has_private_trust(&self) -> bool {
        self.0.options.certificates != CertificateTrust::Platform
    }

    fn is_proxied(&self) -> bool {
        self.0.options.proxies != Proxies::None
    }

    /// Reads one URL.
    pub(super) async fn get(&self, url: &str) -> Result<FetchedDocument, FetchError> {
        let started = Instant::now();
        let fail = |kind| FetchError { url: url.to_owned(), kind, elapsed: started.elapsed() };
        let target = Url::parse(url).map_err(|error| fail(TransportError::Other(error.to_string())))?;
        let answer = self.0.client.read_anonymously(url).await.map_err(fail)?;
        Ok(FetchedDocument {
            url: url.to_owned(),
            status: answer.status.as_u16(),
            protocol: format!("{:?}", answer.version),
            headers: headers_of(&answer),
            elapsed: started.elapsed(),
            peer: answer.peer,
            route: self.route(&target),
            body: answer.body.to_vec(),
        })
    }

    fn route(&self, target: &Url) -> Route {
        match target.host_str() {
            _ if self.is_proxied() => Route::Proxied,
            Some(host) if self.0.resolver.given().of(host).is_some() => Route::Given,
            _ => Route::Resolved,
        }
    }
}

fn headers_of(answer: &HttpResponse) -> Headers {
    let text = |name: HeaderName| {
        let values =
            answer.headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
        // A header that is repeated is a list (RFC 9110 section 5.3).
        Some(values.collect::<Vec<_>>().join(", ")).filter(|joined| !joined.is_empty())
    };
    Headers {
        content_type: text(CONTENT_TYPE),
        content_encoding: text(CONTENT_ENCODING),
        cache_control: text(CACHE_CONTROL),
        age: text(AGE),
        etag: text(ETAG),
        location: text(LOCATION),
    }
}

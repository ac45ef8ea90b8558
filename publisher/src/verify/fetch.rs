//! One anonymous GET, bounded in time and size. Decides nothing about what came.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderName;
use http::header::{AGE, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{Client, Proxy, Response, Url};
use rustls::ClientConfig;
use serde::Serialize;

use super::failure::{self, FailureKind, FetchError};
use super::resolve::Resolver;
use super::{Trust, VerifierError, VerifyOptions, tls};

/// The longest body that is read, 1 MiB: a hundred keys with room for a thousand more.
pub const BODY_LIMIT: usize = 1 << 20;

/// An answer, of whatever status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fetched {
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

/// Makes GETs as an anonymous reader.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    client: Client,
    resolver: Resolver,
    settings: Arc<Settings>,
}

/// What the readers at all addresses have in common.
#[derive(Debug)]
struct Settings {
    tls: ClientConfig,
    timeout: Duration,
    proxy: Option<Proxy>,
    private_trust: bool,
}

impl Reader {
    pub(super) fn new(options: &VerifyOptions) -> Result<Self, VerifierError> {
        let settings = Settings {
            tls: tls::config(&options.trust)?,
            timeout: options.timeout,
            proxy: options.proxy.as_deref().map(proxy_at).transpose()?,
            private_trust: options.trust != Trust::Platform,
        };
        Self::with_resolver(Resolver::new(options.addresses.clone()), Arc::new(settings))
    }

    fn with_resolver(resolver: Resolver, settings: Arc<Settings>) -> Result<Self, VerifierError> {
        let mut builder = Client::builder()
            .tls_backend_preconfigured(settings.tls.clone())
            .https_only(true)
            .redirect(Policy::none())
            .referer(false)
            .user_agent("chancery-verify")
            .dns_resolver(resolver.clone())
            .timeout(settings.timeout)
            .pool_max_idle_per_host(0)
            .no_proxy();
        if let Some(proxy) = &settings.proxy {
            builder = builder.proxy(proxy.clone());
        }
        Ok(Self { client: builder.build().map_err(VerifierError::Client)?, resolver, settings })
    }

    /// A reader that finds `host` at one address alone. The name in the request and in TLS stays.
    pub(super) fn at(&self, host: &str, address: SocketAddr) -> Result<Self, VerifierError> {
        Self::with_resolver(self.resolver.with_only(host, address), self.settings.clone())
    }

    /// The host of a URL and every address at which it can be asked by itself; none where it has only one way: an
    /// address in the URL, a proxy, or a name that is not found.
    pub(super) async fn edges(&self, url: &str) -> Option<(String, Vec<SocketAddr>)> {
        let url = Url::parse(url).ok()?;
        let host = url.domain().filter(|_| self.settings.proxy.is_none())?;
        let mut addresses = self.resolver.addresses(host).await.ok()?;
        addresses.sort_unstable();
        addresses.dedup();
        Some((host.to_owned(), addresses))
    }

    /// Whether a certificate that is accepted here may be unknown to everybody else.
    pub(super) fn has_private_trust(&self) -> bool {
        self.settings.private_trust
    }

    /// Reads one URL.
    pub(super) async fn get(&self, url: &str) -> Result<Fetched, FetchError> {
        let started = Instant::now();
        let fail = |kind| FetchError { url: url.to_owned(), kind, elapsed: started.elapsed() };
        let target = Url::parse(url).map_err(|error| fail(FailureKind::Other(error.to_string())))?;
        let route = self.route(&target);
        let answer = self.client.get(target).send().await;
        let mut answer = answer.map_err(|error| fail(failure::of_request(&error)))?;
        let body = read_body(&mut answer).await.map_err(fail)?;
        Ok(Fetched {
            url: url.to_owned(),
            status: answer.status().as_u16(),
            protocol: format!("{:?}", answer.version()),
            headers: headers_of(&answer),
            body,
            elapsed: started.elapsed(),
            peer: answer.remote_addr(),
            route,
        })
    }

    fn route(&self, target: &Url) -> Route {
        match target.host_str() {
            _ if self.settings.proxy.is_some() => Route::Proxied,
            Some(host) if self.resolver.is_given(host) => Route::Given,
            _ => Route::Resolved,
        }
    }
}

fn proxy_at(address: &str) -> Result<Proxy, VerifierError> {
    let url = Url::parse(address).map_err(|_| VerifierError::Proxy("is not a URL"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(VerifierError::Proxy("is neither http nor https"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(VerifierError::Proxy("carries user information, which would show in process lists"));
    }
    Proxy::all(url).map_err(VerifierError::Client)
}

async fn read_body(answer: &mut Response) -> Result<Vec<u8>, FailureKind> {
    let mut body = Vec::new();
    loop {
        match answer.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() > BODY_LIMIT => {
                return Err(FailureKind::TooLarge(BODY_LIMIT));
            }
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => return Ok(body),
            Err(error) if error.is_timeout() => return Err(FailureKind::Timeout),
            Err(_) => return Err(FailureKind::CutOff),
        }
    }
}

fn headers_of(answer: &Response) -> Headers {
    let text = |name: HeaderName| {
        let values =
            answer.headers().get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
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

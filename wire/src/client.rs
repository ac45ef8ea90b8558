//! One HTTP client: bounded in time and size, without redirects, over verified TLS.
//!
//! A request that carries a secret is made to an [`Endpoint`], which is what says that its host may have it. Redirects
//! are followed by neither kind of request: with a secret they would take it elsewhere, and without one the caller wants
//! to know of them.

use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::HeaderName;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version};
use reqwest::redirect::Policy;
use reqwest::{NoProxy, Proxy};
use url::Url;
use zeroize::Zeroizing;

use self::certificates::{CertificateTrust, tls_config};
use crate::endpoint::Endpoint;
use crate::limits::CONNECT;
use crate::resolve::{GivenAddresses, Resolver};
use crate::retry;
use crate::transport::TransportError;

pub mod certificates;

/// How a client makes requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientOptions {
    /// The longest time for one request, from looking up the name to the last byte of the answer.
    pub timeout: Duration,
    /// The longest body that is read, in bytes.
    pub body_limit: usize,
    /// Whose certificates are believed.
    pub certificates: CertificateTrust,
    /// Which proxies are used.
    pub proxies: Proxies,
    /// Host names that are not looked up.
    pub addresses: GivenAddresses,
    /// `User-Agent`.
    pub user_agent: &'static str,
    /// Whether `http` is refused, also for an anonymous read.
    pub https_only: bool,
    /// Whether each request has a connection of its own, without TLS session resumption: whoever keeps one does not
    /// notice that the certificate has expired since.
    pub fresh_connections: bool,
    /// Whether HTTP/2 is not offered.
    pub http1_only: bool,
}

impl ClientOptions {
    /// With the roots of this machine, no proxy, and connections that are kept.
    pub fn new(timeout: Duration, body_limit: usize) -> Self {
        Self {
            timeout,
            body_limit,
            certificates: CertificateTrust::default(),
            proxies: Proxies::default(),
            addresses: GivenAddresses::default(),
            user_agent: "chancery",
            https_only: false,
            fresh_connections: false,
            http1_only: false,
        }
    }
}

/// Which proxies are used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Proxies {
    /// None. A reader that quietly takes the operator's way out proves nothing about anybody else's.
    #[default]
    None,
    /// `HTTPS_PROXY` or `ALL_PROXY`, except for what `NO_PROXY` names, in capitals or not. Only for `https`, where a
    /// proxy sees the host alone: what is sent without TLS stays on this machine.
    Environment,
    /// This one, `http://` or `https://`, without user information.
    Named(String),
}

/// Makes requests. Cheap to clone; clones share their connections.
#[derive(Clone, Debug)]
pub struct HttpClient {
    client: reqwest::Client,
    body_limit: usize,
}

impl HttpClient {
    /// A client that makes requests as `options` say. Nothing is asked of the network yet.
    ///
    /// # Errors
    /// When the certificates cannot be read, this machine has no trusted roots, or a proxy is not a URL.
    pub fn new(options: &ClientOptions) -> Result<Self, ClientError> {
        let mut builder = reqwest::Client::builder()
            .tls_backend_preconfigured(tls_config(options)?)
            .https_only(options.https_only)
            .redirect(Policy::none())
            .referer(false)
            .user_agent(options.user_agent)
            .dns_resolver(Resolver::new(options.addresses.clone()))
            .connect_timeout(options.timeout.min(CONNECT))
            .timeout(options.timeout)
            .no_proxy();
        if let Some(proxy) = proxy(&options.proxies)? {
            builder = builder.proxy(proxy);
        }
        if options.fresh_connections {
            builder = builder.pool_max_idle_per_host(0);
        }
        if options.http1_only {
            builder = builder.http1_only();
        }
        let client = builder.build().map_err(|error| ClientError::setup(&error))?;
        Ok(Self { client, body_limit: options.body_limit })
    }

    /// The answer to a request, of whatever status, with its whole body.
    ///
    /// # Errors
    /// When no whole answer came, or one that is too large.
    pub async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let HttpRequest { method, url, headers, body } = request;
        let mut outgoing = reqwest::Request::new(method, url);
        *outgoing.headers_mut() = headers;
        *outgoing.body_mut() = body.map(Into::into);
        self.execute(outgoing).await
    }

    /// The answer to a GET by which nobody is given anything secret, of whatever status.
    ///
    /// # Errors
    /// As [`Self::send`], and when it is no URL.
    pub async fn read_anonymously(&self, url: &str) -> Result<HttpResponse, TransportError> {
        let url = Url::parse(url).map_err(|error| TransportError::Other(error.to_string()))?;
        self.execute(reqwest::Request::new(Method::GET, url)).await
    }

    /// The client within, for an SDK that takes one. What goes through it has these limits of time, no redirects and
    /// these certificates, and neither the bound on bodies nor the check of the endpoint.
    pub fn for_sdk(&self) -> reqwest::Client {
        self.client.clone()
    }

    async fn execute(&self, request: reqwest::Request) -> Result<HttpResponse, TransportError> {
        let mut answer = self.client.execute(request).await.map_err(|error| TransportError::from(&error))?;
        let body = self.read_body(&mut answer).await?;
        Ok(HttpResponse {
            status: answer.status(),
            version: answer.version(),
            peer: answer.remote_addr(),
            headers: std::mem::take(answer.headers_mut()),
            body,
        })
    }

    async fn read_body(&self, answer: &mut reqwest::Response) -> Result<Zeroizing<Vec<u8>>, TransportError> {
        let announced = answer.content_length().and_then(|length| usize::try_from(length).ok());
        let announced = announced.unwrap_or_default();
        if announced > self.body_limit {
            return Err(TransportError::TooLarge(self.body_limit));
        }
        let mut body = Zeroizing::new(Vec::with_capacity(announced));
        loop {
            match answer.chunk().await {
                Ok(Some(chunk)) if body.len() + chunk.len() > self.body_limit => {
                    return Err(TransportError::TooLarge(self.body_limit));
                }
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Ok(None) => return Ok(body),
                Err(error) if error.is_timeout() => return Err(TransportError::Timeout),
                Err(_) => return Err(TransportError::CutOff),
            }
        }
    }
}

/// A request to an endpoint that may be given secrets.
pub struct HttpRequest {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Option<Bytes>,
}

impl HttpRequest {
    /// A request without headers and body.
    pub fn new(method: Method, endpoint: &Endpoint) -> Self {
        Self { method, url: endpoint.url().clone(), headers: HeaderMap::new(), body: None }
    }

    /// With this header, instead of what it was before. [`Secret::header_value`](crate::Secret::header_value) makes the
    /// value of one that nobody prints.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// With these headers beside those it has.
    #[must_use]
    pub fn headers(mut self, headers: HeaderMap) -> Self {
        self.headers.extend(headers);
        self
    }

    /// With a body of this media type. [`secret::wiped`](crate::secret::wiped) makes one that leaves no copy.
    #[must_use]
    pub fn body(mut self, media_type: HeaderValue, body: impl Into<Bytes>) -> Self {
        self.body = Some(body.into());
        self.header(http::header::CONTENT_TYPE, media_type)
    }

    /// The method.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// Where it goes.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Its headers.
    pub fn header_map(&self) -> &HeaderMap {
        &self.headers
    }

    /// Its whole body.
    pub fn body_bytes(&self) -> &[u8] {
        self.body.as_deref().unwrap_or_default()
    }

    #[cfg(feature = "aws")]
    pub(crate) fn parts_mut(&mut self) -> (&mut HeaderMap, &[u8]) {
        (&mut self.headers, self.body.as_deref().unwrap_or_default())
    }
}

impl fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Headers and body may hold secrets that nobody has marked.
        f.debug_struct("HttpRequest")
            .field("method", &self.method)
            .field("url", &self.url.as_str())
            .finish_non_exhaustive()
    }
}

/// An answer, of whatever status. It may hold a token: the body is wiped, and not printed.
pub struct HttpResponse {
    /// The status.
    pub status: StatusCode,
    /// The version of HTTP.
    pub version: Version,
    /// Who answered.
    pub peer: Option<SocketAddr>,
    /// The headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Zeroizing<Vec<u8>>,
}

impl HttpResponse {
    /// A header that is text.
    pub fn header(&self, name: impl http::header::AsHeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// How long the server asks to wait before the same request is made again.
    pub fn retry_after(&self) -> Option<Duration> {
        retry::retry_after(&self.headers, SystemTime::now())
    }
}

impl fmt::Debug for HttpResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpResponse").field("status", &self.status).finish_non_exhaustive()
    }
}

/// Why a client cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The PEM file holds no certificate, or a broken one.
    #[error(
        "the CA file {reason}; expected PEM blocks `-----BEGIN CERTIFICATE-----` of the authorities that sign the server's certificate"
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
    #[error("cannot set up the HTTP client: {0}")]
    Setup(String),
}

impl ClientError {
    fn setup(error: &reqwest::Error) -> Self {
        Self::Setup(crate::error_chain::describe(error, ToString::to_string))
    }
}

fn proxy(proxies: &Proxies) -> Result<Option<Proxy>, ClientError> {
    match proxies {
        Proxies::None => Ok(None),
        Proxies::Environment => {
            let names = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
            let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
            let Some(address) = names.into_iter().find_map(set) else { return Ok(None) };
            // The value may hold a password: it is not repeated.
            let proxy =
                Proxy::https(address).map_err(|_| ClientError::Proxy("of HTTPS_PROXY is not a URL"))?;
            Ok(Some(proxy.no_proxy(NoProxy::from_env())))
        }
        Proxies::Named(address) => named_proxy(address).map(Some),
    }
}

fn named_proxy(address: &str) -> Result<Proxy, ClientError> {
    let url = Url::parse(address).map_err(|_| ClientError::Proxy("is not a URL"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(ClientError::Proxy("is neither http nor https"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(ClientError::Proxy("carries user information, which would show in process lists"));
    }
    Proxy::all(url).map_err(|error| ClientError::setup(&error))
}

#[cfg(test)]
mod tests;

//! Where requests to Vault go, and what every one of them brings along.

use bytes::Bytes;
use chancery_wire::{Endpoint, HttpRequest};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::sink::config::request::server_url;
use crate::sink::config::{SinkConfigError, VaultPlace};
use crate::sink::http_client::{SinkAnswer, SinkClient};
use crate::store::Failure;

/// One Vault.
#[derive(Debug)]
pub(super) struct Server {
    http: SinkClient,
    address: Endpoint,
    namespace: Option<HeaderValue>,
}

impl Server {
    pub fn of(place: &VaultPlace) -> Result<Self, SinkConfigError> {
        let namespace = place.namespace.as_deref().map(HeaderValue::from_str).transpose();
        let namespace = namespace.map_err(|_| {
            let remedy = "expected a namespace in visible ASCII";
            SinkConfigError::illegal("vault.namespace", &place.namespace, remedy)
        })?;
        let http = SinkClient::new(place.ca.as_deref(), place.timeout_seconds)?;
        Ok(Self { http, address: server_url("vault.address", &place.address)?, namespace })
    }

    /// A path below `/v1`.
    pub fn url(&self, path: &str) -> Endpoint {
        self.address.below(&format!("v1/{path}"))
    }

    /// A request with a JSON body, if any, and without a token.
    pub fn request(&self, method: Method, url: &Endpoint, body: Option<Bytes>) -> HttpRequest {
        let mut headers = HeaderMap::new();
        // An agent in between may demand it, as protection from requests that a browser was tricked into.
        headers.insert(HeaderName::from_static("x-vault-request"), HeaderValue::from_static("true"));
        if let Some(namespace) = &self.namespace {
            headers.insert(HeaderName::from_static("x-vault-namespace"), namespace.clone());
        }
        let request = HttpRequest::new(method, url).headers(headers);
        match body {
            Some(body) => request.body(HeaderValue::from_static("application/json"), body),
            None => request,
        }
    }

    pub async fn send(&self, request: HttpRequest) -> Result<SinkAnswer, Failure> {
        self.http.send(request).await
    }
}

//! A place that takes the keys by an HTTP PUT or POST, in a body made from a [template].
//!
//! Where it says how the set is read back, keys of others stay, and an `ETag` makes writes conditional. Where it does
//! not, nobody sees what is there: what was written last is remembered by this process, and what others wrote is
//! replaced. That must be allowed by `adopt`.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use chancery_core::jwks::JwksError;
use chancery_core::publication::Version;
use chancery_core::upload::HeldKeys;
use chancery_core::{IssuerUrl, PublicKey, key_file, pem};
use chancery_wire::{Endpoint, HttpRequest, Secret};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use serde_json::Value;

use self::template::Template;
use super::config::request::server_url;
use super::config::{HeaderSource, HttpMethod, HttpPutPlace, SinkConfigError};
use super::http_client::{SinkAnswer, SinkClient, excerpt, secret_header};
use super::secret_file::read_secret;
use super::{JwksSink, Upload};
use crate::store::{Failure, Operation, StoreError, StoreErrorKind};

pub mod template;

/// Keys behind an HTTP API.
#[derive(Debug)]
pub struct HttpPutSink {
    http: SinkClient,
    issuer: IssuerUrl,
    method: Method,
    url: Endpoint,
    content_type: HeaderValue,
    headers: Vec<(HeaderName, HeaderSource)>,
    body: Template,
    reading: ReadBack,
}

/// How it is known what is held.
#[derive(Debug)]
enum ReadBack {
    /// It is asked.
    Asked { url: Endpoint, pointer: String },
    /// It is remembered from the last write; nothing is known before that.
    Remembered(Mutex<Vec<PublicKey>>),
}

impl HttpPutSink {
    /// The sink of a place. Nothing is asked of it yet.
    ///
    /// # Errors
    /// When the place cannot be meant so, or its CA cannot be used.
    pub fn open(place: &HttpPutPlace, issuer: &IssuerUrl) -> Result<Self, SinkConfigError> {
        let illegal =
            |field, came: &str| SinkConfigError::illegal(field, came, "expected what a request can carry");
        let header = |(name, source): (&String, &HeaderSource)| {
            let name = name.parse::<HeaderName>().map_err(|_| illegal("httpPut.headers", name))?;
            Ok((name, source.clone()))
        };
        let reading = match (place.read_url(), &place.read) {
            (Some(url), Some(read)) => {
                ReadBack::Asked { url: server_url("httpPut.read.url", url)?, pointer: read.pointer.clone() }
            }
            _ => ReadBack::Remembered(Mutex::default()),
        };
        Ok(Self {
            http: SinkClient::new(place.ca.as_deref(), place.timeout_seconds)?,
            issuer: issuer.clone(),
            method: match place.method {
                HttpMethod::Put => Method::PUT,
                HttpMethod::Post => Method::POST,
            },
            url: server_url("httpPut.url", &place.url)?,
            content_type: HeaderValue::from_str(&place.content_type)
                .map_err(|_| illegal("httpPut.contentType", &place.content_type))?,
            headers: place.headers.iter().map(header).collect::<Result<_, _>>()?,
            body: Template::parse(&place.body)
                .map_err(|problem| SinkConfigError::illegal("httpPut.body", &place.body, problem))?,
            reading,
        })
    }

    async fn get(&self) -> Result<HeldKeys, Failure> {
        let (url, pointer) = match &self.reading {
            ReadBack::Asked { url, pointer } => (url, pointer),
            ReadBack::Remembered(keys) => {
                let keys = keys.lock().unwrap_or_else(PoisonError::into_inner).clone();
                return Ok(HeldKeys { keys, ..HeldKeys::default() });
            }
        };
        let answer = self.send(HttpRequest::new(Method::GET, url)).await?;
        match answer.status() {
            StatusCode::NOT_FOUND => Ok(HeldKeys::default()),
            StatusCode::OK => {
                let version = answer.header(header::ETAG).filter(|tag| is_strong(tag));
                let version = version.map(|tag| Version(tag.to_owned()));
                Ok(HeldKeys { version, ..held(answer.body(), pointer)? })
            }
            _ => Err(explain(&answer, "GET", url)),
        }
    }

    async fn put(&self, upload: Upload<'_>) -> Result<(), Failure> {
        // A write whose answer is lost may have taken effect or not: then it is not known what is held.
        self.remember(Vec::new());
        let body = self.body.render(upload.jwks, &self.issuer);
        let request = HttpRequest::new(self.method.clone(), &self.url).body(self.content_type.clone(), body);
        let version = upload.held.version.as_ref();
        let request = match version.and_then(|version| HeaderValue::from_str(&version.0).ok()) {
            Some(condition) => request.header(header::IF_MATCH, condition),
            None => request,
        };
        let answer = self.send(request).await?;
        if !answer.status().is_success() {
            return Err(explain(&answer, self.method.as_str(), &self.url));
        }
        self.remember(upload.jwks.keys().to_vec());
        Ok(())
    }

    fn remember(&self, keys: Vec<PublicKey>) {
        if let ReadBack::Remembered(kept) = &self.reading {
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = keys;
        }
    }

    /// Sends a request with the configured headers.
    async fn send(&self, request: HttpRequest) -> Result<SinkAnswer, Failure> {
        let mut headers = HeaderMap::new();
        let mut secrets = Vec::new();
        for (name, source) in &self.headers {
            let secret = match &source.file {
                Some(path) => read_secret(path).await?,
                None => Secret::new(String::new()),
            };
            let prefix = format!("{}{}", source.value.as_deref().unwrap_or_default(), source.prefix);
            headers.insert(name, secret_header(name.as_str(), &prefix, &secret)?);
            secrets.push(secret);
        }
        let mut answer = self.http.send(request.headers(headers)).await?;
        secrets.iter().for_each(|secret| answer.forget(secret));
        Ok(answer)
    }
}

#[async_trait]
impl JwksSink for HttpPutSink {
    async fn read(&self) -> Result<HeldKeys, StoreError> {
        self.get().await.map_err(|failure| failure.at(self.describe(), Operation::Read, "the key set"))
    }

    async fn write(&self, upload: Upload<'_>) -> Result<(), StoreError> {
        let written = self.put(upload).await;
        written.map_err(|failure| failure.at(self.describe(), Operation::Write, "the key set"))
    }

    fn describe(&self) -> String {
        self.url.to_string()
    }
}

/// A weak tag does not tell two sets apart, and never fits `If-Match` (RFC 9110 section 13.1.1).
fn is_strong(tag: &str) -> bool {
    tag.starts_with('"')
}

/// The keys in an answer.
fn held(body: &[u8], pointer: &str) -> Result<HeldKeys, Failure> {
    let refuse = |cause: String| {
        let remedy = "correct `read`: taking it for empty could drop the keys of others";
        Failure::new(StoreErrorKind::Misconfigured, cause, remedy)
    };
    let answer: Value =
        serde_json::from_slice(body).map_err(|error| refuse(format!("the answer is not JSON: {error}")))?;
    let not_a_set = |error: JwksError| refuse(format!("what is at {pointer:?} of the answer is {error}"));
    match answer.pointer(pointer) {
        None => Err(refuse(format!("the answer has nothing at {pointer:?}"))),
        Some(Value::Null) => Ok(HeldKeys::default()),
        Some(Value::String(text)) if text.is_empty() => Ok(HeldKeys::default()),
        Some(Value::String(text)) => HeldKeys::of_jwks(text.as_bytes()).map_err(not_a_set),
        Some(Value::Array(entries)) => Ok(held_pems(entries)),
        Some(value) => HeldKeys::of_jwks(value.to_string().as_bytes()).map_err(not_a_set),
    }
}

fn held_pems(entries: &[Value]) -> HeldKeys {
    let mut held = HeldKeys::default();
    for (position, entry) in entries.iter().enumerate() {
        let block = entry.as_str().and_then(|text| pem::blocks(text).into_iter().next());
        match block.as_ref().map(key_file::public_key_of) {
            Some(Ok(key)) => held.keys.push(key),
            Some(Err(reason)) => held.unsupported.push(format!("element {position}: {reason}")),
            None => held.unsupported.push(format!("element {position} is not PEM")),
        }
    }
    held
}

fn explain(answer: &SinkAnswer, method: &str, url: &Endpoint) -> Failure {
    let said = excerpt(&String::from_utf8_lossy(answer.body()));
    if let Some(failure) = answer.common_failure(&said) {
        return failure;
    }
    let cause = format!("{method} {url}: status {}{said}", answer.status());
    match answer.status().as_u16() {
        401 | 403 => Failure::new(
            StoreErrorKind::Denied,
            cause,
            "grant it to the credential in `headers`, or renew that",
        ),
        404 => Failure::new(
            StoreErrorKind::NoSuchContainer,
            cause,
            "make the object there, or correct the `url`",
        ),
        409 => Failure::conflict(cause),
        _ => Failure::new(
            StoreErrorKind::Misconfigured,
            cause,
            "correct `method`, `body` and `contentType` to what the server takes",
        ),
    }
}

#[cfg(test)]
mod tests;

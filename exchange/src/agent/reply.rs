//! What is sent back.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;
use zeroize::Zeroizing;

use crate::credential::Credential;
use crate::error::{Class, ExchangeError};
use crate::output;

/// An answer, whose body is wiped when it was sent.
pub(super) struct Reply {
    status: u16,
    media_type: &'static str,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Zeroizing<String>,
}

impl Reply {
    pub(super) fn text(status: u16, text: &str) -> Self {
        let body = Zeroizing::new(text.to_owned());
        Self { status, media_type: "application/text", headers: Vec::new(), body }
    }

    pub(super) fn json<T: Serialize>(status: u16, value: &T) -> Result<Self, ExchangeError> {
        let body = output::json(value)?;
        Ok(Self { status, media_type: "application/json", headers: Vec::new(), body })
    }

    /// The same with a header.
    pub(super) fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((HeaderName::from_static(name), HeaderValue::from_static(value)));
        self
    }

    /// The same with the time after which it makes sense to ask again.
    pub(super) fn retry_after(mut self, wait: Option<Duration>) -> Self {
        let seconds = wait.map(|wait| wait.as_secs().max(1));
        self.headers.extend(seconds.map(|seconds| (RETRY_AFTER, HeaderValue::from(seconds))));
        self
    }

    pub(super) fn into_response(mut self) -> Response<Full<Bytes>> {
        let body = Zeroizing::new(std::mem::take(&mut *self.body).into_bytes());
        let mut response = Response::new(Full::new(Bytes::from_owner(body)));
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.media_type));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.extend(self.headers);
        response
    }
}

/// The status by which SDKs know whether to ask again: they do so after 429 and 5xx, and not after 400.
pub(super) fn status_of(class: Class) -> u16 {
    match class {
        Class::Permanent => 400,
        Class::Throttled => 429,
        Class::Transient | Class::Expired | Class::Source => 503,
    }
}

/// A chain gave something else than its provider gives.
pub(super) fn of_another_kind(credential: &Credential) -> ExchangeError {
    ExchangeError::configuration("agent-credential")
        .came(&format!("the chain gave {}", credential.kind_in_words()))
}

//! The answer to one request, decided from the table without waiting for anything.
//!
//! Rules, in the order in which the code applies them:
//!
//! 1. A request names exactly one host (RFC 9112 section 3.2), otherwise 400.
//! 2. A host that is not ours is 421, in the same words for everybody: what else we serve is nobody's business.
//! 3. A path of no issuer is 404; a path of an issuer without documents is 503 with `Retry-After`.
//! 4. GET and HEAD are answered, any other method is 405 with `Allow`.
//! 5. `If-None-Match` that lists our tag, weakly compared, or `*` is 304 (RFC 9110 section 13.1.2).
//!
//! Refusals are `no-store`: a cache in front that kept a 404 or 503 would hide the documents when they appear.
//! There is no `Strict-Transport-Security`: an issuer URL is `https` by definition, so there is no `http` link to
//! upgrade, and the header would bind every other service that shares the host name, `localhost` included.

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HOST, IF_NONE_MATCH, RETRY_AFTER,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;

use super::prepared::Prepared;
use super::table::{DocumentTable, Found};

/// How soon a client may ask again when no key has been seen, in seconds: about as long as a source takes to start.
const RETRY_AFTER_SECONDS: &str = "5";

/// The answer to `request`, whose body is not read.
pub fn answer<B>(table: &DocumentTable, request: &Request<B>) -> Response<Full<Bytes>> {
    let mut response = answer_in_full(table, request);
    // The length stays. hyper leaves the body out of HTTP/1 by itself, but not out of HTTP/2.
    if *request.method() == Method::HEAD {
        *response.body_mut() = Full::default();
    }
    response
}

fn answer_in_full<B>(table: &DocumentTable, request: &Request<B>) -> Response<Full<Bytes>> {
    let Some(host) = requested_host(request) else {
        return refusal(StatusCode::BAD_REQUEST, "the request must name exactly one host\n");
    };
    match table.find(host, request.uri().path()) {
        Found::Document(document) => with_document(document, request),
        Found::NotYet => {
            let text = "no key of this issuer has been seen yet; try again in a moment\n";
            let mut response = refusal(StatusCode::SERVICE_UNAVAILABLE, text);
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_SECONDS));
            response
        }
        Found::NoSuchPath => refusal(StatusCode::NOT_FOUND, "there is no document at this path\n"),
        Found::NoSuchHost => {
            let text = "this server does not answer for the host that the request names\n";
            refusal(StatusCode::MISDIRECTED_REQUEST, text)
        }
    }
}

fn with_document<B>(document: &Prepared, request: &Request<B>) -> Response<Full<Bytes>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered here\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    if lists(request.headers(), document.etag()) {
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        *response.headers_mut() = document.unchanged_headers();
        return response;
    }
    let mut response = Response::new(Full::new(document.bytes().clone()));
    *response.headers_mut() = document.headers();
    response
}

/// The host of the request target, which wins, or of the one `Host` header.
fn requested_host<B>(request: &Request<B>) -> Option<&str> {
    if let Some(authority) = request.uri().authority() {
        return Some(authority.as_str());
    }
    let mut hosts = request.headers().get_all(HOST).iter();
    let host = hosts.next()?.to_str().ok()?;
    hosts.next().is_none().then_some(host)
}

/// Whether `If-None-Match` names `etag`. A tag contains no quote, so what stands between two commas and equals
/// ours with both its quotes is one whole tag.
fn lists(headers: &HeaderMap, etag: &HeaderValue) -> bool {
    headers.get_all(IF_NONE_MATCH).iter().any(|value| {
        value.as_bytes().split(|byte| *byte == b',').any(|tag| {
            let tag = tag.trim_ascii();
            tag == b"*" || tag.strip_prefix(b"W/").unwrap_or(tag) == etag.as_bytes()
        })
    })
}

fn refusal(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    *response.headers_mut() = HeaderMap::from_iter([
        (CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8")),
        (CONTENT_LENGTH, HeaderValue::from(text.len())),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ]);
    response
}

#[cfg(test)]
#[path = "answer/tests.rs"]
mod tests;

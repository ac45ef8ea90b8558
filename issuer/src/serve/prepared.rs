//! A document with everything that its answers carry, made once so that a request makes nothing.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use chancery_core::{Document, DocumentKind};
use http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue};
use sha2::{Digest as _, Sha256};

/// How many headers a document has, so that their map never grows.
const HEADERS: usize = 6;

/// A document ready to be sent. What all documents say alike is not kept with each of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    kind: DocumentKind,
    bytes: Bytes,
    etag: HeaderValue,
    cache: HeaderValue,
}

impl Prepared {
    /// Renders what `document` says of itself.
    pub fn new(document: Document) -> Self {
        let etag = text(&etag_of(&document.bytes));
        let cache = text(&document.cache.header());
        Self { kind: document.kind, bytes: document.bytes.into(), etag, cache }
    }

    /// The exact bytes.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The strong entity tag, quotes included: the first 128 bits of the bytes' SHA-256 in base64url.
    pub fn etag(&self) -> &HeaderValue {
        &self.etag
    }

    /// The headers of an answer with the document (200).
    pub fn headers(&self) -> HeaderMap {
        let mut headers = self.unchanged_headers();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.kind.media_type()));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(self.bytes.len()));
        headers
    }

    /// The headers of an answer without it (304), which say nothing of the bytes that are not sent.
    pub fn unchanged_headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(HEADERS);
        headers.insert(ETAG, self.etag.clone());
        headers.insert(CACHE_CONTROL, self.cache.clone());
        // Key sets are public; single-page tools and debuggers read them from browsers.
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers
    }
}

fn etag_of(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let prefix: Vec<u8> = digest.iter().copied().take(16).collect();
    format!("\"{}\"", URL_SAFE_NO_PAD.encode(prefix))
}

/// What we render is base64url, digits and the words of a cache header, so the fallback is never taken.
fn text(value: &str) -> HeaderValue {
    HeaderValue::from_str(value).unwrap_or(HeaderValue::from_static(""))
}

use std::sync::Arc;

use chancery_core::{CachePolicy, Document, DocumentKind};

use super::*;
use crate::serve::HostPolicy;

fn prepared() -> Prepared {
    let document =
        Document { kind: DocumentKind::Jwks, bytes: b"{}".to_vec(), cache: CachePolicy::of_seconds(60) };
    Prepared::new(document)
}

fn request(method: &str, headers: &[(&'static str, &str)]) -> Request<()> {
    let mut request = Request::builder().method(method).uri("/openid/v1/jwks?cache=no");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

#[test]
fn the_tag_is_strong_and_follows_from_the_bytes() {
    let tag = prepared().etag().to_str().unwrap().to_owned();
    // printf '{}' | openssl dgst -sha256 -binary | head -c 16 | basenc --base64url
    assert_eq!(tag, "\"RBNvo1WzZ4oRRq0W9-hkng\"");
}

#[test]
fn if_none_match_is_a_list_weakly_compared() {
    let ours = prepared().etag().to_str().unwrap().to_owned();
    let weak = format!("W/{ours}");
    let list = format!("\"other\", {weak} ,\"third\"");
    let unquoted = ours.trim_matches('"').to_owned();
    for (header, matches) in [
        (ours.as_str(), true),
        (&weak, true),
        (&list, true),
        ("*", true),
        ("\"other\"", false),
        (&unquoted, false),
        ("", false),
    ] {
        let response = with_document(&prepared(), &request("GET", &[("if-none-match", header)]));
        assert_eq!(response.status() == StatusCode::NOT_MODIFIED, matches, "{header}");
    }
    let lines = [("if-none-match", "\"other\""), ("if-none-match", ours.as_str())];
    assert_eq!(with_document(&prepared(), &request("HEAD", &lines)).status(), StatusCode::NOT_MODIFIED);
}

#[test]
fn not_modified_repeats_what_a_cache_must_know() {
    let response = with_document(&prepared(), &request("GET", &[("if-none-match", "*")]));
    assert_eq!(response.headers()["etag"], prepared().etag());
    assert_eq!(response.headers()["cache-control"], "public, max-age=60");
    assert!(!response.headers().contains_key("content-type"));
}

#[test]
fn other_methods_are_refused_before_conditions_are_read() {
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "get"] {
        let response = with_document(&prepared(), &request(method, &[("if-none-match", "*")]));
        assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED, "{method}");
        assert_eq!(response.headers()["allow"], "GET, HEAD");
        assert_eq!(response.headers()["cache-control"], "no-store");
    }
}

#[test]
fn a_request_names_one_host() {
    let table = DocumentTable::empty(Arc::new(HostPolicy::new(&[], &[]).unwrap()));
    for (headers, status) in [
        (&[][..], StatusCode::BAD_REQUEST),
        (&[("host", "a.example"), ("host", "a.example")], StatusCode::BAD_REQUEST),
        (&[("host", "a.example")], StatusCode::MISDIRECTED_REQUEST),
    ] {
        assert_eq!(answer(&table, &request("GET", headers)).status(), status, "{headers:?}");
    }
    let absolute = Request::get("http://a.example/").body(()).unwrap();
    assert_eq!(answer(&table, &absolute).status(), StatusCode::MISDIRECTED_REQUEST);
}

//! A signed request, held against what AWS demands of it.

use std::collections::BTreeMap;

use hyper::http::request::Parts as Head;

use super::{Parts, Scope, sha256, signature};

/// Access key id and secret access key of the only caller of the stand-ins.
pub const CREDENTIALS: (&str, &str) = ("AKIDCHANCERY", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
/// A token beside them, which each request must carry.
pub const SESSION_TOKEN: &str = "a+session/token==";
/// The region that requests are signed for.
pub const REGION: &str = "us-east-1";

/// How far a request's date may be from ours, in seconds.
const SKEW: i64 = 15 * 60;

/// A refusal: status, code, message.
#[derive(Debug)]
pub struct WrongSignature(pub u16, pub &'static str, pub String);

/// Whether the caller signed this request for `service`, now and with everything that must be signed.
pub fn verify(head: &Head, body: &[u8], service: &str) -> Result<(), WrongSignature> {
    let wrong = |what: &str| WrongSignature(403, "SignatureDoesNotMatch", what.to_owned());
    let incomplete = |what: &str| WrongSignature(400, "IncompleteSignature", what.to_owned());
    let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    let authorization = header("authorization").ok_or_else(|| incomplete("no Authorization"))?;
    let fields = authorization.strip_prefix("AWS4-HMAC-SHA256 ").ok_or_else(|| incomplete("algorithm"))?;
    let fields = fields.split(',').filter_map(|field| field.trim().split_once('='));
    let fields: BTreeMap<&str, &str> = fields.collect();
    let field = |name: &str| fields.get(name).copied().ok_or_else(|| incomplete(name));
    let (id, scope) = field("Credential")?.split_once('/').ok_or_else(|| incomplete("Credential"))?;
    if id != CREDENTIALS.0 || header("x-amz-security-token") != Some(SESSION_TOKEN) {
        let message = "The security token is invalid.".to_owned();
        return Err(WrongSignature(403, "InvalidClientTokenId", message));
    }
    let timestamp = header("x-amz-date").ok_or_else(|| incomplete("X-Amz-Date"))?;
    let date = timestamp.get(..8).unwrap_or_default().to_owned();
    let expected = Scope { date, region: REGION.to_owned(), service: service.to_owned() };
    if scope != expected.text() {
        return Err(wrong(&format!("Credential should be scoped to {}, not {scope}", expected.text())));
    }
    check_date(timestamp)?;
    // S3 alone wants the digest of the body in a header.
    let digest = header("x-amz-content-sha256");
    if service == "s3" && digest != Some(sha256(body).as_str()) {
        return Err(WrongSignature(400, "XAmzContentSHA256Mismatch", format!("{digest:?}")));
    }
    let names: Vec<&str> = field("SignedHeaders")?.split(';').collect();
    let must = |name: &str| matches!(name, "host" | "content-type") || name.starts_with("x-amz-");
    let unsigned = head.headers.keys().find(|name| must(name.as_str()) && !names.contains(&name.as_str()));
    if let Some(name) = unsigned {
        return Err(wrong(&format!("{name} is not signed")));
    }
    if !names.is_sorted() {
        return Err(incomplete("SignedHeaders are not sorted"));
    }
    let headers: Vec<(&str, &str)> =
        names.iter().map(|name| (*name, header(name).unwrap_or_default())).collect();
    let (path, query) = (head.uri.path(), head.uri.query().unwrap_or_default());
    let parts = Parts { method: head.method.as_str(), path, query, headers: &headers, body };
    let ours = signature(CREDENTIALS.1, &expected, timestamp, parts);
    if field("Signature")? == ours { Ok(()) } else { Err(wrong("the signature is another one")) }
}

fn check_date(timestamp: &str) -> Result<(), WrongSignature> {
    let expired = |what: String| WrongSignature(403, "SignatureDoesNotMatch", what);
    let date = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", timestamp)
        .and_then(|date| date.to_zoned(jiff::tz::TimeZone::UTC))
        .map_err(|error| expired(error.to_string()))?;
    let age = jiff::Timestamp::now().as_second() - date.timestamp().as_second();
    if age.abs() > SKEW { Err(expired(format!("Signature expired: {timestamp}"))) } else { Ok(()) }
}

//! Who asks: the signature of a request, computed anew, and the parameters that it covers.

use std::collections::BTreeMap;

use hyper::http::request::Parts as Head;

use super::{CREDENTIALS, Refusal, SESSION_TOKEN};
use crate::sigv4::{Parts, Scope, signature};

/// How far a request's date may be from ours, in seconds.
const SKEW: i64 = 15 * 60;

/// A call whose signature holds.
#[derive(Debug)]
pub(super) struct Authenticated {
    pub(super) action: String,
    pub(super) parameters: BTreeMap<String, String>,
}

pub(super) fn check(head: &Head, body: &[u8], host: &str) -> Result<Authenticated, Refusal> {
    let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    if head.method != "POST" || head.uri.path() != "/" || head.uri.query().is_some() {
        return Err(Refusal(404, "UnknownOperationException", format!("{} {}", head.method, head.uri)));
    }
    if header("content-type") != Some("application/x-www-form-urlencoded") {
        return Err(Refusal(400, "MalformedInput", "expected a form".to_owned()));
    }
    if header("host") != Some(host) {
        return Err(Refusal(400, "MalformedInput", format!("Host is {:?}", header("host"))));
    }
    let parameters = form(body)?;
    let action = parameters.get("Action").cloned().unwrap_or_default();
    let service = if action == "GetCallerIdentity" { "sts" } else { "iam" };
    check_signature(head, body, service)?;
    Ok(Authenticated { action, parameters })
}

fn check_signature(head: &Head, body: &[u8], service: &str) -> Result<(), Refusal> {
    let wrong = |what: &str| Refusal(403, "SignatureDoesNotMatch", what.to_owned());
    let incomplete = |what: &str| Refusal(400, "IncompleteSignature", what.to_owned());
    let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    let authorization = header("authorization").ok_or_else(|| incomplete("no Authorization"))?;
    let fields = authorization.strip_prefix("AWS4-HMAC-SHA256 ").ok_or_else(|| incomplete("algorithm"))?;
    let fields: BTreeMap<&str, &str> = fields.split(", ").filter_map(|field| field.split_once('=')).collect();
    let field = |name: &str| fields.get(name).copied().ok_or_else(|| incomplete(name));
    let (id, scope) = field("Credential")?.split_once('/').ok_or_else(|| incomplete("Credential"))?;
    if id != CREDENTIALS.0 || header("x-amz-security-token") != Some(SESSION_TOKEN) {
        return Err(Refusal(403, "InvalidClientTokenId", "The security token is invalid.".to_owned()));
    }
    let timestamp = header("x-amz-date").ok_or_else(|| incomplete("X-Amz-Date"))?;
    let date = timestamp.get(..8).unwrap_or_default().to_owned();
    let expected = Scope { date, region: "us-east-1".to_owned(), service: service.to_owned() };
    if scope != expected.text() {
        return Err(wrong(&format!("Credential should be scoped to {}, not {scope}", expected.text())));
    }
    check_date(timestamp)?;
    let names: Vec<&str> = field("SignedHeaders")?.split(';').collect();
    let must = |name: &str| name == "host" || name == "content-type" || name.starts_with("x-amz-");
    if let Some(name) =
        head.headers.keys().find(|name| must(name.as_str()) && !names.contains(&name.as_str()))
    {
        return Err(wrong(&format!("{name} is not signed")));
    }
    if !names.is_sorted() {
        return Err(incomplete("SignedHeaders are not sorted"));
    }
    let headers: Vec<(&str, &str)> =
        names.iter().map(|name| (*name, header(name).unwrap_or_default())).collect();
    let parts = Parts { method: "POST", path: "/", query: "", headers: &headers, body };
    let ours = signature(CREDENTIALS.1, &expected, timestamp, parts);
    if field("Signature")? == ours { Ok(()) } else { Err(wrong("the signature is another one")) }
}

fn check_date(timestamp: &str) -> Result<(), Refusal> {
    let expired = |what: String| Refusal(403, "SignatureDoesNotMatch", what);
    let date = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", timestamp)
        .and_then(|date| date.to_zoned(jiff::tz::TimeZone::UTC))
        .map_err(|error| expired(error.to_string()))?;
    let age = jiff::Timestamp::now().as_second() - date.timestamp().as_second();
    if age.abs() > SKEW { Err(expired(format!("Signature expired: {timestamp}"))) } else { Ok(()) }
}

/// A form in which no name comes twice.
fn form(body: &[u8]) -> Result<BTreeMap<String, String>, Refusal> {
    let malformed = |what: &str| Refusal(400, "MalformedQueryString", what.to_owned());
    let body = std::str::from_utf8(body).map_err(|_| malformed("not UTF-8"))?;
    let mut parameters = BTreeMap::new();
    for pair in body.split('&') {
        let (name, value) = pair.split_once('=').ok_or_else(|| malformed(pair))?;
        let (name, value) = (decoded(name), decoded(value));
        if parameters.insert(name.clone(), value).is_some() {
            return Err(malformed(&name));
        }
    }
    Ok(parameters)
}

fn decoded(text: &str) -> String {
    let text = text.replace('+', " ");
    let mut pieces = text.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let (hex, rest) = piece.split_at(2.min(piece.len()));
        bytes.extend(u8::from_str_radix(hex, 16));
        bytes.extend(rest.as_bytes());
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

//! Who asks: the signature of a request, computed anew, and the parameters that it covers.

use std::collections::BTreeMap;

use hyper::http::request::Parts as Head;

use super::Refusal;
use crate::sigv4::verify::{WrongSignature, verify};

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
    let refusal = |WrongSignature(status, code, message)| Refusal(status, code, message);
    verify(head, body, service).map_err(refusal)?;
    Ok(Authenticated { action, parameters })
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

//! What a call may hold.

use bytes::Bytes;
use hyper::Request;
use hyper::header::CONTENT_TYPE;
use serde_json::{Map, Value};

/// What an uploaded JWK may have (`Oidc.jwksJson`).
const JWK_MEMBERS: [&str; 9] = ["kty", "alg", "use", "kid", "n", "e", "x", "y", "crv"];

/// A refusal: status, Google's word for it, message.
pub(super) type Refusal = (u16, &'static str, String);

pub(super) fn invalid(message: impl Into<String>) -> Refusal {
    (400, "INVALID_ARGUMENT", message.into())
}

/// The id that a creation names, as Google wants it.
pub(super) fn id(query: &[(String, String)], parameter: &str) -> Result<String, Refusal> {
    let [(name, id)] = query else { return Err(invalid(format!("expected {parameter} alone"))) };
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name != parameter || !(4..=32).contains(&id.len()) || !id.chars().all(plain) || id.starts_with("gcp-")
    {
        return Err(invalid(format!("{name}={id} is not a legal {parameter}")));
    }
    Ok(id.clone())
}

pub(super) fn body(request: &Request<Bytes>, fields: &[&str]) -> Result<Map<String, Value>, Refusal> {
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if kind != Some("application/json") {
        return Err(invalid(format!("{kind:?} is no JSON")));
    }
    let body: Map<String, Value> =
        serde_json::from_slice(request.body()).map_err(|error| invalid(error.to_string()))?;
    known(&body, fields)?;
    Ok(body)
}

fn known(object: &Map<String, Value>, fields: &[&str]) -> Result<(), Refusal> {
    match object.keys().find(|field| !fields.contains(&field.as_str())) {
        Some(field) => Err(invalid(format!(
            "Invalid JSON payload received. Unknown name \"{field}\": Cannot find field."
        ))),
        None => Ok(()),
    }
}

pub(super) fn provider_body(request: &Request<Bytes>) -> Result<Map<String, Value>, Refusal> {
    let fields = ["displayName", "description", "disabled", "attributeMapping", "attributeCondition", "oidc"];
    let body = body(request, &fields)?;
    if let Some(oidc) = body.get("oidc") {
        let oidc = oidc.as_object().ok_or_else(|| invalid("oidc is no object"))?;
        known(oidc, &["issuerUri", "allowedAudiences", "jwksJson"])?;
    }
    Ok(body)
}

pub(super) fn check_texts(resource: &Value) -> Result<(), Refusal> {
    for (field, most) in [("displayName", 32), ("description", 256)] {
        if text(resource, &format!("/{field}")).chars().count() > most {
            return Err(invalid(format!("{field} cannot exceed {most} characters")));
        }
    }
    Ok(())
}

pub(super) fn check_provider(provider: &Value) -> Result<(), Refusal> {
    if text(provider, "/attributeMapping/google.subject").is_empty() {
        return Err(invalid("attributeMapping must have google.subject"));
    }
    if !text(provider, "/oidc/issuerUri").starts_with("https://") {
        return Err(invalid("issuerUri must be https"));
    }
    let audiences = provider.pointer("/oidc/allowedAudiences").and_then(Value::as_array).cloned();
    let audiences = audiences.unwrap_or_default();
    let fits =
        |audience: &Value| audience.as_str().is_some_and(|text| (1..=256).contains(&text.chars().count()));
    if audiences.len() > 10 || !audiences.iter().all(fits) {
        return Err(invalid("at most 10 audiences of at most 256 characters"));
    }
    provider.pointer("/oidc/jwksJson").and_then(Value::as_str).map_or(Ok(()), check_jwks)
}

/// The text at a JSON pointer; empty where there is none.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn check_jwks(jwks: &str) -> Result<(), Refusal> {
    let jwks: Value = serde_json::from_str(jwks).map_err(|error| invalid(format!("jwksJson: {error}")))?;
    let object = jwks.as_object().ok_or_else(|| invalid("jwksJson is no object"))?;
    known(object, &["keys"])?;
    let keys = jwks.get("keys").and_then(Value::as_array).filter(|keys| !keys.is_empty());
    for key in keys.ok_or_else(|| invalid("jwksJson has no keys"))? {
        known(key.as_object().ok_or_else(|| invalid("a key is no object"))?, &JWK_MEMBERS)?;
        let fits = matches!(
            (text(key, "/kty"), text(key, "/alg"), text(key, "/crv")),
            ("RSA", "RS256", "") | ("EC", "ES256", "P-256")
        );
        if !fits || text(key, "/use") != "sig" || text(key, "/kid").is_empty() {
            return Err(invalid("jwksJson: a key is not supported"));
        }
    }
    Ok(())
}

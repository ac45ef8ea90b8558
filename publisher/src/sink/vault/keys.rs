//! The keys in the configuration of a JWT auth method. Pure.

use chancery_core::{IssuerUrl, Jwks, PublicKey, key_file, pem};
use serde_json::{Map, Value, json};

use crate::store::{Failure, StoreErrorKind};

const KEYS: &str = "jwt_validation_pubkeys";
const BOUND_ISSUER: &str = "bound_issuer";
/// What says where keys are fetched from, of which Vault allows one at a time, and never beside keys.
const OTHER_METHODS: [&str; 3] = ["oidc_discovery_url", "jwks_url", "jwks_pairs"];
/// What Vault reads without the secrets that were written: sent back as it was read, it would lose them.
const PARTLY_SECRET: [&str; 2] = ["provider_config", "oidc_client_id"];
/// What OpenBao adds to the fields when they are read.
const NOT_A_FIELD: &str = "status";

/// The fields of a configuration, from the answer that brings it.
pub(super) fn configuration(body: &[u8]) -> Result<Map<String, Value>, Failure> {
    let answer: Option<Value> = serde_json::from_slice(body).ok();
    match answer.as_ref().and_then(|answer| answer.get("data")) {
        Some(Value::Object(fields)) => Ok(fields.clone()),
        _ => Err(Failure::new(
            StoreErrorKind::Misconfigured,
            "the answer is not a configuration of Vault's",
            "give the address of Vault or OpenBao itself",
        )),
    }
}

/// The keys of a configuration.
///
/// An entry that is no key of ours and none that Kubernetes could have published is not among them. It needs not be,
/// since [`with_keys`] carries on every entry as it stands.
pub(super) fn held(
    configuration: &Map<String, Value>,
    issuer: &IssuerUrl,
) -> Result<Vec<PublicKey>, Failure> {
    let is_set = |field: &&&str| configuration.get(**field).is_some_and(|value| !is_empty(value));
    let refuse = |cause: String, remedy| Err(Failure::new(StoreErrorKind::Misconfigured, cause, remedy));
    if let Some(other) = OTHER_METHODS.iter().find(is_set) {
        return refuse(
            format!("`{other}` is set, which excludes `{KEYS}`"),
            "if this mount may be given keys, write its configuration anew without that field; otherwise use another mount",
        );
    }
    if let Some(secret) = PARTLY_SECRET.iter().find(is_set) {
        return refuse(
            format!("`{secret}` is set, whose secrets cannot be read, so that no write could keep them"),
            "use a mount for tokens of this issuer alone",
        );
    }
    match configuration.get(BOUND_ISSUER).and_then(Value::as_str) {
        Some(bound) if !bound.is_empty() && bound != issuer.as_str() => refuse(
            format!(
                "`{BOUND_ISSUER}` is {bound:?} and we are {:?}, so that our keys could sign for another issuer",
                issuer.as_str()
            ),
            "use a mount of its own for this issuer, or correct `bound_issuer`",
        ),
        _ => Ok(entries(configuration).filter_map(key_of).collect()),
    }
}

/// The configuration with these keys and no others. Entries of keys that stay keep their place and spelling, as do those
/// that we cannot read. A mount without a configuration is bound to the issuer.
pub(super) fn with_keys(
    configuration: Option<Map<String, Value>>,
    jwks: &Jwks,
    issuer: &IssuerUrl,
) -> Map<String, Value> {
    let unconfigured = || Map::from_iter([(BOUND_ISSUER.to_owned(), json!(issuer.as_str()))]);
    let mut configuration = configuration.unwrap_or_else(unconfigured);
    let stays = |entry: &&str| key_of(entry).is_none_or(|key| jwks.contains(key.key_id()));
    let mut kept: Vec<String> = entries(&configuration).filter(stays).map(str::to_owned).collect();
    let there: Vec<PublicKey> = kept.iter().filter_map(|entry| key_of(entry)).collect();
    kept.extend(jwks.keys().iter().filter(|key| !there.contains(key)).map(PublicKey::to_pem));
    configuration.insert(KEYS.to_owned(), kept.into());
    // Vault's lists are null when they are empty, which it does not take back.
    configuration.retain(|field, value| field != NOT_A_FIELD && !value.is_null());
    configuration
}

fn entries(configuration: &Map<String, Value>) -> impl Iterator<Item = &str> {
    configuration.get(KEYS).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// The key of an entry, as Vault reads it: the first block, a public key or a certificate.
fn key_of(entry: &str) -> Option<PublicKey> {
    key_file::public_key_of(pem::blocks(entry).first()?).ok()
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(values) => values.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests;

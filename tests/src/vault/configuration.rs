//! The fields of a JWT method's configuration, and what they may be together (`path_config.go`).

use serde_json::{Map, Value, json};

use super::jws;

const KEYS: &str = "jwt_validation_pubkeys";
const TEXTS: [&str; 9] = [
    "bound_issuer",
    "default_role",
    "jwks_ca_pem",
    "jwks_url",
    "oidc_client_id",
    "oidc_client_secret",
    "oidc_discovery_ca_pem",
    "oidc_discovery_url",
    "oidc_response_mode",
];
const LISTS: [&str; 5] =
    ["jwks_pairs", "jwt_supported_algs", KEYS, "oidc_response_types", "override_allowed_server_names"];
/// The field that stays as it was when it is not written.
const LASTING: &str = "namespace_in_state";
const ALGORITHMS: [&str; 10] =
    ["RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "EdDSA"];

/// A configuration that is taken.
pub(super) struct Checked {
    pub fields: Map<String, Value>,
    /// Fields that Vault does not know and warns of.
    pub unknown: Vec<String>,
}

/// Checks what is written. It replaces everything that was there, but for one field.
pub(super) fn checked(written: &Value, before: Option<&Map<String, Value>>) -> Result<Checked, String> {
    let written = written.as_object().ok_or("failed to parse JSON input: expected an object")?;
    let mut fields = defaults();
    fields
        .extend(before.and_then(|before| before.get_key_value(LASTING)).map(|(n, v)| (n.clone(), v.clone())));
    let mut unknown = Vec::new();
    for (name, value) in written {
        let fits = match name.as_str() {
            name if TEXTS.contains(&name) => value.is_string(),
            name if LISTS.contains(&name) => value.is_array(),
            "provider_config" => value.is_object(),
            LASTING | "skip_jwks_validation" => value.is_boolean(),
            _ => {
                unknown.push(name.clone());
                continue;
            }
        };
        if !fits {
            return Err(format!("Field validation failed: error converting input for field {name:?}"));
        }
        fields.insert(name.clone(), trimmed(value));
    }
    check_methods(&fields)?;
    check_lists(&fields)?;
    Ok(Checked { fields, unknown })
}

/// A list as Vault stores it: without the space around its entries, so that a PEM loses its last line break.
fn trimmed(value: &Value) -> Value {
    let entry = |entry: &Value| entry.as_str().map_or_else(|| entry.clone(), |text| json!(text.trim()));
    value.as_array().map_or_else(|| value.clone(), |entries| entries.iter().map(entry).collect())
}

fn check_methods(fields: &Map<String, Value>) -> Result<(), String> {
    let is_set = |name: &&&str| fields.get(**name).is_some_and(|value| !is_empty(value));
    let methods = ["oidc_discovery_url", KEYS, "jwks_url", "jwks_pairs"];
    let is_set_up = |name: &'static str| is_set(&&name);
    if methods.iter().filter(is_set).count() != 1 {
        return Err("exactly one of 'jwt_validation_pubkeys', 'jwks_url', 'jwks_pairs' or 'oidc_discovery_url' must be set".to_owned());
    }
    if is_set_up("oidc_client_id") != is_set_up("oidc_client_secret") {
        return Err("both 'oidc_client_id' and 'oidc_client_secret' must be set for OIDC".to_owned());
    }
    if is_set_up("jwks_pairs") && is_set_up("bound_issuer") {
        return Err("'bound_issuer' cannot be used with 'jwks_pairs'".to_owned());
    }
    Ok(())
}

fn check_lists(fields: &Map<String, Value>) -> Result<(), String> {
    for entry in fields.get(KEYS).and_then(Value::as_array).into_iter().flatten() {
        let entry = entry.as_str().ok_or("Field validation failed: expected strings")?;
        jws::VerificationKey::of_pem(entry).map_err(|error| format!("error parsing public key: {error}"))?;
    }
    for algorithm in fields.get("jwt_supported_algs").and_then(Value::as_array).into_iter().flatten() {
        if !ALGORITHMS.iter().any(|known| algorithm == known) {
            return Err(format!("invalid jwt_supported_algs: unsupported signing algorithm {algorithm}"));
        }
    }
    Ok(())
}

fn defaults() -> Map<String, Value> {
    let texts = TEXTS.iter().map(|name| ((*name).to_owned(), json!("")));
    let lists = LISTS.iter().map(|name| ((*name).to_owned(), json!([])));
    let others = [("provider_config", json!({})), (LASTING, json!(true))];
    texts.chain(lists).chain(others.map(|(name, value)| (name.to_owned(), value))).collect()
}

/// The fields as a reading shows them: without secrets, and with what OpenBao adds.
pub(super) fn shown(fields: &Map<String, Value>) -> Value {
    let mut shown = fields.clone();
    shown.retain(|name, _| !["oidc_client_secret", "skip_jwks_validation"].contains(&name.as_str()));
    shown.insert("status".to_owned(), json!("valid"));
    Value::Object(shown)
}

/// The entries with keys.
pub(super) fn keys(configuration: &Value) -> Vec<String> {
    let entries = configuration.get(KEYS).and_then(Value::as_array);
    entries.into_iter().flatten().filter_map(|entry| Some(entry.as_str()?.to_owned())).collect()
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

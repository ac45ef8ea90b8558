//! The JWKS: ours as kube-apiserver renders it, and a tolerant reader of whatever is published elsewhere.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::json::to_go_bytes;
use crate::key::{Curve, KeyMaterial};
use crate::{Algorithm, KeyId, PublicKey};

/// A set of keys, in the order in which it is published; at least one, but for [`Jwks::empty`].
///
/// Rendering writes `use, kty, kid, alg` and the key's parameters in the member order of kube-apiserver
/// (go-jose), nothing else, and no key id twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jwks {
    keys: Vec<PublicKey>,
}

impl Jwks {
    /// The set of `keys`, repetitions dropped; `None` when there are none, since an empty set is never published.
    pub fn new(keys: impl IntoIterator<Item = PublicKey>) -> Option<Self> {
        let mut seen = BTreeSet::new();
        let keys: Vec<_> = keys.into_iter().filter(|key| seen.insert(key.key_id().clone())).collect();
        (!keys.is_empty()).then_some(Self { keys })
    }

    /// The set of an issuer whose every key was revoked. Nothing else publishes it: whoever reads it refuses every token.
    pub fn empty() -> Self {
        Self { keys: Vec::new() }
    }

    /// The same set in the order of `kids`; `None` if those are not the ids of exactly its keys.
    pub fn in_order(&self, kids: &[KeyId]) -> Option<Self> {
        let find = |kid| self.keys.iter().find(|key| key.key_id() == kid).cloned();
        let ordered = Self::new(kids.iter().map(find).collect::<Option<Vec<_>>>()?)?;
        (ordered.keys.len() == self.keys.len()).then_some(ordered)
    }

    /// The keys in published order.
    pub fn keys(&self) -> &[PublicKey] {
        &self.keys
    }

    /// Whether a key is in the set.
    pub fn contains(&self, key_id: &KeyId) -> bool {
        self.keys.iter().any(|key| key.key_id() == key_id)
    }

    /// The algorithms of the keys.
    pub fn algorithms(&self) -> BTreeSet<Algorithm> {
        self.keys.iter().map(PublicKey::algorithm).collect()
    }

    /// The bytes to publish: compact JSON, no trailing newline.
    pub fn to_json(&self) -> Vec<u8> {
        to_go_bytes(&Wire { keys: self.keys.iter().map(WireKey::from).collect() })
    }
}

#[derive(Serialize)]
struct Wire<'a> {
    keys: Vec<WireKey<'a>>,
}

/// Field order is go-jose's `rawJSONWebKey`.
#[derive(Serialize)]
struct WireKey<'a> {
    r#use: &'a str,
    kty: &'a str,
    kid: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    crv: Option<&'a str>,
    alg: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    x: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    y: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    e: Option<String>,
}

impl<'a> From<&'a PublicKey> for WireKey<'a> {
    fn from(key: &'a PublicKey) -> Self {
        let encode = |number: &[u8]| Some(URL_SAFE_NO_PAD.encode(number));
        let (kty, crv, x, y, n, e) = match key.material() {
            KeyMaterial::Rsa { modulus, exponent } => {
                ("RSA", None, None, None, encode(modulus), encode(exponent))
            }
            KeyMaterial::Ec { curve, x, y } => ("EC", Some(curve.as_str()), encode(x), encode(y), None, None),
        };
        let (kid, alg) = (key.key_id().as_str(), key.algorithm().as_str());
        Self { r#use: "sig", kty, kid, crv, alg, x, y, n, e }
    }
}

/// A JWKS that anybody may have written, entry by entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedJwks {
    /// The entries in document order.
    pub entries: Vec<ObservedJwk>,
}

/// One entry of an [`ObservedJwks`], with what could be made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedJwk {
    /// `kid`, if it is a string.
    pub kid: Option<String>,
    /// `kty`, empty if missing.
    pub kty: String,
    /// `alg`, if it is a string.
    pub alg: Option<String>,
    /// `use`, if it is a string.
    pub usage: Option<String>,
    /// The names of all members.
    pub members: Vec<String>,
    /// The key, when it is one that kube-apiserver could have published.
    pub key: Option<PublicKey>,
}

impl ObservedJwk {
    /// Whether the entry is a key under the id, the algorithm and the use that Kubernetes gives it, so that we can
    /// carry it on and nobody who reads it sees a difference.
    pub fn is_kubernetes_key(&self) -> bool {
        let same =
            |member: &Option<String>, ours: &str| member.as_deref().is_none_or(|theirs| theirs == ours);
        self.key.as_ref().is_some_and(|key| {
            self.kid.as_deref() == Some(key.key_id().as_str())
                && same(&self.alg, key.algorithm().as_str())
                && same(&self.usage, "sig")
        })
    }
}

impl From<&PublicKey> for ObservedJwk {
    fn from(key: &PublicKey) -> Self {
        let (kty, parameters): (_, &[&str]) = match key.material() {
            KeyMaterial::Rsa { .. } => ("RSA", &["n", "e"]),
            KeyMaterial::Ec { .. } => ("EC", &["crv", "x", "y"]),
        };
        let members = ["use", "kty", "kid", "alg"].iter().chain(parameters);
        Self {
            kid: Some(key.key_id().to_string()),
            kty: kty.to_owned(),
            alg: Some(key.algorithm().to_string()),
            usage: Some("sig".to_owned()),
            members: members.map(|member| (*member).to_owned()).collect(),
            key: Some(key.clone()),
        }
    }
}

impl From<&Jwks> for ObservedJwks {
    fn from(jwks: &Jwks) -> Self {
        Self { entries: jwks.keys().iter().map(ObservedJwk::from).collect() }
    }
}

impl ObservedJwks {
    /// Reads a JWKS (RFC 7517 section 5). An entry that is no key we know stays as an entry without a key.
    ///
    /// # Errors
    /// When the bytes are not a JSON object with an array `keys` of objects.
    pub fn parse(bytes: &[u8]) -> Result<Self, JwksError> {
        Self::parse_some(bytes, usize::MAX).map(|(set, _)| set)
    }

    /// Reads the first `most` entries, and tells how many more there are.
    ///
    /// # Errors
    /// As [`ObservedJwks::parse`].
    pub fn parse_some(bytes: &[u8], most: usize) -> Result<(Self, usize), JwksError> {
        let document: Value =
            serde_json::from_slice(bytes).map_err(|error| JwksError::NotJson(error.to_string()))?;
        let keys = document.get("keys").and_then(Value::as_array).ok_or(JwksError::NoKeys)?;
        let entries = keys
            .iter()
            .take(most)
            .map(|entry| entry.as_object().map(observe).ok_or(JwksError::NotAnObject))
            .collect::<Result<_, _>>()?;
        Ok((Self { entries }, keys.len().saturating_sub(most)))
    }

    /// The keys that could be read, in document order.
    pub fn keys(&self) -> impl Iterator<Item = &PublicKey> {
        self.entries.iter().filter_map(|entry| entry.key.as_ref())
    }
}

fn observe(entry: &Map<String, Value>) -> ObservedJwk {
    let text = |member: &str| entry.get(member).and_then(Value::as_str).map(str::to_owned);
    ObservedJwk {
        kid: text("kid"),
        kty: text("kty").unwrap_or_default(),
        alg: text("alg"),
        usage: text("use"),
        members: entry.keys().cloned().collect(),
        key: key_of(entry),
    }
}

/// base64url as go-jose reads it: padding and stray low bits are forgiven.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

fn key_of(entry: &Map<String, Value>) -> Option<PublicKey> {
    let number = |member: &str| LENIENT.decode(entry.get(member)?.as_str()?).ok();
    match entry.get("kty")?.as_str()? {
        "RSA" => PublicKey::from_rsa(&number("n")?, &number("e")?).ok(),
        "EC" => {
            let name = entry.get("crv")?.as_str()?;
            let curve = [Curve::P256, Curve::P384, Curve::P521].into_iter().find(|c| c.as_str() == name)?;
            PublicKey::from_ec(curve, &number("x")?, &number("y")?).ok()
        }
        _ => None,
    }
}

/// Why bytes are not a JWKS.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JwksError {
    /// Not JSON.
    #[error("not JSON: {0}")]
    NotJson(String),
    /// No `keys` array.
    #[error("not a JWKS: expected a JSON object with an array `keys` (RFC 7517 section 5)")]
    NoKeys,
    /// An element of `keys` that is not an object.
    #[error("not a JWKS: an element of `keys` is not a JSON object")]
    NotAnObject,
}

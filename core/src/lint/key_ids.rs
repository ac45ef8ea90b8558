//! Rules about the key ids of a set.

use std::collections::BTreeMap;

use super::entries::{describe, name};
use super::{Case, Finding};
use crate::jwks::ObservedJwk;
use crate::profile::{Acceptance, RelyingParty};

pub(super) const MISSING: &str = "key-id-missing";
pub(super) const REPEATED: &str = "key-id-repeated";
pub(super) const FOREIGN: &str = "key-id-foreign";

pub(super) fn missing(entries: &[ObservedJwk], parties: &[RelyingParty]) -> Option<Finding> {
    let nameless = |entry: &ObservedJwk| entry.kid.as_deref().unwrap_or_default().is_empty();
    let case = Case {
        rule: MISSING,
        message: format!("key without `kid`, or with an empty one: {}; expected the key id of Kubernetes", name(entries, nameless)?),
        remedy: "publish each key once, under its key id: the recipe with a second, empty one served tokens of Kubernetes before 1.16"
            .to_owned(),
    };
    case.held_against(parties, |profile| profile.keys.without_kid)
}

pub(super) fn repeated(entries: &[ObservedJwk], parties: &[RelyingParty]) -> Option<Finding> {
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    for kid in entries.iter().filter_map(|entry| entry.kid.as_deref()).filter(|kid| !kid.is_empty()) {
        *uses.entry(kid).or_default() += 1;
    }
    let shared = |entry: &ObservedJwk| {
        entry.kid.as_deref().and_then(|kid| uses.get(kid)).is_some_and(|times| *times > 1)
    };
    let case = Case {
        rule: REPEATED,
        message: format!("several entries share one `kid`: {}; expected each once", name(entries, shared)?),
        remedy: "keep one entry for each key: parties that index by `kid` see only the last".to_owned(),
    };
    case.held_against(parties, |profile| profile.keys.repeated_kid)
}

pub(super) fn foreign(entries: &[ObservedJwk], parties: &[RelyingParty]) -> Option<Finding> {
    let home_made = |entry: &ObservedJwk| {
        let named = entry.kid.as_deref().is_some_and(|kid| !kid.is_empty());
        named
            && entry.key.is_some()
            && entry.kid.as_deref() != entry.key.as_ref().map(|key| key.key_id().as_str())
    };
    let expected = |entry: &ObservedJwk| {
        format!("expected {}", entry.key.as_ref().map_or("", |key| key.key_id().as_str()))
    };
    let case = Case {
        rule: FOREIGN,
        message: format!("`kid` is not the one that Kubernetes writes into tokens: {}", describe(entries, home_made, expected)?),
        remedy: "publish base64url(SHA-256(SubjectPublicKeyInfo)) as `kid`, unless another signer than Kubernetes uses this key"
            .to_owned(),
    };
    case.held_against(parties, |_| Acceptance::Doubtful)
}

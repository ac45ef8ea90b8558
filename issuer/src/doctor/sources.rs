//! Whether the replicas of a control plane show the same keys, decided from what each showed.

use std::collections::{BTreeMap, BTreeSet};

use chancery_core::KeyId;
use chancery_core::jwks::ObservedJwks;
use chancery_core::lint::{Finding, Severity};
use chancery_core::profile::RelyingParty;

/// Sources at one position of the configuration are replicas of one another: a token that one signs must be accepted
/// by all, and published whoever is asked.
pub(super) fn differences(shown: &BTreeMap<(usize, String), Vec<KeyId>>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let positions: BTreeSet<usize> = shown.keys().map(|(position, _)| *position).collect();
    for position in positions {
        let replicas: Vec<(&str, BTreeSet<&KeyId>)> = shown
            .iter()
            .filter(|((at, _), _)| *at == position)
            .map(|((_, name), keys)| (name.as_str(), keys.iter().collect()))
            .collect();
        let all: BTreeSet<&KeyId> = replicas.iter().flat_map(|(_, keys)| keys.iter().copied()).collect();
        for (name, keys) in &replicas {
            let missing: Vec<&str> = all.difference(keys).map(|kid| kid.as_str()).collect();
            if !missing.is_empty() {
                let message = format!(
                    "{name} lacks keys that other replicas of the control plane show: {}",
                    missing.join(", ")
                );
                let remedy = "give every replica the same --service-account-key-file set: tokens of one replica are refused by the other";
                findings.push(finding("replica-keys-differ", message, remedy));
            }
        }
    }
    findings
}

/// An error that breaks everybody.
pub(super) fn finding(rule: &'static str, message: String, remedy: &str) -> Finding {
    let breaks = RelyingParty::ALL.to_vec();
    Finding { rule, severity: Severity::Error, breaks, message, remedy: remedy.to_owned() }
}

/// The key ids in a JWKS; none in what is no JWKS.
pub(super) fn kids_of(jwks: &[u8]) -> Vec<KeyId> {
    let read = ObservedJwks::parse(jwks).unwrap_or_default();
    read.keys().map(|key| key.key_id().clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kid(letter: char) -> KeyId {
        format!("{}A", String::from(letter).repeat(42)).parse().unwrap()
    }

    #[test]
    fn replicas_of_one_control_plane_must_agree_and_other_sources_need_not() {
        let shows =
            |position, name: &str, kids: &str| ((position, name.to_owned()), kids.chars().map(kid).collect());
        let agree = BTreeMap::from([shows(0, "a", "xy"), shows(0, "b", "yx"), shows(1, "files", "z")]);
        assert_eq!(differences(&agree), []);
        let differ = BTreeMap::from([shows(0, "a", "xy"), shows(0, "b", "x")]);
        let found = differences(&differ);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].message.starts_with("b lacks") && found[0].message.contains(kid('y').as_str()),
            "{found:?}"
        );
    }
}

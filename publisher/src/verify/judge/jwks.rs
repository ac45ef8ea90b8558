//! The content of a JWKS (RFC 7517 section 5).

use std::collections::BTreeSet;

use chancery_core::jwks::{JwksError, ObservedJwk, ObservedJwks};
use chancery_core::lint::{Finding, Severity, lint_keys};
use chancery_core::profile::RelyingParty;
use chancery_core::quoted::{escaped, quoted};
use chancery_core::{Algorithm, KeyId, PublicKey, listed};
use serde_json::{Map, Value};

use super::{Standard, all, content};
use crate::verify::fetch::FetchedDocument;
use crate::verify::report::PublishedKey;
use crate::verify::rule;

/// What a JWKS shows, judged.
#[derive(Debug, Default)]
pub(super) struct Judged {
    pub(super) findings: Vec<Finding>,
    pub(super) keys: Vec<PublishedKey>,
    pub(super) visible: Vec<KeyId>,
    pub(super) algorithms: BTreeSet<Algorithm>,
}

/// The most entries that are looked at. A key takes 230 bytes at least, so that a document within the limit of its
/// size has no more of them.
const ENTRIES: usize = 5000;

pub(super) fn judge(standard: Standard<'_>, fetched: &FetchedDocument) -> Judged {
    let (set, left_out) = match ObservedJwks::parse_some(&fetched.body, ENTRIES) {
        Ok(read) => read,
        Err(error) => return Judged { findings: vec![malformed(fetched, &error)], ..Judged::default() },
    };
    let visible = visible(&set);
    let mut findings = lint_keys(&set, standard.parties);
    findings.extend((left_out > 0).then(|| too_many(left_out)));
    findings.extend(members(&fetched.body));
    findings.extend(missing(&standard.expected.keys, &visible, &set));
    findings.extend(unexpected(&standard.expected.keys, &set));
    Judged {
        findings,
        keys: set.entries.iter().map(published).collect(),
        visible,
        algorithms: set.keys().map(PublicKey::algorithm).collect(),
    }
}

/// Holds the advertised algorithms against those of the keys. A document that advertises none at all is
/// reported as incomplete.
pub(super) fn compare_algorithms(
    advertised: &Option<Vec<String>>,
    published: &BTreeSet<Algorithm>,
) -> Option<Finding> {
    let advertised: BTreeSet<&str> = advertised.as_ref()?.iter().map(String::as_str).collect();
    let published: BTreeSet<&str> = published.iter().map(|algorithm| algorithm.as_str()).collect();
    if advertised == published || advertised.is_empty() || published.is_empty() {
        return None;
    }
    let (severity, breaks) = match published.is_subset(&advertised) {
        true => (Severity::Note, Vec::new()),
        false => (Severity::Warning, vec![RelyingParty::Common]),
    };
    Some(Finding {
        rule: rule::ALGORITHMS_MISSING,
        severity,
        breaks,
        message: format!(
            "the discovery document advertises {}; expected {}, the algorithms of the keys. Readers that go by it refuse tokens of any other",
            listed(advertised.iter().map(quoted)),
            listed(&published)
        ),
        remedy: "publish both documents from the same keys".to_owned(),
    })
}

fn visible(set: &ObservedJwks) -> Vec<KeyId> {
    let keys = set.entries.iter().filter(|entry| entry.is_kubernetes_key());
    let mut seen = BTreeSet::new();
    let ids = keys.filter_map(|entry| entry.key.as_ref()).map(PublicKey::key_id);
    ids.filter(|id| seen.insert(*id)).cloned().collect()
}

fn published(entry: &ObservedJwk) -> PublishedKey {
    PublishedKey {
        kid: entry.kid.clone(),
        alg: entry.alg.clone(),
        description: entry.key.as_ref().map_or_else(|| entry.kty.clone(), PublicKey::description),
    }
}

fn malformed(fetched: &FetchedDocument, error: &JwksError) -> Finding {
    Finding {
        rule: rule::JWKS_MALFORMED,
        severity: Severity::Error,
        breaks: all(),
        message: format!(
            "what came from {} cannot be read: {}{}",
            escaped(&fetched.url),
            escaped(error),
            content::hint(fetched)
        ),
        remedy: "publish the document that `chancery keygen jwks` writes".to_owned(),
    }
}

fn too_many(left_out: usize) -> Finding {
    Finding {
        rule: rule::TOO_LARGE,
        severity: Severity::Warning,
        breaks: all(),
        message: format!(
            "the JWKS has {} entries; the first {ENTRIES} were read",
            ENTRIES.saturating_add(left_out)
        ),
        remedy: "find out who publishes them: two keys are the rule, and no cluster has thousands".to_owned(),
    }
}

fn members(body: &[u8]) -> Option<Finding> {
    let members: Map<String, Value> = serde_json::from_slice(body).unwrap_or_default();
    let extra: Vec<&String> = members.keys().filter(|name| *name != "keys").collect();
    (!extra.is_empty()).then(|| Finding {
        rule: rule::MEMBERS,
        severity: Severity::Note,
        breaks: Vec::new(),
        message: format!(
            "the JWKS has members beside `keys`: {}; expected none",
            listed(extra.into_iter().map(quoted))
        ),
        remedy: "leave them out; readers ignore them, and strict ones may not".to_owned(),
    })
}

fn missing(expected: &[KeyId], visible: &[KeyId], set: &ObservedJwks) -> Option<Finding> {
    let hidden: Vec<_> = expected.iter().filter(|id| !visible.contains(id)).collect();
    let named = |id: &KeyId| set.entries.iter().any(|entry| entry.kid.as_deref() == Some(id.as_str()));
    let forged = hidden.iter().any(|id| named(id));
    (!hidden.is_empty()).then(|| Finding {
        rule: rule::KEY_MISSING,
        severity: Severity::Error,
        breaks: all(),
        message: format!(
            "expected keys are not visible: {}; {} of {} are{}",
            listed(&hidden),
            expected.len() - hidden.len(),
            expected.len(),
            if forged { ". An entry has such a kid, but the numbers of another key" } else { "" }
        ),
        remedy: "publish them, wait for caches to give up the older set, and let none of them sign before it is visible"
            .to_owned(),
    })
}

fn unexpected(expected: &[KeyId], set: &ObservedJwks) -> Option<Finding> {
    let known = |entry: &ObservedJwk| {
        entry.kid.as_deref().is_some_and(|kid| expected.iter().any(|id| id.as_str() == kid))
    };
    let others: Vec<_> = set.entries.iter().filter(|entry| !known(entry)).collect();
    (!expected.is_empty() && !others.is_empty()).then(|| Finding {
        rule: rule::KEY_UNEXPECTED,
        severity: Severity::Note,
        breaks: Vec::new(),
        message: format!(
            "keys are visible that were not expected: {}",
            listed(others.iter().map(|entry| {
                entry.kid.as_ref().map_or_else(|| "one without kid".to_owned(), |kid| quoted(kid).to_string())
            }))
        ),
        remedy: "if nobody of yours signs with them, find out who published them: whoever holds their private halves can make tokens of this issuer".to_owned(),
    })
}

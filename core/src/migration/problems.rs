//! What is out of order: a step that was taken before another, and so live tokens that somebody refuses.

use std::collections::BTreeSet;

use serde::Serialize;

use super::Trusts;
use super::scene::Scene;
use crate::{KeyId, listed};

/// Tokens that are refused, and by whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// What is wrong.
    pub what: String,
    /// What puts it right.
    pub remedy: String,
}

impl Problem {
    fn new(what: String, remedy: String) -> Self {
        Self { what, remedy }
    }
}

/// Everything that is out of order.
pub(super) fn problems(scene: &Scene<'_>) -> Vec<Problem> {
    let mut found = strangers(scene);
    found.extend(signed_too_early(scene));
    if !scene.is_waited() {
        found.extend(dropped_too_early(scene));
    }
    found.extend(different_keys(scene));
    found
}

/// Replicas that sign for another issuer than the two.
fn strangers(scene: &Scene<'_>) -> Vec<Problem> {
    let (from, to) = (&scene.intent.from, &scene.intent.to);
    let others = scene.seen().filter(|(_, seen)| seen.signs_for != *from && !scene.signs_for_new(seen));
    let problem = |(name, seen): (&str, &super::ApiServer)| {
        Problem::new(
            format!("{name} signs for {:?}, which is neither {from} nor {to}", seen.signs_for),
            format!(
                "correct `from`, byte for byte, or the flags of {name}; is it of this cluster, and no load balancer?"
            ),
        )
    };
    others.map(problem).collect()
}

/// Tokens of the new issuer that somebody refuses.
fn signed_too_early(scene: &Scene<'_>) -> Vec<Problem> {
    let (from, to) = (&scene.intent.from, &scene.intent.to);
    let switched: Vec<&str> =
        scene.seen().filter(|(_, seen)| scene.signs_for_new(seen)).map(|(name, _)| name).collect();
    if switched.is_empty() {
        return Vec::new();
    }
    let those = listed(&switched);
    let back = format!("or put {from} first again on {those}");
    let mut found = Vec::new();
    for (name, _) in scene.seen().filter(|(_, seen)| !seen.accepts_to) {
        found.push(Problem::new(
            format!("{name} refuses tokens of {to}, and {those} signs such"),
            format!(
                "restart {name} with --service-account-issuer={from} --service-account-issuer={to} now, {back}"
            ),
        ));
    }
    if !scene.observed.to_documents.are_good() {
        found.push(Problem::new(
            format!(
                "relying parties cannot verify what {those} signs for {to}: {}",
                scene.observed.to_documents.in_words()
            ),
            format!("publish its documents with every key now, {back}"),
        ));
    }
    for party in scene.intent.parties.iter().filter(|party| party.trusts == Trusts::From) {
        let name = &party.name;
        found.push(Problem::new(
            format!("{name} refuses tokens of {to}, and {those} signs such"),
            format!("register {to} at {name} now, {back}"),
        ));
    }
    found
}

/// Tokens of the old issuer that somebody refuses while they live.
fn dropped_too_early(scene: &Scene<'_>) -> Vec<Problem> {
    let (from, to) = (&scene.intent.from, &scene.intent.to);
    let mut found = Vec::new();
    for (name, seen) in scene.seen().filter(|(_, seen)| !seen.accepts_from) {
        let first = if scene.signs_for_new(seen) {
            (to.as_str(), from.as_str())
        } else {
            (from.as_str(), to.as_str())
        };
        found.push(Problem::new(
            format!("{name} refuses tokens of {from}, and such may live"),
            format!(
                "restart {name} with --service-account-issuer={} --service-account-issuer={} until the wait is over",
                first.0, first.1
            ),
        ));
    }
    if let Some(documents) = scene.observed.from_documents.as_ref().filter(|documents| !documents.are_good())
    {
        found.push(Problem::new(
            format!(
                "relying parties cannot verify tokens of {from}, and such may live: {}",
                documents.in_words()
            ),
            format!("publish the documents of {from} with every key, and leave them until the wait is over"),
        ));
    }
    for party in scene.intent.parties.iter().filter(|party| party.trusts == Trusts::To) {
        let name = &party.name;
        found.push(Problem::new(
            format!("{name} refuses tokens of {from}, and such may live"),
            format!("register {from} at {name} again until the wait is over"),
        ));
    }
    found
}

/// Replicas that show fewer keys than others.
fn different_keys(scene: &Scene<'_>) -> Vec<Problem> {
    let all: BTreeSet<&KeyId> = scene.seen().flat_map(|(_, seen)| &seen.keys).collect();
    let mut found = Vec::new();
    for (name, seen) in scene.seen() {
        let missing: Vec<&&KeyId> = all.iter().filter(|kid| !seen.keys.contains(**kid)).collect();
        if !missing.is_empty() {
            found.push(Problem::new(
                format!("{name} lacks keys that other replicas show: {}", listed(missing)),
                "let one change end before the next: give every replica the same keys first".to_owned(),
            ));
        }
    }
    found
}

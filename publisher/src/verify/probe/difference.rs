//! What differs between the addresses of a host, and between a cache and the origin behind it.

use std::collections::BTreeSet;

use chancery_core::lint::{Finding, Severity};
use chancery_core::profile::RelyingParty;
use chancery_core::visibility::{EdgeKeys, EdgeObservation};
use chancery_core::{KeyId, listed};

use super::{ADDRESSES, Edge, Probe, Way};
use crate::verify::rule;

pub(super) fn findings(probe: &Probe) -> Vec<Finding> {
    let answers = probe.answers_past_caches();
    let read: Vec<(&Edge, EdgeKeys)> = probe
        .edges
        .iter()
        .filter_map(|edge| match edge.keys(answers)? {
            EdgeObservation::Read(seen) => Some((edge, seen)),
            EdgeObservation::Unreadable(_) => None,
        })
        .collect();
    let mut findings: Vec<Finding> = between_addresses(&read);
    for (plain, cached) in read.iter().filter(|(edge, _)| edge.way == Way::Plain) {
        let origin =
            read.iter().find(|(edge, _)| edge.way == Way::PastCaches && edge.address == plain.address);
        findings.extend(origin.and_then(|(_, origin)| with_origin(plain, cached, origin)));
    }
    findings.extend((probe.left_out > 0).then(|| left_out(probe)));
    findings
}

/// One finding for each address that lacks what another one shows.
fn between_addresses(read: &[(&Edge, EdgeKeys)]) -> Vec<Finding> {
    let plain = || read.iter().filter(|(edge, _)| edge.way == Way::Plain);
    let all: BTreeSet<&KeyId> = plain().flat_map(|(_, seen)| &seen.kids).collect();
    let lacking = plain().filter_map(|(edge, seen)| {
        let missing: Vec<&KeyId> = all.iter().copied().filter(|kid| !seen.kids.contains(*kid)).collect();
        let elsewhere = plain().find(|(_, other)| missing.first().is_some_and(|kid| other.kids.contains(*kid)));
        let (other, _) = elsewhere?;
        Some(Finding {
            rule: rule::EDGES_DIFFER,
            severity: Severity::Warning,
            breaks: RelyingParty::ALL.to_vec(),
            message: format!("{edge} does not show {}, which {other} shows{}", listed(&missing), how_old(seen)),
            remedy: "wait for its cache to ask again, or purge it; if it has none, find out why that server holds other documents".to_owned(),
        })
    });
    lacking.collect()
}

fn with_origin(edge: &Edge, cached: &EdgeKeys, origin: &EdgeKeys) -> Option<Finding> {
    let lost: Vec<&KeyId> = cached.kids.difference(&origin.kids).collect();
    let lags: Vec<&KeyId> = origin.kids.difference(&cached.kids).collect();
    if !lost.is_empty() {
        return Some(Finding {
            rule: rule::ORIGIN_LAGS,
            severity: Severity::Warning,
            breaks: RelyingParty::ALL.to_vec(),
            message: format!(
                "a cache at {edge} still shows {}, which the origin behind it does not{}",
                listed(&lost),
                how_old(cached)
            ),
            remedy:
                "publish to the origin again before the cache asks it: relying parties lose these keys then"
                    .to_owned(),
        });
    }
    (!lags.is_empty()).then(|| Finding {
        rule: rule::CACHE_LAGS,
        severity: Severity::Note,
        breaks: Vec::new(),
        message: format!(
            "a cache at {edge} does not show {} yet, which the origin behind it shows{}",
            listed(&lags),
            how_old(cached)
        ),
        remedy: "wait, or purge the cache".to_owned(),
    })
}

fn left_out(probe: &Probe) -> Finding {
    Finding {
        rule: rule::EDGES_LEFT_OUT,
        severity: Severity::Note,
        breaks: Vec::new(),
        message: format!(
            "the host has {} addresses; {ADDRESSES} of them were asked",
            ADDRESSES + probe.left_out
        ),
        remedy: "none is needed: another part of them is asked each time".to_owned(),
    }
}

/// How old a cached answer is, and for how long it may still be served.
fn how_old(seen: &EdgeKeys) -> String {
    match (seen.age, seen.lifetime) {
        (Some(age), Some(longest)) => format!(
            "; its answer was {} s old and may be served for {} s more",
            age.as_secs(),
            longest.saturating_sub(age).as_secs()
        ),
        (Some(age), None) => {
            format!("; its answer was {} s old and does not say for how long it may be served", age.as_secs())
        }
        (None, Some(longest)) => format!("; its answer may be served for at most {} s", longest.as_secs()),
        (None, None) => "; its answer does not say how old it is".to_owned(),
    }
}

//! From what came to findings. Nothing here touches the network, so every rule is a row in a table of tests.
//!
//! Rules, in the order in which the code applies them:
//!
//! 1. A document that did not come whole, with status 200, over a trusted connection, ends the reading of it.
//! 2. Every document that came is held against the media type, the cache header and the time it took.
//! 3. The discovery document must name exactly the issuer that was asked, and a JWKS that everybody can read.
//! 4. The JWKS must show every expected key. A key is visible when its numbers hash to its key id and rules 1 and
//!    3 hold up to it.
//! 5. Issuer URL and keys are held against the profiles ([`chancery_core::lint`]).
//! 6. What breaks none of the parties that were asked for is left out, unless it ended the reading: then nothing
//!    was proven for anybody.

mod content;
mod discovery;
mod headers;
mod jwks;
mod place;
mod refusal;
mod transport;

use std::time::Duration;

use chancery_core::lint::{Finding, lint_issuer};
use chancery_core::profile::{Reach, RelyingParty};
use chancery_core::{DocumentKind, IssuerUrl};

pub use self::discovery::readable_jwks_uri;
use super::Expectation;
use super::fetch::FetchedDocument;
use super::report::{DocumentFetches, VerifyReport};
use super::rule;

/// What the judge holds the documents against.
#[derive(Clone, Copy, Debug)]
pub struct Standard<'a> {
    /// Whose documents were asked for.
    pub issuer: &'a IssuerUrl,
    /// What must be seen.
    pub expected: &'a Expectation,
    /// Whom it must suit.
    pub parties: &'a [RelyingParty],
}

/// Judges what came, by the rules at the head of this module.
pub fn judge(standard: Standard<'_>, fetches: DocumentFetches) -> VerifyReport {
    let mut findings = lint_issuer(standard.issuer, standard.parties);
    findings.extend(transport::judge(standard, &fetches));

    let came = |kind| fetches.fetched(kind).filter(|fetched| fetched.status == 200);
    for kind in DocumentKind::ALL {
        if let Some(fetched) = came(kind) {
            findings.extend(headers::judge(standard, kind, fetched));
            findings.extend(content::judge(standard, kind, fetched));
        }
    }
    let discovery = came(DocumentKind::Discovery).map(|fetched| discovery::judge(standard, fetched));
    let jwks = came(DocumentKind::Jwks).map(|fetched| jwks::judge(standard, fetched));
    let (discovery, jwks) = (discovery.unwrap_or_default(), jwks.unwrap_or_default());
    findings.extend(discovery.findings);
    findings.extend(jwks.findings);
    if came(DocumentKind::Jwks).is_some() {
        findings.extend(jwks::compare_algorithms(&discovery.algorithms, &jwks.algorithms));
    }

    keep_what_matters(&mut findings, standard.parties);
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let max_age = DocumentKind::ALL.into_iter().filter_map(came).filter_map(longest_cached).max();
    VerifyReport {
        issuer: standard.issuer.clone(),
        keys: jwks.keys,
        visible: if discovery.is_trustworthy { jwks.visible } else { Vec::new() },
        max_age,
        findings,
        fetches,
    }
}

/// How long an answer that was served now may be served again from a cache.
fn longest_cached(fetched: &FetchedDocument) -> Option<Duration> {
    headers::longest_cached(fetched.headers.cache_control.as_deref()?)
}

fn keep_what_matters(findings: &mut Vec<Finding>, parties: &[RelyingParty]) {
    findings.retain_mut(|finding| {
        let general = finding.breaks.is_empty();
        finding.breaks.retain(|party| parties.contains(party));
        general || !finding.breaks.is_empty() || ends_reading(finding.rule)
    });
}

/// Whether nothing can be seen after a finding of this rule, by whomever.
fn ends_reading(rule: &str) -> bool {
    matches!(
        rule,
        rule::UNREACHABLE
            | rule::TLS_UNTRUSTED
            | rule::STATUS_NOT_200
            | rule::REDIRECTED
            | rule::TOO_LARGE
            | rule::DISCOVERY_MALFORMED
            | rule::ISSUER_MISMATCH
            | rule::JWKS_NOT_ASKED
            | rule::JWKS_MALFORMED
    )
}

/// Everybody.
fn all() -> Vec<RelyingParty> {
    RelyingParty::ALL.to_vec()
}

/// Those who read from the internet, where neither our CA nor our private network exists.
fn internet() -> Vec<RelyingParty> {
    let remote = |party: &RelyingParty| party.profile().fetch.reach != Reach::Network;
    RelyingParty::ALL.into_iter().filter(remote).collect()
}

#[cfg(test)]
mod tests;

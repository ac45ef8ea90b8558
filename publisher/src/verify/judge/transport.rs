//! Whether the documents came at all, from where, and in what time.

use std::time::Duration;

use chancery_core::DocumentKind;
use chancery_core::lint::{Finding, Severity};
use chancery_core::profile::RelyingParty;
use chancery_core::quoted::escaped;

use super::{Standard, all, internet, place, refusal};
use crate::verify::failure::{CertificateFault, FailureKind, FetchError};
use crate::verify::report::DocumentFetches;
use crate::verify::rule;

/// The discovery document is asked for first, so it is reported first.
const READING_ORDER: [DocumentKind; 2] = [DocumentKind::Discovery, DocumentKind::Jwks];

pub(super) fn judge(standard: Standard<'_>, fetches: &DocumentFetches) -> Vec<Finding> {
    let mut findings = Vec::new();
    for kind in READING_ORDER {
        if let Some(error) = fetches.failure(kind) {
            findings.push(failed(kind, error));
        }
        if let Some(fetched) = fetches.fetched(kind) {
            findings.extend(refusal::judge(kind, fetched));
        }
    }
    findings.extend(fetches.jwks_refused.iter().map(|why| refused(why)));
    findings.extend(slow(standard, fetches));
    let peer = READING_ORDER.into_iter().find_map(|kind| fetches.fetched(kind));
    findings.extend(peer.and_then(|fetched| place::private_peer(standard, fetched)));
    if fetches.private_trust && peer.is_some() {
        findings.push(private_trust());
    }
    findings
}

/// Nobody knows what is there, so that nothing is proven for anybody.
fn refused(why: &str) -> Finding {
    Finding {
        rule: rule::JWKS_NOT_ASKED,
        severity: Severity::Error,
        breaks: all(),
        message: format!("the JWKS was not asked for: {why}; expected one below the issuer URL, or at a public host"),
        remedy: "publish a discovery document whose jwks_uri is derived from the issuer URL; if the key set is meant to be there, allow the host by name (`--allow-jwks-host`, `verify.allowJwksHosts`)".to_owned(),
    }
}

fn failed(kind: DocumentKind, error: &FetchError) -> Finding {
    let finding = |rule, breaks, remedy: &str| Finding {
        rule,
        severity: Severity::Error,
        breaks,
        message: format!(
            "the {kind} at {} was not read: {}{}",
            escaped(&error.url),
            escaped(&error.kind),
            after(error)
        ),
        remedy: remedy.to_owned(),
    };
    let unreachable = |remedy| finding(rule::UNREACHABLE, all(), remedy);
    match &error.kind {
        FailureKind::Certificate(fault) => finding(rule::TLS_UNTRUSTED, distrusting(fault), certify(fault)),
        FailureKind::TooLarge(_) => {
            finding(rule::TOO_LARGE, all(), "serve the document itself there; two keys take about a kilobyte")
        }
        FailureKind::NameNotFound(_) => unreachable(
            "create the DNS record of the issuer's host, or correct the issuer URL; `--resolve` tries a server before its record exists",
        ),
        FailureKind::Refused => {
            unreachable("start the server, or correct the host or port of the issuer URL")
        }
        FailureKind::NoRoute => unreachable("let the network, firewall or load balancer pass port 443 there"),
        FailureKind::ConnectionClosed => {
            unreachable("look into the log of the server or of the load balancer in front of it")
        }
        FailureKind::Timeout => unreachable(
            "let the server answer within a second; AWS STS gives up after about five, firewalls that drop packets look like this too",
        ),
        FailureKind::Handshake(_) => unreachable("serve HTTPS with TLS 1.2 or 1.3 there"),
        FailureKind::CutOff => {
            unreachable("compare `Content-Length` with the stored object; a proxy may cut bodies")
        }
        FailureKind::Other(_) => unreachable("repeat it with `curl -v` to see where it stops"),
    }
}

fn after(error: &FetchError) -> String {
    match error.kind {
        FailureKind::Timeout => format!(" ({:.1} s)", error.elapsed.as_secs_f64()),
        _ => String::new(),
    }
}

/// Those to whom a CA of their own can be given are not broken by an unknown one.
fn distrusting(fault: &CertificateFault) -> Vec<RelyingParty> {
    match fault {
        CertificateFault::UnknownIssuer | CertificateFault::OtherAuthorityKey => internet(),
        _ => all(),
    }
}

fn certify(fault: &CertificateFault) -> &'static str {
    match fault {
        CertificateFault::UnknownIssuer => {
            "serve a certificate of a public CA, with its intermediates; kubernetes, vault and minio can be given a private CA, and so can this reader: `--ca` of `chancery verify`, `verify.ca` in the configuration of the service"
        }
        CertificateFault::OtherAuthorityKey => {
            "if the CA was made anew, give its new certificate to everybody who had the old one, this reader too: `--ca` of `chancery verify`, `verify.ca` in the configuration of the service"
        }
        CertificateFault::Expired => "renew the certificate, and let the server load the new one",
        CertificateFault::NotYetValid => "check the clocks of the CA and of this machine",
        CertificateFault::NameMismatch(_) => {
            "get a certificate that names the issuer's host, or let its DNS record point to the server that has one"
        }
        CertificateFault::Revoked => "get a new certificate",
        CertificateFault::Other(_) => "look at it with `openssl s_client -connect HOST:443 -showcerts`",
    }
}

fn slow(standard: Standard<'_>, fetches: &DocumentFetches) -> Option<Finding> {
    let came = DocumentKind::ALL.into_iter().filter_map(|kind| fetches.fetched(kind));
    let taken: Duration = came.map(|fetched| fetched.elapsed).sum();
    let asked = RelyingParty::ALL.into_iter().filter(|party| standard.parties.contains(party));
    let budgets = asked.filter_map(|party| Some((party, party.profile().fetch.budget?)));
    let exceeded: Vec<_> = budgets.filter(|(_, budget)| taken > *budget).collect();
    let granted: Vec<_> =
        exceeded.iter().map(|(party, budget)| format!("{} s for {party}", budget.as_secs())).collect();
    let breaks: Vec<_> = exceeded.into_iter().map(|(party, _)| party).collect();
    // The common denominator is advice; everybody else's budget is where they give up.
    let advice = breaks.iter().all(|party| *party == RelyingParty::Common);
    (!breaks.is_empty()).then(|| Finding {
        rule: rule::SLOW,
        severity: if advice { Severity::Warning } else { Severity::Error },
        breaks,
        message: format!(
            "both documents took {:.1} s; expected less than {}",
            taken.as_secs_f64(),
            granted.join(", ")
        ),
        remedy: "serve them from an object store or a cache, near to those who read them".to_owned(),
    })
}

fn private_trust() -> Finding {
    Finding {
        rule: rule::TLS_PRIVATE_CA,
        severity: Severity::Note,
        breaks: Vec::new(),
        message: "the certificate was checked against the CA file that was given; whether public roots hold was not looked at".to_owned(),
        remedy: "leave the CA file out to see what relying parties see that do not have it".to_owned(),
    }
}

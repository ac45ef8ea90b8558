//! Whether everybody can read where the documents are.

use chancery_core::IssuerUrl;
use chancery_core::lint::{Finding, Severity, lint_issuer};
use chancery_core::profile::RelyingParty;
use chancery_core::quoted::{escaped, quoted};
use reqwest::Url;

use super::{Standard, all};
use crate::verify::fetch::{FetchedDocument, Route};
use crate::verify::rule;

/// The rules of [`lint_issuer`] about a host that not everybody can reach.
const HOST_RULES: [&str; 2] = ["issuer-private-host", "issuer-ip-host"];

/// The longest `jwks_uri` that is read: more than any HTTP server is known to take in a request line.
const LONGEST_URL: usize = 8000;

/// Whether a `jwks_uri` can be read at all.
pub(super) fn is_readable(jwks_uri: &str) -> bool {
    unreadable(jwks_uri).is_none()
}

/// Why an anonymous reader, who has no user information and wants TLS, cannot read a `jwks_uri`.
fn unreadable(jwks_uri: &str) -> Option<&'static str> {
    if jwks_uri.len() > LONGEST_URL {
        return Some("is too long for HTTP");
    }
    if jwks_uri.chars().any(|character| character.is_control() || character.is_whitespace()) {
        return Some("has white space or control characters");
    }
    match Url::parse(jwks_uri) {
        Err(_) => Some("is not an absolute URL"),
        Ok(url) if url.scheme() != "https" => Some("is not https"),
        Ok(url) if !url.username().is_empty() || url.password().is_some() => Some("carries user information"),
        Ok(_) => None,
    }
}

/// Holds the advertised `jwks_uri` against the issuer it should lie below.
pub(super) fn jwks_uri(standard: Standard<'_>, came: &str) -> Option<Finding> {
    let issuer = standard.issuer;
    let elsewhere = |severity, breaks, what: &str| {
        Finding {
        rule: rule::JWKS_URI_ELSEWHERE,
        severity,
        breaks,
        message: format!("the advertised jwks_uri {} {what}; expected {}", quoted(came), issuer.jwks_uri()),
        remedy: "publish a discovery document whose jwks_uri is derived from the issuer URL; kube-apiserver's own default names the node, `--service-account-jwks-uri` changes it".to_owned(),
    }
    };
    if let Some(what) = unreadable(came) {
        return Some(elsewhere(Severity::Error, all(), what));
    }
    let below = issuer.as_str().strip_suffix('/').unwrap_or(issuer.as_str());
    if came.strip_prefix(below).is_some_and(|path| path.starts_with('/')) {
        return None;
    }
    let url = Url::parse(came).ok()?;
    let host = url.host_str().unwrap_or_default();
    if let Some((severity, breaks)) = out_of_reach(standard, host) {
        return Some(elsewhere(severity, breaks, "is at an address that not everybody can reach"));
    }
    if host.eq_ignore_ascii_case(issuer.host()) {
        return Some(elsewhere(Severity::Note, Vec::new(), "is not below the issuer"));
    }
    Some(elsewhere(
        Severity::Warning,
        Vec::new(),
        "is at another host, which must be as reachable and as trusted as the issuer's",
    ))
}

/// Tells when the name service led to an address that is private although the host looks public.
pub(super) fn private_peer(standard: Standard<'_>, fetched: &FetchedDocument) -> Option<Finding> {
    let peer = fetched.peer.filter(|_| fetched.route == Route::Resolved)?.ip();
    // About a host that is private by its looks, the issuer URL's own rules have spoken.
    if out_of_reach(standard, standard.issuer.host()).is_some() {
        return None;
    }
    let host = if peer.is_ipv6() { format!("[{peer}]") } else { peer.to_string() };
    let issuer: IssuerUrl = format!("https://{host}").parse().ok()?;
    let findings = lint_issuer(&issuer, standard.parties);
    let private = findings.into_iter().find(|finding| HOST_RULES.first() == Some(&finding.rule))?;
    Some(Finding {
        rule: rule::PRIVATE_ADDRESS,
        severity: Severity::Warning,
        breaks: private.breaks,
        message: format!(
            "{} was answered by the private address {peer}; expected a public one. If the name has another address outside, this reading proves nothing about it",
            escaped(&fetched.url)
        ),
        remedy: "verify from outside this network, or give the public address with `--resolve`".to_owned(),
    })
}

/// How bad it is that a host is an address or a name of some private network, and for whom.
fn out_of_reach(standard: Standard<'_>, host: &str) -> Option<(Severity, Vec<RelyingParty>)> {
    let origin: IssuerUrl = format!("https://{host}").parse().ok()?;
    let findings = lint_issuer(&origin, standard.parties);
    let about_host: Vec<_> =
        findings.into_iter().filter(|finding| HOST_RULES.contains(&finding.rule)).collect();
    let severity = about_host.iter().map(|finding| finding.severity).max()?;
    let broken = |party: &RelyingParty| about_host.iter().any(|finding| finding.breaks.contains(party));
    Some((severity, RelyingParty::ALL.into_iter().filter(broken).collect()))
}

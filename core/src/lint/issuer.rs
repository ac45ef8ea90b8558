//! Rules about the issuer URL.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};

use super::{Case, Finding};
use crate::IssuerUrl;
use crate::issuer_url::IssuerUrlError;
use crate::profile::{Acceptance, Profile, Reach, RelyingParty};

pub(super) const INVALID: &str = "issuer-invalid";
pub(super) const PORT: &str = "issuer-port";
pub(super) const IP_HOST: &str = "issuer-ip-host";
pub(super) const PRIVATE_HOST: &str = "issuer-private-host";
pub(super) const UPPER_CASE_HOST: &str = "issuer-upper-case-host";
pub(super) const TRAILING_SLASH: &str = "issuer-trailing-slash";
pub(super) const TOO_LONG: &str = "issuer-too-long";
pub(super) const PATH_SEGMENTS: &str = "issuer-path-segments";
pub(super) const DISCOVERY_MEMBERS: &str = "issuer-discovery-members";

/// Top-level domains that no public resolver answers for (RFC 6761, RFC 6762, RFC 8375, ICANN's `.internal`) and
/// the usual suffixes of a cluster.
const PRIVATE_SUFFIXES: [&str; 8] =
    [".local", ".localhost", ".internal", ".svc", ".lan", ".home.arpa", ".test", ".invalid"];

pub(super) fn invalid(error: &IssuerUrlError) -> Case {
    Case { rule: INVALID, message: error.what(), remedy: error.remedy().to_owned() }
}

pub(super) fn rules(issuer: &IssuerUrl, parties: &[RelyingParty]) -> Vec<Finding> {
    let findings = [
        port(issuer, parties),
        ip_host(issuer, parties),
        private_host(issuer, parties),
        upper_case_host(issuer, parties),
        trailing_slash(issuer, parties),
        too_long(issuer, parties),
        path_segments(issuer, parties),
        discovery_members(issuer, parties),
    ];
    findings.into_iter().flatten().collect()
}

fn port(issuer: &IssuerUrl, parties: &[RelyingParty]) -> Option<Finding> {
    let port = issuer.port()?;
    let case = Case {
        rule: PORT,
        message: format!("the issuer URL names port {port}; expected none, which means 443"),
        remedy: "serve on port 443 behind a name and leave the port out of the issuer URL".to_owned(),
    };
    case.held_against(parties, |profile| profile.issuer.port)
}

fn ip_host(issuer: &IssuerUrl, parties: &[RelyingParty]) -> Option<Finding> {
    address_of(issuer)?;
    let case = Case {
        rule: IP_HOST,
        message: format!("the issuer's host {} is an IP address; expected a DNS name", issuer.host()),
        remedy: "give the issuer a DNS name with a certificate for it".to_owned(),
    };
    case.held_against(parties, |profile| profile.issuer.ip_host)
}

fn private_host(issuer: &IssuerUrl, parties: &[RelyingParty]) -> Option<Finding> {
    if !is_private(issuer) {
        return None;
    }
    let case = Case {
        rule: PRIVATE_HOST,
        message: format!(
            "the issuer's host {} is known only inside a cluster or network; expected one that resolves on the internet",
            issuer.host()
        ),
        remedy: "publish under a public name; for Google Cloud alone, uploading the JWKS to the provider is enough"
            .to_owned(),
    };
    case.held_against(parties, |profile| match profile.fetch.reach {
        Reach::Network => Acceptance::Accepts,
        Reach::InternetOrUpload => Acceptance::Doubtful,
        Reach::Internet => Acceptance::Refuses,
    })
}

fn upper_case_host(issuer: &IssuerUrl, parties: &[RelyingParty]) -> Option<Finding> {
    if !issuer.host().bytes().any(|byte| byte.is_ascii_uppercase()) {
        return None;
    }
    let case = Case {
        rule: UPPER_CASE_HOST,
        message: format!("the issuer's host {} has upper-case letters; expected lower case", issuer.host()),
        remedy: "write the host in lower case everywhere: URL libraries lower it, and then it no longer equals `iss`"
            .to_owned(),
    };
    case.held_against(parties, |profile| profile.issuer.upper_case_host)
}

fn trailing_slash(issuer: &IssuerUrl, parties: &[RelyingParty]) -> Option<Finding> {
    if !issuer.as_str().ends_with('/') {
        return None;
    }
    let case = Case {
        rule: TRAILING_SLASH,
        message: "the issuer URL ends in a slash; expected none".to_owned(),
        remedy:
            "leave it out of `--service-account-issuer`, or write it exactly so wherever the issuer is configured"
                .to_owned(),
    };
    case.held_against(parties, |profile| profile.issuer.trailing_slash)
}

fn too_long(issuer: &IssuerUrl, parties: &[RelyingParty]) -> Option<Finding> {
    let length = issuer.as_str().len();
    let exceeds = |profile: &Profile| profile.issuer.max_length.is_some_and(|limit| length > limit);
    let exceeded = parties.iter().filter(|party| exceeds(party.profile()));
    let limit = exceeded.filter_map(|party| party.profile().issuer.max_length).min()?;
    let case = Case {
        rule: TOO_LONG,
        message: format!("the issuer URL has {length} characters; expected at most {limit}"),
        remedy: "choose a shorter host or path".to_owned(),
    };
    case.held_against(
        parties,
        |profile| if exceeds(profile) { Acceptance::Refuses } else { Acceptance::Accepts },
    )
}

fn path_segments(issuer: &IssuerUrl, parties: &[RelyingParty]) -> Option<Finding> {
    let path = issuer.path();
    let inner = path.strip_prefix('/').unwrap_or(path);
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    let dotted = inner.split('/').any(|segment| matches!(segment, "." | ".."));
    if !dotted && !path.contains("//") {
        return None;
    }
    let case = Case {
        rule: PATH_SEGMENTS,
        message: format!("the issuer's path {path} has empty segments, `.` or `..`; expected plain segments"),
        remedy:
            "remove them: HTTP clients and proxies resolve such paths, and then ask for something else than we publish"
                .to_owned(),
    };
    case.held_against(parties, |_| Acceptance::Doubtful)
}

/// Our documents equal kube-apiserver's, so that what is missing there is missing here, whatever the issuer.
fn discovery_members(issuer: &IssuerUrl, parties: &[RelyingParty]) -> Option<Finding> {
    let demanded = |profile: &Profile| profile.fetch.demanded_members;
    let members: BTreeSet<&str> =
        parties.iter().flat_map(|party| demanded(party.profile())).copied().collect();
    if members.is_empty() {
        return None;
    }
    let case = Case {
        rule: DISCOVERY_MEMBERS,
        message: format!(
            "the discovery document of a cluster has no {}, which somebody demands",
            members.into_iter().collect::<Vec<_>>().join(", ")
        ),
        remedy: format!("give that party the JWKS at {} instead of the issuer URL", issuer.jwks_uri()),
    };
    case.held_against(parties, |profile| {
        if demanded(profile).is_empty() { Acceptance::Accepts } else { Acceptance::Refuses }
    })
}

fn address_of(issuer: &IssuerUrl) -> Option<IpAddr> {
    let host = issuer.host();
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).parse().ok()
}

fn is_private(issuer: &IssuerUrl) -> bool {
    match address_of(issuer) {
        Some(IpAddr::V4(address)) => {
            let [first, second, ..] = address.octets();
            let carrier_grade = first == 100 && (64..128).contains(&second);
            address.is_private()
                || address.is_loopback()
                || address.is_link_local()
                || address.is_unspecified()
                || carrier_grade
        }
        Some(IpAddr::V6(address)) => is_private_v6(address),
        None => {
            let host = issuer.host().to_ascii_lowercase();
            let host = host.strip_suffix('.').unwrap_or(&host);
            !host.contains('.') || PRIVATE_SUFFIXES.iter().any(|suffix| host.ends_with(suffix))
        }
    }
}

fn is_private_v6(address: Ipv6Addr) -> bool {
    address.is_loopback()
        || address.is_unspecified()
        || address.is_unique_local()
        || address.is_unicast_link_local()
}

//! The content of a discovery document (OpenID Connect Discovery 1.0 sections 3 and 4.3).

use chancery_core::DocumentKind;
use chancery_core::discovery::ObservedDiscovery;
use chancery_core::lint::{Finding, Severity};
use chancery_core::profile::RelyingParty;
use chancery_core::quoted::{escaped, quoted};
use serde_json::{Map, Value};

use super::{Standard, all, content, place};
use crate::verify::fetch::FetchedDocument;
use crate::verify::rule;

/// The members that the specification requires beside `issuer` and `jwks_uri`, of those kube-apiserver serves.
const REQUIRED: [&str; 3] =
    ["response_types_supported", "subject_types_supported", "id_token_signing_alg_values_supported"];

/// What a discovery document says, judged.
#[derive(Debug, Default)]
pub(super) struct Judged {
    pub(super) findings: Vec<Finding>,
    /// Whether relying parties would go on to the JWKS.
    pub(super) is_trustworthy: bool,
    /// The advertised algorithms; `None` when the member is missing or the document cannot be read.
    pub(super) algorithms: Option<Vec<String>>,
}

/// Where to read the JWKS: the advertised `jwks_uri`, if the document came and the URL can be read anonymously
/// over TLS.
pub fn readable_jwks_uri(discovery: &FetchedDocument) -> Option<String> {
    let unverified = ObservedDiscovery::parse(&discovery.body).ok().filter(|_| discovery.status == 200)?;
    place::is_readable(&unverified.jwks_uri).then_some(unverified.jwks_uri)
}

pub(super) fn judge(standard: Standard<'_>, fetched: &FetchedDocument) -> Judged {
    let unverified = match ObservedDiscovery::parse(&fetched.body) {
        Ok(unverified) => unverified,
        Err(error) => {
            let findings = vec![malformed(fetched, &error)];
            return Judged { findings, ..Judged::default() };
        }
    };
    let members: Map<String, Value> = serde_json::from_slice(&fetched.body).unwrap_or_default();
    let mismatch = issuer_mismatch(standard, &unverified.issuer);
    let is_trustworthy = mismatch.is_none();
    let elsewhere = place::jwks_uri(standard, &unverified.jwks_uri);
    let findings = [mismatch, elsewhere, incomplete(&members)];
    let advertises = members.contains_key("id_token_signing_alg_values_supported");
    Judged {
        findings: findings.into_iter().flatten().collect(),
        is_trustworthy,
        algorithms: advertises.then_some(unverified.id_token_signing_alg_values_supported),
    }
}

fn malformed(fetched: &FetchedDocument, error: &serde_json::Error) -> Finding {
    let kind = DocumentKind::Discovery;
    Finding {
        rule: rule::DISCOVERY_MALFORMED,
        severity: Severity::Error,
        breaks: all(),
        message: format!(
            "what came from {} is not a {kind}: {}{}; expected a JSON object with the strings `issuer` and `jwks_uri`",
            escaped(&fetched.url),
            quoted(error),
            content::hint(fetched)
        ),
        remedy: "publish the document that `chancery keygen discovery` writes".to_owned(),
    }
}

fn issuer_mismatch(standard: Standard<'_>, came: &str) -> Option<Finding> {
    let asked = standard.issuer.as_str();
    if came == asked {
        return None;
    }
    let trimmed = |text: &str| text.trim_end_matches('/').to_owned();
    let how = if trimmed(came) == trimmed(asked) {
        "the slash at the end is wrong: "
    } else if came.eq_ignore_ascii_case(asked) {
        "upper and lower case are wrong: "
    } else if came.trim() == asked {
        "there is white space: "
    } else {
        ""
    };
    // MinIO alone does not look at `iss`.
    let breaks = RelyingParty::ALL.into_iter().filter(|party| *party != RelyingParty::Minio).collect();
    Some(Finding {
        rule: rule::ISSUER_MISMATCH,
        severity: Severity::Error,
        breaks,
        message: format!(
            "{how}the discovery document names the issuer {}, byte for byte expected {asked:?}",
            quoted(came)
        ),
        remedy: "let `--service-account-issuer`, the discovery document and what relying parties are told be the same string; if tokens already carry the other one, verify that URL instead".to_owned(),
    })
}

fn incomplete(members: &Map<String, Value>) -> Option<Finding> {
    let filled =
        |name: &&str| members.get(*name).and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    let missing: Vec<_> = REQUIRED.into_iter().filter(|name| !filled(name)).collect();
    (!missing.is_empty()).then(|| Finding {
        rule: rule::DISCOVERY_INCOMPLETE,
        severity: Severity::Warning,
        breaks: vec![RelyingParty::Aws, RelyingParty::Common],
        message: format!(
            "the discovery document lacks {}; expected a list that is not empty for each (OpenID Connect Discovery 1.0 section 3)",
            missing.join(", ")
        ),
        remedy: "publish the five members that kube-apiserver serves, as `chancery keygen discovery` writes them"
            .to_owned(),
    })
}

//! What to type for each step.

use super::{Intent, Party};
use crate::IssuerUrl;
use crate::profile::RelyingParty;

/// The flags of kube-apiserver, in their order.
pub(super) fn flags(issuers: &[&str], jwks_of: Option<&IssuerUrl>) -> Vec<String> {
    let issuers = issuers.iter().map(|issuer| format!("--service-account-issuer={issuer}"));
    let jwks_uri = jwks_of.map(|issuer| format!("--service-account-jwks-uri={}", issuer.jwks_uri()));
    issuers.chain(jwks_uri).collect()
}

pub(super) fn publish(intent: &Intent) -> Vec<String> {
    let (from, to) = (&intent.from, &intent.to);
    vec![
        format!("chancery publish apply --issuer {to} ..."),
        format!("or a second issuer of the service, `- url: {to}`, with the sources of {from}"),
    ]
}

pub(super) fn register(intent: &Intent, party: &Party) -> Vec<String> {
    let to = &intent.to;
    match cloud(party.kind) {
        Some(_) => vec![trust("apply", to.as_str(), party)],
        None => vec![
            format!("chancery lint {to} --for {}", party.kind),
            format!("give it {to} as a second issuer, for the same audiences and subjects"),
        ],
    }
}

pub(super) fn registered(intent: &Intent, party: &Party) -> String {
    let name = &party.name;
    let said = format!("then say `trusts: both` of {name} in the plan file");
    match cloud(party.kind) {
        Some(rights) => {
            format!("{} exits 0, {rights}; {said}", trust("plan", intent.to.as_str(), party))
        }
        None => said,
    }
}

pub(super) fn deregister(intent: &Intent, party: &Party) -> Vec<String> {
    let from = &intent.from;
    match party.kind {
        RelyingParty::Aws => vec![
            format!("aws iam delete-open-id-connect-provider: the provider of {from}"),
            "the statements of roles that name it".to_owned(),
        ],
        RelyingParty::Azure => vec![format!("the federated identity credentials of {from}")],
        RelyingParty::Gcp => vec![format!("the provider of {from} in its pool, and grants that name it")],
        _ => vec![format!("take {from} off its issuers")],
    }
}

pub(super) fn unpublish(intent: &Intent) -> Vec<String> {
    let from = &intent.from;
    vec![format!("take {from} off the service's configuration, then remove both documents from its targets")]
}

/// What `chancery trust` calls it, as the rights that are not part of the registration.
fn cloud(kind: RelyingParty) -> Option<&'static str> {
    match kind {
        RelyingParty::Aws => Some("and every role has a statement for the new issuer too"),
        RelyingParty::Azure => Some("for every ServiceAccount and identity"),
        RelyingParty::Gcp => Some("and grants name the new pool or provider too"),
        _ => None,
    }
}

fn trust(verb: &str, issuer: &str, party: &Party) -> String {
    let command = format!("chancery trust {} {verb} --issuer {issuer} {}", party.kind, party.arguments);
    command.trim_end().to_owned()
}

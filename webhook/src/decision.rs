//! What becomes of a pod: a function of the pod, its ServiceAccount and the settings.

use crate::asked::Asked;
use crate::cloud::{Cloud, Refusal};
use crate::plan::{Plan, plan};
use crate::pod::Pod;
use crate::settings::{Account, Settings};
use crate::{aws, azure, gcp, misspelt};

/// What becomes of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// What is added. Nothing, if the pod is refused.
    pub plan: Plan,
    /// Why it is refused: it asked for what would certainly fail.
    pub refusals: Vec<Refusal>,
    /// What its author should know.
    pub warnings: Vec<String>,
    /// Why it is let in as it is although its ServiceAccount may have asked for something.
    pub unknown: Option<String>,
}

/// A pod that asks by itself, and whose ServiceAccount could not be read. Whether it is let in says `failurePolicy`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the pod asks for {cloud}, and ServiceAccount {account} could not be read: {why}; expected the API server to answer. Try again"
)]
pub struct Undecided {
    /// For which cloud it asks.
    pub cloud: Cloud,
    /// Whose annotations are missing.
    pub account: String,
    /// Why.
    pub why: String,
}

/// Decides. `namespace` is that of the request, which the pod itself need not say.
///
/// # Errors
/// When it cannot be decided now.
pub fn decide(
    settings: &Settings,
    pod: Pod<'_>,
    (namespace, account): (&str, &Account),
) -> Result<Decision, Undecided> {
    let mut decision = Decision::default();
    // They may have no projected token, and kubelet could not register them.
    if pod.is_mirror() {
        return Ok(decision);
    }
    let none = std::collections::BTreeMap::new();
    let annotations = if let Account::Found(annotations) = account { annotations } else { &none };
    let asked = Asked { pod, namespace, annotations };
    let by_itself = azure::is_asked(pod, &settings.azure);
    match account {
        Account::Found(_) => {}
        Account::Missing if by_itself => {
            let problem = "it is not there, and no token can be made for it. Create it before the pod";
            decision.refusals.push(asked.refuse(Cloud::Azure, "service-account-missing", problem));
            return Ok(decision);
        }
        Account::Missing => {
            let why = format!("{} is not there", asked.account_name());
            decision.unknown = Some(why);
            return Ok(decision);
        }
        Account::Unknown(why) if by_itself => {
            let account = format!("{namespace}/{}", pod.service_account());
            return Err(Undecided { cloud: Cloud::Azure, account, why: why.clone() });
        }
        Account::Unknown(why) => {
            decision.unknown = Some(format!("{} could not be read: {why}", asked.account_name()));
            return Ok(decision);
        }
    }
    decision.warnings = misspelt::warnings(&asked);
    let warnings = &mut decision.warnings;
    let found = [
        aws::identity(&asked, &settings.aws, warnings),
        azure::identity(&asked, &settings.azure, warnings),
        gcp::identity(&asked, &settings.gcp, warnings),
    ];
    let mut identities = Vec::new();
    for found in found {
        match found {
            Ok(identity) => identities.extend(identity),
            Err(refusal) => decision.refusals.push(refusal),
        }
    }
    if decision.refusals.is_empty() {
        decision.plan = plan(pod, &identities, warnings);
    }
    Ok(decision)
}

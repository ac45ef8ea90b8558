//! Running pods that ask for credentials and were let in without: while the webhook was away, before their ServiceAccount
//! was annotated, or by a misspelt key. No restart of a container heals them, only a new pod.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use chancery_cluster::access::explain;
use chancery_core::listed;
use k8s_openapi::api::core::v1::{Pod as PodObject, ServiceAccount};
use kube::api::{ListParams, PartialObjectMeta};
use kube::{Api, Client};
use serde_json::Value;

use crate::decision::decide;
use crate::pod::Pod;
use crate::registered::look;
use crate::registration::EXCLUDED;
use crate::settings::{Account, Settings};

/// Objects in one answer of the API server.
const PAGE: u32 = 500;

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AuditFinding {
    /// kube-apiserver cannot ask us, whatever the pod.
    Registration {
        /// Why.
        problem: String,
    },
    /// A pod lacks what it asks for.
    Unserved {
        /// `NAMESPACE/NAME`
        pod: String,
        /// For which clouds it asks, and by what.
        asked: String,
    },
    /// A pod asks for what would fail, so that a new one would be refused.
    Refused {
        /// `NAMESPACE/NAME`
        pod: String,
        /// Why.
        why: String,
    },
    /// Something looks wrong, of one pod or many.
    Warning {
        /// What.
        what: String,
        /// `NAMESPACE/NAME` of each, the first few.
        pods: String,
    },
}

impl fmt::Display for AuditFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registration { problem } => f.write_str(problem),
            Self::Unserved { pod, asked } => {
                write!(f, "{pod} runs without what it asks for ({asked}); start it anew, or its workload")
            }
            Self::Refused { pod, why } => write!(f, "{pod} would be refused: {why}"),
            Self::Warning { what, pods } => write!(f, "{what} (pods: {pods})"),
        }
    }
}

/// What a cluster holds, as far as an audit looks.
#[derive(Clone, Debug, Default)]
pub struct Census {
    /// Its pods.
    pub pods: Vec<Value>,
    /// The annotations of its ServiceAccounts, by namespace and name.
    pub accounts: BTreeMap<(String, String), BTreeMap<String, String>>,
    /// What is wrong in the registration, as far as it may be read.
    pub registration: Vec<String>,
}

/// Every finding, those of the first kind first.
pub fn audit(settings: &Settings, census: &Census) -> Vec<AuditFinding> {
    let of_registration = census.registration.iter().cloned();
    let mut findings: BTreeSet<_> =
        of_registration.map(|problem| AuditFinding::Registration { problem }).collect();
    let mut warnings: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for object in census.pods.iter().filter(|pod| runs(pod)) {
        let pod = Pod(object);
        let namespace = pod.namespace().unwrap_or_default();
        let key = (namespace.to_owned(), pod.service_account().to_owned());
        let account = census.accounts.get(&key).map_or(Account::Missing, |it| Account::Found(it.clone()));
        let Ok(decision) = decide(settings, pod, (namespace, &account)) else { continue };
        let name = format!("{namespace}/{}", pod.name());
        for refusal in &decision.refusals {
            findings.insert(AuditFinding::Refused { pod: name.clone(), why: refusal.to_string() });
        }
        if decision.plan.containers.iter().any(|container| !container.mounts.is_empty()) {
            let asked = decision.plan.asked.iter().map(|(cloud, because)| format!("{cloud}: {because}"));
            findings.insert(AuditFinding::Unserved {
                pod: name.clone(),
                asked: asked.collect::<Vec<_>>().join("; "),
            });
        }
        for warning in decision.warnings {
            warnings.entry(warning).or_default().insert(name.clone());
        }
    }
    let warnings = warnings.into_iter();
    findings.extend(warnings.map(|(what, pods)| AuditFinding::Warning { what, pods: listed(pods) }));
    findings.into_iter().collect()
}

/// Whether it is there to stay, and the webhook is asked for its like.
fn runs(pod: &Value) -> bool {
    let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let has_ended = ["Succeeded", "Failed"].contains(&text("/status/phase"));
    !has_ended
        && text("/metadata/deletionTimestamp").is_empty()
        && !EXCLUDED.contains(&text("/metadata/namespace"))
}

/// Reads a cluster, or one of its namespaces, and the registration of this name. Needs `list` of pods and ServiceAccounts;
/// without `get` of the registration that is not looked at.
///
/// # Errors
/// What the API server said.
pub async fn census(client: &Client, namespace: Option<&str>, registration: &str) -> Result<Census, String> {
    let registration = look(client.clone(), registration).await.unwrap_or_default();
    let mut census = Census { registration, ..Census::default() };
    let (pods, accounts) = match namespace {
        Some(namespace) => (
            Api::<PodObject>::namespaced(client.clone(), namespace),
            Api::<ServiceAccount>::namespaced(client.clone(), namespace),
        ),
        None => (Api::all(client.clone()), Api::all(client.clone())),
    };
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let listed = pods.list(&page).await.map_err(|error| explain(&error))?;
        census.pods.extend(listed.items.iter().filter_map(|pod| serde_json::to_value(pod).ok()));
        match listed.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = ListParams::default().limit(PAGE).continue_token(&token),
            None => break,
        }
    }
    page = ListParams::default().limit(PAGE);
    loop {
        let listed = accounts.list_metadata(&page).await.map_err(|error| explain(&error))?;
        census.accounts.extend(listed.items.into_iter().filter_map(annotations_of));
        match listed.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = ListParams::default().limit(PAGE).continue_token(&token),
            None => return Ok(census),
        }
    }
}

fn annotations_of(
    account: PartialObjectMeta<ServiceAccount>,
) -> Option<((String, String), BTreeMap<String, String>)> {
    let metadata = account.metadata;
    Some(((metadata.namespace?, metadata.name?), metadata.annotations.unwrap_or_default()))
}

//! What a pod and its ServiceAccount say, and by whom it counts.

use std::collections::{BTreeMap, BTreeSet};

use chancery_core::quoted::quoted;

use crate::cloud::{Cloud, Refusal};
use crate::pod::Pod;

/// Containers that want nothing of any cloud, separated by commas.
pub const SKIP_CONTAINERS: &str = "chancery.dev/skip-containers";

/// A pod with the annotations of its ServiceAccount.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The pod.
    pub pod: Pod<'a>,
    /// The namespace of both.
    pub namespace: &'a str,
    /// The ServiceAccount's annotations.
    pub annotations: &'a BTreeMap<String, String>,
}

impl<'a> Asked<'a> {
    /// An annotation of the ServiceAccount. An empty one counts as none.
    pub fn account(&self, key: &str) -> Option<&'a str> {
        self.annotations.get(key).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    /// An annotation of the pod, or else of the ServiceAccount, and on which of them it stands.
    pub fn either(&self, key: &str) -> Option<(&'a str, String)> {
        let on_pod = self.pod.annotation(key).map(str::trim).filter(|value| !value.is_empty());
        match on_pod {
            Some(value) => Some((value, "the pod".to_owned())),
            None => self.account(key).map(|value| (value, self.account_name())),
        }
    }

    /// The ServiceAccount in words.
    pub fn account_name(&self) -> String {
        format!("ServiceAccount {}/{}", self.namespace, self.pod.service_account())
    }

    /// A refusal of what the ServiceAccount says.
    pub fn refuse(&self, cloud: Cloud, reason: &'static str, problem: &str) -> Refusal {
        Refusal { cloud, reason, message: format!("{}: {problem}", self.account_name()) }
    }

    /// The containers that an annotation leaves out, and those that [`SKIP_CONTAINERS`] does. A name that no container has
    /// is a warning: it is probably misspelt.
    pub fn skipped(&self, key: &str, separator: char, warnings: &mut Vec<String>) -> BTreeSet<String> {
        let mut skipped = BTreeSet::new();
        for (key, separator) in [(key, separator), (SKIP_CONTAINERS, ',')] {
            let Some(list) = self.pod.annotation(key) else { continue };
            if list.contains('"') {
                warnings.push(format!(
                    "{key} is {}; expected names of containers separated by '{separator}', without quotation marks; none is skipped",
                    quoted(list)
                ));
                continue;
            }
            for name in list.split(separator).map(str::trim).filter(|name| !name.is_empty()) {
                if !self.pod.containers().any(|container| container.name() == name) {
                    warnings.push(format!(
                        "{key} names {}, and no container of the pod is called so",
                        quoted(name)
                    ));
                }
                skipped.insert(name.to_owned());
            }
        }
        skipped.retain(|name| !name.is_empty());
        skipped
    }
}

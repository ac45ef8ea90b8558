//! Whether nodes may ask for a token with an audience of their own choice. Since Kubernetes 1.32 an API server refuses
//! that unless a rule says so, and kubelet then pulls without the plugin's login
//! (<https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/>).

use std::collections::BTreeSet;

use serde_json::Value;

/// The verb of the rule.
pub const VERB: &str = "request-serviceaccounts-token-audience";
/// The group of every node.
pub const NODES: &str = "system:nodes";

/// Whether one of `manifests` lets every node ask for a token with this audience, for some ServiceAccounts at least.
pub fn allows(manifests: &[Value], audience: &str) -> bool {
    let roles: BTreeSet<&str> = manifests
        .iter()
        .flat_map(items)
        .filter(|object| object["kind"] == "ClusterRole" && rules(object).any(|rule| grants(rule, audience)))
        .filter_map(|role| role.pointer("/metadata/name")?.as_str())
        .collect();
    manifests.iter().flat_map(items).any(|object| {
        let role = &object["roleRef"];
        object["kind"] == "ClusterRoleBinding"
            && role["kind"] == "ClusterRole"
            && role["name"].as_str().is_some_and(|name| roles.contains(name))
            && list(&object["subjects"]).any(|subject| subject["kind"] == "Group" && subject["name"] == NODES)
    })
}

/// The manifest that does.
pub fn manifest(audience: &str) -> String {
    let quoted = Value::from(audience);
    format!(
        "apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{ name: kubelet-image-credentials }}
rules:
- {{ apiGroups: [\"\"], resources: [{quoted}], verbs: [{VERB}] }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{ name: kubelet-image-credentials }}
roleRef: {{ apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: kubelet-image-credentials }}
subjects:
- {{ apiGroup: rbac.authorization.k8s.io, kind: Group, name: \"{NODES}\" }}
"
    )
}

fn grants(rule: &Value, audience: &str) -> bool {
    let has = |field: &str, wanted: &str| list(&rule[field]).any(|value| value == wanted || value == "*");
    has("apiGroups", "") && has("resources", audience) && has("verbs", VERB)
}

/// A List's items, or the object itself.
fn items(manifest: &Value) -> Vec<&Value> {
    match manifest["items"].as_array() {
        Some(items) => items.iter().collect(),
        None => vec![manifest],
    }
}

fn rules(role: &Value) -> impl Iterator<Item = &Value> {
    list(&role["rules"])
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

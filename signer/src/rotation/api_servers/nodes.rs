//! Which kube-apiservers and which nodes of a control plane there are, as the cluster itself lists them.

use std::collections::BTreeMap;

use chancery_cluster::access::explain;
use chancery_cluster::api_server::discovery;
use chancery_cluster::limits;
use http::Uri;
use http::uri::Authority;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::time::timeout;

use super::motion::ControlPlaneNode;

/// What kubeadm and everybody since labels the nodes of a control plane with.
const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

/// The nodes of the control plane. Needs `list` of Nodes.
///
/// # Errors
/// In words.
pub(super) async fn nodes(client: &Client) -> Result<Vec<ControlPlaneNode>, String> {
    let api: Api<Node> = Api::all(client.clone());
    let listed = in_time("Nodes", api.list(&ListParams::default().labels(CONTROL_PLANE))).await?;
    Ok(listed.iter().map(described).collect())
}

/// The addresses of the kube-apiservers. Needs `list` of EndpointSlices in the namespace `default`.
///
/// # Errors
/// In words, also where there is none.
pub(super) async fn addresses(client: &Client) -> Result<Vec<Uri>, String> {
    let api: Api<EndpointSlice> = Api::namespaced(client.clone(), discovery::NAMESPACE);
    let listed =
        in_time("EndpointSlices", api.list(&ListParams::default().labels(discovery::LABELS))).await?;
    let addresses: Vec<Uri> =
        discovery::replicas(listed.iter()).iter().filter_map(|url| url.parse().ok()).collect();
    match addresses.is_empty() {
        true => Err("the EndpointSlices of default/kubernetes list none; name them as `servers`".to_owned()),
        false => Ok(addresses),
    }
}

/// The addresses by the names of the nodes that have them; by themselves where no node has. Of several at one node, each that
/// comes after the first one has its address in its name as well: all of them are asked.
pub(super) fn named(mut addresses: Vec<Uri>, nodes: &[ControlPlaneNode]) -> BTreeMap<String, Uri> {
    // Each has the same name in every look, in whatever order they are listed.
    addresses.sort_by_key(ToString::to_string);
    addresses.dedup();
    let mut named = BTreeMap::new();
    for address in addresses {
        let host = address.host().unwrap_or_default().trim_matches(['[', ']']);
        let node = nodes.iter().find(|node| node.addresses.iter().any(|one| one == host));
        let name = node.map_or(host, |node| &node.name).to_owned();
        let name = match named.contains_key(&name) {
            true => format!("{name} at {}", address.authority().map_or(host, Authority::as_str)),
            false => name,
        };
        named.insert(name, address);
    }
    named
}

async fn in_time<R>(what: &str, call: impl Future<Output = kube::Result<R>>) -> Result<R, String> {
    match timeout(limits::CALL, call).await {
        Ok(Ok(listed)) => Ok(listed),
        Ok(Err(error)) => Err(format!("{what} cannot be listed: {}", explain(&error))),
        Err(_) => Err(format!("{what} cannot be listed: no answer within {} s", limits::CALL.as_secs())),
    }
}

fn described(node: &Node) -> ControlPlaneNode {
    let (spec, status) = (node.spec.as_ref(), node.status.as_ref());
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let addresses = status.and_then(|status| status.addresses.as_deref()).unwrap_or_default();
    ControlPlaneNode {
        name: node.metadata.name.clone().unwrap_or_default(),
        addresses: addresses.iter().map(|address| address.address.clone()).collect(),
        is_ready: conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True"),
        is_cordoned: spec.and_then(|spec| spec.unschedulable).unwrap_or_default(),
        is_deleted: node.metadata.deletion_timestamp.is_some(),
        kubelet: status.and_then(|status| Some(status.node_info.as_ref()?.kubelet_version.clone())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_says_what_happens_to_it_and_where_it_is() {
        let node: Node = serde_json::from_value(json!({
            "metadata": { "name": "cp-1", "deletionTimestamp": "2026-01-01T00:00:00Z" },
            "spec": { "unschedulable": true },
            "status": {
                "addresses": [{ "type": "InternalIP", "address": "10.0.0.1" }, { "type": "Hostname", "address": "cp-1" }],
                "conditions": [{ "type": "Ready", "status": "Unknown" }],
            },
        }))
        .unwrap();
        let seen = described(&node);
        assert!(!seen.is_ready && seen.is_cordoned && seen.is_deleted, "{seen:?}");
        let addresses = ["https://10.0.0.1:6443", "https://10.0.0.2:6443", "https://[fd00::1]:6443"]
            .map(|url| url.parse().unwrap());
        let named = named(
            addresses.into(),
            &[
                seen,
                ControlPlaneNode {
                    name: "cp-6".to_owned(),
                    addresses: vec!["fd00::1".to_owned()],
                    ..ControlPlaneNode::default()
                },
            ],
        );
        assert_eq!(named.keys().collect::<Vec<_>>(), ["10.0.0.2", "cp-1", "cp-6"]);
        let two = [
            "https://10.0.0.1:7443",
            "https://10.0.0.1:6443",
            "https://10.0.0.2:6444",
            "https://10.0.0.2:6443",
        ];
        let node = ControlPlaneNode {
            name: "cp-1".to_owned(),
            addresses: vec!["10.0.0.1".to_owned()],
            ..ControlPlaneNode::default()
        };
        let named = super::named(two.map(|url| url.parse().unwrap()).into(), &[node]);
        let named: Vec<_> = named.into_iter().map(|(name, address)| (name, address.to_string())).collect();
        let expected = [
            ("10.0.0.2", "https://10.0.0.2:6443/"),
            ("10.0.0.2 at 10.0.0.2:6444", "https://10.0.0.2:6444/"),
            ("cp-1", "https://10.0.0.1:6443/"),
            ("cp-1 at 10.0.0.1:7443", "https://10.0.0.1:7443/"),
        ];
        assert_eq!(named, expected.map(|(name, address)| (name.to_owned(), address.to_owned())));
        let bare: Node = serde_json::from_value(json!({ "metadata": { "name": "cp-2" } })).unwrap();
        assert_eq!(
            described(&bare),
            ControlPlaneNode { name: "cp-2".to_owned(), ..ControlPlaneNode::default() }
        );
    }
}

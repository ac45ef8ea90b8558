//! Which kube-apiservers and which nodes of a control plane there are, as the cluster itself lists them.

use std::collections::BTreeMap;

use chancery_cluster::access::explain;
use chancery_cluster::api_server::discovery;
use chancery_cluster::limits;
use http::Uri;
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

/// The addresses by the names of the nodes that have them; by themselves where no node has.
pub(super) fn named(addresses: Vec<Uri>, nodes: &[ControlPlaneNode]) -> BTreeMap<String, Uri> {
    let name = |address: &Uri| {
        let host = address.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let node = nodes.iter().find(|node| node.addresses.contains(&host));
        node.map_or(host, |node| node.name.clone())
    };
    addresses.into_iter().map(|address| (name(&address), address)).collect()
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
        let bare: Node = serde_json::from_value(json!({ "metadata": { "name": "cp-2" } })).unwrap();
        assert_eq!(
            described(&bare),
            ControlPlaneNode { name: "cp-2".to_owned(), ..ControlPlaneNode::default() }
        );
    }
}

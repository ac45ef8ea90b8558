//! Which nodes of a control plane come, go or change. Pure.

use std::collections::BTreeMap;

use chancery_core::rotation::Motion;

/// A node of the control plane, as its Node object says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ControlPlaneNode {
    /// Its name.
    pub name: String,
    /// Where it is reached.
    pub addresses: Vec<String>,
    /// Its condition `Ready`.
    pub is_ready: bool,
    /// No pod is to come to it: it is being emptied.
    pub is_cordoned: bool,
    /// It was deleted, and is not gone yet.
    pub is_deleted: bool,
    /// The release of its kubelet, such as `v1.34.2`.
    pub kubelet: Option<String>,
}

/// What happens to which node, where anything does. `servers` are the kube-apiservers by the names of their nodes, with the
/// release of each as far as it was seen.
pub(super) fn motions(
    nodes: &[ControlPlaneNode],
    servers: &BTreeMap<String, Option<String>>,
) -> BTreeMap<String, Motion> {
    let newest_server = newest(servers.values().flatten());
    let newest_kubelet = newest(nodes.iter().filter_map(|node| node.kubelet.as_ref()));
    let mut motions = BTreeMap::new();
    for (name, version) in servers {
        if version.as_ref().is_some_and(|version| Some(version) != newest_server) {
            motions.insert(name.clone(), Motion::Upgrading);
        }
    }
    for node in nodes {
        let is_older = node.kubelet.as_ref().is_some_and(|version| Some(version) != newest_kubelet);
        let motion = if node.is_deleted || node.is_cordoned {
            Motion::Leaving
        } else if !servers.contains_key(&node.name) {
            Motion::Joining
        } else if !node.is_ready {
            Motion::Unready
        } else if is_older {
            Motion::Upgrading
        } else {
            continue;
        };
        motions.insert(node.name.clone(), motion);
    }
    motions
}

/// The newest of several releases: an upgrade has begun where one differs from it.
fn newest<'a>(versions: impl Iterator<Item = &'a String>) -> Option<&'a String> {
    versions.max_by_key(|version| (numbers(version), version.as_str()))
}

/// `v1.34.2+k3s1` as 1, 34, 2.
fn numbers(version: &str) -> Vec<u64> {
    let plain = version.trim_start_matches('v');
    let plain = plain.split(['-', '+']).next().unwrap_or(plain);
    plain.split('.').map(|number| number.parse().unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> ControlPlaneNode {
        let kubelet = Some("v1.34.2".to_owned());
        ControlPlaneNode { name: name.to_owned(), is_ready: true, kubelet, ..ControlPlaneNode::default() }
    }

    fn of(nodes: &[ControlPlaneNode], servers: &[(&str, &str)]) -> Vec<(String, Motion)> {
        let servers = servers.iter().map(|(name, version)| {
            ((*name).to_owned(), Some((*version).to_owned()).filter(|version| !version.is_empty()))
        });
        motions(nodes, &servers.collect()).into_iter().collect()
    }

    #[test]
    fn what_moves_is_named() {
        let at_rest = [("a", "v1.34.2"), ("b", "v1.34.2")];
        let one = |motion| vec![("b".to_owned(), motion)];
        let (a, b) = (node("a"), node("b"));
        let with = |changed: ControlPlaneNode| [a.clone(), changed];
        let older = || Some("v1.33.10".to_owned());
        for (nodes, servers, expected) in [
            (vec![a.clone(), b.clone()], &at_rest[..], vec![]),
            (vec![], &at_rest[..], vec![]),
            (vec![a.clone(), b.clone()], &at_rest[..1], one(Motion::Joining)),
            (
                with(ControlPlaneNode { is_ready: false, ..b.clone() }).into(),
                &at_rest[..],
                one(Motion::Unready),
            ),
            (
                with(ControlPlaneNode { is_ready: false, ..b.clone() }).into(),
                &at_rest[..1],
                one(Motion::Joining),
            ),
            (
                with(ControlPlaneNode { is_cordoned: true, ..b.clone() }).into(),
                &at_rest[..],
                one(Motion::Leaving),
            ),
            (
                with(ControlPlaneNode { is_deleted: true, ..b.clone() }).into(),
                &at_rest[..1],
                one(Motion::Leaving),
            ),
            (
                with(ControlPlaneNode { kubelet: older(), ..b.clone() }).into(),
                &at_rest[..],
                one(Motion::Upgrading),
            ),
            (vec![], &[("a", "v1.34.10"), ("b", "v1.34.9")][..], one(Motion::Upgrading)),
            (vec![], &[("a", "v1.34.2+k3s2"), ("b", "v1.34.2+k3s1")][..], one(Motion::Upgrading)),
            // Nobody knows its release, and it is not seen: that is another guard's.
            (vec![a.clone(), b.clone()], &[("a", "v1.34.2"), ("b", "")][..], vec![]),
        ] {
            assert_eq!(of(&nodes, servers), expected, "{nodes:?} {servers:?}");
        }
    }
}

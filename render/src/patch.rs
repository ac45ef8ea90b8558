//! Accepted issuers as a kubeadm patch of the static pod.
//!
//! A second `--service-account-issuer` does not survive the ways that lead to kube-apiserver: kind merges flags by name
//! since 0.32 and keeps the last, Cluster API v1beta2 refuses two of one name, and kubeadm sorted them in some versions
//! (kubernetes/kubeadm#3261), so that the cluster signed as another issuer. A patch in kubeadm's `patches.directory` is
//! applied to the finished manifest, and appends: the issuer that signs stays first.

use crate::state::State;
use crate::yaml::quoted;

/// Where the patch lies on a control-plane node.
pub(crate) const DIRECTORY: &str = "/etc/kubernetes/patches";

/// Its name, from which kubeadm reads the target and the kind of patch (`target[suffix][+patchtype].extension`).
pub(crate) const FILE: &str = "kube-apiserver0accepted-issuers+json.yaml";

/// The patch, RFC 6902 in YAML; nothing when the signing issuer is the only one.
pub(crate) fn patch(state: &State<'_>) -> Option<String> {
    let add = |issuer: &_| {
        let flag = quoted(&format!("--service-account-issuer={issuer}"));
        format!("- op: add\n  path: /spec/containers/0/command/-\n  value: {flag}\n")
    };
    let patch: String = state.accepted().iter().map(add).collect();
    (!patch.is_empty()).then_some(patch)
}

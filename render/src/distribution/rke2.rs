//! RKE2: k3s' arguments and keys below its own folders, with kube-apiserver as a static pod.

use super::k3s::{FORMS, drop_in};
use crate::output::Parts;
use crate::row::{KeyFiles, Row, Scene};

pub(super) static ROW: Row = Row {
    name: "rke2",
    title: "RKE2",
    version_of: "RKE2",
    forms: FORMS,
    rsa_only: true,
    key_files: KeyFiles::Fixed {
        signing: "/var/lib/rancher/rke2/server/tls/service.current.key",
        verifying: "/var/lib/rancher/rke2/server/tls/service.key",
    },
    proof: "grep service-account /var/lib/rancher/rke2/agent/pod-manifests/kube-apiserver.yaml",
    known: &[
        "discovery is closed to anonymous readers (`anonymous-auth=false`): ask with a token",
        "Rancher's cluster agent needs the old issuer accepted (rancher/rancher#41521)",
    ],
    prepare: None,
    render,
};

fn render(scene: &Scene<'_>) -> Parts {
    drop_in(scene, "rke2", "rke2-server")
}

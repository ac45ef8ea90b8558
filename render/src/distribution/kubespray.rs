//! Kubespray: variables of the inventory; kubeadm's patches carry the accepted issuers.

use crate::output::Parts;
use crate::patch::{self, FILE};
use crate::request::Phase;
use crate::row::{Form, Issuers, KeyChange, KeyFiles, Row, Scene};
use crate::version::Version;
use crate::yaml::{indented, mapping};

/// Patches are a variable from here on, and were files before.
const VARIABLE: Version = Version::new(2, 27);

pub(super) static ROW: Row = Row {
    name: "kubespray",
    title: "Kubespray",
    version_of: "Kubespray",
    forms: &[
        Form {
            since: Version::new(2, 19),
            how: "inventory variables, accepted issuers as a file of kubeadm patches",
            issuers: Issuers::Several,
            keys: KeyChange::Files,
        },
        Form {
            since: VARIABLE,
            how: "inventory variables, accepted issuers in `kubeadm_patches`",
            issuers: Issuers::Several,
            keys: KeyChange::Files,
        },
    ],
    rsa_only: false,
    key_files: KeyFiles::Fixed {
        signing: "/etc/kubernetes/ssl/sa.key",
        verifying: "/etc/kubernetes/ssl/sa.pub",
    },
    proof: "grep -e service-account-issuer -e service-account-jwks-uri /etc/kubernetes/manifests/kube-apiserver.yaml",
    known: &[
        "a flag that Kubespray sets itself is rendered twice if it is in the variable too (kubernetes/kubeadm#3173)",
        "before 2.31 a patch that left the inventory stays on the nodes (kubernetes-sigs/kubespray#13019)",
    ],
    prepare: None,
    render,
};

const VARIABLES: &str = "group_vars/k8s_cluster/service-account-issuer.yml";

fn render(scene: &Scene<'_>) -> Parts {
    let is_variable = scene.form.since >= VARIABLE;
    let mut variables =
        format!("kube_kubeadm_apiserver_extra_args:\n{}", mapping(&scene.state.single_flags(), 2));
    let mut parts = Parts::default();
    let patch = patch::patch(&scene.state);
    match (&patch, is_variable) {
        (Some(patch), true) => {
            let patch = indented(patch, 4);
            variables.push_str(&format!(
                "kubeadm_patches:\n- target: kube-apiserver\n  type: json\n  patch:\n{patch}"
            ));
        }
        (Some(patch), false) => {
            parts = parts.file(format!("patches/{FILE}"), patch);
            variables.push_str(
                "kubeadm_patches:\n  enabled: true\n  source_dir: \"{{ inventory_dir }}/patches\"\n  dest_dir: \"{{ kube_config_dir }}/patches\"\n",
            );
        }
        (None, _) => {}
    }
    let beside = match patch.is_some() && !is_variable {
        true => format!(", and patches/{FILE} beside it"),
        false => String::new(),
    };
    parts = parts
        .file(VARIABLES, variables)
        .step(format!("Put {VARIABLES} into the folder of the inventory{beside}"), &[]);
    let parts = keys(scene, parts).step_if(
        scene.phase() == Some(Phase::Drop),
        "On every control-plane node: the patch of the accepted issuers, which Kubespray leaves there",
        &["rm -f /etc/kubernetes/patches/kube-apiserver*+json.yaml"],
    );
    let playbook = match scene.is_new() {
        true => "ansible-playbook -b -i INVENTORY cluster.yml",
        false => "ansible-playbook -b -i INVENTORY upgrade-cluster.yml --limit kube_control_plane",
    };
    parts.step("It goes through the control plane one node after the other", &[playbook])
}

fn keys(scene: &Scene<'_>, parts: Parts) -> Parts {
    if !scene.has_keys() {
        return parts;
    }
    let mut commands = vec!["install -D -m 644 sa.pub /etc/kubernetes/ssl/sa.pub"];
    if scene.brings_key() {
        commands.push("install -D -m 600 sa.key /etc/kubernetes/ssl/sa.key");
    }
    parts
        .file("sa.pub", scene.state.public_pems())
        .step("On every control-plane node, before the playbook runs", &commands)
}

//! kind: flags as patches of kind's kubeadm configuration, further issuers as a kubeadm patch that is mounted, the pair of
//! keys mounted too; and the edit of the static pod of a cluster that runs.
//!
//! kind 0.32 writes kubeadm v1beta4 for Kubernetes 1.36 and later, where flags are a list that kind merges by name, and
//! v1beta3 before, where they are a mapping. A patch with an `apiVersion` applies to that version alone, so both are
//! written; one without applies to either.

use crate::output::{Flag, Parts};
use crate::patch::{self, DIRECTORY, FILE};
use crate::row::{Form, Issuers, KeyChange, KeyFiles, Row, Scene};
use crate::version::Version;
use crate::yaml::{indented, mapping, name_value_list, quoted};

pub(super) static ROW: Row = Row {
    name: "kind",
    title: "kind",
    version_of: "kind",
    forms: &[Form {
        since: Version::new(0, 20),
        how: "cluster configuration for kubeadm v1beta3 and v1beta4; a running cluster by an edit of the static pod",
        issuers: Issuers::Several,
        keys: KeyChange::No {
            why: "it mounts the pair of keys when the cluster is made",
            remedy: "make a new cluster, or change the issuer alone",
        },
    }],
    rsa_only: false,
    key_files: KeyFiles::Fixed {
        signing: "/etc/kubernetes/pki/sa.key",
        verifying: "/etc/kubernetes/pki/sa.pub",
    },
    proof: "docker exec CLUSTER-control-plane grep service-account /etc/kubernetes/manifests/kube-apiserver.yaml",
    known: &[
        "kind >= 0.32 merges flags by name and keeps the last of two: none is repeated here",
        "kind reads its configuration when the cluster is made and never again",
    ],
    prepare: None,
    render,
};

/// The folder of the answer that is mounted for kubeadm.
const PATCHES: &str = "patches";
const MANIFEST: &str = "/etc/kubernetes/manifests/kube-apiserver.yaml";

fn render(scene: &Scene<'_>) -> Parts {
    if !scene.is_new() {
        return change(scene);
    }
    let folder = &scene.request.place.directory;
    let parts = Parts::default().file("kind-cluster.yaml", cluster(scene)).step(
        format!("The configuration names this folder, `{folder}`, which must stay"),
        &["kind create cluster --config kind-cluster.yaml"],
    );
    let parts = match scene.has_keys() {
        true => parts.file("sa.pub", scene.state.public_pems()),
        false => parts,
    };
    match patch::patch(&scene.state) {
        Some(patch) => parts.file(format!("{PATCHES}/{FILE}"), patch),
        None => parts,
    }
}

fn change(scene: &Scene<'_>) -> Parts {
    let node = format!("{}-control-plane", scene.request.place.cluster);
    let copy = format!("docker cp kube-apiserver.sed {node}:/root/kube-apiserver.sed");
    // Not `sed -i`: kubelet would take its temporary file in the folder for another static pod.
    let edit = format!(
        "docker exec {node} sh -c 'sed -f /root/kube-apiserver.sed {MANIFEST} >/root/kube-apiserver.yaml && cp /root/kube-apiserver.yaml {MANIFEST}'"
    );
    Parts::default().file("kube-apiserver.sed", sed(&scene.state.flags())).step(
        "On every control-plane node, one after the other (further ones are called `-control-plane2` and so on); kubelet restarts kube-apiserver",
        &[copy.as_str(), edit.as_str(), "kubectl get --raw /readyz"],
    )
}

/// A sed script that takes the flags out of the manifest and puts them in again, in order.
fn sed(flags: &[Flag]) -> String {
    let mut text =
        "# Sets the flags of the issuer in the manifest of kube-apiserver's static pod.\n".to_owned();
    let mut names = vec!["service-account-issuer", "service-account-jwks-uri"];
    names.extend(flags.iter().map(|flag| flag.name).filter(|name| *name == "api-audiences"));
    names.iter().for_each(|name| text.push_str(&format!("/^ *- --{name}=/d\n")));
    text.push_str("s|^\\( *\\)- kube-apiserver$|&");
    // What a flag may hold was checked: neither `&` nor `|` nor a backslash.
    flags.iter().for_each(|flag| text.push_str(&format!("\\\n\\1- {}", flag.argument())));
    text + "|\n"
}

fn cluster(scene: &Scene<'_>) -> String {
    let mount = |file: &str| quoted(&format!("{}/{file}", scene.request.place.directory));
    let flags = scene.state.single_flags();
    let (mut mounts, mut patches) = (String::new(), String::new());
    if scene.has_keys() {
        for file in ["sa.key", "sa.pub"] {
            let path = format!("/etc/kubernetes/pki/{file}");
            mounts.push_str(&format!("  - hostPath: {}\n    containerPath: {path}\n", mount(file)));
        }
    }
    if !scene.state.accepted().is_empty() {
        let host = mount(PATCHES);
        mounts
            .push_str(&format!("  - hostPath: {host}\n    containerPath: {DIRECTORY}\n    readOnly: true\n"));
        for kind in ["InitConfiguration", "JoinConfiguration"] {
            let patch = format!("kind: {kind}\npatches:\n  directory: {DIRECTORY}");
            patches.push_str(&format!("  - |\n{}", indented(&patch, 4)));
        }
    }
    if !mounts.is_empty() {
        mounts.insert_str(0, "  extraMounts:\n");
    }
    format!(
        "apiVersion: kind.x-k8s.io/v1alpha4
kind: Cluster
name: {name}
nodes:
- role: control-plane
{mounts}  kubeadmConfigPatches:
  - |
    apiVersion: kubeadm.k8s.io/v1beta4
    kind: ClusterConfiguration
    apiServer:
      extraArgs:
{list}  - |
    apiVersion: kubeadm.k8s.io/v1beta3
    kind: ClusterConfiguration
    apiServer:
      extraArgs:
{map}{patches}",
        name = quoted(scene.request.place.cluster.as_str()),
        list = name_value_list(&flags, 6),
        map = mapping(&flags, 8),
    )
}

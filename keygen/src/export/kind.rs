//! kind: the pair mounted into the control plane, the flags as patches of kind's kubeadm configuration, and further
//! issuers as a kubeadm patch that is mounted too.
//!
//! kind 0.32 writes kubeadm v1beta4 for Kubernetes 1.36 and later, where flags are a list that kind merges by name, and
//! v1beta3 before, where they are a mapping. A patch with an `apiVersion` applies to that version alone, so both are
//! written; one without applies to either.

use super::accepted::{self, indented};
use super::flags::{all_flags, signing_issuer_flags};
use super::readme::{self, Readme};
use super::yaml::{mapping, name_value_list, quoted};
use super::{ExportError, ExportFile, ExportRequest};

pub(super) fn render(request: &ExportRequest<'_>) -> Result<Vec<ExportFile>, ExportError> {
    let flags = all_flags(request, "/etc/kubernetes/pki/sa.key", "/etc/kubernetes/pki/sa.pub");
    let patch = accepted::patch(request);
    let steps = format!(
        "1. `kind create cluster --config kind-cluster.yaml`. The file names this folder, `{}`, which must stay.
2. A cluster that exists keeps its keys: kind reads the file at creation alone.
",
        request.directory
    );
    let readme = Readme { title: "kind", steps: &steps, flags: &flags };
    let mut files = vec![
        ExportFile::private("sa.key", &request.signing_key.to_exposed_pem()?),
        ExportFile::public("sa.pub", request.public_pems()),
        ExportFile::public("kind-cluster.yaml", cluster(request)),
        readme::file(request, &readme),
    ];
    files.extend(patch.map(|patch| ExportFile::public(format!("{PATCHES}/{}", accepted::FILE), patch)));
    Ok(files)
}

/// The folder of the export that is mounted for kubeadm.
const PATCHES: &str = "patches";

fn cluster(request: &ExportRequest<'_>) -> String {
    let mount = |file: &str| quoted(&format!("{}/{file}", request.directory));
    let flags = signing_issuer_flags(request);
    let (mut patches_mount, mut patches_directory) = (String::new(), String::new());
    if !request.accepted_issuers.is_empty() {
        patches_mount = format!(
            "  - hostPath: {}\n    containerPath: {}\n    readOnly: true\n",
            mount(PATCHES),
            accepted::DIRECTORY
        );
        for kind in ["InitConfiguration", "JoinConfiguration"] {
            let patch = format!("kind: {kind}\npatches:\n  directory: {}", accepted::DIRECTORY);
            patches_directory.push_str(&format!("  - |\n{}", indented(&patch, 4)));
        }
    }
    format!(
        "apiVersion: kind.x-k8s.io/v1alpha4
kind: Cluster
name: {name}
nodes:
- role: control-plane
  extraMounts:
  - hostPath: {private}
    containerPath: /etc/kubernetes/pki/sa.key
  - hostPath: {public}
    containerPath: /etc/kubernetes/pki/sa.pub
{patches_mount}  kubeadmConfigPatches:
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
{map}{patches_directory}",
        name = quoted(request.cluster.as_str()),
        private = mount("sa.key"),
        public = mount("sa.pub"),
        list = name_value_list(&flags, 6),
        map = mapping(&flags, 8),
    )
}

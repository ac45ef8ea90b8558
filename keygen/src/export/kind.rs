//! kind: the pair mounted into the control plane, and the flags as patches of kind's kubeadm configuration.
//!
//! kind 0.32 writes kubeadm v1beta4 for Kubernetes 1.36 and later, where flags are a list, and v1beta3 before, where
//! they are a mapping. A patch with an `apiVersion` applies to that version alone, so both are written.

use super::flags::{Flag, all_flags, issuer_flags};
use super::readme::{self, Readme};
use super::yaml::{mapping, name_value_list, quoted};
use super::{ExportError, ExportFile, Request};

pub(super) fn render(request: &Request<'_>) -> Result<Vec<ExportFile>, ExportError> {
    let flags = all_flags(request, "/etc/kubernetes/pki/sa.key", "/etc/kubernetes/pki/sa.pub");
    let steps = format!(
        "1. `kind create cluster --config kind-cluster.yaml`. The file names this folder, `{}`, which must stay.
2. A cluster that exists keeps its keys: kind reads the file at creation alone.
",
        request.directory
    );
    let readme = Readme { title: "kind", steps: &steps, flags: &flags };
    Ok(vec![
        ExportFile::private("sa.key", &request.signing_key.to_exposed_pem()?),
        ExportFile::public("sa.pub", request.public_pems()),
        ExportFile::public("kind-cluster.yaml", cluster(request)),
        readme::file(request, &readme),
    ])
}

fn cluster(request: &Request<'_>) -> String {
    let mount = |file: &str| quoted(&format!("{}/{file}", request.directory));
    let flags = issuer_flags(request);
    // A mapping has no second entry of one name, so the older form carries the signing issuer alone.
    let signing = |flag: &&Flag| flag.0 != "service-account-issuer" || flag.1 == request.issuer.as_str();
    let unrepeated: Vec<Flag> = flags.iter().filter(signing).cloned().collect();
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
  kubeadmConfigPatches:
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
{map}",
        name = quoted(request.cluster.as_str()),
        private = mount("sa.key"),
        public = mount("sa.pub"),
        list = name_value_list(&flags, 6),
        map = mapping(&unrepeated, 8),
    )
}

//! kubeadm: the pair where kubeadm keeps it, and the flags in a ClusterConfiguration v1beta4.
//!
//! kubeadm leaves an existing `sa.key` alone together with its `sa.pub`, which may hold several keys, and passes both
//! to kube-apiserver itself (`CreateServiceAccountKeyAndPublicKeyFiles`, `getAPIServerCommand`).

use super::flags::{all_flags, issuer_flags};
use super::readme::{self, Readme};
use super::yaml::name_value_list;
use super::{ExportError, ExportFile, Request};

pub(super) fn render(request: &Request<'_>) -> Result<Vec<ExportFile>, ExportError> {
    let flags = all_flags(request, "/etc/kubernetes/pki/sa.key", "/etc/kubernetes/pki/sa.pub");
    let readme = Readme { title: "kubeadm", steps: &steps(request), flags: &flags };
    Ok(vec![
        ExportFile::private("pki/sa.key", &request.signing_key.to_exposed_pem()?),
        ExportFile::public("pki/sa.pub", request.public_pems()),
        ExportFile::public("cluster-configuration.yaml", cluster_configuration(request)),
        readme::file(request, &readme),
    ])
}

fn cluster_configuration(request: &Request<'_>) -> String {
    format!(
        "# Merge into the file given to `kubeadm init --config`. kubeadm adds the two key file flags itself.
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
apiServer:
  extraArgs:
{}",
        name_value_list(&issuer_flags(request), 2)
    )
}

fn steps(request: &Request<'_>) -> String {
    let mut steps = "1. On every control-plane node, before `kubeadm init` and `kubeadm join`:
   `install -D -m 600 pki/sa.key /etc/kubernetes/pki/sa.key` and
   `install -D -m 644 pki/sa.pub /etc/kubernetes/pki/sa.pub`. kubeadm keeps files that are there.
2. Merge `cluster-configuration.yaml` into the file that `kubeadm init --config` reads.
3. On a cluster that is running, go in two passes, each over every control-plane node, one at a time: first `sa.pub`
   with the old and the new key (`--key NEW OLD` of the export) and a restart of kube-apiserver, then `sa.key`, with
   kube-controller-manager restarted as well. Change the ClusterConfiguration in the ConfigMap `kubeadm-config` of
   `kube-system` too, and write the manifest anew with `kubeadm init phase control-plane apiserver --config FILE`.
"
    .to_owned();
    if sorting_changes_the_issuer(request) {
        steps.push_str(
            "
**Mind the order of the issuers.** kubeadm before 1.36 sorts `extraArgs`, unless it is a patch release of 1.32 to
1.35 from 2026 (kubernetes/kubeadm#3261), and kube-apiserver then signs as another issuer than the first one here.
Check with `grep service-account-issuer /etc/kubernetes/manifests/kube-apiserver.yaml`: the first line must be the new
issuer. Where it is not, set the order with `--patches`.
",
        );
    }
    steps
}

fn sorting_changes_the_issuer(request: &Request<'_>) -> bool {
    request.accepted_issuers.iter().any(|accepted| accepted.as_str() < request.issuer.as_str())
}

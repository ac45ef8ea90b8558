//! kubeadm: the pair where kubeadm keeps it, the flags in a ClusterConfiguration v1beta4, and further issuers as a patch.
//!
//! kubeadm leaves an existing `sa.key` alone together with its `sa.pub`, which may hold several keys, and passes both
//! to kube-apiserver itself (`CreateServiceAccountKeyAndPublicKeyFiles`, `getAPIServerCommand`).

use super::accepted;
use super::flags::{all_flags, signing_issuer_flags};
use super::readme::{self, Readme};
use super::yaml::name_value_list;
use super::{ExportError, ExportFile, ExportRequest};

pub(super) fn render(request: &ExportRequest<'_>) -> Result<Vec<ExportFile>, ExportError> {
    let flags = all_flags(request, "/etc/kubernetes/pki/sa.key", "/etc/kubernetes/pki/sa.pub");
    let readme = Readme { title: "kubeadm", steps: &steps(request), flags: &flags };
    let mut files = vec![
        ExportFile::private("pki/sa.key", &request.signing_key.to_exposed_pem()?),
        ExportFile::public("pki/sa.pub", request.public_pems()),
        ExportFile::public("cluster-configuration.yaml", cluster_configuration(request)),
        readme::file(request, &readme),
    ];
    let patch = accepted::patch(request);
    files.extend(patch.map(|patch| ExportFile::public(format!("patches/{}", accepted::FILE), patch)));
    Ok(files)
}

fn cluster_configuration(request: &ExportRequest<'_>) -> String {
    let mut text = format!(
        "# Merge into the file given to `kubeadm init --config`. kubeadm adds the two key file flags itself.
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
apiServer:
  extraArgs:
{}",
        name_value_list(&signing_issuer_flags(request), 2)
    );
    if !request.accepted_issuers.is_empty() {
        text.push_str(&format!(
            "---
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
patches:
  directory: {}
",
            accepted::DIRECTORY
        ));
    }
    text
}

fn steps(request: &ExportRequest<'_>) -> String {
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
    if !request.accepted_issuers.is_empty() {
        steps.push_str(&format!(
            "
**The accepted issuers are a patch of the static pod**, since kubeadm sorts repeated flags in some versions
(kubernetes/kubeadm#3261) and kube-apiserver would then sign as another issuer. On every control-plane node, before step 2:
`install -D -m 644 patches/{file} {directory}/{file}`. The InitConfiguration here names
the folder; every `kubeadm join --control-plane`, `kubeadm upgrade` and `kubeadm init phase` needs `--patches
{directory}` or `patches.directory` in its configuration, or the patch is lost. Check with
`grep service-account-issuer /etc/kubernetes/manifests/kube-apiserver.yaml`: the first line must be the new issuer.
",
            file = accepted::FILE,
            directory = accepted::DIRECTORY,
        ));
    }
    steps
}

//! Cluster API: the Secret `<cluster>-sa`, which its kubeadm provider generates only when it is missing, and a patch
//! of the KubeadmControlPlane with the flags, and with further issuers as a file for kubeadm.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::accepted::{self, indented};
use super::flags::{all_flags, signing_issuer_flags};
use super::readme::{self, Readme};
use super::yaml::{name_value_list, quoted};
use super::{ExportError, ExportFile, ExportRequest};

pub(super) fn render(request: &ExportRequest<'_>) -> Result<Vec<ExportFile>, ExportError> {
    let flags = all_flags(request, "/etc/kubernetes/pki/sa.key", "/etc/kubernetes/pki/sa.pub");
    let readme = Readme { title: "Cluster API", steps: &steps(request), flags: &flags };
    Ok(vec![
        ExportFile::private(format!("{}-sa.yaml", request.cluster), &secret(request)?),
        ExportFile::public("kubeadm-control-plane-patch.yaml", patch(request)),
        readme::file(request, &readme),
    ])
}

fn secret(request: &ExportRequest<'_>) -> Result<Zeroizing<String>, ExportError> {
    let private = Zeroizing::new(STANDARD.encode(request.signing_key.to_exposed_pem()?.as_bytes()));
    Ok(Zeroizing::new(format!(
        "apiVersion: v1
kind: Secret
metadata:
  name: {name}
  namespace: {namespace}
  labels:
    cluster.x-k8s.io/cluster-name: {cluster}
type: cluster.x-k8s.io/secret
data:
  tls.crt: {public}
  tls.key: {private}
",
        name = quoted(&format!("{}-sa", request.cluster)),
        namespace = quoted(request.namespace.as_str()),
        cluster = quoted(request.cluster.as_str()),
        public = STANDARD.encode(request.public_pems()),
        private = private.as_str(),
    )))
}

fn patch(request: &ExportRequest<'_>) -> String {
    let mut text = format!(
        "# Merge into the KubeadmControlPlane. Its API v1beta2 takes flags as this list; v1beta1 takes a mapping.
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
spec:
  kubeadmConfigSpec:
    clusterConfiguration:
      apiServer:
        extraArgs:
{}",
        name_value_list(&signing_issuer_flags(request), 8)
    );
    if let Some(patch) = accepted::patch(request) {
        text.push_str(&format!(
            "    # Add to the files that are there, if any.
    files:
    - path: {directory}/{file}
      owner: root:root
      permissions: \"0644\"
      content: |
{content}    initConfiguration:
      patches:
        directory: {directory}
    joinConfiguration:
      patches:
        directory: {directory}
",
            directory = accepted::DIRECTORY,
            file = accepted::FILE,
            content = indented(&patch, 8),
        ));
    }
    text
}

fn steps(request: &ExportRequest<'_>) -> String {
    let (cluster, namespace) = (request.cluster, request.namespace);
    format!(
        "1. Before the Cluster object: `kubectl apply -f {cluster}-sa.yaml`, in the management cluster. It makes the Secret
   `{cluster}-sa` in namespace `{namespace}`, the namespace of the Cluster object, which Cluster API then uses instead
   of a key of its own. Delete the file afterwards; it holds the private key.
2. Merge `kubeadm-control-plane-patch.yaml` into the KubeadmControlPlane. Accepted issuers are a kubeadm patch there: the
   API refuses two flags of one name.
3. On a cluster that is running, changing the Secret reaches new machines alone, and old and new ones then sign with
   different keys. `chancery ring cluster-api` rotates it without a rejected token. By hand: put both public keys into
   `tls.crt` first, that of `tls.key` before the other, and roll every machine; then change `tls.key` and roll again.
"
    )
}

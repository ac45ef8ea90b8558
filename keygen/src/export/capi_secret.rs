//! Cluster API: the Secret `<cluster>-sa`, which its kubeadm provider generates only when it is missing.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::{ExportError, ExportFile, ExportRequest};

/// A string in YAML: every JSON string is one.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

pub(super) fn secret(request: &ExportRequest<'_>) -> Result<ExportFile, ExportError> {
    let private = Zeroizing::new(STANDARD.encode(request.signing_key.to_exposed_pem()?.as_bytes()));
    let text = Zeroizing::new(format!(
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
    ));
    Ok(ExportFile::private(format!("{}-sa.yaml", request.cluster), &text))
}

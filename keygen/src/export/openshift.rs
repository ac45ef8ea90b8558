//! The OpenShift installer: the bound ServiceAccount signing key, which it takes as PKCS#1 RSA from its `tls/` folder,
//! and the Authentication manifest with the issuer. `ccoctl` writes the same two.

use super::flags::all_flags;
use super::readme::{self, Readme};
use super::yaml::quoted;
use super::{ExportError, ExportFile, ExportRequest};

const DISTRIBUTION: &str = "the OpenShift installer";

pub(super) fn render(request: &ExportRequest<'_>) -> Result<Vec<ExportFile>, ExportError> {
    check(request)?;
    let folder = "/etc/kubernetes/secrets";
    let flags = all_flags(
        request,
        &format!("{folder}/bound-service-account-signing-key.key"),
        &format!("{folder}/bound-service-account-signing-key.pub"),
    );
    let readme = Readme { title: "the OpenShift installer", steps: STEPS, flags: &flags };
    Ok(vec![
        ExportFile::private(
            "tls/bound-service-account-signing-key.key",
            &request.signing_key.to_exposed_pem()?,
        ),
        ExportFile::public("manifests/cluster-authentication-02-config.yaml", authentication(request)),
        readme::file(request, &readme),
    ])
}

fn check(request: &ExportRequest<'_>) -> Result<(), ExportError> {
    let public = request.signing_key.public_key();
    if !request.signing_key.is_rsa() {
        return Err(ExportError::RsaOnly {
            distribution: DISTRIBUTION,
            key_id: public.key_id().to_string(),
            kind: public.description(),
        });
    }
    if !request.further_keys.is_empty() {
        let given = request.further_keys.len() + 1;
        return Err(ExportError::OneKeyOnly { distribution: DISTRIBUTION, given });
    }
    if !request.accepted_issuers.is_empty() {
        return Err(ExportError::OneIssuerOnly { distribution: DISTRIBUTION });
    }
    Ok(())
}

fn authentication(request: &ExportRequest<'_>) -> String {
    format!(
        "apiVersion: config.openshift.io/v1
kind: Authentication
metadata:
  name: cluster
spec:
  serviceAccountIssuer: {}
",
        quoted(request.issuer.as_str())
    )
}

const STEPS: &str = "1. `openshift-install create manifests --dir INSTALL_DIR`.
2. `cp manifests/cluster-authentication-02-config.yaml INSTALL_DIR/manifests/`, and
   `install -D -m 600 tls/bound-service-account-signing-key.key INSTALL_DIR/tls/bound-service-account-signing-key.key`.
3. `openshift-install create cluster --dir INSTALL_DIR`. The installer derives the public half itself.
4. From then on the kube-apiserver operator owns the keys and sets the flags below, without the JWKS URI; the public
   halves are in the ConfigMap `bound-sa-token-signing-certs` of `openshift-kube-apiserver`. Delete the private file.
";

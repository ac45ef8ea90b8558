//! OpenShift: the Authentication object. Its operator writes the list of issuers, keeps the one before for a day, and makes
//! its keys itself after the installation.

use crate::output::Parts;
use crate::request::Phase;
use crate::row::{Form, Issuers, KeyChange, KeyFiles, Row, Scene};
use crate::version::Version;
use crate::yaml::quoted;

pub(super) static ROW: Row = Row {
    name: "openshift",
    title: "OpenShift",
    version_of: "OpenShift",
    forms: &[Form {
        since: Version::new(4, 8),
        how: "`spec.serviceAccountIssuer` of the Authentication `cluster`; the operator accepts the one before for 24 h",
        issuers: Issuers::Automatic,
        keys: KeyChange::No {
            why: "its operator makes the next key itself, from the Secret `next-bound-service-account-signing-key`",
            remedy: "publish the public half of that Secret first; deleting it begins a rotation",
        },
    }],
    rsa_only: true,
    key_files: KeyFiles::Fixed {
        signing: "/etc/kubernetes/secrets/bound-service-account-signing-key.key",
        verifying: "/etc/kubernetes/secrets/bound-service-account-signing-key.pub",
    },
    proof: "oc get kubeapiserver cluster -o jsonpath='{range .status.serviceAccountIssuers[*]}{.name} {.expirationTime}{\"\\n\"}{end}'",
    known: &[
        "the old issuer is accepted for 24 h and no longer: a token that lives longer is refused after a day",
        "kubelet keeps old tokens: reboot every node after the switch (`oc adm reboot-machine-config-pool mcp/worker mcp/master`)",
        "operators read their cloud credentials from Secrets that name no issuer, and sign in with tokens of the new one at once: register it at every cloud first",
    ],
    prepare: None,
    render,
};

const FILE: &str = "manifests/cluster-authentication-02-config.yaml";

fn render(scene: &Scene<'_>) -> Parts {
    let manifest = format!(
        "apiVersion: config.openshift.io/v1
kind: Authentication
metadata:
  name: cluster
spec:
  serviceAccountIssuer: {}
",
        quoted(scene.state.signs_for())
    );
    let parts = Parts::default().file(FILE, manifest);
    match scene.phase() {
        None => new_cluster(scene, parts),
        Some(Phase::Drop) => parts.step(
            format!(
                "The operator drops the old issuer by itself, 24 h after the switch; {FILE} stays what it is"
            ),
            &[ROW.proof],
        ),
        Some(_) => parts.step(
            "The operator restarts each kube-apiserver; wait until no revision is progressing",
            &[
                &format!(
                    "oc patch authentication.config.openshift.io cluster --type=merge --patch-file {FILE}"
                ),
                "oc wait clusteroperator kube-apiserver --for=condition=Progressing=False --timeout=1h",
            ],
        ),
    }
}

fn new_cluster(scene: &Scene<'_>, parts: Parts) -> Parts {
    let copy = format!("cp {FILE} INSTALL_DIR/manifests/");
    let mut commands = vec!["openshift-install create manifests --dir INSTALL_DIR", &copy];
    const KEY: &str = "install -D -m 600 tls/bound-service-account-signing-key.key INSTALL_DIR/tls/bound-service-account-signing-key.key";
    if scene.has_keys() {
        commands.push(KEY);
    }
    commands.push("openshift-install create cluster --dir INSTALL_DIR");
    parts.step(
        "From then on the kube-apiserver operator owns the keys, and sets the JWKS URI itself; the public halves are in the ConfigMap `bound-sa-token-signing-certs` of `openshift-kube-apiserver`. Delete the private file afterwards",
        &commands,
    )
}

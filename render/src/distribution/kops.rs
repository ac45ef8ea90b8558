//! kOps: fields of the cluster's specification, and keys by its own keysets.

use crate::output::Parts;
use crate::request::Phase;
use crate::row::{Form, Issuers, KeyChange, KeyFiles, Row, Scene};
use crate::version::Version;
use crate::yaml::{list, quoted};

pub(super) static ROW: Row = Row {
    name: "kops",
    title: "kOps",
    version_of: "kOps",
    forms: &[
        Form {
            since: Version::new(1, 21),
            how: "`spec.kubeAPIServer.serviceAccountIssuer`",
            issuers: Issuers::One {
                why: "its specification has a field for one (kubernetes/kops#16497)",
                remedy: "upgrade to kOps 1.28.5 or later first",
            },
            keys: KeyChange::Tool,
        },
        Form {
            since: Version::with_patch(1, 28, 5),
            how: "`spec.kubeAPIServer.serviceAccountIssuer` and `additionalServiceAccountIssuers`",
            issuers: Issuers::Several,
            keys: KeyChange::Tool,
        },
    ],
    rsa_only: false,
    key_files: KeyFiles::Fixed {
        signing: "/srv/kubernetes/kube-apiserver/service-account.key",
        verifying: "/srv/kubernetes/kube-apiserver/service-account.pub",
    },
    proof: "kubectl -n kube-system get pods -l k8s-app=kube-apiserver -o yaml | grep -e service-account-issuer -e service-account-jwks-uri",
    known: &[
        "with `spec.serviceAccountIssuerDiscovery.discoveryStore` kOps writes documents of its own: take it out before somebody else publishes to the same place",
        "`No OpenIDConnect provider found in your account` after a change: the new issuer is not registered at AWS (kubernetes/kops#13973)",
    ],
    prepare: None,
    render,
};

fn render(scene: &Scene<'_>) -> Parts {
    let parts = Parts::default().file("cluster-patch.yaml", patch(scene));
    let edit = "Merge `cluster-patch.yaml` into the specification of the cluster; a field that it does not have goes";
    let parts = keys(scene, parts).step(edit, &["kops edit cluster"]);
    if scene.is_new() {
        return parts.step("Create it", &["kops update cluster --yes"]);
    }
    parts.step(
        "Replace the control plane, one node after the other",
        &[
            "kops update cluster --yes",
            "kops rolling-update cluster --instance-group-roles=control-plane --yes",
        ],
    )
}

fn keys(scene: &Scene<'_>, parts: Parts) -> Parts {
    let what = "The keyset. A certificate is made when none is given";
    match scene.phase() {
        None if scene.has_keys() => {
            parts.step(what, &["kops create keypair service-account --key sa.key --primary"])
        }
        Some(Phase::Accept) if scene.state.keys_change => {
            parts.step(what, &["kops create keypair service-account --key sa.key"])
        }
        Some(Phase::Switch) if scene.state.keys_change => {
            parts.step(what, &["kops promote keypair service-account"])
        }
        Some(Phase::Drop) if scene.state.keys_change => {
            parts.step(what, &["kops distrust keypair service-account"])
        }
        _ => parts,
    }
}

fn patch(scene: &Scene<'_>) -> String {
    let state = &scene.state;
    let mut text =
        format!("spec:\n  kubeAPIServer:\n    serviceAccountIssuer: {}\n", quoted(state.signs_for()));
    if !state.accepted().is_empty() {
        text.push_str(&format!("    additionalServiceAccountIssuers:\n{}", list(state.accepted(), 4)));
    }
    if let Some(uri) = &state.jwks_uri {
        text.push_str(&format!("    serviceAccountJWKSURI: {}\n", quoted(uri)));
    }
    if !state.audiences.is_empty() {
        text.push_str(&format!("    apiAudiences:\n{}", list(&state.audiences, 4)));
    }
    text
}

//! Typhoon: one variable of its Terraform module.

use crate::output::Parts;
use crate::row::{Form, Issuers, KeyChange, KeyFiles, Row, Scene};
use crate::version::Version;
use crate::yaml::quoted;

pub(super) static ROW: Row = Row {
    name: "typhoon",
    title: "Typhoon",
    version_of: "Typhoon",
    forms: &[Form {
        since: Version::with_patch(1, 32, 2),
        how: "variable `service_account_issuer` of the module (poseidon/typhoon#1578)",
        issuers: Issuers::One {
            why: "its module has a variable for one, and renders the manifest itself",
            remedy: "make a new cluster with the new issuer, move the workloads, and drop the old cluster",
        },
        keys: KeyChange::No {
            why: "its key is a `tls_private_key` in Terraform's state",
            remedy: "publish its output `service_account_public_key`",
        },
    }],
    rsa_only: false,
    key_files: KeyFiles::Fixed {
        signing: "/etc/kubernetes/pki/service-account.key",
        verifying: "/etc/kubernetes/pki/service-account.pub",
    },
    proof: "grep service-account /etc/kubernetes/manifests/kube-apiserver.yaml",
    known: &["the private key lies in Terraform's state: whoever reads the state can sign tokens"],
    prepare: None,
    render,
};

fn render(scene: &Scene<'_>) -> Parts {
    let line = format!("service_account_issuer = {}\n", quoted(scene.state.signs_for()));
    Parts::default().file("module-arguments.tf.txt", line).step(
        "Put the line of `module-arguments.tf.txt` into the `module` block of the cluster; the JWKS URI follows the issuer by itself",
        &["terraform apply"],
    )
}

//! EKS Anywhere: one field of its Cluster.

use crate::output::Parts;
use crate::row::{Form, Issuers, KeyChange, KeyFiles, Row, Scene};
use crate::version::Version;
use crate::yaml::quoted;

pub(super) static ROW: Row = Row {
    name: "eks-anywhere",
    title: "EKS Anywhere",
    version_of: "EKS Anywhere",
    forms: &[Form {
        since: Version::new(0, 8),
        how: "`spec.podIamConfig.serviceAccountIssuer`",
        issuers: Issuers::One {
            why: "it joins a second one to the first with a comma, which kube-apiserver reads as one issuer of that name",
            remedy: "make a new cluster with the new issuer, move the workloads, and drop the old cluster",
        },
        keys: KeyChange::No {
            why: "its provisioning makes the key, in the Secret `<cluster>-sa` of the management cluster",
            remedy: "publish the public half, `tls.crt` of that Secret",
        },
    }],
    rsa_only: false,
    key_files: KeyFiles::Fixed {
        signing: "/etc/kubernetes/pki/sa.key",
        verifying: "/etc/kubernetes/pki/sa.pub",
    },
    proof: "kubectl -n kube-system get pods -l component=kube-apiserver -o yaml | grep service-account-issuer",
    known: &[
        "set no `service-account-issuer` in `apiServerExtraArgs` beside it: both are joined with a comma",
        "the JWKS URI is not set: the discovery document that kube-apiserver serves names an address inside",
    ],
    prepare: Some(|scene| {
        scene.state.jwks_uri = None;
        Ok(())
    }),
    render,
};

fn render(scene: &Scene<'_>) -> Parts {
    let content = format!(
        "apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: Cluster
metadata:
  name: {}
spec:
  podIamConfig:
    serviceAccountIssuer: {}
",
        quoted(scene.request.place.cluster.as_str()),
        quoted(scene.state.signs_for())
    );
    Parts::default().file("cluster-patch.yaml", content).step(
        "Merge `cluster-patch.yaml` into the configuration of the cluster before it is made; its key is made then",
        &[
            "eksctl anywhere create cluster -f CLUSTER.yaml",
            &format!("kubectl -n eksa-system get secret {}-sa -o jsonpath='{{.data.tls\\.crt}}' | base64 -d >sa.pub", scene.request.place.cluster),
        ],
    )
}

//! Cluster API with its kubeadm providers: flags in the KubeadmControlPlane, further issuers as a file for kubeadm, and
//! public keys in the Secret `<cluster>-sa`, which is generated only when it is missing.

use crate::output::Parts;
use crate::patch::{self, DIRECTORY, FILE};
use crate::request::Phase;
use crate::row::{Form, Issuers, KeyChange, KeyFiles, Row, Scene};
use crate::version::Version;
use crate::yaml::{indented, mapping, name_value_list};

/// Flags are a list from here on, in which no name may stand twice.
const V1BETA2: Version = Version::new(1, 11);

pub(super) static ROW: Row = Row {
    name: "cluster-api",
    title: "Cluster API",
    version_of: "Cluster API",
    forms: &[
        Form {
            since: Version::new(1, 1),
            how: "KubeadmControlPlane v1beta1, accepted issuers as a kubeadm patch in `files`",
            issuers: Issuers::Several,
            keys: KeyChange::Tool,
        },
        Form {
            since: V1BETA2,
            how: "KubeadmControlPlane v1beta2, accepted issuers as a kubeadm patch in `files`",
            issuers: Issuers::Several,
            keys: KeyChange::Tool,
        },
    ],
    rsa_only: false,
    key_files: KeyFiles::Fixed {
        signing: "/etc/kubernetes/pki/sa.key",
        verifying: "/etc/kubernetes/pki/sa.pub",
    },
    proof: "kubectl -n kube-system get pods -l component=kube-apiserver -o yaml | grep -e service-account-issuer -e service-account-jwks-uri",
    known: &[
        "a Secret that changes reaches new machines alone; every phase changes the KubeadmControlPlane as well, which rolls them",
        "between changes of the issuer, `chancery ring cluster-api` rotates the keys of that Secret without a rejected token",
        "a ClusterClass rolls every cluster of its class: put the values into variables of each Cluster (`spec.topology.variables`)",
        "v1beta2 refuses two flags of one name (kubernetes-sigs/cluster-api#13853): none is repeated here",
    ],
    prepare: None,
    render,
};

fn render(scene: &Scene<'_>) -> Parts {
    let place = &scene.request.place;
    let (cluster, namespace) = (place.cluster.as_str(), place.namespace.as_str());
    let mut parts = Parts::default().file("kubeadm-control-plane-patch.yaml", control_plane(scene));
    let secret = format!("{cluster}-sa");
    if scene.state.keys_change && !scene.brings_key() {
        let patch = format!("stringData:\n  tls.crt: |\n{}", indented(&scene.state.public_pems(), 4));
        parts = parts.file("sa-public-keys-patch.yaml", patch);
    }
    if scene.is_new() {
        parts = parts.step_if(
            scene.has_keys(),
            format!(
                "In the management cluster, before the Cluster object: the Secret `{secret}` in namespace `{namespace}`, the namespace of the Cluster, is used in place of a key that would be made. `chancery keygen export --format capi-secret` writes it; delete the file afterwards"
            ),
            &[&format!("kubectl apply -f {secret}.yaml")],
        );
        return parts.step(
            "Merge `kubeadm-control-plane-patch.yaml` into the KubeadmControlPlane, or into the template of the ClusterClass",
            &[],
        );
    }
    let replaced = format!("kubectl apply -f {secret}.yaml");
    let patched = format!(
        "kubectl -n {namespace} patch secret {secret} --type merge --patch-file sa-public-keys-patch.yaml"
    );
    let rolled = format!(
        "kubectl -n {namespace} wait --for=jsonpath='{{.status.conditions[?(@.type==\"Ready\")].status}}'=True kubeadmcontrolplane -l cluster.x-k8s.io/cluster-name={cluster} --timeout=2h"
    );
    let merge = match scene.phase() {
        Some(Phase::Drop) => {
            "Merge `kubeadm-control-plane-patch.yaml` into the KubeadmControlPlane, and take the file of accepted issuers and, if nothing else is there, `patches.directory` out of it. Its machines are rolled"
        }
        _ => "Merge `kubeadm-control-plane-patch.yaml` into the KubeadmControlPlane. Its machines are rolled",
    };
    parts
        .step_if(
            scene.brings_key(),
            "In the management cluster: the new key signs on machines that are made from now on. `chancery keygen export --format capi-secret --key NEW OLD` writes the Secret; delete the file afterwards",
            &[&replaced],
        )
        .step_if(
            scene.state.keys_change && !scene.brings_key(),
            "In the management cluster: the keys whose tokens are accepted",
            &[&patched],
        )
        .step(merge, &[])
        .step("Wait until every machine was replaced", &[&rolled])
}

fn control_plane(scene: &Scene<'_>) -> String {
    let is_list = scene.form.since >= V1BETA2;
    let (version, flags) = (if is_list { "v1beta2" } else { "v1beta1" }, scene.state.single_flags());
    let flags = if is_list { name_value_list(&flags, 8) } else { mapping(&flags, 10) };
    let mut text = format!(
        "# Merge into the KubeadmControlPlane.
apiVersion: controlplane.cluster.x-k8s.io/{version}
kind: KubeadmControlPlane
spec:
  kubeadmConfigSpec:
    clusterConfiguration:
      apiServer:
        extraArgs:
{flags}"
    );
    if let Some(patch) = patch::patch(&scene.state) {
        let content = indented(&patch, 8);
        text.push_str(&format!(
            "    # Add to the files that are there, if any.
    files:
    - path: {DIRECTORY}/{FILE}
      owner: root:root
      permissions: \"0644\"
      content: |
{content}    initConfiguration:
      patches:
        directory: {DIRECTORY}
    joinConfiguration:
      patches:
        directory: {DIRECTORY}
"
        ));
    }
    text
}

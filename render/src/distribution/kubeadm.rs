//! kubeadm: the signing issuer in the ClusterConfiguration, further ones as a patch of the static pod, and the public keys
//! where kubeadm keeps them.
//!
//! kubeadm leaves an existing `sa.key` alone together with its `sa.pub`, which may hold several keys, and passes both
//! to kube-apiserver itself (`CreateServiceAccountKeyAndPublicKeyFiles`, `getAPIServerCommand`).

use crate::output::Parts;
use crate::patch::{self, DIRECTORY, FILE};
use crate::request::Phase;
use crate::row::{Form, Issuers, KeyChange, KeyFiles, Row, Scene};
use crate::version::Version;
use crate::yaml::{mapping, name_value_list};

/// Flags are a list from here on.
const V1BETA4: Version = Version::new(1, 31);

pub(super) static ROW: Row = Row {
    name: "kubeadm",
    title: "kubeadm",
    version_of: "Kubernetes",
    forms: &[
        Form {
            since: Version::new(1, 22),
            how: "ClusterConfiguration v1beta3, accepted issuers as a kubeadm patch",
            issuers: Issuers::Several,
            keys: KeyChange::Files,
        },
        Form {
            since: V1BETA4,
            how: "ClusterConfiguration v1beta4, accepted issuers as a kubeadm patch",
            issuers: Issuers::Several,
            keys: KeyChange::Files,
        },
    ],
    rsa_only: false,
    key_files: KeyFiles::Fixed {
        signing: "/etc/kubernetes/pki/sa.key",
        verifying: "/etc/kubernetes/pki/sa.pub",
    },
    proof: "grep -e service-account-issuer -e service-account-jwks-uri /etc/kubernetes/manifests/kube-apiserver.yaml",
    known: &[
        "kubeadm sorts repeated flags in some versions, so that the cluster signs as another issuer (kubernetes/kubeadm#3261): none is repeated here",
    ],
    prepare: None,
    render,
};

fn render(scene: &Scene<'_>) -> Parts {
    let parts = Parts::default().file("cluster-configuration.yaml", cluster_configuration(scene));
    let parts = match patch::patch(&scene.state) {
        Some(patch) => parts.file(format!("patches/{FILE}"), patch),
        None => parts,
    };
    let parts = match scene.has_keys() {
        true => parts.file("pki/sa.pub", scene.state.public_pems()),
        false => parts,
    };
    let parts = parts.warning_if(
        !scene.state.accepted().is_empty(),
        "every later `kubeadm join --control-plane`, `kubeadm upgrade` and `kubeadm init phase` needs `--patches /etc/kubernetes/patches`, or `patches.directory` in its configuration, or the accepted issuers are lost",
    );
    if scene.is_new() { new_cluster(scene, parts) } else { change(scene, parts) }
}

/// Whether `extraArgs` is a list of names and values.
fn is_list(scene: &Scene<'_>) -> bool {
    scene.form.since >= V1BETA4
}

fn api_version(scene: &Scene<'_>) -> &'static str {
    if is_list(scene) { "v1beta4" } else { "v1beta3" }
}

fn cluster_configuration(scene: &Scene<'_>) -> String {
    let version = api_version(scene);
    let flags = scene.state.single_flags();
    let flags = if is_list(scene) { name_value_list(&flags, 2) } else { mapping(&flags, 4) };
    let mut text = format!(
        "# Merge into the configuration that kubeadm reads. kubeadm adds the two key file flags itself.
apiVersion: kubeadm.k8s.io/{version}
kind: ClusterConfiguration
apiServer:
  extraArgs:
{flags}"
    );
    if !scene.state.accepted().is_empty() {
        text.push_str(&format!(
            "---
apiVersion: kubeadm.k8s.io/{version}
kind: InitConfiguration
patches:
  directory: {DIRECTORY}
"
        ));
    }
    text
}

/// Where the files go on a node.
fn install(scene: &Scene<'_>) -> Vec<String> {
    let mut commands = Vec::new();
    if scene.has_keys() {
        commands.push("install -D -m 644 pki/sa.pub /etc/kubernetes/pki/sa.pub".to_owned());
    }
    if scene.brings_key() {
        commands.push("install -D -m 600 pki/sa.key /etc/kubernetes/pki/sa.key".to_owned());
    }
    match (scene.state.accepted().is_empty(), scene.phase()) {
        (false, _) => commands.push(format!("install -D -m 644 patches/{FILE} {DIRECTORY}/{FILE}")),
        (true, Some(Phase::Drop)) => commands.push(format!("rm -f {DIRECTORY}/{FILE}")),
        (true, _) => {}
    }
    commands
}

fn new_cluster(scene: &Scene<'_>, parts: Parts) -> Parts {
    let commands = install(scene);
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let what = "On every control-plane node, before `kubeadm init` and `kubeadm join`. kubeadm keeps key files that are there";
    let init = "Merge `cluster-configuration.yaml` into the file that this reads";
    parts.step_if(!commands.is_empty(), what, &commands).step(init, &["kubeadm init --config FILE"])
}

fn change(scene: &Scene<'_>, parts: Parts) -> Parts {
    let commands = install(scene);
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    // Beside --config kubeadm takes no --patches (`can not mix '--config' with arguments`). Patches that others have put
    // into the folder are kept in every phase.
    let patches = format!(
        "printf '%s\\n' --- 'apiVersion: kubeadm.k8s.io/{}' 'kind: InitConfiguration' 'patches: {{ directory: {DIRECTORY} }}' >>kubeadm.yaml",
        api_version(scene)
    );
    let parts = parts
        .step_if(!commands.is_empty(), "On every control-plane node", &commands)
        .step(
            "Once: set the `extraArgs` of `cluster-configuration.yaml` in the ConfigMap, which upgrades and joins read",
            &["kubectl -n kube-system edit configmap kubeadm-config"],
        )
        .step(
            "On every control-plane node, one after the other: write the manifest, from which kubelet restarts kube-apiserver, and go on when it is ready",
            &[
                "kubectl -n kube-system get configmap kubeadm-config -o jsonpath='{.data.ClusterConfiguration}' >kubeadm.yaml",
                &patches,
                "kubeadm init phase control-plane apiserver --config kubeadm.yaml",
                "kubectl get --raw /readyz",
            ],
        );
    parts.step_if(
        scene.brings_key(),
        "On every control-plane node: kube-controller-manager signs the tokens in Secrets with the same key, so restart it too",
        &["crictl rm -f \"$(crictl ps -q --name kube-controller-manager)\""],
    )
}

//! Talos: the machine configuration. Up to 1.12 a flag has one value; in 1.13 a value may be a list; from 1.14 on there is
//! a document for ServiceAccounts, whose audiences default to the signing issuer alone.

use crate::error::RenderError;
use crate::output::Parts;
use crate::row::{Form, Issuers, KeyChange, KeyFiles, Row, Scene};
use crate::state::united;
use crate::version::Version;
use crate::yaml::{indented, list, quoted};

/// Values may be lists from here on.
const LISTS: Version = Version::new(1, 13);
/// `KubeServiceAccountConfig` from here on.
const DOCUMENT: Version = Version::new(1, 14);

const ONE_KEY: KeyChange = KeyChange::No {
    why: "its machine configuration holds one key, and the flags of the key files may not be set",
    remedy: "upgrade to Talos 1.14 or later, whose KubeServiceAccountConfig accepts further keys, or change the issuer alone",
};

pub(super) static ROW: Row = Row {
    name: "talos",
    title: "Talos",
    version_of: "Talos",
    forms: &[
        Form {
            since: Version::new(1, 0),
            how: "`cluster.apiServer.extraArgs`, one value for each flag",
            issuers: Issuers::One {
                why: "a flag has one value in its machine configuration (siderolabs/talos#11694)",
                remedy: "upgrade to Talos 1.13 or later first",
            },
            keys: ONE_KEY,
        },
        Form {
            since: LISTS,
            how: "`cluster.apiServer.extraArgs`, with lists",
            issuers: Issuers::Several,
            keys: ONE_KEY,
        },
        Form {
            since: DOCUMENT,
            how: "documents `KubeServiceAccountConfig` and `KubeAPIServerConfig`",
            issuers: Issuers::Several,
            keys: KeyChange::Tool,
        },
    ],
    rsa_only: false,
    key_files: KeyFiles::Fixed {
        signing: "/system/secrets/kubernetes/kube-apiserver/service-account.key",
        verifying: "/system/secrets/kubernetes/kube-apiserver/service-account.pub",
    },
    proof: "kubectl -n kube-system get pods -l k8s-app=kube-apiserver -o yaml | grep -e service-account-issuer -e service-account-jwks-uri",
    known: &[
        "a cluster that was made before 1.14 has its key in `.cluster.serviceAccount`, beside which the document of 1.14 may not stand: move the key to `issuer.privateKey`, as PEM, in the same edit, or render for 1.13, whose form is still taken",
        "a patch appends to lists that are there, and kube-apiserver does not start with an issuer twice: edit the value in place from the second phase on",
    ],
    prepare: Some(prepare),
    render,
};

/// The document's audiences are the signing issuer alone if nothing is said, so that a switch would refuse every token in
/// use: the accepted ones are said.
fn prepare(scene: &mut Scene<'_>) -> Result<(), RenderError> {
    if scene.form.since < DOCUMENT {
        return Ok(());
    }
    let state = &mut scene.state;
    if state.issuers.len() > 1 {
        state.audiences = united(&state.issuers, &scene.request.audiences);
    }
    let is_url = |issuer: &&String| issuer.starts_with("https://") || issuer.starts_with("http://");
    match state.issuers.iter().find(|issuer| !is_url(issuer)) {
        Some(issuer) => Err(RenderError::NotAUrl {
            distribution: "KubeServiceAccountConfig of Talos",
            issuer: issuer.clone(),
        }),
        None => Ok(()),
    }
}

fn render(scene: &Scene<'_>) -> Parts {
    let (file, content) = if scene.form.since >= DOCUMENT {
        ("kube-service-account-config.yaml", document(scene))
    } else {
        ("machine-config-patch.yaml", extra_args(scene))
    };
    let parts = Parts::default().file(file, content);
    if scene.is_new() {
        let create = format!("talosctl gen config CLUSTER ENDPOINT --config-patch-control-plane @{file}");
        return parts.step("With the patch, before the first node boots", &[&create]);
    }
    let key = match (scene.brings_key(), scene.state.keys_change) {
        (true, _) => ", and put the private half of the new key into `issuer.privateKey`",
        (false, true) => ". `issuer.privateKey` stays",
        _ => "",
    };
    parts.step(
        format!(
            "On every control-plane node, one after the other: set what `{file}` has in place of what is there{key}. kube-apiserver restarts without a reboot; go on when it is ready"
        ),
        &["talosctl -n NODE edit machineconfig", "kubectl get --raw /readyz"],
    )
}

fn extra_args(scene: &Scene<'_>) -> String {
    let state = &scene.state;
    let mut text = "cluster:\n  apiServer:\n    extraArgs:\n".to_owned();
    match state.issuers.as_slice() {
        [one] => text.push_str(&format!("      service-account-issuer: {}\n", quoted(one))),
        several => text.push_str(&format!("      service-account-issuer:\n{}", list(several, 8))),
    }
    for flag in state.single_flags().iter().skip(1) {
        text.push_str(&format!("      {}: {}\n", flag.name, quoted(&flag.value)));
    }
    text
}

fn document(scene: &Scene<'_>) -> String {
    let state = &scene.state;
    let mut text = format!(
        "# `issuer.privateKey` is needed too, and is not written here.
apiVersion: v1alpha1
kind: KubeServiceAccountConfig
issuer:
  issuerURL: {}
",
        quoted(state.signs_for())
    );
    // The signing key is accepted by itself.
    let keys: Vec<_> = state.keys.iter().skip(1).collect();
    if !(state.accepted().is_empty() && state.audiences.is_empty() && keys.is_empty()) {
        text.push_str("accepted:\n");
    }
    if !keys.is_empty() {
        text.push_str("  publicKeys:\n");
        keys.iter().for_each(|key| text.push_str(&format!("  - |\n{}", indented(&key.to_pem(), 4))));
    }
    if !state.accepted().is_empty() {
        text.push_str(&format!("  issuers:\n{}", list(state.accepted(), 2)));
    }
    if !state.audiences.is_empty() {
        text.push_str(&format!("  audiences:\n{}", list(&state.audiences, 2)));
    }
    if let Some(uri) = &state.jwks_uri {
        text.push_str(&format!(
            "---
apiVersion: v1alpha1
kind: KubeAPIServerConfig
extraArgs:
  service-account-jwks-uri: {}
",
            quoted(uri)
        ));
    }
    text
}

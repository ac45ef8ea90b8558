//! k0s: a mapping of flags, and from 1.35 on raw arguments after it, for what stands twice.

use crate::output::Parts;
use crate::row::{Form, Issuers, KeyChange, KeyFiles, Row, Scene};
use crate::version::Version;
use crate::yaml::{list, mapping};

pub(super) static ROW: Row = Row {
    name: "k0s",
    title: "k0s",
    version_of: "k0s",
    forms: &[
        Form {
            since: Version::new(1, 22),
            how: "`spec.api.extraArgs`",
            issuers: Issuers::One {
                why: "its flags are a mapping, one value for each (k0sproject/k0s#3978)",
                remedy: "upgrade to k0s 1.35 or later first",
            },
            keys: KeyChange::Files,
        },
        Form {
            since: Version::new(1, 35),
            how: "`spec.api.extraArgs`, accepted issuers in `rawArgs`",
            issuers: Issuers::Several,
            keys: KeyChange::Files,
        },
    ],
    rsa_only: false,
    key_files: KeyFiles::Fixed { signing: "/var/lib/k0s/pki/sa.key", verifying: "/var/lib/k0s/pki/sa.pub" },
    proof: "tr '\\0' '\\n' <\"/proc/$(pgrep -x kube-apiserver)/cmdline\" | grep service-account",
    known: &[
        "`rawArgs` are not validated: look at the flags in effect before the next controller is restarted",
    ],
    prepare: None,
    render,
};

fn render(scene: &Scene<'_>) -> Parts {
    let parts = Parts::default().file("k0s-patch.yaml", patch(scene));
    let mut install = Vec::new();
    let parts = if scene.has_keys() {
        install.push("install -D -m 640 sa.pub /var/lib/k0s/pki/sa.pub");
        parts.file("sa.pub", scene.state.public_pems())
    } else {
        parts
    };
    if scene.brings_key() {
        install.push("install -D -m 640 sa.key /var/lib/k0s/pki/sa.key");
    }
    let merge = "On every controller: merge `k0s-patch.yaml` into its configuration; what an earlier phase wrote goes";
    let parts = parts
        .step_if(
            !install.is_empty(),
            "On every controller, with the owner and group that the files there have",
            &install,
        )
        .step(merge, &["k0s config validate --config /etc/k0s/k0s.yaml"]);
    if scene.is_new() {
        return parts.step("Start it", &["k0s start"]);
    }
    parts.step(
        "Every controller, one after the other; go on when it is ready",
        &["k0s stop", "k0s start", "k0s kubectl get --raw /readyz"],
    )
}

fn patch(scene: &Scene<'_>) -> String {
    let flags = mapping(&scene.state.single_flags(), 6);
    let mut text = format!(
        "apiVersion: k0s.k0sproject.io/v1beta1
kind: ClusterConfig
spec:
  api:
    extraArgs:
{flags}"
    );
    let accepted: Vec<String> =
        scene.state.accepted().iter().map(|issuer| format!("--service-account-issuer={issuer}")).collect();
    if !accepted.is_empty() {
        text.push_str(&format!("    rawArgs:\n{}", list(&accepted, 4)));
    }
    text
}

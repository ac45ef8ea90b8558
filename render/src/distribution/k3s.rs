//! k3s, and what RKE2 has of it: arguments in a drop-in configuration file, and `service.key`, a file of private keys that
//! signs with its first and verifies with all.
//!
//! An argument `name=value` replaces the default and is appended to earlier ones of that name, so that the order holds
//! (`pkg/util/args.go`, k3s#5373). `--api-audiences` is set explicitly there, and stays.

use crate::output::Parts;
use crate::request::Phase;
use crate::row::{Form, Issuers, KeyChange, KeyFiles, Row, Scene};
use crate::version::Version;
use crate::yaml::list;

/// The forms of both.
pub(super) const FORMS: &[Form] = &[
    Form {
        since: Version::new(1, 21),
        how: "`kube-apiserver-arg` in `config.yaml.d`",
        issuers: Issuers::One {
            why: "it keeps the last of two arguments of one name (k3s-io/k3s#5374)",
            remedy: "upgrade to 1.24 or later first",
        },
        keys: KeyChange::Tool,
    },
    Form {
        since: Version::new(1, 24),
        how: "`kube-apiserver-arg` in `config.yaml.d`",
        issuers: Issuers::Several,
        keys: KeyChange::Tool,
    },
];

pub(super) static ROW: Row = Row {
    name: "k3s",
    title: "k3s",
    version_of: "k3s",
    forms: FORMS,
    rsa_only: true,
    key_files: KeyFiles::Fixed {
        signing: "/var/lib/rancher/k3s/server/tls/service.current.key",
        verifying: "/var/lib/rancher/k3s/server/tls/service.key",
    },
    proof: "journalctl -u k3s | grep 'Running kube-apiserver' | tail -n 1 | tr ' ' '\\n' | grep service-account",
    known: &[
        "discovery is closed to anonymous readers (`anonymous-auth=false`): ask with a token",
        "Rancher's cluster agent needs the old issuer accepted (rancher/rancher#41521)",
    ],
    prepare: None,
    render,
};

fn render(scene: &Scene<'_>) -> Parts {
    drop_in(scene, "k3s", "k3s")
}

/// The drop-in of `program`, whose servers are units called `unit`.
pub(super) fn drop_in(scene: &Scene<'_>, program: &str, unit: &str) -> Parts {
    const NAME: &str = "config.yaml.d/50-service-account-issuer.yaml";
    let flags = scene.state.flags();
    let arguments: Vec<String> = flags.iter().map(|flag| format!("{}={}", flag.name, flag.value)).collect();
    let content = format!(
        "# The plus adds to what the other configuration files say.\nkube-apiserver-arg+:\n{}",
        list(&arguments, 0)
    );
    let install = format!("install -D -m 644 {NAME} /etc/rancher/{program}/{NAME}");
    let parts = Parts::default().file(NAME, content).step("On every server", &[&install]);
    let parts = keys(scene, parts, program);
    let restart = format!("systemctl restart {unit}");
    parts.step_if(
        !scene.is_new(),
        "Every server, one after the other; go on when it is ready",
        &[&restart, "kubectl get --raw /readyz"],
    )
}

/// `service.key` holds private halves, so that `chancery keygen export` writes it.
fn keys(scene: &Scene<'_>, parts: Parts, program: &str) -> Parts {
    let file = format!("/var/lib/rancher/{program}/server/tls/service.key");
    let install = format!("install -D -m 600 server/tls/service.key {file}");
    let order = match scene.phase() {
        None if scene.has_keys() => {
            let what = "On the first server, before its first start: the file that `chancery keygen export --format k3s` writes";
            return parts.step(what, &[&install]);
        }
        Some(Phase::Accept) if scene.state.keys_change => "--key OLD NEW",
        Some(Phase::Switch) if scene.state.keys_change => "--key NEW OLD",
        Some(Phase::Drop) if scene.state.keys_change => "--key NEW",
        _ => return parts,
    };
    let rotate = format!("{program} certificate rotate-ca --path=FOLDER/server");
    parts.step(
        format!(
            "On one server: the keys, as `chancery keygen export --format k3s {order} --issuer {} --out-dir FOLDER` writes them. Never copy over the live file",
            scene.request.issuer
        ),
        &[&rotate],
    )
}

//! kube-apiserver as a unit of systemd: flags in a file of the environment, which a person lets the unit read once.

use crate::output::{Flag, Parts};
use crate::row::{Form, Issuers, KeyChange, KeyFiles, Row, Scene};
use crate::state::check;
use crate::version::Version;

pub(super) static ROW: Row = Row {
    name: "systemd",
    title: "a unit of systemd",
    version_of: "Kubernetes",
    forms: &[Form {
        since: Version::new(1, 22),
        how: "flags in `EnvironmentFile`",
        issuers: Issuers::Several,
        keys: KeyChange::Files,
    }],
    rsa_only: false,
    key_files: KeyFiles::Asked,
    proof: "tr '\\0' '\\n' <\"/proc/$(pgrep -x kube-apiserver)/cmdline\" | grep service-account",
    known: &[
        "kube-controller-manager signs the tokens in Secrets: its `--service-account-private-key-file` has to be among the accepted keys",
    ],
    prepare: Some(|scene| check(&scene.request.place.key_directory)),
    render,
};

const ENVIRONMENT: &str = "service-account.env";
const DROP_IN: &str = "kube-apiserver.service.d/50-service-account.conf";

fn render(scene: &Scene<'_>) -> Parts {
    let folder = &scene.request.place.key_directory;
    let mut flags = scene.state.flags();
    flags.push(Flag::new("service-account-signing-key-file", format!("{folder}/sa.key")));
    flags.push(Flag::new("service-account-key-file", format!("{folder}/sa.pub")));
    let flags: Vec<String> = flags.iter().map(Flag::argument).collect();
    let environment = format!("SERVICE_ACCOUNT_FLAGS={}\n", flags.join(" "));
    let drop_in = format!("[Service]\nEnvironmentFile=/etc/kubernetes/{ENVIRONMENT}\n");
    let mut install = vec![
        format!("install -D -m 644 {ENVIRONMENT} /etc/kubernetes/{ENVIRONMENT}"),
        format!("install -D -m 644 {DROP_IN} /etc/systemd/system/{DROP_IN}"),
    ];
    let mut parts = Parts::default().file(ENVIRONMENT, environment).file(DROP_IN, drop_in);
    if scene.has_keys() {
        parts = parts.file("sa.pub", scene.state.public_pems());
        install.push(format!("install -D -m 644 sa.pub {folder}/sa.pub"));
    }
    if scene.brings_key() {
        install.push(format!("install -D -m 600 sa.key {folder}/sa.key"));
    }
    let install: Vec<&str> = install.iter().map(String::as_str).collect();
    let restart = match scene.brings_key() && !scene.is_new() {
        true => "systemctl restart kube-apiserver kube-controller-manager",
        false => "systemctl restart kube-apiserver",
    };
    parts
        .step("On every control-plane node. Once, put `$SERVICE_ACCOUNT_FLAGS`, without quotation marks, into `ExecStart=` of the unit in place of these flags", &install)
        .step(
            "Every control-plane node, one after the other; go on when it is ready",
            &["systemctl daemon-reload", restart, "kubectl get --raw /readyz"],
        )
}

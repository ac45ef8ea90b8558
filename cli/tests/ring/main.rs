//! `chancery ring` from the outside, on a directory.

#![cfg(feature = "ring")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use chancery_core::rotation::{Guard, Settings};
use chancery_signer::RotationConfig;
use serde_json::Value;

use bench::{Bench, said};

mod bench;
#[cfg(feature = "keygen")]
mod bundle;

const POLICY: &str = "
issuer: https://id.example.com/a
ring: { directory: ring }
keys: { directory: keys, passphraseFile: passphrase }
visibility: { directory: issuer }
signers: [{ name: a }, { name: b }]
key: p-256
parties: [aws, go-oidc]
";

/// Of a server that is not there.
const KUBECONFIG: &str = r#"
apiVersion: v1
kind: Config
current-context: a
contexts: [{ name: a, context: { cluster: a, user: a } }]
clusters: [{ name: a, cluster: { server: "https://127.0.0.1:9" } }]
users: [{ name: a, user: { token: none } }]
"#;

impl Bench {
    fn status(&self) -> Value {
        serde_json::from_str(&self.succeed("status --json")).unwrap()
    }
}

#[test]
fn a_ring_is_begun_once_seen_and_asked() {
    let bench = Bench::new(POLICY);
    let (_, why) = bench.refuse("status");
    assert!(why.contains("chancery ring init"), "{why}");
    let begun = bench.succeed("init");
    assert!(begun.contains("ES256") && bench.held().len() == 1, "{begun}");
    let (_, why) = bench.refuse("init");
    assert!(why.contains("is there already") && bench.held().len() == 1, "{why}");

    let status = bench.status();
    let kid = status["plan"]["blocked"].as_array().map(Vec::len);
    assert_eq!((status["ring"]["position"]["epoch"].as_u64(), kid), (Some(0), Some(0)));
    let text = bench.succeed("status");
    for words in [
        "Active",
        "ES256, signs for 0 s",
        "a  never heard",
        "in 90 d of accumulated time",
        "make a key for ES256",
    ] {
        assert!(text.contains(words), "{words:?} in {text}");
    }
    let plan = bench.run("plan");
    assert_eq!(plan.status.code(), Some(3), "there is something to do");
    assert!(String::from_utf8_lossy(&plan.stdout).contains("now      make a key for ES256"));
    assert!(bench.succeed("rotate").contains("epoch 0 generation 2"));
    assert!(bench.succeed("status").contains("asked for: as soon as it is safe"));
    let (_, why) = bench.refuse("rollback");
    assert!(why.contains("rotate forward"), "{why}");
    let (_, why) = bench.refuse("forget-signer nobody");
    assert!(why.contains("no signer is called \"nobody\""), "{why}");
    assert_eq!(bench.run("reset").status.code(), Some(2), "not without --yes");
    assert!(bench.succeed("reset --yes").contains("epoch 1 generation 0"));
}

#[test]
fn key_files_are_left_alone_until_everything_is_named() {
    let bench = Bench::new(POLICY);
    bench.succeed("init");
    fs::write(bench.path("kubeconfig"), KUBECONFIG).unwrap();
    let files = "--signing-key-file sa.key --key-file sa.pub --kubeconfig kubeconfig --plan";
    let whole = format!("files {files} --name a --server https://127.0.0.1:9 --restart-command true");
    for (exchanged, by, expected) in [
        ("--name a", "--name z", "no signer of the policy is called \"z\"; expected one of a, b"),
        ("https://127.0.0.1:9", "http://127.0.0.1:9", "expected its own, such as https://10.0.0.1:6443"),
        ("--kubeconfig kubeconfig", "--kubeconfig none", "none"),
        ("--plan", "--plan --service-account app", "is no NAMESPACE/NAME"),
    ] {
        let (_, why) = bench.refuse(&whole.replace(exchanged, by));
        assert!(why.contains(expected), "{why}");
    }
    assert_eq!(bench.run(&whole.replace("--restart-command true", "")).status.code(), Some(2), "one way");
    assert_eq!(bench.run(&format!("{whole} --static-pod pod.yaml")).status.code(), Some(2), "and no second");
    // Nothing listens there: nobody else may restart meanwhile.
    let planned = bench.run(&whole);
    let text = String::from_utf8(planned.stdout).unwrap();
    assert_eq!(planned.status.code(), Some(3), "{text}{}", String::from_utf8_lossy(&planned.stderr));
    assert!(text.starts_with("then     take the turn, since its kube-apiserver is not ready"), "{text}");
    assert!(text.contains("note: its kube-apiserver is not ready: /readyz: "), "{text}");
    assert!(!bench.path("sa.key").exists() && !bench.path("sa.pub").exists(), "a plan has written");
}

#[test]
fn a_revocation_says_first_whom_it_does_not_reach() {
    let bench = Bench::new(POLICY);
    bench.succeed("init");
    let kid = bench.status()["ring"]["keys"][0].clone();
    let public = kid["publicKey"].as_str().unwrap().to_owned();
    fs::write(bench.path("key.pub"), public).unwrap();
    let text = bench.succeed("status");
    let kid = text.lines().find(|line| line.contains("Active")).unwrap().split_whitespace().next().unwrap();
    let (said, why) = bench.refuse(&format!("revoke {kid}"));
    assert!(why.contains("nothing was done; give --yes"), "{why}");
    assert!(
        said.contains("there is no standby") && said.contains("go-oidc") && said.contains("AWS"),
        "{said}"
    );
    assert!(!bench.succeed("status").contains("to be revoked"));
    bench.succeed(&format!("revoke {kid} --yes"));
    let text = bench.succeed("status");
    assert!(text.contains("to be revoked") && text.contains("NoSuccessor"), "{text}");
    let (_, why) = bench.refuse("revoke JHJehTTTZlsspKHT-GaJxK7Kd1NQgZJu3fyK6K_QDYU --yes");
    assert!(why.contains("there is no key"), "{why}");
}

#[test]
fn the_keys_of_a_running_cluster_come_in_and_go_back_out() {
    let bench = Bench::new(POLICY);
    for name in ["new", "old"] {
        fs::create_dir(bench.path(name)).unwrap();
        said(bench.chancery(&format!("keygen new --algorithm p-256 --out-dir {name}")));
    }
    let adopted =
        bench.succeed("adopt --signing-key-file new/sa.key --key-file new/sa.pub --key-file old/sa.pub");
    assert!(
        adopted.contains("Active") && adopted.contains("Retiring") && bench.held().len() == 1,
        "{adopted}"
    );
    let ring = &bench.status()["ring"];
    let states: Vec<&str> =
        ring["keys"].as_array().unwrap().iter().map(|key| key["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["active", "retiring"]);
    assert_eq!(ring["keys"][1]["custody"], "elsewhere");
    // Once more changes nothing.
    let before = ring["position"].clone();
    bench.succeed("adopt --signing-key-file new/sa.key --key-file old/sa.pub");
    assert_eq!(bench.status()["ring"]["position"], before);
    let (_, why) = bench.refuse("adopt --signing-key-file old/sa.key");
    assert!(why.contains("as Retiring, and does not sign") && bench.held().len() == 1, "{why}");

    fs::create_dir(bench.path("out")).unwrap();
    bench.succeed("export --out-dir out");
    let read = |name: &str| fs::read_to_string(bench.path(name)).unwrap();
    assert_eq!(read("out/sa.key"), read("new/sa.key"));
    assert_eq!(read("out/sa.pub"), [read("new/sa.pub"), read("old/sa.pub")].concat());
    let mode = fs::metadata(bench.path("out/sa.key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let (_, why) = bench.refuse("export --out-dir out");
    assert!(why.contains("sa.key"), "{why}");
}

#[test]
fn a_policy_that_cannot_be_kept_is_refused_with_its_file() {
    let bench = Bench::new(POLICY);
    fs::write(bench.path("rotation.yaml"), format!("{POLICY}overlap: {{ maximum: 1h }}\n")).unwrap();
    let (_, why) = bench.refuse("init");
    assert!(why.contains("rotation.yaml: tokens may live for 86400 s"), "{why}");
    assert!(bench.held().is_empty());
}

#[test]
fn the_page_shows_a_policy_that_is_read_and_names_every_guard() {
    let page = fs::read_to_string("../docs/rotation.md").unwrap();
    let sample = page.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let config = RotationConfig::parse(sample, Path::new("/etc/chancery/rotation.yaml")).unwrap();
    assert_eq!((config.signers.len(), config.policy.settings().parties.len()), (2, 3));
    let usual = Settings::default();
    let Settings { schedule, parties, canaries, .. } = config.policy.settings().clone();
    assert_eq!((canaries.len(), config.policy.warnings().len()), (3, 2), "{:?}", config.policy.warnings());
    assert_eq!(
        config.policy.settings(),
        &Settings { schedule, parties, canaries, ..usual },
        "the page shows the defaults"
    );
    for guard in Guard::ALL {
        assert!(page.contains(&format!("\n| `{guard}` |")), "{guard} is not explained");
    }
    let help = said(Bench::new(POLICY).chancery("ring --help"));
    for verb in [
        "init",
        "adopt",
        "status",
        "plan",
        "census",
        "run",
        "rotate",
        "rollback",
        "revoke",
        "taint",
        "forget-signer",
        "reset",
        "export",
        "files",
        "import",
        "crd",
    ] {
        assert!(help.contains(verb) && page.contains(verb), "{verb}");
    }
}

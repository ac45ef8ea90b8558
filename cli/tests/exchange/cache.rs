//! Credentials between calls of the command.

use crate::scene::{Scene, error, out};

#[test]
fn c_17_calls_share_a_credential_until_it_is_purged() {
    let scene = Scene::with_keys();
    let folder = scene.path("cache");
    let folder = folder.to_str().unwrap();
    let get = |more: &[&str]| {
        let arguments = [&["--format", "json", "--cache-dir", folder, "--cache-on-disk"], more].concat();
        let output = scene.aws("get", &arguments);
        (output.status.code(), error(&output))
    };
    for asked in [1, 1] {
        assert_eq!(get(&[]).0, Some(0), "{}", get(&[]).1);
        assert_eq!(scene.asked(), asked);
    }
    let exec = ["--cache-dir", folder, "--cache-on-disk", "--", "/bin/sh", "-c", "echo $AWS_ACCESS_KEY_ID"];
    assert_eq!(out(&scene.aws("exec", &exec)), "ASIA\n");
    assert_eq!(scene.asked(), 1, "one command's credential is the other's");
    let (code, said) = get(&["--min-ttl", "3000"]);
    assert!(code == Some(10) && said.contains("80 %"), "{said}");
    let purge = |what: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_chancery"))
            .args(["exchange", "purge", "--cache-dir", folder])
            .args(what)
            .output()
            .unwrap();
        (output.status.code(), out(&output))
    };
    let before = scene.asked();
    assert_eq!(purge(&["--provider", "gcp"]), (Some(0), "forgot 0\n".to_owned()));
    assert_eq!(get(&[]).0, Some(0));
    assert_eq!(scene.asked(), before);
    assert_eq!(purge(&["--service-account", "team-a/app"]), (Some(0), "forgot 1\n".to_owned()));
    assert_eq!(get(&[]).0, Some(0));
    assert_eq!(scene.asked(), before + 1);
    assert_eq!(purge(&[]).0, Some(2), "what is to be said");
    assert_eq!(purge(&["--all", "--provider", "aws"]).0, Some(2));
}

//! What a shell and `man` are told, and how a command logs.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::process::{Command, Output};

fn chancery(arguments: &[&str]) -> Output {
    chancery_with(arguments, &[])
}

fn chancery_with(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chancery"));
    command.args(arguments).envs(environment.iter().copied()).output().unwrap()
}

fn stdout(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn each_shell_is_told_every_command_and_none_that_is_hidden() {
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(chancery(&["completions", shell]));
        for command in ["keygen", "publish", "verify", "issuer", "doctor", "completions"] {
            assert!(script.contains(command), "{shell} is not told of {command}");
        }
    }
    let refused = chancery(&["completions", "tcsh"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn the_completions_of_bash_are_a_script_that_bash_takes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chancery.bash");
    std::fs::write(&file, stdout(chancery(&["completions", "bash"]))).unwrap();
    assert!(Command::new("bash").arg("-n").arg(file).status().unwrap().success());
}

#[test]
fn there_is_a_man_page_for_each_command() {
    let folder = tempfile::tempdir().unwrap();
    stdout(chancery(&["man", "--out-dir", folder.path().to_str().unwrap()]));
    for (page, word) in
        [("chancery.1", "issuer"), ("chancery-keygen-new.1", "out\\-dir"), ("chancery-verify.1", "verify")]
    {
        let page = std::fs::read_to_string(folder.path().join(page)).expect(page);
        assert!(page.contains(word), "{page}");
    }
    let refused = chancery(&["man", "--out-dir", "/missing"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && said.contains("/missing"), "{said}");
}

#[test]
fn a_log_filter_that_is_none_is_refused_with_what_was_expected() {
    let arguments = ["doctor", "--config", "/missing/chancery.yaml"];
    let refused = chancery_with(&arguments, &[("CHANCERY_LOG", "publisher=loud")]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("publisher=loud") && said.contains("warn,chancery_publisher=debug"), "{said}");
}

#[test]
fn what_an_error_quotes_does_not_act_on_the_terminal() {
    let refused = chancery(&["lint", "https://id.example.com/\u{1b}[31m\u{202e}", "--for", "aws"]);
    let said = [refused.stdout, refused.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(!said.contains(['\u{1b}', '\u{202e}']), "{said:?}");
}

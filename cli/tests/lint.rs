//! `chancery lint` as a person and a pipeline use it.

#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

fn lint(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_chancery")).arg("lint").args(arguments).output().expect("it starts")
}

/// Exit code, standard output, standard error.
fn outcome(arguments: &[&str]) -> (i32, String, String) {
    let output = lint(arguments);
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code().expect("it ended by itself"), text(output.stdout), text(output.stderr))
}

fn data(file: &str) -> String {
    let path = Path::new("../core/tests/data").join(file);
    path.to_str().expect("UTF-8").to_owned()
}

fn scratch(content: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file");
    std::fs::write(&path, content).expect("written");
    (folder, path)
}

#[test]
fn says_ok_when_everybody_is_content() {
    let (code, out, err) =
        outcome(&["https://id.example.com/cluster-a", "--key", &data("rsa-2048.public.pem")]);
    assert_eq!(
        (code, out.as_str(), err.as_str()),
        (
            0,
            "ok: https://id.example.com/cluster-a with 1 key suits kubernetes, aws, azure, gcp, vault, minio, common\n",
            ""
        )
    );
}

#[test]
fn prints_the_worst_first_with_victims_and_remedy() {
    let (code, out, _) = outcome(&["https://id.example.com:6443/", "--for", "aws,azure"]);
    assert_eq!(code, 3);
    assert_eq!(
        out,
        "\
https://id.example.com:6443/, held against aws, azure

error issuer-port: the issuer URL names port 6443; expected none, which means 443; refused by aws, not promised by azure
  breaks: aws, azure
  remedy: serve on port 443 behind a name and leave the port out of the issuer URL

warning issuer-trailing-slash: the issuer URL ends in a slash; expected none
  breaks: aws, azure
  remedy: leave it out of `--service-account-issuer`, or write it exactly so wherever the issuer is configured

1 error, 1 warning
"
    );
}

#[test]
fn asks_only_those_it_is_told_to() {
    let (code, out, _) = outcome(&["https://10.0.0.1:6443", "--for", "openbao", "--for", "kubernetes"]);
    assert_eq!((code, out.as_str()), (0, "ok: https://10.0.0.1:6443 suits vault, kubernetes\n"));
}

#[test]
fn a_note_is_printed_but_nothing_to_act_on() {
    let (code, out, _) =
        outcome(&["https://id.example.com", "--for", "kubernetes", "--key", &data("p384.public.pem")]);
    assert_eq!(code, 0);
    assert!(out.contains("note key-conformance") && out.ends_with("\n1 note\n"), "{out}");
}

#[test]
fn what_is_no_issuer_at_all_is_a_finding() {
    let (code, out, _) = outcome(&["http://id.example.com?a=b", "--for", "aws"]);
    assert_eq!(code, 3);
    assert!(out.contains("error issuer-invalid") && out.contains("https://"), "{out}");
}

#[test]
fn reads_a_published_set() {
    let (_folder, path) = scratch(r#"{"keys":[{"kty":"AKP","kid":"m"}]}"#);
    let (code, out, _) = outcome(&["https://id.example.com", "--jwks", path.to_str().expect("UTF-8")]);
    assert_eq!(code, 3);
    assert!(out.contains("error keys-missing") && out.contains("error key-unknown-type"), "{out}");
    let (code, ..) = outcome(&["https://id.example.com", "--for", "aws", "--jwks", &data("jwks.json")]);
    assert_eq!(code, 0);
}

#[test]
fn speaks_json_to_pipelines() {
    let (code, out, _) = outcome(&["https://id.example.com/", "--for", "azure", "--json"]);
    let report: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &report["parties"]), (3, &json!(["azure"])));
    assert_eq!(report["issuer"], "https://id.example.com/");
    let finding = &report["findings"][0];
    assert_eq!(
        (&finding["rule"], &finding["severity"]),
        (&json!("issuer-trailing-slash"), &json!("warning"))
    );
    let (code, out, _) = outcome(&["https://id.example.com", "--json"]);
    let report: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &report["findings"]), (0, &json!([])));
}

#[test]
fn takes_several_files_and_names_what_it_passes_over() {
    let (_folder, path) = scratch(&format!(
        "{}{}",
        std::fs::read_to_string(data("ed25519.public.pem")).expect("a file"),
        std::fs::read_to_string(data("p256.public.pem")).expect("a file"),
    ));
    let (first, second) = (data("rsa-2048.certificate.pem"), path.to_str().expect("UTF-8"));
    let (code, out, err) = outcome(&["https://id.example.com", "--for", "aws", "--key", &first, second]);
    assert_eq!(code, 0);
    assert!(out.contains("with 2 keys"), "{out}");
    assert!(err.contains("passed over block 1 (PUBLIC KEY)"), "{err}");
}

#[test]
fn refuses_input_it_cannot_read_with_the_remedy() {
    let (_folder, empty) = scratch("nothing here");
    let empty = empty.to_str().expect("UTF-8");
    let private = data("rsa-2048.pkcs1.private.pem");
    for (arguments, words) in [
        (&["--key", "/nowhere/sa.pub"][..], &["cannot read /nowhere/sa.pub"][..]),
        (&["--key", empty], &["no PEM block"]),
        (&["--key", &private], &["a private key", "give its public half"]),
        (&["--jwks", empty], &["not JSON"]),
        (&["--jwks", "/nowhere/jwks"], &["cannot read /nowhere/jwks"]),
    ] {
        let (code, out, err) = outcome(&[&["https://id.example.com"], arguments].concat());
        assert_eq!((code, out.as_str()), (1, ""), "{arguments:?}");
        assert!(words.iter().all(|word| err.contains(word)), "{err}");
    }
}

#[test]
fn refuses_wrong_usage() {
    for (arguments, word) in [
        (&["https://id.example.com", "--for", "amazon"][..], "expected one of kubernetes"),
        (&["https://id.example.com", "--key", "a", "--jwks", "b"], "cannot be used with"),
        (&[], "ISSUER_URL"),
    ] {
        let (code, _, err) = outcome(arguments);
        assert_eq!(code, 2);
        assert!(err.contains(word), "{err}");
    }
}

//! `chancery exchange` as tools call it, against an STS on this machine.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]
#![cfg(feature = "exchange")]

mod agent;
mod cache;
mod kubelet;
mod scene;

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::scene::{Scene, error, out, token};

#[test]
fn e14_aws_tools_read_keys_and_a_file_is_for_its_owner_alone() {
    let scene = Scene::with_keys();
    let output = scene.aws("get", &["--format", "credential-process"]);
    assert!(output.status.success(), "{}", error(&output));
    let keys: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!((&keys["Version"], &keys["AccessKeyId"]), (&json!(1), &json!("ASIA")));
    let path = scene.path("credentials");
    let output = scene.aws("get", &["--format", "env", "--out", path.to_str().unwrap()]);
    assert!(output.status.success() && output.stdout.is_empty(), "{}", error(&output));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(std::fs::read_to_string(path).unwrap().contains("export AWS_SESSION_TOKEN='st'"));
}

#[test]
fn a_command_runs_with_the_credential_and_its_own_exit_code() {
    let scene = Scene::with_keys();
    let output = scene.aws("exec", &["--", "/bin/sh", "-c", "echo $AWS_SECRET_ACCESS_KEY; exit 7"]);
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(7), "s'k\n"), "{}", error(&output));
}

#[test]
fn e07_the_exit_code_is_the_class_and_no_token_is_printed() {
    let denied = "<E><Error><Code>AccessDenied</Code><Message>Not authorized</Message></Error></E>";
    for (subject, status, body, code) in [
        (token("sts.amazonaws.com", 600), 403, denied, 10),
        (token("other", 600), 200, "", 10),
        (token("sts.amazonaws.com", 600), 503, "", 11),
        (token("sts.amazonaws.com", 600), 429, "", 12),
        (token("sts.amazonaws.com", -60), 200, "", 13),
        ("no token".to_owned(), 200, "", 14),
    ] {
        let scene = Scene::new(&subject, status, body.to_owned());
        let output = scene.aws("get", &[]);
        assert_eq!(output.status.code(), Some(code), "{}", error(&output));
        assert!(!error(&output).contains("canary") && output.stdout.is_empty(), "{}", error(&output));
    }
    let scene = Scene::with_keys();
    let output = scene.aws("get", &["--min-ttl", "7200"]);
    assert_eq!(output.status.code(), Some(10), "{}", error(&output));
    assert!(error(&output).contains("--min-ttl"));
    assert_eq!(scene.aws("get", &["--format", "nonsense"]).status.code(), Some(2));
}

#[test]
fn e15_a_chain_is_explained_without_an_exchange() {
    let scene = Scene::new(&token("sts.amazonaws.com", 600), 500, String::new());
    let output = scene.aws("explain", &[]);
    assert!(output.status.success(), "{}", error(&output));
    let text = out(&output);
    assert!(text.contains("it may be sent") && text.contains("oidc-provider/id.example/a"), "{text}");
    let output = scene.aws("explain", &["--json", "--expect-issuer", "https://id.example/a/"]);
    assert_eq!(output.status.code(), Some(3));
    let report: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(report["differences"][0]["hint"], "the slash at the end is missing");
    assert!(!text.contains("canary"));
}

#[test]
fn docker_and_google_read_their_own_answers() {
    let scene = Scene::new(&token("audience", 600), 200, String::new());
    for server in ["https://index.docker.io/v1/", "myregistry.azurecr.io"] {
        let mut docker = scene.command("get", &["--to", "gcp", "--format", "docker"]);
        let mut child = docker.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(server.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = out(&output);
        assert_eq!(
            (output.status.code(), said.as_str()),
            (Some(1), "credentials not found in native keychain")
        );
    }
    let google = |audience: &str| {
        let arguments = ["--to", "direct", "--format", "gcp-executable"];
        let mut command = scene.command("get", &arguments);
        let output = command.env("GOOGLE_EXTERNAL_ACCOUNT_AUDIENCE", audience).output().unwrap();
        serde_json::from_str::<Value>(&out(&output)).unwrap()
    };
    assert_eq!(google("audience")["success"], true);
    let failed = google("other");
    assert_eq!((&failed["success"], &failed["code"]), (&json!(false), &json!("subject-token-unsuitable")));
}

#[test]
fn kubectl_and_git_are_given_what_aws_takes() {
    let scene = Scene::with_keys();
    let output = scene.aws("get", &["--format", "exec-credential", "--eks-cluster", "prod"]);
    let answer: Value = serde_json::from_str(&out(&output)).unwrap_or_else(|_| panic!("{}", error(&output)));
    assert!(answer["status"]["token"].as_str().unwrap().starts_with("k8s-aws-v1."));
    let git = |request: &str| {
        let mut command =
            scene.command("get", &["--to", "aws", "--sts-endpoint", &scene.url, "--format", "git"]);
        command.env("AWS_REGION", "eu-central-1").env("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/app");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(request.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.code(), out(&output))
    };
    let (code, text) =
        git("protocol=https\nhost=git-codecommit.eu-central-1.amazonaws.com\npath=v1/repos/app\n\n");
    assert_eq!(code, Some(0));
    assert!(
        text.starts_with("username=ASIA%st\npassword=2") && text.contains("\npassword_expiry_utc="),
        "{text}"
    );
    let before = scene.asked();
    assert_eq!(git("protocol=https\nhost=github.com\n\n"), (Some(0), String::new()));
    assert_eq!(scene.asked(), before, "nothing is exchanged for a host of others");
}

#[test]
fn a_template_answers_docker_for_its_own_server_alone() {
    let scene = Scene::new("", 200, json!({ "token": "t" }).to_string());
    std::fs::write(scene.path("token"), token(&scene.url, 600)).unwrap();
    let docker = |server: &str| {
        let arguments = ["--to", "template", "--preset", "quay", "--username", "o+r", "--server", &scene.url];
        let mut command = scene.command("get", &arguments);
        let mut child = command
            .args(["--format", "docker"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(server.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.code(), out(&output))
    };
    let (code, text) = docker(&scene.url);
    let login: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &login["Username"], &login["Secret"]), (Some(0), &json!("o+r"), &json!("t")));
    for other in ["https://index.docker.io/v1/", "quay.example"] {
        assert_eq!(docker(other), (Some(1), "credentials not found in native keychain".to_owned()));
    }
    assert_eq!(scene.asked(), 1);
}

/// What a chain would ask of whom, and with which audience.
fn explained(scene: &Scene, arguments: &[&str]) -> (String, String) {
    let output = scene.command("explain", &[&["--json"], arguments].concat()).output().unwrap();
    let report: Value = serde_json::from_str(&out(&output)).unwrap_or_else(|_| panic!("{}", error(&output)));
    (report["requests"][0].as_str().unwrap().to_owned(), report["trust"]["text"].as_str().unwrap().to_owned())
}

#[test]
fn a_10_a_url_and_an_audience_override_one_thing_each() {
    let scene = Scene::new(&token("anything", 600), 500, String::new());
    let aws = ["--to", "aws", "--region", "eu-central-1", "--role-arn", "arn:aws:iam::123456789012:role/app"];
    let id = "aaaaaaaa-2222-3333-4444-555555555555";
    let azure =
        ["--to", "azure", "--tenant", id, "--client-id", id, "--scope", "https://vault.azure.net/.default"];
    let pool = "projects/123/locations/global/workloadIdentityPools/pool/providers/prov";
    let gcp = ["--to", "gcp", "--workload-provider", pool];
    for (target, flag, own) in [
        (aws.as_slice(), "--sts-endpoint", "sts.eu-central-1.amazonaws.com"),
        (&azure, "--authority", "login.microsoftonline.com"),
        (&gcp, "--token-endpoint", "sts.googleapis.com"),
    ] {
        let (request, trust) = explained(&scene, target);
        assert!(request.contains(own), "{request}");
        let (elsewhere, same_trust) = explained(&scene, &[target, &[flag, &scene.url]].concat());
        let (same_request, other_trust) = explained(&scene, &[target, &["--audience", "mine"]].concat());
        assert!(elsewhere.contains(&scene.url) && !elsewhere.contains(own), "{elsewhere}");
        assert_eq!((same_trust, same_request), (trust.clone(), request));
        assert!(other_trust.contains("\"mine\"") && !trust.contains("mine"), "{other_trust}");
    }
}

#[test]
fn r0_15_no_metadata_server_is_asked() {
    let answer =
        json!({ "access_token": "t", "issued_token_type": "x", "token_type": "Bearer", "expires_in": 60 });
    let scene = Scene::new("", 200, answer.to_string());
    let provider = "projects/123/locations/global/workloadIdentityPools/pool/providers/prov";
    std::fs::write(scene.path("token"), token(&format!("https://iam.googleapis.com/{provider}"), 600))
        .unwrap();
    let metadata = Scene::new("", 200, String::new());
    let arguments = ["--to", "gcp", "--workload-provider", provider, "--token-endpoint", &scene.url];
    for (subcommand, more) in [("get", ["--format", "raw"].as_slice()), ("explain", &[])] {
        let mut command = scene.command(subcommand, &[arguments.as_slice(), more].concat());
        let host = metadata.url.strip_prefix("http://").unwrap();
        let output = command.env("GCE_METADATA_HOST", host).env("GCE_METADATA_IP", host).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", error(&output));
    }
    assert_eq!((scene.asked(), metadata.asked()), (1, 0));
}

#[test]
fn r0_17_eks_pod_identity_is_no_source_and_its_token_is_for_nobody_else() {
    let scene = Scene::new(&token("pods.eks.amazonaws.com", 600), 200, String::new());
    let output = scene.aws("get", &[]);
    assert_eq!(output.status.code(), Some(10));
    assert!(error(&output).contains("EKS Pod Identity"), "{}", error(&output));
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_chancery"));
    command.env_clear().env("AWS_CONTAINER_CREDENTIALS_FULL_URI", &scene.url);
    command.env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", scene.path("token"));
    command.env("AWS_REGION", "eu-central-1").env("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/app");
    let output =
        command.args(["exchange", "get", "--to", "aws", "--sts-endpoint", &scene.url]).output().unwrap();
    assert_eq!(output.status.code(), Some(14));
    assert!(error(&output).contains("EKS Pod Identity"), "{}", error(&output));
    assert_eq!(scene.asked(), 0);
}

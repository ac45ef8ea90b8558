//! The command as one of kubelet's image credential providers.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::scene::{Scene, error, out, token_of};

fn call(scene: &Scene, arguments: &[&str], request: &Value) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chancery"));
    command.env_clear().args(["exchange", "kubelet"]).args(arguments).env("TMPDIR", scene.folder.path());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(request.to_string().as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn request(image: &str, audience: &str) -> Value {
    let claims = json!({
        "kubernetes.io": { "namespace": "team-a", "serviceaccount": { "name": "app", "uid": "u" } },
    });
    json!({
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "kind": "CredentialProviderRequest",
        "image": image,
        "serviceAccountToken": token_of(audience, 600, &claims),
        "serviceAccountAnnotations": {},
    })
}

/// For how many seconds kubelet keeps a login.
fn kept(answer: &Value) -> u64 {
    answer["cacheDuration"].as_str().unwrap().strip_suffix('s').unwrap().parse().unwrap()
}

#[test]
fn kep_4412_kubelet_is_given_a_login_for_the_image_and_no_longer_than_the_token_lives() {
    let scene = Scene::with_keys();
    let arguments = ["--to", "direct", "--audience", "zot.example", "--username", "any"];
    let asked = request("zot.example:5000/team/app:1", "zot.example");
    let output = call(&scene, &arguments, &asked);
    assert!(output.status.success(), "{}", error(&output));
    let answer: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(
        (&answer["kind"], &answer["cacheKeyType"]),
        (&json!("CredentialProviderResponse"), &json!("Registry"))
    );
    let login = &answer["auth"]["zot.example:5000"];
    assert_eq!((&login["username"], &login["password"]), (&json!("any"), &asked["serviceAccountToken"]));
    assert!((300..=540).contains(&kept(&answer)), "{answer}");
}

#[test]
fn kep_4412_a_template_logs_in_where_the_registry_has_an_endpoint_of_its_own() {
    let token = json!({ "token": "registry-token", "expires_in": 300 }).to_string();
    let scene = Scene::new("", 200, token);
    let arguments =
        ["--to", "template", "--preset", "quay", "--server", &scene.url, "--username", "org+robot"];
    let output = call(&scene, &arguments, &request("quay.example/org/app", &scene.url));
    assert!(output.status.success(), "{}", error(&output));
    let answer: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(
        answer["auth"]["quay.example"],
        json!({ "username": "org+robot", "password": "registry-token" })
    );
    assert!((100..=270).contains(&kept(&answer)), "{answer}");
}

#[test]
fn kep_4412_a_folder_keeps_logins_between_calls_for_one_service_account_each() {
    let token = json!({ "token": "registry-token", "expires_in": 3000 }).to_string();
    let scene = Scene::new("", 200, token);
    let folder = scene.path("cache");
    let mut arguments = vec!["--to", "template", "--preset", "quay", "--server", &scene.url];
    arguments.extend(["--username", "org+robot", "--cache-on-disk", "--cache-dir", folder.to_str().unwrap()]);
    let mut asked = request("quay.example/org/app", &scene.url);
    for exchanges in [1, 1] {
        let output = call(&scene, &arguments, &asked);
        assert!(output.status.success(), "{}", error(&output));
        assert!(out(&output).contains("registry-token"));
        assert_eq!(scene.asked(), exchanges, "each image is pulled by another process");
    }
    let anew = json!({
        "kubernetes.io": { "namespace": "team-a", "serviceaccount": { "name": "app", "uid": "another" } },
    });
    asked["serviceAccountToken"] = token_of(&scene.url, 600, &anew).into();
    assert!(call(&scene, &arguments, &asked).status.success());
    assert_eq!(scene.asked(), 2, "a ServiceAccount that was made anew is another");
}

#[test]
fn kep_4412_without_a_token_or_an_identity_kubelet_is_told_what_is_missing() {
    let scene = Scene::with_keys();
    let image = "123456789012.dkr.ecr.eu-central-1.amazonaws.com/app";
    let mut asked = request(image, "sts.amazonaws.com");
    let output = call(&scene, &["--to", "aws"], &asked);
    assert_eq!(output.status.code(), Some(10), "{}", error(&output));
    assert!(error(&output).contains("eks.amazonaws.com/role-arn"), "{}", error(&output));
    assert!(!error(&output).contains("canary") && output.stdout.is_empty());
    asked["serviceAccountToken"] = "".into();
    let output = call(&scene, &["--to", "aws"], &asked);
    assert_eq!(output.status.code(), Some(14), "{}", error(&output));
    let other = request("registry.azurecr.io/app", "sts.amazonaws.com");
    assert_eq!(call(&scene, &["--to", "aws"], &other).status.code(), Some(10));
}

#[test]
fn kind_4185_kubelets_configuration_is_explained() {
    let scene = Scene::with_keys();
    let (config, rbac) = (scene.path("config.yaml"), scene.path("rbac.yaml"));
    let explain = |patterns: &str, more: &[&str]| {
        let text = format!(
            "apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: chancery
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: [{patterns}]
  defaultCacheDuration: 0s
  tokenAttributes:
    serviceAccountTokenAudience: sts.amazonaws.com
    cacheType: ServiceAccount
    requireServiceAccount: true
"
        );
        std::fs::write(&config, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_chancery"));
        command.args(["exchange", "explain-kubelet", config.to_str().unwrap()]).args(more).output().unwrap()
    };
    let good = explain("'*.dkr.ecr.*.amazonaws.com'", &[]);
    assert!(good.status.success(), "{}", out(&good));
    // What it prints where nobody gave manifests is the manifest that is needed.
    let text = out(&good);
    std::fs::write(&rbac, &text[text.find("apiVersion").unwrap()..]).unwrap();
    let given = explain("'*.dkr.ecr.*.amazonaws.com'", &["--rbac", rbac.to_str().unwrap()]);
    assert!(given.status.success(), "{}", out(&given));
    let without = explain("'*.dkr.ecr.*.amazonaws.com'", &["--rbac", config.to_str().unwrap(), "--json"]);
    assert_eq!(without.status.code(), Some(3));
    let report: Value = serde_json::from_str(&out(&without)).unwrap();
    assert_eq!(report["findings"][0]["code"], "audience-rbac");
    let bad = explain("registry.example/*", &[]);
    assert_eq!(bad.status.code(), Some(3));
    assert!(out(&bad).contains("no wildcards in paths"), "{}", out(&bad));
}

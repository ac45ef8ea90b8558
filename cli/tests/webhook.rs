//! `chancery webhook explain` and `registration`, as typed.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: team-a}
spec:
  template:
    metadata: {labels: {azure.workload.identity/use: 'true'}}
    spec:
      serviceAccountName: app
      initContainers: [{name: proxy, restartPolicy: Always}]
      containers: [{name: web, image: web:1}]
";
const ACCOUNT: &str = "
apiVersion: v1
kind: ServiceAccount
metadata:
  name: app
  namespace: team-a
  annotations:
    eks.amazonaws.com/role-arn: arn:aws:iam::123456789012:role/app
    azure.workload.identity/client-id: client
    azure.workload.identity/tenant-id: tenant
";

fn write(folder: &TempDir, name: &str, text: &str) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn webhook(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_chancery")).arg("webhook").args(arguments).output().unwrap()
}

fn said(output: &Output, code: i32) -> String {
    let text = [output.stdout.as_slice(), &output.stderr].concat();
    let text = String::from_utf8(text).unwrap();
    assert_eq!(output.status.code(), Some(code), "{text}");
    text
}

#[test]
fn what_a_workload_would_get_is_said_with_its_reasons() {
    let folder = tempfile::tempdir().unwrap();
    let (pod, account) = (write(&folder, "pod.yaml", DEPLOYMENT), write(&folder, "sa.yaml", ACCOUNT));
    let text = said(&webhook(&["explain", "-f", &pod, "--service-account", &account]), 0);
    for part in [
        "pod team-a/web-*, ServiceAccount team-a/app",
        "aws: role arn:aws:iam::123456789012:role/app, by eks.amazonaws.com/role-arn of ServiceAccount team-a/app",
        "azure: client client, by the pod's label azure.workload.identity/use",
        "volume aws-iam-token: a token for sts.amazonaws.com, 86400 s",
        "initContainers proxy:",
        "containers web:",
        "AWS_WEB_IDENTITY_TOKEN_FILE=/var/run/secrets/eks.amazonaws.com/serviceaccount/token",
    ] {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    let json = said(&webhook(&["explain", "-f", &pod, "--service-account", &account, "--json"]), 0);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["patch"][0]["path"], "/spec/volumes");

    let config = write(&folder, "webhook.yaml", "{listen: '[::]:8443', aws: {enabled: false}}");
    let text =
        said(&webhook(&["explain", "-f", &pod, "--service-account", &account, "--config", &config]), 0);
    assert!(!text.contains("aws"), "{text}");
}

#[test]
fn what_would_be_refused_or_looks_wrong_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let pod = write(&folder, "pod.yaml", DEPLOYMENT);
    for (replaced, by, part) in [
        (
            "arn:aws:iam::123456789012:role/app",
            "app",
            "refused: aws: ServiceAccount team-a/app: eks.amazonaws.com/role-arn is \"app\"",
        ),
        ("eks.amazonaws.com", "eks.amazon.com", "eks.amazonaws.com/role-arn was probably meant"),
    ] {
        let account = write(&folder, "sa.yaml", &ACCOUNT.replace(replaced, by));
        let text = said(&webhook(&["explain", "-f", &pod, "--service-account", &account]), 3);
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    let service = write(&folder, "service.yaml", "{apiVersion: v1, kind: Service, spec: {}}");
    for arguments in
        [["-f", &service, "--service-account", &service], ["-f", &pod, "--service-account", &pod]]
    {
        let text = said(&webhook(&[["explain"].as_slice(), &arguments].concat()), 1);
        assert!(text.contains("expected a"), "{text}");
    }
}

#[test]
fn the_registration_asks_for_new_pods_and_never_for_those_that_the_webhook_needs() {
    let folder = tempfile::tempdir().unwrap();
    let ca = write(&folder, "ca.crt", "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n");
    let text = said(&webhook(&["registration", "--ca", &ca, "--namespace", "mine"]), 0);
    let object: Value = serde_json::from_str(&text).unwrap();
    let entries = object["webhooks"].as_array().unwrap();
    let policies: Vec<_> = entries.iter().map(|entry| entry["failurePolicy"].as_str().unwrap()).collect();
    assert_eq!(policies, ["Ignore", "Fail"]);
    for entry in entries {
        let namespaces = &entry["namespaceSelector"]["matchExpressions"][0]["values"];
        assert_eq!(*namespaces, serde_json::json!(["kube-node-lease", "kube-system", "mine"]));
        assert_eq!(entry["clientConfig"]["service"]["name"], "chancery-webhook");
        assert_eq!(
            (&entry["sideEffects"], &entry["reinvocationPolicy"]),
            (&"None".into(), &"IfNeeded".into())
        );
    }
    let key = write(&folder, "key.pem", "-----BEGIN PRIVATE KEY-----\n");
    for arguments in [
        vec!["--ca", &key],
        vec!["--ca", &ca, "--url", "http://10.0.0.1/mutate"],
        vec!["--cert-manager", "webhook"],
    ] {
        let text = said(&webhook(&[["registration"].as_slice(), &arguments].concat()), 1);
        assert!(text.contains("expected"), "{text}");
    }
    assert!(Path::new(&ca).exists());
}

#[test]
fn a_webhook_has_one_certificate() {
    let folder = tempfile::tempdir().unwrap();
    for (certificate, part) in [
        ("", "neither of `tls` and `selfSigned`"),
        ("selfSigned: {}\ntls: { certificate: a, privateKey: b }\n", "both of `tls` and `selfSigned`"),
        ("selfSigned: {}\nregistration: ''\n", "`registration` is empty"),
    ] {
        let config = write(&folder, "webhook.yaml", &format!("listen: '127.0.0.1:0'\n{certificate}"));
        let text = said(&webhook(&["serve", "--config", &config, "--check"]), 1);
        assert!(text.contains(part) && text.contains("expected"), "{text}");
    }
}

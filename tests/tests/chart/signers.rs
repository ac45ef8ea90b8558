//! The signer's DaemonSet.

use anyhow::{Context as _, Result, ensure};
use aws_lc_rs::digest::{SHA256, digest};
use e2e::binary;
use serde_json::{Value, json};

use crate::helm::{Helm, over};

const ISSUER: &str = "https://id.example.com/cluster-a";

fn values(signer: Value) -> Value {
    let signer = over(json!({ "enabled": true, "highAvailability": true, "issuer": ISSUER }), signer);
    json!({ "issuer": { "enabled": false }, "webhook": { "enabled": false }, "signer": signer })
}

/// How the document about a subject is called, written down a second time.
fn document(subject: &str) -> String {
    let (_, rest) = subject.split_once("://").unwrap_or(("", subject));
    let readable: String = rest
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .take(60)
        .collect();
    let hash: String = digest(&SHA256, subject.as_bytes())
        .as_ref()
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{}-{hash}", readable.trim_matches('-'))
}

fn arguments(pod: &Value) -> Vec<String> {
    let list = pod["spec"]["containers"][0]["args"].as_array();
    list.into_iter().flatten().filter_map(|it| it.as_str().map(str::to_owned)).collect()
}

#[tokio::test]
async fn a_signer_with_key_files_has_no_token_and_sees_nothing_but_its_folders() -> Result<()> {
    if binary::skipped(&["helm"]) {
        return Ok(());
    }
    let files = json!({
        "signing": "/etc/kubernetes/pki/sa.key",
        "verifying": ["/etc/kubernetes/pki/sa.pub", "/etc/kubernetes/old/sa.pub"],
    });
    let given =
        values(json!({ "keys": { "files": files }, "apiAudiences": ["https://kubernetes.default.svc"] }));
    let rendered = Helm::new()?.render(&given, &[]).await?;
    let pod = rendered.pod("DaemonSet", "chancery-signer")?;
    let spec = &pod["spec"];
    ensure!(spec["automountServiceAccountToken"] == json!(false), "{spec:#}");
    ensure!(!rendered.names().iter().any(|name| name.starts_with("Role/")), "{:?}", rendered.names());
    let folders: Vec<&str> = spec["volumes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|it| it["hostPath"]["path"].as_str())
        .collect();
    ensure!(
        folders
            == ["/run/chancery", "/var/lib/chancery-signer", "/etc/kubernetes/pki", "/etc/kubernetes/old"],
        "{folders:?}"
    );
    for mount in spec["containers"][0]["volumeMounts"].as_array().context("no mounts")? {
        let is_key = mount["name"].as_str().is_some_and(|name| name.starts_with("keys-"));
        ensure!(is_key == (mount["readOnly"] == json!(true)), "{mount}");
    }
    let arguments = arguments(pod);
    for argument in [
        "--socket=/run/chancery/signer.sock",
        "--issuer=https://id.example.com/cluster-a",
        "--api-audience=https://kubernetes.default.svc",
        "--max-token-expiration=24h",
        "--signing-key-file=/etc/kubernetes/pki/sa.key",
        "--key-file=/etc/kubernetes/old/sa.pub",
    ] {
        ensure!(arguments.iter().any(|it| it == argument), "{argument} is missing in {arguments:?}");
    }
    Ok(())
}

/// With every node named, signers write nothing there but what they acknowledge.
#[tokio::test]
async fn a_signer_of_a_ring_reads_it_and_writes_acknowledgements_alone() -> Result<()> {
    if binary::skipped(&["helm"]) {
        return Ok(());
    }
    let ring = json!({ "namespace": "ring", "vaultNamespace": "keys", "nodes": ["control-plane-1", "control-plane-2"] });
    let rendered = Helm::new()?.render(&values(json!({ "keys": { "ring": ring } })), &[]).await?;
    let rules = |namespace: &str| {
        let is_it = |it: &&Value| it["kind"] == "Role" && it["metadata"]["namespace"] == namespace;
        rendered.0.iter().find(is_it).map(|role| role["rules"].clone()).unwrap_or_default()
    };
    let secrets = json!([{ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"] }]);
    ensure!(rules("keys") == secrets, "{:#}", rules("keys"));
    let maps = rules("ring");
    // The names that the program itself would use.
    let name = |subject: &str, kind: &str| format!("chancery-{kind}-{}", document(subject));
    ensure!(maps[0]["resourceNames"] == json!([name(ISSUER, "key-ring")]), "{maps:#}");
    ensure!(maps[0]["verbs"] == json!(["get"]), "{maps:#}");
    let told = ["control-plane-1", "control-plane-2"]
        .map(|node| name(&format!("{ISSUER} {node}"), "signer-acknowledgement"));
    ensure!(maps[1]["resourceNames"] == json!(told), "{maps:#}");
    ensure!(maps[1]["verbs"] == json!(["get", "update"]), "{maps:#}");
    ensure!(maps[2]["verbs"] == json!(["create"]) && maps[3].is_null(), "{maps:#}");
    let pod = rendered.pod("DaemonSet", "chancery-signer")?;
    ensure!(pod["spec"]["automountServiceAccountToken"] == json!(true), "{pod:#}");
    let arguments = arguments(pod);
    for argument in
        ["--name=$(NODE_NAME)", "--ring-namespace=ring", "--vault-namespace=keys", "--object-prefix=chancery"]
    {
        ensure!(arguments.iter().any(|it| it == argument), "{argument} is missing in {arguments:?}");
    }
    Ok(())
}

/// What docs/rotation.md asks for, as far as the policy does.
#[tokio::test]
async fn a_signer_that_rotates_may_what_its_policy_takes() -> Result<()> {
    if binary::skipped(&["helm"]) {
        return Ok(());
    }
    let ring = json!({ "namespace": "ring", "vaultNamespace": "vault", "nodes": ["a"], "passphraseSecret": "sealed" });
    let rotation = json!({
        "schedule": { "every": "90d" }, "apiServers": {},
        "canaries": [{ "name": "b", "apiServer": {}, "audience": "b" }],
    });
    let given = values(json!({ "keys": { "ring": ring }, "rotation": rotation }));
    let rendered = Helm::new()?.render(&given, &[]).await?;
    let verbs = |kind: &str, namespace: Value, resource: &str| {
        let roles =
            rendered.0.iter().filter(|it| it["kind"] == kind && it["metadata"]["namespace"] == namespace);
        let rules = roles.filter_map(|role| role["rules"].as_array()).flatten();
        let verbs =
            rules.filter(|rule| rule["resources"][0] == resource || rule["nonResourceURLs"][0] == resource);
        verbs.map(|rule| rule["verbs"].clone()).collect::<Vec<_>>()
    };
    for (namespace, resource, expected) in [
        ("ring", "configmaps", vec![json!(["get", "update"]), json!(["get", "update"]), json!(["create"])]),
        ("vault", "secrets", vec![json!(["get", "list", "create", "delete"])]),
        ("chancery", "configmaps", vec![json!(["get"])]),
        ("default", "endpointslices", vec![json!(["list"])]),
        ("kube-system", "serviceaccounts/token", vec![json!(["create"])]),
    ] {
        let found = verbs("Role", namespace.into(), resource);
        ensure!(found == expected, "{resource} in {namespace}: {found:?}");
    }
    for (resource, expected) in [("nodes", "list"), ("tokenreviews", "create"), ("/openid/v1/jwks", "get")] {
        let found = verbs("ClusterRole", Value::Null, resource);
        ensure!(found == [json!([expected])], "{resource}: {found:?}");
    }
    let text = rendered.of("ConfigMap", "chancery-signer")?["data"]["rotation.yaml"]
        .as_str()
        .context("no policy")?;
    let policy: Value = serde_saphyr::from_str(text)?;
    ensure!(policy["signers"] == json!([{ "name": "a" }]) && policy["issuer"] == ISSUER, "{policy:#}");
    ensure!(policy["keys"]["passphraseFile"] == "/etc/chancery-passphrase/passphrase", "{policy:#}");
    Ok(())
}

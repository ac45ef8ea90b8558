//! A release in a real cluster, from its installation to its end.

use anyhow::{Context as _, Result, ensure};
use e2e::key_file::KeyFile;
use e2e::{binary, ports};
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::cluster::Stage;
use crate::helm::{NAMESPACE, Rendered, over};
use crate::played::{self, Ports};
use crate::rights;

/// Of how many rights it is seen that they are missed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missed {
    /// Of those by which the issuer shares its state and writes to its sink.
    Some,
    Each,
}

#[tokio::test]
async fn a_release_lives_in_a_cluster() -> Result<()> {
    lives(Missed::Some).await
}

#[tokio::test]
#[ignore = "starts the program once for each rule of each role"]
async fn each_right_of_a_release_is_missed() -> Result<()> {
    lives(Missed::Each).await
}

async fn lives(missed: Missed) -> Result<()> {
    let servers = ["helm", "etcd", "kube-apiserver", "kubectl", "prometheus-operator", "cert-manager"];
    if binary::skipped(&servers) {
        return Ok(());
    }
    let stage = Stage::new().await?;
    everything_is_known(&stage).await?;
    rights::are_the_documented_ones(&stage).await?;

    let taken = Ports::free()?;
    let values = played::values(&stage, taken);
    keys_for_the_sources(&stage).await?;
    let release = stage.release("upgrade", &values).await?;
    played::the_issuer_publishes(&stage, &release).await?;
    played::the_webhook_answers(&stage, &release, taken).await?;
    are_missed(&stage, (&release, "chancery-issuer"), &["chancery", "gateway"]).await?;
    if missed == Missed::Each {
        are_missed(&stage, (&release, "chancery-issuer"), &["canaries", "clusters", "keys"]).await?;
        played::every_right_is_needed(&stage, (&release, "chancery-webhook"), &[Value::Null]).await?;
        are_missed(&stage, (&release, "chancery-webhook"), &[NAMESPACE]).await?;
    }
    let release = upgraded(&stage, &values).await?;
    if missed == Missed::Each {
        are_missed(&stage, (&release, "chancery-issuer"), &["default", "keys"]).await?;
    }

    played::begin_a_ring(&stage).await?;
    let values = over(values, played::signer_values(ports::free()?));
    let release = stage.release("upgrade", &values).await?;
    played::the_signer_signs(&stage, &release).await?;
    if missed == Missed::Each {
        are_missed(&stage, (&release, "chancery-signer"), &["chancery", "ring", "vault"]).await?;
    }
    ends_without_its_definitions(&stage, &release, &values).await
}

async fn are_missed(stage: &Stage, part: (&Rendered, &str), namespaces: &[&str]) -> Result<()> {
    let namespaces: Vec<Value> = namespaces.iter().map(|namespace| json!(namespace)).collect();
    played::every_right_is_needed(stage, part, &namespaces).await
}

/// Everything that the chart can render at a time is installed, every field known to the API server, and its pods are as
/// restricted as its namespace demands.
async fn everything_is_known(stage: &Stage) -> Result<()> {
    let certificates = json!({
        "issuer": { "serve": { "certificate": { "mode": "certManager", "issuerRef": { "name": "public", "kind": "ClusterIssuer" } } } },
        "webhook": { "certificate": { "mode": "certManager" } },
        "networkPolicy": { "enabled": true, "metricsFrom": [{ "namespaceSelector": {} }] },
        "monitoring": { "dashboard": { "enabled": true } },
        "signer": {
            "enabled": true, "highAvailability": true, "issuer": "https://id.example.com/cluster-a",
            "keys": { "files": { "signing": "/etc/kubernetes/pki/sa.key" } },
        },
    });
    let page = rights::values_of_the_page()?;
    let whole = stage.release("upgrade", &over(page.clone(), certificates.clone())).await?;
    let names = whole.names();
    for name in [
        "PodMonitor/chancery-issuer",
        "PrometheusRule/chancery",
        "Certificate/chancery-webhook",
        "DaemonSet/chancery-signer",
    ] {
        ensure!(names.contains(name), "{name} is not among {names:?}");
    }
    are_known(stage, &whole).await?;
    // What a person sees before is what is installed.
    let seen = stage.template(&over(page.clone(), certificates)).await?;
    ensure!(
        seen.names() == names && seen.0.iter().all(|object| whole.0.contains(object)),
        "{:?}",
        seen.names()
    );
    // With a certificate of its own, the webhook may do most.
    let monitors = json!({ "monitoring": { "monitor": { "kind": "ServiceMonitor" } } });
    are_known(stage, &stage.release("upgrade", &over(page, monitors)).await?).await?;
    Ok(())
}

async fn are_known(stage: &Stage, release: &Rendered) -> Result<()> {
    for object in &release.0 {
        // Of Helm's fields, none is ours alone: another manager may apply the same again.
        stage.would_take(object).await?;
        let template = &object["spec"]["template"];
        if object["kind"] != "Deployment" {
            continue;
        }
        let mut spec = template["spec"].clone();
        // Deployments make pods through a controller, which there is none of.
        spec["containers"][0]["name"] = json!("as-deployed");
        let pod = json!({ "metadata": { "name": "as-deployed", "labels": template["metadata"]["labels"] }, "spec": spec });
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods?fieldValidation=Strict&dryRun=All");
        let (status, answer) = stage.server.post(&path, stage.server.admin_token(), &pod).await?;
        ensure!(status == StatusCode::CREATED, "{status}: {answer}");
    }
    Ok(())
}

/// Public halves where the sources look for them.
async fn keys_for_the_sources(stage: &Stage) -> Result<()> {
    let public = |name: &str| anyhow::Ok(std::fs::read_to_string(KeyFile::new(&stage.dir, name)?.public)?);
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "old-keys", "namespace": "keys" },
        "data": { "old.pub": public("old")? },
    });
    stage.apply(&map).await?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "cluster-a-sa", "namespace": "clusters" },
        "stringData": { "tls.crt": public("other")? },
    });
    stage.apply(&secret).await
}

/// Another configuration is another pod, and the certificate is not touched.
async fn upgraded(stage: &Stage, values: &Value) -> Result<Rendered> {
    let bundle = played::ca_bundle(stage).await?.context("no caBundle")?;
    let checksum = async |name: &str| {
        let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}");
        let object = stage.get(&path).await?.context("no Deployment")?;
        anyhow::Ok(object["spec"]["template"]["metadata"]["annotations"]["checksum/config"].clone())
    };
    let before = (checksum("chancery-issuer").await?, checksum("chancery-webhook").await?);
    let mut changed = values.clone();
    let sources = changed["issuer"]["issuers"][0]["sources"].as_array_mut().context("no sources")?;
    sources.push(json!({ "name": "replicas", "kubeApiserver": { "discover": true } }));
    sources.push(json!({ "ring": { "configMap": { "namespace": "keys", "name": "chancery" } } }));
    let release = stage.release("upgrade", &changed).await?;
    let after = (checksum("chancery-issuer").await?, checksum("chancery-webhook").await?);
    ensure!(before.0 != after.0 && before.1 == after.1, "{before:?} and {after:?}");
    ensure!(played::ca_bundle(stage).await? == Some(bundle));
    Ok(release)
}

/// Nothing of the release is left but the definitions and what people and the service itself have made; and it can come again.
async fn ends_without_its_definitions(stage: &Stage, release: &Rendered, values: &Value) -> Result<()> {
    stage.uninstall().await?;
    ensure!(stage.get(played::KEY_RING).await?.is_some(), "a KeyRing has gone with its definition");
    for (kind, path) in [
        ("Deployment", "/apis/apps/v1/namespaces/chancery/deployments/chancery-issuer"),
        ("DaemonSet", "/apis/apps/v1/namespaces/kube-system/daemonsets/chancery-signer"),
        ("Role", "/apis/rbac.authorization.k8s.io/v1/namespaces/gateway/roles/chancery-issuer"),
        ("Role", "/apis/rbac.authorization.k8s.io/v1/namespaces/vault/roles/chancery-signer"),
        ("ClusterRole", "/apis/rbac.authorization.k8s.io/v1/clusterroles/chancery-webhook"),
    ] {
        ensure!(release.0.iter().any(|it| it["kind"] == kind), "no {kind}");
        ensure!(stage.get(path).await?.is_none(), "{path} is there still");
    }
    let path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/chancery-webhook";
    ensure!(stage.get(path).await?.is_none(), "the registration is there still");
    ensure!(stage.get("/api/v1/namespaces/chancery/secrets/chancery-writer-key").await?.is_some());
    stage.release("install", values).await?;
    Ok(())
}

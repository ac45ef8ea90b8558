//! A ring in ConfigMaps, with its private halves in Secrets.

use anyhow::{Context as _, Result, ensure};
use e2e::chancery;
use e2e::cluster::Cluster;
use e2e::etcd::Etcd;
use e2e::key_file::KeyFile;
use e2e::kube_apiserver::KubeApiserver;
use e2e::process::Process;
use e2e::scratch::Scratch;
use e2e::{binary, wait};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

const NAMESPACE: &str = "chancery";

#[tokio::test]
async fn a_ring_in_a_cluster_is_begun_followed_by_two_and_exported() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let dir = Scratch::new("ring")?;
    let key = KeyFile::new(&dir, "sa")?;
    let issuer = "https://id.example.com/cluster-a";
    let server =
        KubeApiserver::start(&Cluster::new(Etcd::shared().await?.url(), issuer, &key.private)?).await?;
    server.create("/api/v1/namespaces", &json!({ "metadata": { "name": NAMESPACE } })).await?;
    let kubeconfig = dir.join("kubeconfig");
    server.kubeconfig(&kubeconfig)?;
    let objects = json!({ "namespace": NAMESPACE, "name": "chancery", "kubeconfig": kubeconfig });
    let policy = json!({
        "issuer": issuer,
        "ring": { "configMap": objects },
        "keys": { "secrets": objects },
        "visibility": { "configMap": objects },
        "signers": [{ "name": "a" }],
        "look": "300ms",
    });
    let policy = dir.write("rotation.yaml", policy.to_string())?.display().to_string();
    let run = async |verb: &str, more: &[&str]| {
        let arguments = [&["ring", verb, "--policy", &policy], more].concat();
        chancery::run(&arguments).await
    };

    run("init", &[]).await?.success()?;
    ensure!(run("init", &[]).await?.code == Some(1), "it is there already");
    let client = server.kube_client().await?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    ensure!(secrets.list(&ListParams::default()).await?.items.len() == 1);

    let mut following = Vec::new();
    for name in ["one", "two"] {
        following.push(chancery::rotate(&policy, &dir.join(name))?);
    }
    let status = async || run("status", &[]).await?.success();
    wait::until("a standby that waits to be seen", async || {
        let status = status().await?;
        ensure!(status.contains("Pending") && status.contains("NotVisible"), "{status}");
        Ok(true)
    })
    .await
    .with_context(|| following.iter().map(Process::log).collect::<String>())?;
    lies_in_objects(client).await?;
    exported(&dir, &policy).await
}

/// The ring lies in a ConfigMap, and what signs in Secrets that nobody changes.
async fn lies_in_objects(client: kube::Client) -> Result<()> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    for secret in secrets.list(&ListParams::default()).await?.items {
        ensure!(secret.immutable == Some(true), "{:?}", secret.metadata.name);
    }
    let maps: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
    let names: Vec<_> = maps
        .list(&ListParams::default())
        .await?
        .items
        .into_iter()
        .filter_map(|map| map.metadata.name)
        .collect();
    ensure!(names.iter().any(|name| name.starts_with("chancery-key-ring-")), "{names:?}");
    Ok(())
}

/// Both keys come out as files.
async fn exported(dir: &Scratch, policy: &str) -> Result<()> {
    let out = dir.join("out");
    std::fs::create_dir(&out)?;
    let to = out.display().to_string();
    chancery::run(&["ring", "export", "--policy", policy, "--out-dir", &to]).await?.success()?;
    let text = std::fs::read_to_string(out.join("sa.pub"))?;
    ensure!(text.matches("BEGIN PUBLIC KEY").count() == 2, "{text}");
    Ok(())
}

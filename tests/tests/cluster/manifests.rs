//! The manifests we ship are taken by a real kube-apiserver, every field known to it.

use std::path::Path;

use anyhow::{Context, Result};
use e2e::binary;
use e2e::cluster::Cluster;
use e2e::etcd::Etcd;
use e2e::key_file::KeyFile;
use e2e::kube_apiserver::KubeApiserver;
use e2e::scratch::Scratch;
use kube::api::{DynamicObject, Patch, PatchParams, ValidationDirective};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::Value;

#[tokio::test]
async fn the_service_of_the_kind_example_is_taken_whole() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let dir = Scratch::new("manifests")?;
    let key = KeyFile::new(&dir, "sa")?;
    let cluster = Cluster::new(Etcd::shared().await?.url(), "https://issuer.example", &key.private)?;
    let server = KubeApiserver::start(&cluster).await?;
    let path = Path::new("../kind/issuer.yaml");
    let text = std::fs::read_to_string(path)?;
    let mut kinds = Vec::new();
    for document in text.split("\n---\n") {
        let object: Value = serde_saphyr::from_str(document)?;
        kinds.push(apply(server.kube_client().await?, object).await?);
    }
    assert!(kinds.contains(&"Deployment".to_owned()) && kinds.len() > 8, "{kinds:?}");
    Ok(())
}

/// Applies one object strictly: an unknown or repeated field is an error.
pub async fn apply(client: Client, object: Value) -> Result<String> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let kind = text("/kind").context("no kind")?.to_owned();
    let name = text("/metadata/name").context("no name")?.to_owned();
    let version = text("/apiVersion").context("no apiVersion")?;
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
    let api: Api<DynamicObject> = match text("/metadata/namespace") {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    let parameters =
        PatchParams { field_validation: Some(ValidationDirective::Strict), ..PatchParams::apply("e2e") };
    api.patch(&name, &parameters, &Patch::Apply(&object)).await.with_context(|| format!("{kind} {name}"))?;
    Ok(kind)
}

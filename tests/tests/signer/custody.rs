//! Private halves and rings in a cluster that is not the one that is signed for.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use chancery_cluster::cell::{CellStore, StoreMode};
use chancery_keygen::{KeySpec, Passphrase, PrivateKey};
use chancery_signer::ring_source::ring_cell;
use chancery_signer::vault::{KeyVault, SecretVault, VaultError};
use e2e::binary;
use e2e::cluster::Cluster;
use e2e::etcd::Etcd;
use e2e::key_file::KeyFile;
use e2e::kube_apiserver::KubeApiserver;
use e2e::scratch::Scratch;
use e2e::signer::SignerProcess;
use e2e::wait;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::json;

use crate::ring_stage::{RingStage, acknowledged, kid, text};
use crate::stage::{ISSUER, claims, encoded};

const SERVERS: [&str; 2] = ["etcd", "kube-apiserver"];
const NAMESPACE: &str = "chancery";

/// A cluster with a namespace for our objects.
async fn management(dir: &Scratch) -> Result<KubeApiserver> {
    let key = KeyFile::new(dir, "management")?;
    let cluster = Cluster::new(Etcd::shared().await?.url(), "https://management.example.com", &key.private)?;
    let server = KubeApiserver::start(&cluster).await?;
    server.create("/api/v1/namespaces", &json!({ "metadata": { "name": NAMESPACE } })).await?;
    Ok(server)
}

#[tokio::test]
async fn a_key_is_one_immutable_secret() -> Result<()> {
    if binary::skipped(&SERVERS) {
        return Ok(());
    }
    let dir = Scratch::new("custody")?;
    let server = management(&dir).await?;
    let client = server.kube_client().await?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    for (prefix, passphrase) in [("plain", None), ("sealed", Some("correct horse"))] {
        let passphrase = passphrase
            .map(|passphrase: &str| Passphrase::from_file_bytes(passphrase.as_bytes()))
            .transpose()?;
        let is_sealed = passphrase.is_some();
        let vault = SecretVault::new(client.clone(), NAMESPACE, prefix, passphrase);
        let keys = [KeySpec::P256, KeySpec::P384].map(|spec| PrivateKey::generate(spec).map(Arc::new));
        let keys = keys.into_iter().collect::<Result<Vec<_>, _>>()?;
        for key in &keys {
            vault.store(key.clone()).await?;
            vault.store(key.clone()).await?;
            assert_eq!(vault.load(&kid(key)).await?.public_key(), key.public_key());
        }
        let mut kids: Vec<_> = keys.iter().map(|key| kid(key)).collect();
        kids.sort();
        assert_eq!(vault.list().await?, kids);
        let listed = secrets.list(&Default::default()).await?.items;
        let ours = listed
            .iter()
            .filter(|it| it.metadata.name.as_deref().is_some_and(|name| name.starts_with(prefix)));
        for secret in ours {
            assert_eq!(secret.immutable, Some(true));
            let text = secret.data.as_ref().and_then(|data| data.get("key.pem")).context("no key")?;
            let text = String::from_utf8_lossy(&text.0).into_owned();
            assert_eq!(text.contains("ENCRYPTED"), is_sealed, "{text}");
        }
        let first = kids.remove(0);
        vault.destroy(&first).await?;
        vault.destroy(&first).await?;
        assert!(matches!(vault.load(&first).await, Err(VaultError::Missing { .. })));
        assert_eq!(vault.list().await?, kids);
    }
    Ok(())
}

#[tokio::test]
async fn a_signer_outlives_the_cluster_that_has_its_ring() -> Result<()> {
    if binary::skipped(&SERVERS) {
        return Ok(());
    }
    let dir = Scratch::new("custody")?;
    let mut server = management(&dir).await?;
    let client = server.kube_client().await?;
    let kubeconfig = dir.join("kubeconfig");
    server.kubeconfig(&kubeconfig)?;
    let store = |mode| CellStore::cluster(client.clone(), NAMESPACE, "chancery", mode);
    let writer = ring_cell(&store(StoreMode::ReadWrite), &ISSUER.parse()?);
    let stage = RingStage::new().await?.with_writer(writer);
    let key = stage.key(true).await?;
    let secrets = SecretVault::new(client.clone(), NAMESPACE, "chancery", None);
    secrets.store(key.clone()).await?;
    stage.begin(key.public_key()).await?;

    // Once with the private half out of a Secret.
    let (kubeconfig, state) = (text(&kubeconfig), text(stage.state.path()));
    let in_cluster = ["--ring-namespace", NAMESPACE, "--kubeconfig", kubeconfig.as_str()];
    let from_secrets = ["--vault-namespace", NAMESPACE, "--state-dir", &state, "--name", "node-a"];
    let mut signer = stage.stage.signer(&[in_cluster.as_slice(), &from_secrets].concat()).await?;
    let token = encoded(claims("vault", 600));
    signer.client("v1").await?.sign(&token).await?;
    let said = acknowledged(&store(StoreMode::ReadOnly)).await?;
    assert_eq!(said.position, stage.ring().await?.position());
    wait::until("what was signed", async || {
        Ok(acknowledged(&store(StoreMode::ReadOnly)).await?.signed.contains_key(&kid(&key)))
    })
    .await?;
    assert_eq!(signer.terminate().await?, Some(0));

    // Then out of a sealed file, without the cluster after a while.
    let mut signer = stage.signer_with(&in_cluster).await?;
    assert_ne!(acknowledged(&store(StoreMode::ReadOnly)).await?.boot, said.boot);
    server.process().kill()?;
    wait::until("the complaint", async || Ok(signer.log().contains("ConfigMap chancery/"))).await?;
    signer.client("v1").await?.sign(&token).await?;
    signer.kill()?;

    // A start without the cluster: nothing is signed, unless that was asked for.
    let custody = stage.custody();
    let custody = custody.iter().map(String::as_str);
    let mut arguments: Vec<&str> = in_cluster.into_iter().chain(custody).collect();
    let mut signer = SignerProcess::spawn(&stage.stage.dir, ISSUER, &arguments)?;
    wait::until("the complaint", async || Ok(signer.log().contains("ConfigMap chancery/"))).await?;
    assert!(signer.client("v1").await.is_err());
    assert_eq!(signer.terminate().await?, Some(0));
    arguments.push("--start-from-record");
    let signer = SignerProcess::start(&stage.stage.dir, ISSUER, &arguments).await?;
    signer.client("v1").await?.sign(&token).await?;
    assert!(signer.log().contains("as it was recorded here"));
    Ok(())
}

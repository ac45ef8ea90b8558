//! A `KeyRing` whose keys come from a machine without a network.

use std::fs::{Permissions, create_dir, set_permissions};
use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Context as _, Result, ensure};
use e2e::{binary, chancery, wait};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::{ISSUER, LONG, Stage};

#[tokio::test]
async fn events_tell_that_imported_keys_are_wanted_and_which_of_them_enters() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let stage = Stage::start().await?;
    let path = |name: &str| stage.dir.join(name).display().to_string();
    for name in ["ring", "keys", "issuer", "bundle"] {
        create_dir(stage.dir.join(name))?;
    }
    set_permissions(stage.dir.join("keys"), Permissions::from_mode(0o700))?;
    for name in ["passphrase", "carried"] {
        set_permissions(stage.dir.write(name, name)?, Permissions::from_mode(0o600))?;
    }
    stage.server.kubeconfig(&stage.dir.join("kubeconfig"))?;
    let (private, public) = (path("bundle.key"), path("bundle.pub"));
    let made = ["keygen", "new", "--algorithm", "p-256", "--private", &private, "--public", &public];
    chancery::run(&made).await?.success()?;
    let policy = json!({
        "issuer": ISSUER,
        "ring": { "directory": "ring" },
        "keys": { "directory": "keys", "passphraseFile": "passphrase" },
        "visibility": { "directory": "issuer" },
        "signers": [{ "name": "a" }],
        "offline": { "bundleKeys": ["bundle.pub"] },
        "keyRing": { "namespace": "default", "name": "main", "kubeconfig": "kubeconfig" },
        "look": "300ms",
    });
    let policy = stage.dir.write("rotation.yaml", policy.to_string())?.display().to_string();
    let spec = json!({ "issuer": ISSUER, "key": "p-256", "schedule": { "byHand": true } });
    stage.create("main", spec).await.map_err(anyhow::Error::msg)?;
    chancery::run(&["ring", "init", "--empty", "--policy", &policy]).await?.success()?;
    let rotating = chancery::rotate(&policy, &stage.dir.join("run.log"))?;

    let events: Api<Event> = Api::namespaced(stage.client.clone(), "default");
    let told = async |reason: &str| -> Result<Vec<String>> {
        let listed = events.list(&ListParams::default()).await?.items;
        let of_reason = listed.into_iter().filter(|event| event.reason.as_deref() == Some(reason));
        Ok(of_reason.filter_map(|event| event.note).collect())
    };
    let blocked = wait::value_within(LONG, "the Event that no key is left", async || {
        Ok(told("RotationBlocked").await?.into_iter().find(|note| note.starts_with("NoSuccessor: ")))
    });
    let blocked = blocked.await.with_context(|| rotating.log())?;
    ensure!(blocked.contains("no imported key"), "{blocked}");

    let kid = imported(&stage, &policy).await?;
    let kid = kid.as_str();
    let entered = wait::value_within(LONG, "the Event of the imported key", async || {
        Ok(Some(told("KeyEntered").await?).filter(|notes| !notes.is_empty()))
    });
    let entered = entered.await.with_context(|| rotating.log())?;
    ensure!(entered.len() == 1 && entered[0].contains(kid), "{kid}, and none of the others: {entered:?}");
    let left = wait::value_within(LONG, "the keys that are left", async || {
        let status = stage.status("main").await?;
        Ok((status["keys"][0]["kid"] == kid).then(|| status["importedKeysLeft"].clone()))
    });
    let left = left.await.with_context(|| rotating.log())?;
    ensure!(left == 1, "{left} keys of the bundle are left");
    Ok(())
}

/// Makes a bundle of two keys, and imports it; returns the id of the first one.
async fn imported(stage: &Stage, policy: &str) -> Result<String> {
    let path = |name: &str| stage.dir.join(name).display().to_string();
    let (private, out, carried) = (path("bundle.key"), path("bundle"), path("carried"));
    let made = ["keygen", "bundle", "--issuer", ISSUER, "--algorithm", "p-256", "--keys", "2"];
    let written = ["--bundle-key", &private, "--passphrase-file", &carried, "--out-dir", &out];
    chancery::run(&[&made[..], &written[..]].concat()).await?.success()?;
    let arguments = ["ring", "import", "--policy", policy, &out, "--passphrase-file", &carried];
    chancery::run(&arguments).await?.success()?;
    let bundle: Value = serde_json::from_slice(&std::fs::read(stage.dir.join("bundle/bundle.json"))?)?;
    Ok(bundle["keys"][0]["kid"].as_str().context("no key id")?.to_owned())
}

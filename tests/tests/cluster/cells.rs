//! Documents in a cluster, changed by compare-and-swap.

use anyhow::{Context, Result, bail};
use chancery_cluster::access::ClusterChoice;
use chancery_cluster::cell::{Cell, CellError, CellStore, Schema, StoreMode, Stored, Swap};
use e2e::binary;
use e2e::wait::SOON;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::timeout;

use crate::bench::{Bench, NAMESPACE, create, merge};

const SCHEMA: Schema = Schema { name: "notes", version: 1 };

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Notes {
    text: String,
}

fn notes(text: &str) -> Notes {
    Notes { text: text.to_owned() }
}

/// The cell of one subject, as one replica has it.
async fn cell(bench: &Bench, subject: &str) -> Result<Cell<Notes>> {
    let kubeconfig = bench.dir.join("kubeconfig");
    let choice = ClusterChoice { kubeconfig: Some(&kubeconfig), context: None, base: bench.dir.path() };
    let store = CellStore::cluster(choice.client().await?, NAMESPACE, "chancery", StoreMode::ReadWrite);
    Ok(store.cell(subject, SCHEMA))
}

async fn stored(cell: &Cell<Notes>) -> Result<Stored<Notes>> {
    cell.load().await?.context("no document")
}

#[tokio::test]
async fn of_two_replicas_one_writes_and_the_other_is_shown_what() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let bench = Bench::start().await?;
    let subject = "https://id.example/cluster-a";
    let (first, second) = (cell(&bench, subject).await?, cell(&bench, subject).await?);
    assert_eq!(first.load().await?, None);
    let Swap::Swapped(begun) = first.swap(&notes("one"), None).await? else { bail!("lost to nobody") };
    assert_eq!(second.swap(&notes("other"), None).await?, Swap::Lost(Some(stored(&first).await?)));
    // The answer was lost, and the write is made again.
    assert_eq!(first.swap(&notes("one"), None).await?, Swap::Swapped(begun.clone()));

    assert!(matches!(second.swap(&notes("two"), Some(&begun)).await?, Swap::Swapped(_)));
    assert_eq!(first.swap(&notes("late"), Some(&begun)).await?, Swap::Lost(Some(stored(&second).await?)));

    // Another issuer's document is another object; a person who labels one keeps nobody from writing it.
    let other = cell(&bench, "https://id.example/cluster-b").await?;
    assert!(matches!(other.swap(&notes("b"), None).await?, Swap::Swapped(_)));
    let api = bench.objects::<ConfigMap>();
    let ours = api.list(&ListParams::default().labels("app.kubernetes.io/managed-by=chancery")).await?;
    let names: Vec<_> = ours.items.iter().filter_map(|object| object.metadata.name.as_deref()).collect();
    assert!(
        names.len() == 2 && names.iter().all(|name| name.starts_with("chancery-notes-id-example-")),
        "{names:?}"
    );
    let name = names.iter().find(|name| name.contains("cluster-a")).context("no document of a")?;
    let before = stored(&first).await?;
    merge(&api, name, json!({ "metadata": { "labels": { "team": "a" } } })).await?;
    let Swap::Lost(Some(touched)) = first.swap(&notes("three"), Some(&before.version)).await? else {
        bail!("the version is not the object's")
    };
    assert_eq!(touched.document, before.document);
    assert!(matches!(first.swap(&notes("three"), Some(&touched.version)).await?, Swap::Swapped(_)));

    let last = stored(&first).await?;
    api.delete(name, &DeleteParams::default()).await?;
    assert_eq!(first.load().await?, None);
    assert_eq!(second.swap(&notes("four"), Some(&last.version)).await?, Swap::Lost(None));

    // An object of somebody else is not taken for an empty document.
    create(&api, &json!({ "metadata": { "name": name }, "data": { "theirs": "x" } })).await?;
    assert!(matches!(first.load().await, Err(CellError::Unreadable { .. })));
    Ok(())
}

#[tokio::test]
async fn an_api_server_that_hangs_is_given_up() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let mut bench = Bench::start().await?;
    let cell = cell(&bench, "https://id.example").await?;
    let Swap::Swapped(version) = cell.swap(&notes("one"), None).await? else { bail!("lost") };
    // It still takes connections, as one behind a broken disk does, and says nothing on any.
    bench.server.process().freeze().await?;
    let given_up = timeout(SOON, cell.swap(&notes("two"), Some(&version))).await.context("it waits")?;
    assert!(matches!(given_up, Err(CellError::Refused { .. })), "{given_up:?}");
    bench.server.process().signal(Signal::CONT)?;
    e2e::wait::until("the same cell to be written", async || {
        Ok(matches!(cell.swap(&notes("two"), Some(&version)).await?, Swap::Swapped(_)))
    })
    .await
}

//! Replicas of one control plane that show different keys: all of them are published, and a replica that comes and
//! goes takes none away.

use std::path::Path;

use anyhow::{Context, Result};
use e2e::cluster::Cluster;
use e2e::etcd::Etcd;
use e2e::key_file::KeyFile;
use e2e::kube_apiserver::KubeApiserver;
use e2e::scratch::Scratch;
use e2e::site::{Site, directory_target};
use e2e::witness::Witness;
use e2e::{binary, wait};
use serde_json::json;

const ISSUER: &str = "/cluster-a";

/// The control plane with `keys`, the first of which signs.
fn with_keys(cluster: &Cluster, keys: &[&KeyFile]) -> Result<Cluster> {
    let first = keys.first().context("no key")?;
    let files: Vec<&Path> = keys.iter().map(|key| key.public.as_path()).collect();
    Ok(cluster.clone().signing_key(&first.private).keys(&files))
}

async fn waits_for_keys(site: &Site, state: &str, count: u32) -> Result<()> {
    let url = site.url(ISSUER);
    let labels = [("issuer", url.as_str()), ("state", state)];
    wait::until(&format!("{count} {state} keys"), async || {
        Ok(site.metric("chancery_keys", &labels).await? == Some(count.into()))
    })
    .await
}

/// Waits until the service has noticed that a replica does not answer.
async fn waits_for_failures_of(site: &Site, replica: &str) -> Result<()> {
    let url = site.url(ISSUER);
    let labels = [("issuer", url.as_str()), ("source", replica)];
    wait::until(&format!("a failed reading of {replica}"), async || {
        let failures = site.metric("chancery_source_failures_total", &labels).await?;
        Ok(failures.is_some_and(|failures| failures > 0.0))
    })
    .await
}

#[tokio::test]
async fn the_union_is_published_and_a_flapping_replica_removes_nothing() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let dir = Scratch::new("keys")?;
    let [one, two, three] = ["one", "two", "three"].map(|name| KeyFile::new(&dir, name));
    let (one, two, three) = (one?, two?, three?);
    let mut site = Site::new()?;
    let url = site.url(ISSUER);
    let cluster = Cluster::new(Etcd::shared().await?.url(), &url, &one.private)?;
    let first = with_keys(&cluster, &[&one])?;
    let second = with_keys(&cluster, &[&two, &one])?;
    let (mut first, mut second) =
        tokio::try_join!(KubeApiserver::start(&first), KubeApiserver::start(&second))?;

    let kubeconfig = site.dir().join("kubeconfig");
    first.kubeconfig(&kubeconfig)?;
    let endpoints = [first.url().to_owned(), second.url().to_owned()];
    let sources = json!([{ "kubeApiserver": {
        "endpoints": endpoints, "kubeconfig": kubeconfig, "pollSeconds": 1,
    } }]);
    let published = site.dir().join("published");
    std::fs::create_dir(&published)?;
    site.add_issuer(ISSUER, sources, json!([directory_target(&published)]))?;
    let mut service = site.start_ready().await?;
    let witness = Witness::of(site.client(), &url);
    site.shows(&url, &[&one.kid, &two.kid]).await?;

    // Down: it says nothing, so nothing changes.
    second.process().kill()?;
    waits_for_failures_of(&site, &endpoints[1]).await?;
    site.shows(&url, &[&one.kid, &two.kid]).await?;

    // Back with another key alone: what it showed before stays, although nobody shows it any more.
    let second = KubeApiserver::start_on(second.port(), &with_keys(&cluster, &[&three])?).await?;
    waits_for_keys(&site, "resident", 1).await?;
    let all = [one.kid.as_str(), &two.kid, &three.kid];
    site.shows(&url, &all).await?;

    // So does the first replica, and now the key that had vanished is shown again.
    first.process().kill()?;
    let _first = KubeApiserver::start_on(first.port(), &with_keys(&cluster, &[&two])?).await?;
    waits_for_keys(&site, "live", 2).await?;
    waits_for_keys(&site, "resident", 1).await?;
    site.shows(&url, &all).await?;

    // A restart forgets nothing of this.
    assert_eq!(service.terminate().await?, Some(0), "{}", service.log());
    drop(service);
    let _service = site.start_ready().await?;
    waits_for_keys(&site, "live", 2).await?;
    site.shows(&url, &all).await?;
    witness.swears(&all).await?;
    let file = std::fs::read(published.join("openid/v1/jwks"))?;
    assert_eq!(file, site.read(&url, "openid/v1/jwks").await?);
    drop(second);
    Ok(())
}

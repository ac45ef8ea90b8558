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
use rustix::process::Signal;
use serde_json::json;

const ISSUER: &str = "/cluster-a";

/// The control plane with `keys`, the first of which signs.
fn with_keys(cluster: &Cluster, keys: &[&KeyFile]) -> Result<Cluster> {
    let first = keys.first().context("no key")?;
    let files: Vec<&Path> = keys.iter().map(|key| key.public.as_path()).collect();
    Ok(cluster.clone().signing_key(&first.private).keys(&files))
}

/// A control plane of two replicas with different keys, and a site that reads both of them.
struct Stage {
    dir: Scratch,
    site: Site,
    cluster: Cluster,
    one: KeyFile,
    two: KeyFile,
    first: KubeApiserver,
    second: KubeApiserver,
}

impl Stage {
    async fn new() -> Result<Self> {
        let dir = Scratch::new("keys")?;
        let (one, two) = (KeyFile::new(&dir, "one")?, KeyFile::new(&dir, "two")?);
        let mut site = Site::new()?;
        let cluster = Cluster::new(Etcd::shared().await?.url(), &site.url(ISSUER), &one.private)?;
        let (first, second) = (with_keys(&cluster, &[&one])?, with_keys(&cluster, &[&two])?);
        let (first, second) = tokio::try_join!(KubeApiserver::start(&first), KubeApiserver::start(&second))?;
        let kubeconfig = site.dir().join("kubeconfig");
        first.kubeconfig(&kubeconfig)?;
        let sources = json!([{ "kubeApiserver": {
            "endpoints": [first.url(), second.url()], "kubeconfig": kubeconfig, "pollSeconds": 1,
        } }]);
        let published = site.dir().join("published");
        std::fs::create_dir(&published)?;
        site.add_issuer(ISSUER, sources, json!([directory_target(&published)]))?;
        Ok(Self { dir, site, cluster, one, two, first, second })
    }
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
    let Stage { dir, site, cluster, one, two, mut first, mut second } = Stage::new().await?;
    let three = KeyFile::new(&dir, "three")?;
    let (url, published) = (site.url(ISSUER), site.dir().join("published"));
    let mut service = site.start_ready().await?;
    let witness = Witness::of(site.client(), &url);
    site.shows(&url, &[&one.kid, &two.kid]).await?;

    // Down: it says nothing, so nothing changes.
    second.process().kill()?;
    waits_for_failures_of(&site, second.url()).await?;
    site.shows(&url, &[&one.kid, &two.kid]).await?;

    // Back with another key alone: what it showed before stays, although nobody shows it any more.
    let second = KubeApiserver::start_on(second.port(), &with_keys(&cluster, &[&three])?).await?;
    waits_for_keys(&site, "retained", 1).await?;
    let all = [one.kid.as_str(), &two.kid, &three.kid];
    site.shows(&url, &all).await?;

    // So does the first replica, and now the key that had vanished is shown again.
    first.process().kill()?;
    let _first = KubeApiserver::start_on(first.port(), &with_keys(&cluster, &[&two])?).await?;
    waits_for_keys(&site, "live", 2).await?;
    waits_for_keys(&site, "retained", 1).await?;
    site.shows(&url, &all).await?;

    // A restart forgets nothing of this.
    assert_eq!(service.terminate().await?, Some(0), "{}", service.log());
    drop(service);
    let service = site.start_ready().await?;
    waits_for_keys(&site, "live", 2).await.with_context(|| service.log())?;
    site.shows(&url, &all).await?;
    witness.swears(&all).await?;
    wait::until("the same in the directory", async || {
        let file = std::fs::read(published.join("openid/v1/jwks"))?;
        Ok(file == site.read(&url, "openid/v1/jwks").await?)
    })
    .await?;
    drop(second);
    Ok(())
}

#[tokio::test]
async fn nothing_is_shown_before_every_replica_was_read() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let mut stage = Stage::new().await?;
    // Nothing is recorded: a pod without a volume starts so each time.
    stage.site.config.as_object_mut().context("no configuration")?.remove("state");
    stage.second.process().freeze().await?;
    let (site, url) = (&stage.site, stage.site.url(ISSUER));
    let service = site.start()?;
    let labels = [("issuer", url.as_str()), ("source", stage.first.url())];
    wait::until("a reading of the replica that answers", async || {
        Ok(site.metric("chancery_source_last_success_timestamp_seconds", &labels).await?.is_some())
    })
    .await
    .with_context(|| service.log())?;
    let early = site.client().get(format!("{url}/openid/v1/jwks")).send().await?;
    let (status, body) = (early.status().as_u16(), early.text().await?);
    assert_eq!(status, 503, "shown with one of two replicas read: {body}\n{}", service.log());

    stage.second.process().signal(Signal::CONT)?;
    site.shows(&url, &[&stage.one.kid, &stage.two.kid]).await.with_context(|| service.log())
}

//! Two replicas of the service on one Lease: one publishes, both serve, and the other takes over.

use anyhow::{Context, Result, ensure};
use chancery_publisher::writer_key_file::random_writer_key;
use e2e::chancery::IssuerService;
use e2e::cluster::Cluster;
use e2e::etcd::Etcd;
use e2e::fault_proxy::FaultProxy;
use e2e::key_file::KeyFile;
use e2e::kube_apiserver::KubeApiserver;
use e2e::minio::Minio;
use e2e::scratch::Scratch;
use e2e::site::{Site, bucket_target};
use e2e::witness::Witness;
use e2e::{binary, wait};
use hyper::Method;
use serde_json::{Value, json};

const ISSUER: &str = "/cluster-a";
const BUCKET: &str = "documents";

/// One replica, and what lies between it and the bucket.
struct Replica {
    site: Site,
    proxy: FaultProxy,
}

impl Replica {
    async fn new(mut site: Site, minio: &Minio, election: &Value, state: &Value) -> Result<Self> {
        let proxy = FaultProxy::start(minio.endpoint()).await?;
        *site.config.pointer_mut("/issuers/0/targets").context("no targets")? =
            json!([bucket_target(minio, proxy.url(), BUCKET)]);
        let config = site.config.as_object_mut().context("no object")?;
        config.insert("leaderElection".to_owned(), election.clone());
        config.insert("state".to_owned(), state.clone());
        Ok(Self { site, proxy })
    }

    async fn waits_to_lead(&self, leads: bool) -> Result<()> {
        let expected = Some(if leads { 1.0 } else { 0.0 });
        wait::until(&format!("a replica with leader = {leads}"), async || {
            Ok(self.site.metric("chancery_leader", &[]).await? == expected)
        })
        .await
    }

    /// The record of what is seen from outside, as this replica shows it: the longest time that a cache may keep a set,
    /// and how long a key was visible, in seconds.
    async fn visibility(&self, kid: &str) -> Result<(Option<u64>, Option<u64>)> {
        let (status, text) = self.site.admin("visibility").await?;
        ensure!(status == 200, "/visibility: {status}: {text}");
        let answer: Value = serde_json::from_str(&text)?;
        let issuer = answer.pointer("/issuers/0").context("no issuer")?;
        let views = issuer.get("views").and_then(Value::as_array).context("no views")?;
        let keys = views.iter().filter_map(|view| view.get("keys")?.as_array()).flatten();
        let key = keys.into_iter().find(|key| key.get("kid") == Some(&json!(kid)));
        let visible = key.and_then(|key| key.get("visibleSeconds")?.as_u64());
        Ok((issuer.get("longestMaxAgeSeconds").and_then(Value::as_u64), visible))
    }

    fn writes(&self) -> usize {
        self.proxy.succeeded(&Method::PUT).len()
    }
}

/// Two replicas that take turns, by the three waits of the election.
struct Stage {
    keys: Scratch,
    watched: Scratch,
    first_key: KeyFile,
    minio: Minio,
    a: Replica,
    b: Replica,
    _cluster: KubeApiserver,
}

impl Stage {
    async fn new([lease, renew, retry]: [&str; 3]) -> Result<Self> {
        let (keys, watched) = (Scratch::new("keys")?, Scratch::new("watched")?);
        let first_key = KeyFile::new(&keys, "first")?;
        first_key.put_public_half_into(watched.path())?;
        let cluster =
            Cluster::new(Etcd::shared().await?.url(), "https://cluster.example", &first_key.private)?;
        let (cluster, minio) = tokio::try_join!(KubeApiserver::start(&cluster), Minio::start())?;
        minio.create_public_bucket(BUCKET).await?;
        let mut site = Site::named("localhost")?;
        site.add_issuer_of_files(ISSUER, &[watched.path()], json!([]))?;
        site.use_credentials_of(&minio);
        let verify = site.config.pointer_mut("/issuers/0/verify").and_then(Value::as_object_mut);
        verify.context("no verify")?.insert("every".to_owned(), json!("1s"));
        let kubeconfig = keys.join("kubeconfig");
        cluster.kubeconfig(&kubeconfig)?;
        let election = |identity: &str| {
            json!({
                "enabled": true, "namespace": "default", "name": "chancery", "identity": identity,
                "kubeconfig": kubeconfig, "leaseDuration": lease, "renewDeadline": renew, "retryPeriod": retry,
            })
        };
        let state = json!({
            "configMap": { "namespace": "default", "name": "chancery-state", "kubeconfig": kubeconfig },
        });
        let key_file = keys.write("writer-key", format!("{}\n", random_writer_key().to_secret_text()))?;
        site.config.as_object_mut().context("no object")?.insert("writerKeyFile".to_owned(), json!(key_file));
        let replica = site.replica(2)?;
        let a = Replica::new(site, &minio, &election("a"), &state).await?;
        let b = Replica::new(replica, &minio, &election("b"), &state).await?;
        Ok(Self { keys, watched, first_key, minio, a, b, _cluster: cluster })
    }

    /// Starts `a`, which leads and publishes, and `b`, which does neither; both serve.
    async fn start(&self) -> Result<(IssuerService, IssuerService)> {
        let (url, kids) = (self.a.site.url(ISSUER), [self.first_key.kid.as_str()]);
        let first = self.a.site.start_ready().await?;
        self.a.waits_to_lead(true).await.with_context(|| first.log())?;
        self.a.site.shows(&self.bucket_url(), &kids).await.with_context(|| first.log())?;
        let second = self.b.site.start_ready().await?;
        self.a.site.shows(&url, &kids).await?;
        self.b.site.shows(&url, &kids).await?;
        self.b.waits_to_lead(false).await?;
        assert!(
            self.a.writes() > 0 && self.b.writes() == 0,
            "{} by a, {} by b",
            self.a.writes(),
            self.b.writes()
        );
        Ok((first, second))
    }

    fn bucket_url(&self) -> String {
        format!("{}/{BUCKET}", self.minio.endpoint())
    }

    fn add_key(&self, name: &str) -> Result<KeyFile> {
        let key = KeyFile::new(&self.keys, name)?;
        key.put_public_half_into(self.watched.path())?;
        Ok(key)
    }

    /// A key that is added now is published by `b` alone, and served by it.
    async fn is_taken_over(&self, witness: Witness, log: impl Fn() -> String) -> Result<()> {
        self.b.waits_to_lead(true).await.with_context(&log)?;
        let before = self.a.writes();
        let second = self.add_key("second")?;
        let kids = [self.first_key.kid.as_str(), &second.kid];
        self.b.site.shows(&self.bucket_url(), &kids).await.with_context(&log)?;
        self.b.site.shows(&self.b.site.url(ISSUER), &kids).await?;
        assert_eq!(self.a.writes(), before);
        assert!(self.b.writes() > 0);
        witness.swears(&kids).await
    }
}

fn skipped() -> bool {
    binary::skipped(&["etcd", "kube-apiserver", "minio"])
}

#[tokio::test]
async fn the_other_replica_takes_over_from_a_killed_leader() -> Result<()> {
    if skipped() {
        return Ok(());
    }
    // A term that a busy machine does not miss by chance: whoever loses the Lease here was killed.
    let stage = Stage::new(["12s", "8s", "500ms"]).await?;
    let (mut first, second) = stage.start().await?;
    let witness = Witness::of(stage.a.site.client(), &stage.bucket_url());

    // While the leader lives, it alone publishes, and the other one serves what is new all the same.
    let before = stage.a.writes();
    let added = stage.add_key("added")?;
    let kids = [stage.first_key.kid.as_str(), &added.kid];
    stage.a.site.shows(&stage.bucket_url(), &kids).await?;
    stage.b.site.shows(&stage.b.site.url(ISSUER), &kids).await?;
    assert_eq!(stage.b.writes(), 0);
    // The bucket has it before the answer is back and counted.
    wait::until("the write to be counted", async || Ok(stage.a.writes() > before)).await?;
    let written = stage.a.writes();

    first.kill()?;
    stage.b.waits_to_lead(true).await.with_context(|| second.log())?;
    let last = stage.add_key("last")?;
    let kids = [stage.first_key.kid.as_str(), &added.kid, &last.kid];
    stage.b.site.shows(&stage.bucket_url(), &kids).await.with_context(|| second.log())?;
    ensure!(stage.a.writes() == written && stage.b.writes() > 0);

    // The killed one comes back as the second.
    let _first = stage.a.site.start_ready().await?;
    stage.a.waits_to_lead(false).await?;
    stage.a.site.shows(&stage.a.site.url(ISSUER), &kids).await?;
    witness.swears(&kids).await
}

#[tokio::test]
async fn a_leader_that_is_told_to_stop_gives_the_lease_back_at_once() -> Result<()> {
    if skipped() {
        return Ok(());
    }
    // Much longer than the test waits for anything: without giving it back, nobody could take over in time.
    let stage = Stage::new(["300s", "200s", "1s"]).await?;
    let (mut first, second) = stage.start().await?;
    let witness = Witness::of(stage.a.site.client(), &stage.bucket_url());
    let kid = &stage.first_key.kid;
    let record = wait::value("a key that was visible for seconds", async || {
        Ok(Some(stage.a.visibility(kid).await?).filter(|(_, visible)| *visible > Some(4)))
    });
    let (longest, _) = record.await.with_context(|| first.log())?;
    assert!(longest.is_some(), "the documents were served with a max-age");
    assert_eq!(first.terminate().await?, Some(0), "{}", first.log());
    stage.is_taken_over(witness, || second.log()).await?;

    // The record lies in a ConfigMap as well, all but the last second or two of it. The address that was looked at is gone
    // with the first replica: what the second one says can only come from there.
    wait::until("what the other one has recorded", async || {
        let (now_longest, visible) = stage.b.visibility(kid).await?;
        ensure!(now_longest == longest && visible > Some(0), "{now_longest:?}, {visible:?} s");
        Ok(true)
    })
    .await
    .with_context(|| second.log())
}

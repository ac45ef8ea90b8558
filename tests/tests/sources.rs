//! Key sources and leader election against real kube-apiservers.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use chancery_core::residence::SourceId;
use chancery_issuer::lease::{Elector, Leadership, LeaseConfig, Timing};
use chancery_issuer::source::{Source, SourceEvent};
use e2e::authority::LOOPBACK;
use e2e::cluster::Cluster;
use e2e::etcd::Etcd;
use e2e::key_file::KeyFile;
use e2e::kube_apiserver::KubeApiserver;
use e2e::scratch::Scratch;
use e2e::wait::SOON;
use e2e::{binary, ports};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

const NAMESPACE: &str = "clusters";
const ISSUER: &str = "https://issuer.example";
const LEASE: &str = "chancery-issuer";

/// A control plane of one replica, its administrator's kubeconfig, and a namespace to put things in.
struct Bench {
    dir: Scratch,
    cluster: Cluster,
    /// The one key that the replica signs with and shows.
    key: KeyFile,
    server: KubeApiserver,
    client: Client,
}

impl Bench {
    async fn start() -> Result<Self> {
        Self::start_named(&LOOPBACK).await
    }

    /// The API server's certificate is for `names`.
    async fn start_named(names: &[&str]) -> Result<Self> {
        let dir = Scratch::new("sources")?;
        let key = KeyFile::new(&dir, "sa")?;
        let cluster = Cluster::new(Etcd::shared().await?.url(), ISSUER, &key.private)?;
        cluster.authority().issue(cluster.dir().path(), names)?;
        let server = KubeApiserver::start(&cluster).await?;
        server.kubeconfig(&dir.join("kubeconfig"))?;
        let client = server.kube_client().await?;
        let namespace = json!({ "metadata": { "name": NAMESPACE } });
        create(&cluster_scoped::<Namespace>(&client), &namespace).await?;
        Ok(Self { dir, cluster, key, server, client })
    }

    /// A running source of the kind `kind` with the settings `config`.
    async fn source(&self, kind: &str, mut config: Value) -> Result<Running> {
        let settings = config.as_object_mut().context("settings are an object")?;
        settings.insert("kubeconfig".to_owned(), json!(self.dir.join("kubeconfig")));
        let config = serde_json::from_value(json!({ "name": "it", kind: config }))?;
        let source = Source::open(&config, 0, self.dir.path()).await?;
        let (sender, events) = mpsc::channel(16);
        Ok(Running { events, task: tokio::spawn(source.run(sender)) })
    }

    fn objects<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }
}

fn cluster_scoped<K: Resource<DynamicType = (), Scope = ClusterResourceScope>>(client: &Client) -> Api<K> {
    Api::all(client.clone())
}

async fn create<K: Clone + DeserializeOwned + Serialize + std::fmt::Debug>(
    api: &Api<K>,
    object: &Value,
) -> Result<()> {
    api.create(&PostParams::default(), &serde_json::from_value(object.clone())?).await?;
    Ok(())
}

async fn merge<K: Clone + DeserializeOwned + std::fmt::Debug>(
    api: &Api<K>,
    name: &str,
    patch: Value,
) -> Result<()> {
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

async fn delete<K: Clone + DeserializeOwned + std::fmt::Debug>(api: &Api<K>, name: &str) -> Result<()> {
    api.delete(name, &DeleteParams::default()).await?;
    Ok(())
}

/// A running source and what it says.
struct Running {
    events: mpsc::Receiver<SourceEvent>,
    task: JoinHandle<()>,
}

impl Running {
    async fn event(&mut self) -> Result<SourceEvent> {
        timeout(SOON, self.events.recv()).await.context("no event")?.context("the source has ended")
    }

    /// The next event, which must list these keys and skip nothing.
    async fn lists(&mut self, expected: &[&KeyFile]) -> Result<()> {
        match self.event().await? {
            SourceEvent::Listed { keys, skipped, .. } => {
                let kids: Vec<&str> = keys.iter().map(|key| key.key_id().as_str()).collect();
                let expected: Vec<&str> = expected.iter().map(|key| key.kid.as_str()).collect();
                ensure!(kids == expected && skipped.is_empty(), "{kids:?}, skipped {skipped:?}");
                Ok(())
            }
            other => anyhow::bail!("{other:?}"),
        }
    }

    async fn fails(&mut self) -> Result<String> {
        match self.event().await? {
            SourceEvent::Failed { error, .. } => Ok(error),
            other => anyhow::bail!("{other:?}"),
        }
    }

    /// Listens until `enough` of what each source said last, by its name: the key ids, `None` for a failure. One
    /// that is gone is not among them.
    async fn settles(&mut self, enough: impl Fn(&Sources) -> bool) -> Result<Sources> {
        let mut sources = Sources::new();
        while !enough(&sources) {
            match self.event().await.with_context(|| format!("so far: {sources:?}"))? {
                SourceEvent::Listed { source: SourceId { name, .. }, keys, .. } => {
                    sources.insert(name, Some(keys.iter().map(|key| key.key_id().to_string()).collect()))
                }
                SourceEvent::Failed { source, .. } => sources.insert(source.name, None),
                SourceEvent::Gone { source } => sources.remove(&source.name).map(|_| None),
            };
        }
        Ok(sources)
    }
}

type Sources = BTreeMap<String, Option<Vec<String>>>;

#[tokio::test]
async fn a_config_map_is_followed() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let bench = Bench::start().await?;
    let (one, two) = (KeyFile::new(&bench.dir, "one")?, KeyFile::new(&bench.dir, "two")?);
    let mut source = bench.source("configMap", json!({ "namespace": NAMESPACE, "name": "certs" })).await?;
    assert!(source.fails().await?.starts_with("configmap clusters/certs is not there"));

    let api = bench.objects::<ConfigMap>();
    let data = json!({ "a.pub": one.public_pem()?, "note": "no key" });
    create(&api, &json!({ "metadata": { "name": "certs" }, "data": data })).await?;
    source.lists(&[&one]).await?;
    create(&api, &json!({ "metadata": { "name": "other" }, "data": { "a.pub": two.public_pem()? } })).await?;
    merge(&api, "certs", json!({ "data": { "b.pub": two.public_pem()? } })).await?;
    source.lists(&[&one, &two]).await?;
    merge(&api, "certs", json!({ "data": { "b.pub": "damaged" } })).await?;
    let error = source.fails().await?;
    assert!(error.starts_with("configmap clusters/certs key b.pub: no PEM block"), "{error}");
    merge(&api, "certs", json!({ "data": { "b.pub": null } })).await?;
    source.lists(&[&one]).await?;
    delete(&api, "certs").await?;
    source.lists(&[]).await?;
    assert!(source.fails().await?.starts_with("configmap clusters/certs is not there"));

    drop(source.events);
    timeout(SOON, source.task).await.context("the source outlives its listener")??;
    Ok(())
}

/// A Secret as Cluster API makes it, written as `kubectl apply` writes it: with a copy of itself in an annotation.
fn key_pair_secret(name: &str, key: &KeyFile) -> Result<Value> {
    let private = std::fs::read_to_string(&key.private)?;
    Ok(json!({
        "metadata": {
            "name": name,
            "labels": { "role": "sa" },
            "annotations": { "kubectl.kubernetes.io/last-applied-configuration": private },
        },
        "stringData": { "tls.crt": key.public_pem()?, "tls.key": private },
    }))
}

#[tokio::test]
async fn the_public_half_of_a_secret_is_followed() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let bench = Bench::start().await?;
    let (one, two) = (KeyFile::new(&bench.dir, "one")?, KeyFile::new(&bench.dir, "two")?);
    let api = bench.objects::<Secret>();
    create(&api, &key_pair_secret("prod-sa", &one)?).await?;

    let mut by_name = bench.source("secret", json!({ "namespace": NAMESPACE, "name": "prod-sa" })).await?;
    by_name.lists(&[&one]).await?;
    let by_label = json!({ "namespace": NAMESPACE, "labelSelector": "role=sa" });
    let mut by_label = bench.source("secret", by_label).await?;
    by_label.lists(&[&one]).await?;

    create(&api, &key_pair_secret("second-sa", &two)?).await?;
    by_label.lists(&[&one, &two]).await?;
    let both = one.public_pem()? + &two.public_pem()?;
    merge(&api, "prod-sa", json!({ "stringData": { "tls.crt": both } })).await?;
    by_name.lists(&[&one, &two]).await?;
    let private = std::fs::read_to_string(&one.private)?;
    merge(&api, "prod-sa", json!({ "stringData": { "tls.crt": private } })).await?;
    let error = by_name.fails().await?;
    assert!(error.contains("block 1 (PRIVATE KEY): a private key"), "{error}");
    delete(&api, "prod-sa").await?;
    by_name.lists(&[]).await?;
    Ok(())
}

#[tokio::test]
async fn every_replica_is_read_by_itself() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let mut bench = Bench::start().await?;
    let (one, two) = (KeyFile::new(&bench.dir, "one")?, KeyFile::new(&bench.dir, "two")?);
    let rolled = bench.cluster.clone().signing_key(&two.private).keys(&[&one.public, &two.private]);
    let port = ports::free()?;
    let second = KubeApiserver::start_on(port, &rolled).await?;
    let endpoints = json!({ "endpoints": [bench.server.url(), second.url()], "pollSeconds": 1 });
    let mut source = bench.source("kubeApiserver", endpoints).await?;
    let (first, second_url) = (bench.server.url().to_owned(), second.url().to_owned());

    let seen = source.settles(|seen| seen.len() == 2).await?;
    let both = Some(vec![one.kid.clone(), two.kid.clone()]);
    let expected = [(first.clone(), Some(vec![bench.key.kid.clone()])), (second_url.clone(), both)];
    assert_eq!(seen, Sources::from(expected));

    drop(second);
    let seen = source.settles(|seen| !seen.is_empty()).await?;
    assert_eq!(seen, Sources::from([(second_url.clone(), None)]));
    let _second = KubeApiserver::start_on(port, &rolled.keys(&[&two.private])).await?;
    let seen = source.settles(|seen| seen.get(&second_url).is_some_and(Option::is_some)).await?;
    assert_eq!(seen, Sources::from([(second_url, Some(vec![two.kid]))]));

    bench.server.process().kill()?;
    let seen = source.settles(|seen| !seen.is_empty()).await?;
    assert_eq!(seen, Sources::from([(first, None)]));
    Ok(())
}

#[tokio::test]
async fn the_one_server_of_a_kubeconfig_is_read() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let bench = Bench::start().await?;
    let mut source = bench.source("kubeApiserver", json!({})).await?;
    let seen = source.settles(|seen| !seen.is_empty()).await?;
    assert_eq!(seen, Sources::from([(bench.server.url().to_owned(), Some(vec![bench.key.kid.clone()]))]));
    Ok(())
}

/// Lets connections to `listener` reach the API server, as its public address does outside this machine.
async fn forward(listener: TcpListener, to: String) {
    while let Ok((mut inbound, _)) = listener.accept().await {
        let to = to.clone();
        tokio::spawn(async move {
            let mut outbound = TcpStream::connect(to).await?;
            tokio::io::copy_bidirectional(&mut inbound, &mut outbound).await
        });
    }
}

/// An address of this machine that is not the loopback, which no EndpointSlice may name.
async fn advertised_address(slices: &Api<EndpointSlice>) -> Result<IpAddr> {
    let slice = slices.get("kubernetes").await?;
    let address = slice.endpoints.first().and_then(|endpoint| endpoint.addresses.first());
    Ok(address.context("the API server has not registered itself")?.parse()?)
}

#[tokio::test]
async fn replicas_are_followed_as_the_cluster_lists_them() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let bench = Bench::start_named(&["127.0.0.1", "localhost", "kubernetes.default.svc"]).await?;
    let slices: Api<EndpointSlice> = Api::namespaced(bench.client.clone(), "default");
    e2e::wait::until("the API server to register itself", async || {
        Ok(advertised_address(&slices).await.is_ok())
    })
    .await?;
    let address = advertised_address(&slices).await?;
    let listener = TcpListener::bind(SocketAddr::new(address, 0)).await?;
    let port = listener.local_addr()?.port();
    let server = bench.server.url().trim_start_matches("https://").to_owned();
    tokio::spawn(forward(listener, server));

    let mut source = bench.source("kubeApiserver", json!({ "discover": true, "pollSeconds": 1 })).await?;
    // Its own entry, an address on which it does not listen here.
    let seen = source.settles(|seen| !seen.is_empty()).await?;
    assert!(seen.iter().all(|(url, keys)| url.contains(&address.to_string()) && keys.is_none()), "{seen:?}");

    let slice = json!({
        "metadata": { "name": "second", "labels": { "kubernetes.io/service-name": "kubernetes" } },
        "addressType": if address.is_ipv6() { "IPv6" } else { "IPv4" },
        "endpoints": [{ "addresses": [address] }],
        "ports": [{ "name": "https", "port": port }],
    });
    create(&slices, &slice).await?;
    let second = format!("https://{}", SocketAddr::new(address, port));
    let seen = source.settles(|seen| seen.contains_key(&second)).await?;
    assert_eq!(seen[&second], Some(vec![bench.key.kid.clone()]));
    delete(&slices, "second").await?;
    loop {
        if let SourceEvent::Gone { source } = source.event().await? {
            assert_eq!(source.name, second);
            return Ok(());
        }
    }
}

/// A candidate that runs.
struct Candidate {
    leadership: watch::Receiver<Leadership>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// Waits that no test outlasts: a hand-over that happens was not caused by the lease running out.
fn long() -> Result<Timing> {
    Ok(Timing::new(SOON * 4, SOON * 2, Duration::from_millis(200))?)
}

/// As short as a Lease can say, with room for a busy machine.
fn short() -> Result<Timing> {
    Ok(Timing::new(Duration::from_secs(3), Duration::from_secs(2), Duration::from_millis(200))?)
}

impl Candidate {
    fn start(client: &Client, identity: &str, timing: Timing) -> Result<Self> {
        let config = LeaseConfig {
            namespace: NAMESPACE.to_owned(),
            name: LEASE.to_owned(),
            identity: identity.to_owned(),
            timing,
        };
        let (elector, leadership) = Elector::new(client.clone(), config)?;
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(elector.run(async {
            let _ = stopped.await;
        }));
        Ok(Self { leadership, stop, task })
    }

    fn leads(&self) -> bool {
        self.leadership.borrow().is_leader()
    }

    async fn told(&mut self, leading: bool) -> Result<Leadership> {
        let told = self.leadership.wait_for(|leadership| leadership.until.is_some() == leading);
        Ok(*timeout(SOON, told).await.context("nothing was told")??)
    }
}

async fn record(bench: &Bench) -> Result<LeaseSpec> {
    bench.objects::<Lease>().get(LEASE).await?.spec.context("a Lease without a spec")
}

#[tokio::test]
async fn a_leader_that_ends_hands_over_at_once() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let bench = Bench::start().await?;
    let mut first = Candidate::start(&bench.client, "first", long()?)?;
    assert_eq!(first.told(true).await?.transitions, 0);
    let mut second = Candidate::start(&bench.client, "second", long()?)?;
    e2e::wait::until("the first to renew", async || {
        let record = record(&bench).await?;
        assert_eq!(record.holder_identity.as_deref(), Some("first"));
        Ok(record.renew_time > record.acquire_time)
    })
    .await?;
    assert!(first.leads() && !second.leads());

    let _ = first.stop.send(());
    first.task.await?;
    assert!(!first.leadership.borrow().is_leader());
    assert_eq!(second.told(true).await?.transitions, 1);
    let record = record(&bench).await?;
    assert_eq!((record.holder_identity.as_deref(), record.lease_transitions), (Some("second"), Some(1)));
    Ok(())
}

#[tokio::test]
async fn a_leader_that_dies_is_succeeded_when_its_lease_has_run_out() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let bench = Bench::start().await?;
    let mut first = Candidate::start(&bench.client, "first", short()?)?;
    first.told(true).await?;
    let mut second = Candidate::start(&bench.client, "second", short()?)?;
    // Dies without a word: its last word in the channel runs out by itself.
    first.task.abort();
    let _ = first.task.await;
    assert!(first.leadership.borrow().until.is_some());
    let term = second.told(true).await?;
    assert!(!first.leadership.borrow().is_leader(), "two lead");
    assert_eq!(term.transitions, 1);
    Ok(())
}

#[tokio::test]
async fn a_leader_without_an_api_server_stops_leading() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let mut bench = Bench::start().await?;
    let mut leader = Candidate::start(&bench.client, "leader", short()?)?;
    let first = leader.told(true).await?;
    bench.server.process().kill()?;
    assert!(!leader.told(false).await?.is_leader());

    // Nobody else has held the Lease meanwhile, so the term goes on.
    let port = bench.server.url().rsplit(':').next().context("a port")?.parse()?;
    bench.server = KubeApiserver::start_on(port, &bench.cluster).await?;
    assert_eq!(leader.told(true).await?.transitions, first.transitions);
    Ok(())
}

//! A cluster with a namespace to put things in, and sources that read it.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use chancery_core::retention::SourceId;
use chancery_issuer::source::{Source, SourceEvent, SourceHealth};
use e2e::authority::LOOPBACK;
use e2e::cluster::Cluster;
use e2e::etcd::Etcd;
use e2e::key_file::KeyFile;
use e2e::kube_apiserver::KubeApiserver;
use e2e::scratch::Scratch;
use e2e::wait::SOON;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub const NAMESPACE: &str = "clusters";
pub const ISSUER: &str = "https://issuer.example";

/// A control plane of one replica, its administrator's kubeconfig, and a namespace to put things in.
pub struct Bench {
    pub dir: Scratch,
    pub cluster: Cluster,
    /// The one key that the replica signs with and shows.
    pub key: KeyFile,
    pub server: KubeApiserver,
    pub client: Client,
}

impl Bench {
    pub async fn start() -> Result<Self> {
        Self::start_named(&LOOPBACK).await
    }

    /// The API server's certificate is for `names`.
    pub async fn start_named(names: &[&str]) -> Result<Self> {
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
    pub async fn source(&self, kind: &str, mut config: Value) -> Result<Running> {
        let settings = config.as_object_mut().context("settings are an object")?;
        settings.insert("kubeconfig".to_owned(), json!(self.dir.join("kubeconfig")));
        let config = serde_json::from_value(json!({ "name": "it", kind: config }))?;
        let issuer = "https://id.example.com".parse()?;
        let source = Source::open(&config, 0, &issuer, self.dir.path()).await?;
        let (sender, events) = mpsc::channel(16);
        Ok(Running { events, task: tokio::spawn(source.run(sender, SourceHealth::default())) })
    }

    pub fn objects<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }
}

fn cluster_scoped<K: Resource<DynamicType = (), Scope = ClusterResourceScope>>(client: &Client) -> Api<K> {
    Api::all(client.clone())
}

pub async fn create<K: Clone + DeserializeOwned + Serialize + std::fmt::Debug>(
    api: &Api<K>,
    object: &Value,
) -> Result<()> {
    api.create(&PostParams::default(), &serde_json::from_value(object.clone())?).await?;
    Ok(())
}

pub async fn merge<K: Clone + DeserializeOwned + std::fmt::Debug>(
    api: &Api<K>,
    name: &str,
    patch: Value,
) -> Result<()> {
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

pub async fn delete<K: Clone + DeserializeOwned + std::fmt::Debug>(api: &Api<K>, name: &str) -> Result<()> {
    api.delete(name, &DeleteParams::default()).await?;
    Ok(())
}

/// A running source and what it says.
pub struct Running {
    pub events: mpsc::Receiver<Box<SourceEvent>>,
    pub task: JoinHandle<()>,
}

impl Running {
    /// The next event after the announcements of what will be read.
    pub async fn event(&mut self) -> Result<SourceEvent> {
        loop {
            let event = timeout(SOON, self.events.recv()).await.context("no event")?;
            match *event.context("the source has ended")? {
                SourceEvent::Found { .. } => {}
                event => return Ok(event),
            }
        }
    }

    /// The next event, which must list these keys and skip nothing.
    pub async fn lists(&mut self, expected: &[&KeyFile]) -> Result<()> {
        match self.event().await? {
            SourceEvent::Listed { keys, skipped, .. } => {
                let kids: Vec<&str> = keys.iter().map(|key| key.key_id().as_str()).collect();
                let expected: Vec<&str> = expected.iter().map(|key| key.kid.as_str()).collect();
                ensure!(kids == expected && skipped.is_empty(), "{kids:?}, skipped {skipped:?}");
                Ok(())
            }
            other => bail!("{other:?}"),
        }
    }

    pub async fn fails(&mut self) -> Result<String> {
        match self.event().await? {
            SourceEvent::Failed { error, .. } => Ok(error),
            other => bail!("{other:?}"),
        }
    }

    /// Listens until `enough` of what each source said last, by its name: the key ids, `None` for a failure. One
    /// that is gone is not among them.
    pub async fn settles(&mut self, enough: impl Fn(&Sources) -> bool) -> Result<Sources> {
        let mut sources = Sources::new();
        while !enough(&sources) {
            match self.event().await.with_context(|| format!("so far: {sources:?}"))? {
                SourceEvent::Listed { source: SourceId { name, .. }, keys, .. } => {
                    sources.insert(name, Some(keys.iter().map(|key| key.key_id().to_string()).collect()))
                }
                SourceEvent::Decided { source, .. } => bail!("{source:?} decides"),
                SourceEvent::Failed { source, .. } => sources.insert(source.name, None),
                SourceEvent::Gone { source } | SourceEvent::Found { source } => {
                    sources.remove(&source.name).map(|_| None)
                }
            };
        }
        Ok(sources)
    }
}

pub type Sources = BTreeMap<String, Option<Vec<String>>>;

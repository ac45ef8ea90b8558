//! One API server with the definition of `Issuer`, two replicas with the rights that the repository grants and no others, and
//! the objects in their namespace.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use chancery_publisher::writer_key_file::random_writer_key;
use e2e::chancery::{self, IssuerService};
use e2e::cluster::{API_AUDIENCE, Cluster};
use e2e::etcd::Etcd;
use e2e::key_file::KeyFile;
use e2e::kube_apiserver::KubeApiserver;
use e2e::scratch::Scratch;
use e2e::site::{Site, directory_target};
use e2e::wait;
use e2e::witness::kids;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::manifests::apply;

/// Where the manifests put the service.
pub const NAMESPACE: &str = "chancery-system";

/// One replica.
pub struct Replica(Site);

impl Replica {
    pub fn site(&self) -> &Site {
        &self.0
    }
}

/// The replicas and what they share.
pub struct Stage {
    dir: Scratch,
    pub server: KubeApiserver,
    pub client: Client,
    pub a: Replica,
    pub b: Replica,
    keys: Vec<KeyFile>,
}

impl Stage {
    /// With an issuer `/file` in the configuration, of key 0, and the ConfigMaps `keys-0` to `keys-3` of a key each.
    pub async fn start() -> Result<Self> {
        let dir = Scratch::new("issuer-objects")?;
        let keys: Vec<KeyFile> =
            (0..4).map(|number| KeyFile::p256(&dir, &format!("key-{number}"))).collect::<Result<_>>()?;
        let signing = KeyFile::new(&dir, "sa")?;
        let cluster = Cluster::new(Etcd::shared().await?.url(), "https://cluster.example", &signing.private)?;
        let server = KubeApiserver::start(&cluster).await?;
        let client = server.kube_client().await?;
        define(&client).await?;
        let kubeconfig = dir.join("kubeconfig");
        grant(&server, &kubeconfig).await?;
        for (number, key) in keys.iter().enumerate() {
            let data = json!({ "sa.pub": key.public_pem()? });
            let object = json!({ "metadata": { "name": format!("keys-{number}") }, "data": data });
            server.create(&format!("/api/v1/namespaces/{NAMESPACE}/configmaps"), &object).await?;
        }
        let (a, b) = sites(&dir, &kubeconfig, &keys)?;
        let stage = Self { dir, server, client, a: Replica(a), b: Replica(b), keys };
        // Established comes a moment before it is served.
        wait::until("Issuers are listed", async || {
            Ok(stage.api().list(&ListParams::default()).await.is_ok())
        })
        .await?;
        Ok(stage)
    }

    /// Both, ready and with one leader.
    pub async fn start_replicas(&self) -> Result<[IssuerService; 2]> {
        let a = self.a.0.start_ready().await?;
        let b = self.b.0.start_ready().await?;
        self.leader().await?;
        Ok([a, b])
    }

    /// Whoever publishes now, once there is one.
    pub async fn leader(&self) -> Result<&Replica> {
        wait::value("a leader", async || {
            for replica in [&self.a, &self.b] {
                let leads = replica.0.metric("chancery_leader", &[]).await;
                if leads.is_ok_and(|leads| leads == Some(1.0)) {
                    return Ok(Some(replica));
                }
            }
            Ok(None)
        })
        .await
    }

    pub fn key(&self, number: usize) -> &KeyFile {
        &self.keys[number]
    }

    pub fn url(&self, path: &str) -> String {
        self.a.0.url(path)
    }

    /// The spec of an issuer at `path`, of one of the keys, which is published to `folder` below the one for objects.
    pub fn spec(&self, path: &str, key: usize, folder: &str) -> Value {
        json!({
            "url": self.url(path),
            "sources": [{ "configMap": { "name": format!("keys-{key}") } }],
            "targets": [{ "to": { "name": "www", "directory": { "path": folder } } }],
            "verify": { "enabled": false, "every": "1s" },
        })
    }

    pub fn api(&self) -> Api<DynamicObject> {
        self.api_in(NAMESPACE)
    }

    pub fn api_in(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &resource())
    }

    pub async fn create(&self, name: &str, spec: Value) -> Result<()> {
        let object = object(name, spec);
        self.api().create(&PostParams::default(), &object).await.with_context(|| format!("create {name}"))?;
        Ok(())
    }

    /// Gives an object another spec, the whole of it.
    pub async fn change(&self, name: &str, spec: Value) -> Result<()> {
        let mut spec = spec;
        let before = self.get(name).await?.data["spec"].clone();
        for field in before.as_object().into_iter().flat_map(|fields| fields.keys()) {
            // What a merge is not told of stays.
            let now = spec.as_object_mut().context("no spec")?;
            now.entry(field.clone()).or_insert(Value::Null);
        }
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.api()
            .patch(name, &PatchParams::default(), &patch)
            .await
            .with_context(|| format!("change {name}"))?;
        Ok(())
    }

    pub async fn delete(&self, name: &str) -> Result<()> {
        self.api().delete(name, &DeleteParams::default()).await.with_context(|| format!("delete {name}"))?;
        Ok(())
    }

    pub async fn get(&self, name: &str) -> Result<DynamicObject> {
        self.api().get(name).await.with_context(|| format!("get {name}"))
    }

    /// The status of an object once it is so.
    pub async fn shows(&self, name: &str, what: &str, so: impl Fn(&Value) -> bool) -> Result<Value> {
        wait::value(&format!("{what}: {name}"), async || {
            let status = self.get(name).await?.data["status"].clone();
            ensure!(so(&status), "its status is {status}");
            Ok(Some(status))
        })
        .await
    }

    /// The same for the reason of its condition `Accepted`, of the spec that it has now.
    pub async fn accepted(&self, name: &str, reason: &str) -> Result<Value> {
        let generation = self.get(name).await?.metadata.generation;
        self.shows(name, reason, |status| {
            let accepted = condition(status, "Accepted");
            accepted["reason"] == reason && accepted["observedGeneration"] == json!(generation)
        })
        .await
    }

    /// Both replicas serve the issuer at `path` with exactly this key.
    pub async fn is_shown(&self, path: &str, key: usize) -> Result<()> {
        for replica in [&self.a, &self.b] {
            replica.0.shows(&self.url(path), &[&self.key(key).kid]).await?;
        }
        Ok(())
    }

    /// No replica answers for the issuer at `path` any more.
    pub async fn is_gone(&self, path: &str) -> Result<()> {
        for replica in [&self.a, &self.b] {
            let jwks = format!("{}/openid/v1/jwks", self.url(path));
            wait::until(&format!("{path} to go"), async || {
                Ok(replica.0.client().get(&jwks).send().await?.status() == 404)
            })
            .await?;
        }
        Ok(())
    }

    /// The folder holds exactly this key.
    pub async fn is_published(&self, folder: &str, key: usize) -> Result<()> {
        let expected = BTreeSet::from([self.key(key).kid.clone()]);
        wait::until(&format!("{expected:?} in {folder}"), async || Ok(self.folder(folder)? == expected)).await
    }

    /// Where the documents of a folder are.
    pub fn jwks_of(&self, folder: &str) -> PathBuf {
        self.dir.join("www").join(folder).join("openid/v1/jwks")
    }

    /// The keys in a folder.
    pub fn folder(&self, folder: &str) -> Result<BTreeSet<String>> {
        let path = self.jwks_of(folder);
        let bytes = std::fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        Ok(kids(&serde_json::from_slice(&bytes)?))
    }

    /// Both replicas count so many objects in a state.
    pub async fn is_counted(&self, state: &str, count: f64) -> Result<()> {
        for replica in [&self.a, &self.b] {
            wait::until(&format!("{count} objects {state}"), async || {
                Ok(replica.0.metric("chancery_issuer_objects", &[("state", state)]).await? == Some(count))
            })
            .await?;
        }
        Ok(())
    }
}

/// A condition of a status, or nothing.
pub fn condition<'a>(status: &'a Value, kind: &str) -> &'a Value {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let mut found = conditions.filter(|held| held["type"] == kind);
    found.next().unwrap_or(&Value::Null)
}

pub fn object(name: &str, spec: Value) -> DynamicObject {
    DynamicObject::new(name, &resource()).data(json!({ "spec": spec }))
}

fn resource() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("chancery.dev", "v1alpha1", "Issuer"), "issuers")
}

/// Makes the definition that the program prints, which is that of the repository.
async fn define(client: &Client) -> Result<()> {
    let printed = chancery::run(&["issuer", "crd"]).await?.success()?;
    ensure!(printed == std::fs::read_to_string("../deploy/crds/issuers.chancery.dev.yaml")?, "{printed}");
    let definition: DynamicObject = serde_saphyr::from_str(&printed)?;
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let definitions: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    definitions.create(&PostParams::default(), &definition).await?;
    wait::until("the definition is served", async || {
        let status = definitions.get("issuers.chancery.dev").await?.data["status"].clone();
        ensure!(condition(&status, "NonStructuralSchema")["status"] != "True", "{status}");
        Ok(condition(&status, "Established")["status"] == "True")
    })
    .await
}

/// Gives the ServiceAccount of the service what deploy/issuers.yaml gives it, and the Lease as kind/issuer.yaml does.
async fn grant(server: &KubeApiserver, kubeconfig: &Path) -> Result<()> {
    server.create_service_account(NAMESPACE, "chancery").await?;
    let issuers = std::fs::read_to_string("../deploy/issuers.yaml")?;
    let service = std::fs::read_to_string("../kind/issuer.yaml")?;
    let of_leader = service.split("\n---\n").filter(|document| document.contains("name: chancery-leader"));
    for document in issuers.split("\n---\n").chain(of_leader) {
        apply(server.kube_client().await?, serde_saphyr::from_str(document)?).await?;
    }
    let token = server.token_request((NAMESPACE, "chancery"), API_AUDIENCE, 3600).await?;
    server.kubeconfig_with(&token, kubeconfig)?;
    // Rights are there a moment after they were granted.
    let review = json!({ "spec": { "resourceAttributes": {
        "namespace": NAMESPACE, "verb": "update", "group": "chancery.dev", "resource": "issuers", "subresource": "status",
    } } });
    wait::until("the rights", async || {
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let (_, answer) = server.post(path, &token, &review).await?;
        Ok(answer["status"]["allowed"] == true)
    })
    .await
}

/// Two sites of one service: one Lease, one state, one folder for objects.
fn sites(dir: &Scratch, kubeconfig: &Path, keys: &[KeyFile]) -> Result<(Site, Site)> {
    std::fs::create_dir_all(dir.join("www/file"))?;
    let mut site = Site::named("localhost")?;
    let target = json!([directory_target(&dir.join("www/file"))]);
    site.add_issuer_of_files("/file", &[&keys[0].public], target)?;
    let writer_key = dir.write("writer-key", format!("{}\n", random_writer_key().to_secret_text()))?;
    let resources = json!({
        "namespace": NAMESPACE, "kubeconfig": kubeconfig, "directory": dir.join("www"),
        "ca": site.authority().path(),
    });
    let config = site.config.as_object_mut().context("no object")?;
    config.insert("writerKeyFile".to_owned(), json!(writer_key));
    config.insert("resources".to_owned(), resources);
    let replica = site.replica(2)?;
    let with_lease = |mut site: Site, identity: &str| {
        let config = site.config.as_object_mut().context("no object")?;
        let place = json!({ "namespace": NAMESPACE, "name": "chancery-state", "kubeconfig": kubeconfig });
        config.insert("state".to_owned(), json!({ "configMap": place }));
        let election = json!({
            "enabled": true, "namespace": NAMESPACE, "name": "chancery", "identity": identity,
            "kubeconfig": kubeconfig, "leaseDuration": "12s", "renewDeadline": "8s", "retryPeriod": "500ms",
        });
        config.insert("leaderElection".to_owned(), election);
        Ok::<_, anyhow::Error>(site)
    };
    Ok((with_lease(site, "a")?, with_lease(replica, "b")?))
}

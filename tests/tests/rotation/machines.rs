//! The part of Cluster API's controllers: a management cluster with the real definitions, and kube-apiservers that are made from
//! what the Secret holds then, one after another, whenever the KubeadmControlPlane asks for it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Error, Result, ensure};
use e2e::cluster::Cluster;
use e2e::etcd::Etcd;
use e2e::kube_apiserver::KubeApiserver;
use e2e::scratch::Scratch;
use e2e::{binary, wait};
use futures_util::future::try_join_all;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::RwLock;

use crate::load::Servers;
use crate::stage::ACCOUNT;

pub const CLUSTER: &str = "prod";
/// The shortest that kube-apiserver can be told.
pub const LIFETIME: u64 = 3600;
const MACHINES: usize = 2;
const LABEL: &str = "cluster.x-k8s.io/cluster-name";

/// The management cluster.
pub struct Management {
    _server: KubeApiserver,
    pub secrets: Api<Secret>,
    planes: Api<DynamicObject>,
    machines: Api<DynamicObject>,
    /// A machine is not ready: nothing is rolled.
    pub is_stuck: AtomicBool,
    /// How many machines were made.
    pub made: AtomicUsize,
}

impl Management {
    pub async fn start(dir: &Scratch, key: &Path) -> Result<Self> {
        let cluster = Cluster::new(Etcd::shared().await?.url(), "https://management.example", key)?;
        let server = KubeApiserver::start(&cluster).await?;
        let planes = binary::server("cluster-api")?;
        for file in [planes.clone(), planes.with_file_name("machines.yaml")] {
            let definition: Value = serde_saphyr::from_str(&std::fs::read_to_string(file)?)?;
            server.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await?;
        }
        let client = server.kube_client().await?;
        let planes = api(&client, "controlplane.cluster.x-k8s.io", "KubeadmControlPlane");
        let machines = api(&client, "cluster.x-k8s.io", "Machine");
        let served = async || {
            planes.list(&ListParams::default()).await?;
            Ok(machines.list(&ListParams::default()).await.is_ok())
        };
        wait::until("Cluster API's resources to be served", served).await?;
        server.kubeconfig(&dir.join("management.conf"))?;
        let secrets = Api::namespaced(client, "default");
        let (is_stuck, made) = (AtomicBool::new(false), AtomicUsize::new(0));
        Ok(Self { _server: server, secrets, planes, machines, is_stuck, made })
    }

    /// Makes the Secret as Cluster API does, and the control plane.
    pub async fn create_cluster(&self, keys: (&Path, &Path)) -> Result<()> {
        let bytes = |path: &Path| Ok::<_, Error>(ByteString(std::fs::read(path)?));
        let secret = Secret {
            data: Some(
                [("tls.key".to_owned(), bytes(keys.0)?), ("tls.crt".to_owned(), bytes(keys.1)?)].into(),
            ),
            type_: Some("cluster.x-k8s.io/secret".to_owned()),
            ..serde_json::from_value(
                json!({ "metadata": { "name": "prod-sa", "labels": { LABEL: CLUSTER } } }),
            )?
        };
        self.secrets.create(&PostParams::default(), &secret).await?;
        let flag = |name: &str, value: &str| json!({ "name": name, "value": value });
        let plane = json!({
            "metadata": { "name": "prod-control-plane", "labels": { LABEL: CLUSTER } },
            "spec": {
                "replicas": MACHINES,
                "version": "v1.36.3",
                "machineTemplate": { "spec": { "infrastructureRef": infrastructure("DockerMachineTemplate") } },
                "kubeadmConfigSpec": { "clusterConfiguration": { "apiServer": { "extraArgs": [
                    flag("service-account-max-token-expiration", "1h0m0s"),
                    flag("service-account-extend-token-expiration", "false"),
                ] } } },
            },
        });
        let (group, kind) = ("controlplane.cluster.x-k8s.io", "KubeadmControlPlane");
        self.planes.create(&PostParams::default(), &object(group, kind, plane)?).await?;
        Ok(())
    }

    pub async fn secret(&self) -> Result<Secret> {
        Ok(self.secrets.get("prod-sa").await?)
    }

    async fn list(&self) -> Result<Vec<DynamicObject>> {
        Ok(self.machines.list(&ListParams::default()).await?.items)
    }

    /// Makes a Machine for a place, and gives what it is made from to its kube-apiserver.
    async fn make(&self, place: &str, node: &Scratch) -> Result<()> {
        let number = self.made.fetch_add(1, Ordering::SeqCst);
        let machine = json!({
            "metadata": {
                "name": format!("{CLUSTER}-{place}-{number}"),
                "labels": { LABEL: CLUSTER, "cluster.x-k8s.io/control-plane": "", "place": place },
            },
            "spec": {
                "clusterName": CLUSTER,
                "bootstrap": { "dataSecretName": "unused" },
                "infrastructureRef": infrastructure("DockerMachine"),
            },
        });
        self.machines
            .create(&PostParams::default(), &object("cluster.x-k8s.io", "Machine", machine)?)
            .await?;
        let data = self.secret().await?.data.context("an empty Secret")?;
        node.write("sa.key", &data["tls.key"].0)?;
        node.write("sa.pub", &data["tls.crt"].0)?;
        Ok(())
    }

    /// What the controller of the KubeadmControlPlane says of it.
    async fn report(&self) -> Result<(DynamicObject, Vec<DynamicObject>)> {
        let (plane, machines) = (self.planes.get("prod-control-plane").await?, self.list().await?);
        let new = machines.iter().filter(|machine| !is_old(machine, &plane)).count();
        let stuck = usize::from(self.is_stuck.load(Ordering::SeqCst));
        let status = json!({ "status": {
            "observedGeneration": plane.metadata.generation,
            "replicas": machines.len(),
            "upToDateReplicas": new,
            "readyReplicas": machines.len() - stuck,
        } });
        let params = PatchParams::default();
        self.planes.patch_status("prod-control-plane", &params, &Patch::Merge(status)).await?;
        Ok((plane, machines))
    }
}

/// Whether a machine has to be made anew: the rule of Cluster API, which counts in whole seconds.
fn is_old(machine: &DynamicObject, plane: &DynamicObject) -> bool {
    let after = plane.data.pointer("/spec/rollout/after").and_then(Value::as_str);
    let after = after.and_then(|after| after.parse::<Timestamp>().ok());
    let made = machine.metadata.creation_timestamp.as_ref().map(|made| made.0);
    after.is_some_and(|after| made < Some(after) && after < Timestamp::now())
}

/// The control plane of the workload cluster: one kube-apiserver for each place.
pub struct Machines {
    pub management: Management,
    pub servers: Servers,
    nodes: Vec<Scratch>,
    cluster: Cluster,
}

impl Machines {
    pub async fn start(management: Management, issuer: &str) -> Result<Self> {
        let nodes = (0..MACHINES).map(|_| Scratch::new("machine")).collect::<Result<Vec<_>>>()?;
        for (place, node) in nodes.iter().enumerate() {
            management.make(&place.to_string(), node).await?;
        }
        let cluster = Cluster::new(Etcd::shared().await?.url(), issuer, &nodes[0].join("sa.key"))?
            .max_token_expiration(Duration::from_secs(LIFETIME));
        let clusters: Vec<_> = nodes.iter().map(|node| of(&cluster, node)).collect();
        let servers = try_join_all(clusters.iter().map(KubeApiserver::start)).await?;
        servers[0].create_service_account(ACCOUNT.0, ACCOUNT.1).await?;
        management.report().await?;
        let servers = Arc::new(servers.into_iter().map(RwLock::new).collect());
        Ok(Self { management, servers, nodes, cluster })
    }

    /// Rolls whenever it is asked for, for as long as it is polled.
    pub async fn reconcile(&self) -> Error {
        loop {
            let round = async {
                let (plane, machines) = self.management.report().await?;
                let old = machines.iter().find(|machine| is_old(machine, &plane));
                match old.filter(|_| !self.management.is_stuck.load(Ordering::SeqCst)) {
                    Some(old) => self.replace(old).await,
                    None => Ok(()),
                }
            };
            if let Err(error) = round.await {
                return error;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// A machine that has failed is made anew, of whatever the Secret holds now.
    pub async fn repair(&self) -> Result<()> {
        let machines = self.management.list().await?;
        self.replace(machines.first().context("no machine")?).await
    }

    async fn replace(&self, machine: &DynamicObject) -> Result<()> {
        let labels = machine.metadata.labels.as_ref();
        let place = labels.and_then(|labels| labels.get("place")).context("not one of ours")?;
        let number: usize = place.parse()?;
        self.management.make(place, &self.nodes[number]).await?;
        self.management.report().await?;
        {
            let mut server = self.servers[number].write().await;
            server.process().kill()?;
            *server = KubeApiserver::start(&of(&self.cluster, &self.nodes[number])).await?;
        }
        let name = machine.metadata.name.as_deref().unwrap_or_default();
        self.management.machines.delete(name, &DeleteParams::default()).await?;
        self.management.report().await?;
        Ok(())
    }
}

fn of(cluster: &Cluster, node: &Scratch) -> Cluster {
    cluster.clone().signing_key(&node.join("sa.key")).keys(&[&node.join("sa.pub")])
}

fn infrastructure(kind: &str) -> Value {
    json!({ "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": kind, "name": CLUSTER })
}

fn object(group: &str, kind: &str, mut object: Value) -> Result<DynamicObject> {
    object["apiVersion"] = json!(format!("{group}/v1beta2"));
    object["kind"] = json!(kind);
    Ok(serde_json::from_value(object)?)
}

fn api(client: &Client, group: &str, kind: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(group, "v1beta2", kind);
    Api::namespaced_with(client.clone(), "default", &ApiResource::from_gvk(&kind))
}

/// The key ids in the Secret's tls.crt, in their order.
pub fn verified_with(secret: &Secret) -> Result<Vec<String>> {
    let entry = secret.data.as_ref().and_then(|data| data.get("tls.crt")).context("no tls.crt")?;
    let keys = chancery_core::key_file::read_public_keys(&*entry.0).keys;
    ensure!(!keys.is_empty(), "tls.crt has no key");
    Ok(keys.iter().map(|key| key.key_id().to_string()).collect())
}

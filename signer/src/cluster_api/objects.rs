//! The objects of a management cluster: the Secret that machines are made from, the KubeadmControlPlane, and its Machines.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use chancery_cluster::access::{AccessError, ClusterChoice, client, explain};
use chancery_cluster::limits;
use chancery_core::PublicKey;
use chancery_core::key_file::read_public_keys;
use chancery_core::rollout::NodeKeys;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::json;
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::plane::{MARK, Mark, Plane};
use crate::key_file_node::first_private;

/// The entries of the Secret.
const SIGNING: &str = "tls.key";
const VERIFYING: &str = "tls.crt";

/// Where a control plane is.
#[derive(Clone, Debug)]
pub struct ControlPlanePlace {
    /// The management cluster; without a kubeconfig, that in which this process is a pod.
    pub kubeconfig: Option<PathBuf>,
    /// A context of it.
    pub context: Option<String>,
    /// The namespace of the Cluster; that of the kubeconfig when missing.
    pub namespace: Option<String>,
    /// The name of the Cluster.
    pub cluster: String,
    /// The name of the KubeadmControlPlane.
    pub control_plane: String,
}

/// Access to them.
#[derive(Clone)]
pub(super) struct Objects {
    secrets: Api<Secret>,
    planes: Api<DynamicObject>,
    machines: Api<DynamicObject>,
    namespace: String,
    place: ControlPlanePlace,
}

/// What was read in one look.
#[derive(Debug)]
pub(super) struct Found {
    secret: Secret,
    pub keys: NodeKeys,
    /// The public halves of those that verify.
    pub public: BTreeMap<chancery_core::KeyId, PublicKey>,
    pub object: DynamicObject,
    pub plane: Plane,
}

/// What the Secret shall hold.
pub(super) struct NewKeys {
    pub signing: Zeroizing<Vec<u8>>,
    pub verifying: String,
}

impl Objects {
    /// Nothing is asked yet.
    pub async fn open(place: &ControlPlanePlace) -> Result<Self, AccessError> {
        let choice = ClusterChoice {
            kubeconfig: place.kubeconfig.as_deref(),
            context: place.context.as_deref(),
            base: Path::new(""),
        };
        let access = choice.config().await?;
        let namespace = place.namespace.clone().unwrap_or_else(|| access.default_namespace.clone());
        let client = client(access)?;
        let resource = |group: &str, kind: &str, plural: &str| {
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1beta2", kind), plural)
        };
        let plane = resource("controlplane.cluster.x-k8s.io", "KubeadmControlPlane", "kubeadmcontrolplanes");
        let machine = resource("cluster.x-k8s.io", "Machine", "machines");
        Ok(Self {
            secrets: Api::namespaced(client.clone(), &namespace),
            planes: Api::namespaced_with(client.clone(), &namespace, &plane),
            machines: Api::namespaced_with(client, &namespace, &machine),
            namespace,
            place: place.clone(),
        })
    }

    /// The Secret, for a person.
    pub fn secret_place(&self) -> String {
        format!("Secret {}/{}", self.namespace, self.secret_name())
    }

    fn secret_name(&self) -> String {
        format!("{}-sa", self.place.cluster)
    }

    fn plane_place(&self) -> String {
        format!("KubeadmControlPlane {}/{}", self.namespace, self.place.control_plane)
    }

    /// Reads all of them. The Machines last: one that is made meanwhile is seen.
    pub async fn read(&self) -> Result<Found, ObjectsError> {
        let (secret_place, plane_place) = (self.secret_place(), self.plane_place());
        let secret = within("get", &secret_place, self.secrets.get_opt(&self.secret_name())).await?;
        let secret = secret.ok_or(ObjectsError::Missing { place: secret_place, what: "--cluster" })?;
        let object = within("get", &plane_place, self.planes.get_opt(&self.place.control_plane)).await?;
        let object = object
            .ok_or_else(|| ObjectsError::Missing { place: plane_place.clone(), what: "--control-plane" })?;
        let label = "cluster.x-k8s.io/cluster-name";
        let is_of = object.metadata.labels.as_ref().and_then(|labels| labels.get(label));
        if let Some(other) = is_of.filter(|of| **of != self.place.cluster) {
            let (other, cluster) = (other.clone(), self.place.cluster.clone());
            return Err(ObjectsError::OtherCluster { place: plane_place, other, cluster });
        }
        let params = ListParams::default()
            .labels(&format!("{label}={},cluster.x-k8s.io/control-plane", self.place.cluster));
        let place = format!("Machines of {}/{}", self.namespace, self.place.cluster);
        let machines = within("list", &place, self.machines.list_metadata(&params)).await?;
        let machines: Vec<ObjectMeta> = machines.items.into_iter().map(|machine| machine.metadata).collect();
        let plane = Plane::of(&object, &machines);
        let plane =
            plane.map_err(|problem| ObjectsError::Refused { what: "use", place: plane_place, problem })?;
        let data = secret.data.as_ref();
        let entry = |name: &str| data.and_then(|data| data.get(name)).map_or(&[][..], |bytes| &bytes.0);
        let signs = first_private(&Zeroizing::new(entry(SIGNING).to_vec()));
        let keys = read_public_keys(entry(VERIFYING)).keys.into_iter();
        let public: BTreeMap<_, _> = keys.map(|key| (key.key_id().clone(), key)).collect();
        let keys = NodeKeys { signs, verifies: public.keys().cloned().collect() };
        Ok(Found { secret, keys, public, object, plane })
    }

    /// Writes the Secret, on the condition that it still is what was read.
    pub async fn write(&self, found: &Found, keys: NewKeys) -> Result<(), ObjectsError> {
        let mut secret = found.secret.clone();
        let data = secret.data.get_or_insert_default();
        data.insert(SIGNING.to_owned(), ByteString(keys.signing.to_vec()));
        data.insert(VERIFYING.to_owned(), ByteString(keys.verifying.into_bytes()));
        let name = self.secret_name();
        let params = PostParams::default();
        let write = self.secrets.replace(&name, &params, &secret);
        within("update", &self.secret_place(), write).await.map(drop)
    }

    /// Writes the mark, and has machines made anew that were made before `after`, on the condition that the
    /// KubeadmControlPlane still is what was read.
    pub async fn mark(
        &self,
        found: &Found,
        mark: &Mark,
        after: Option<Timestamp>,
    ) -> Result<(), ObjectsError> {
        let text = serde_json::to_string(mark).unwrap_or_default();
        let metadata = json!({
            "resourceVersion": found.object.metadata.resource_version,
            "annotations": { MARK: text },
        });
        let patch = match after {
            Some(after) => {
                json!({ "metadata": metadata, "spec": { "rollout": { "after": after.to_string() } } })
            }
            None => json!({ "metadata": metadata }),
        };
        let patch = Patch::Merge(patch);
        let params = PatchParams::default();
        let write = self.planes.patch(&self.place.control_plane, &params, &patch);
        within("patch", &self.plane_place(), write).await.map(drop)
    }
}

impl Found {
    /// When the Secret was written last, by the clock of the management cluster's API server.
    pub fn written(&self) -> Option<Timestamp> {
        let fields = self.secret.metadata.managed_fields.iter().flatten();
        let times = fields.filter_map(|entry| entry.time.as_ref());
        times.chain(&self.secret.metadata.creation_timestamp).map(|time| time.0).max()
    }

    /// Whether `other` has the same Secret, byte for byte.
    pub fn has_same_secret(&self, other: &Self) -> bool {
        self.secret.metadata.resource_version == other.secret.metadata.resource_version
    }
}

async fn within<R>(
    what: &'static str,
    place: &str,
    call: impl Future<Output = kube::Result<R>>,
) -> Result<R, ObjectsError> {
    let problem = match timeout(limits::CALL, call).await {
        Ok(Ok(answer)) => return Ok(answer),
        Ok(Err(kube::Error::Api(status))) if status.code == 409 => {
            return Err(ObjectsError::Raced(place.to_owned()));
        }
        Ok(Err(error)) => explain(&error),
        Err(_) => format!("the API server did not answer within {} s", limits::CALL.as_secs()),
    };
    Err(ObjectsError::Refused { what, place: place.to_owned(), problem })
}

/// Why they cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectsError {
    /// It is not there.
    #[error("{place} is not there; check {what} and --namespace, and that Cluster API has made the cluster")]
    Missing {
        /// What.
        place: String,
        /// The argument that names it.
        what: &'static str,
    },
    /// It belongs to another cluster.
    #[error(
        "{place} is the control plane of Cluster {other}, and --cluster is {cluster}; name those that belong together"
    )]
    OtherCluster {
        /// What.
        place: String,
        /// Whose it is.
        other: String,
        /// Whose it should be.
        cluster: String,
    },
    /// Somebody else was faster.
    #[error("{0} was written by somebody else meanwhile; it is read again")]
    Raced(String),
    /// The API server refused, could not be asked, or has something that cannot be used.
    #[error("cannot {what} {place}: {problem}")]
    Refused {
        /// What was to be done.
        what: &'static str,
        /// With what.
        place: String,
        /// Why not.
        problem: String,
    },
}

//! The task that follows the objects.

use std::path::Path;
use std::sync::Arc;

use chancery_cluster::access::{AccessError, ClusterChoice, client, watching_client};
use chancery_cluster::last_said::LastSaid;
use kube::Api;
use kube::runtime::watcher;
use tokio::sync::watch;
use tracing::{info, warn};

use super::index::ObjectIndex;
use super::object::IssuerObject;
use super::spec::ObjectLimits;
use super::writer::{SeenObjects, StatusWriter};
use super::{Declarations, Watched};
use crate::config::ResourcesConfig;
use crate::source::Objects;

/// The `Issuer` objects of a namespace.
#[derive(Debug)]
pub struct IssuerObjects {
    namespace: String,
    objects: Objects<IssuerObject>,
    index: ObjectIndex,
    declared: watch::Sender<Option<Arc<Vec<super::DeclaredIssuer>>>>,
    seen: watch::Sender<SeenObjects>,
    writer: StatusWriter,
}

impl IssuerObjects {
    /// Prepares to follow them; relative paths start at `base`. Connects to nothing yet: an issuer must start also while its
    /// cluster is down.
    ///
    /// # Errors
    /// When the cluster cannot be reached by what is configured.
    pub async fn open(config: &ResourcesConfig, base: &Path, watched: Watched) -> Result<Self, ObjectsError> {
        let choice = ClusterChoice { kubeconfig: config.kubeconfig.as_deref(), context: None, base };
        let access = choice.config().await?;
        let namespace = config.namespace.clone().unwrap_or_else(|| access.default_namespace.clone());
        let limits = ObjectLimits {
            namespace: namespace.clone(),
            kubeconfig: config.kubeconfig.clone(),
            directory: config.directory.clone(),
            endpoints: config.endpoints.clone(),
            ca: config.ca.clone(),
        };
        let api = Api::namespaced(watching_client(access.clone())?, &namespace);
        let (seen, objects_seen) = watch::channel(SeenObjects::default());
        let writer = StatusWriter::new(Api::namespaced(client(access)?, &namespace), objects_seen, watched);
        Ok(Self {
            namespace,
            objects: Objects::new(api, watcher::Config::default()),
            index: ObjectIndex::new(limits),
            declared: watch::Sender::new(None),
            seen,
            writer,
        })
    }

    /// What they declare, now and later.
    pub fn declarations(&self) -> Declarations {
        self.declared.subscribe()
    }

    /// Runs until the process ends.
    pub async fn run(self) {
        let Self { namespace, mut objects, mut index, declared, seen, writer } = self;
        let follow = async {
            let mut problem = LastSaid::default();
            loop {
                match objects.next().await {
                    Ok(all) => {
                        if problem.forget() {
                            info!(namespace, "Issuer objects are followed again");
                        }
                        // An empty namespace is said as well: nobody waits for what is not there.
                        if index.take(all) || declared.borrow().is_none() {
                            declared.send_replace(Some(Arc::new(index.declared())));
                        }
                        seen.send_replace(Arc::new(index.objects()));
                    }
                    Err(error) => {
                        if problem.is_new(&error) {
                            warn!(
                                namespace,
                                "Issuer objects cannot be followed, and those that are known run on: {error}; is their \
                                 definition there (`chancery issuer crd | kubectl apply -f -`)?"
                            );
                        }
                    }
                }
            }
        };
        tokio::join!(follow, writer.run());
    }
}

/// Why objects cannot be followed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectsError {
    /// The cluster cannot be reached by what is configured.
    #[error("resources: {0}")]
    Access(#[from] AccessError),
}

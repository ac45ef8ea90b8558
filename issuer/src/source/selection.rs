//! Which objects of a cluster a source reads.

use std::fmt;

use chancery_cluster::access::{ClusterChoice, watching_client};
use k8s_openapi::NamespaceResourceScope;
use kube::{Api, Resource};

use super::SourceError;
use super::objects::Objects;

/// One object by name, or several by label, in one namespace.
#[derive(Clone, Copy, Debug)]
pub struct Selection<'a> {
    /// The namespace.
    pub namespace: &'a str,
    /// The name of one object.
    pub name: Option<&'a str>,
    /// A label selector.
    pub label_selector: Option<&'a str>,
}

impl fmt::Display for Selection<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, name, label_selector } = self;
        match (name, label_selector) {
            (Some(name), _) => write!(f, "{namespace}/{name}"),
            (None, Some(labels)) => write!(f, "{namespace} with labels {labels}"),
            (None, None) => f.write_str(namespace),
        }
    }
}

impl Selection<'_> {
    /// Opens a watch of the selected objects.
    pub(super) async fn open<K>(&self, cluster: ClusterChoice<'_>) -> Result<Objects<K>, SourceError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
    {
        let mut watched = kube::runtime::watcher::Config::default();
        match (self.name, self.label_selector) {
            (Some(name), None) => watched = watched.fields(&format!("metadata.name={name}")),
            (None, Some(labels)) => watched = watched.labels(labels),
            _ => {
                let problem = "expected exactly one of `name` and `labelSelector`".to_owned();
                return Err(SourceError::Value { field: "name", problem });
            }
        }
        let client = watching_client(cluster.config().await?)?;
        Ok(Objects::new(Api::namespaced(client, self.namespace), watched))
    }
}

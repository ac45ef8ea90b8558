//! The state in a ConfigMap that the replicas of a cluster share: one entry for each issuer. It holds public halves only.
//!
//! Every write names the `resourceVersion` that was read, so of two replicas one wins; and an entry that another replica
//! has saved since is handed back instead of being replaced, so that a replica that slept adopts it. A ConfigMap takes 1 MiB, enough
//! for about 300 issuers of three keys.

use std::collections::BTreeMap;
use std::path::Path;

use chancery_core::IssuerUrl;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};

use super::{Kept, Saved, StateError, name_of};
use crate::config::StateConfigMapConfig;
use crate::source::cluster;

/// Other issuers of the same process write the same object.
const TRIES: u32 = 20;

/// A ConfigMap, made when it is not there.
#[derive(Clone)]
pub struct StateConfigMap {
    api: Api<ConfigMap>,
    name: String,
    place: String,
}

impl std::fmt::Debug for StateConfigMap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StateConfigMap").field("place", &self.place).finish_non_exhaustive()
    }
}

impl StateConfigMap {
    /// Uses the ConfigMap that `config` names. Nothing is asked of it yet.
    ///
    /// # Errors
    /// When the cluster cannot be reached by what the configuration and the environment say.
    pub async fn open(config: &StateConfigMapConfig, base: &Path) -> Result<Self, StateError> {
        let access = cluster::access((config.kubeconfig.as_deref(), None), base).await?;
        let namespace = config.namespace.clone().unwrap_or_else(|| access.default_namespace.clone());
        let place = format!("ConfigMap {namespace}/{}", config.name);
        Ok(Self {
            api: Api::namespaced(cluster::client(access)?, &namespace),
            name: config.name.clone(),
            place,
        })
    }

    pub(super) async fn load(&self, issuer: &IssuerUrl) -> Result<Option<Saved>, StateError> {
        let map = self.get().await?;
        self.entry(map.as_ref(), issuer)
    }

    pub(super) async fn save(&self, saved: &Saved, known: Option<&Saved>) -> Result<Kept, StateError> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let map = self.get().await?;
            if let Some(theirs) = self.entry(map.as_ref(), &saved.issuer)?
                && Some(&theirs) != known
            {
                return Ok(Kept::Changed(theirs));
            }
            match self.put(map, saved).await {
                Ok(()) => return Ok(Kept::Saved),
                // Somebody else wrote another entry, or the same one: read again.
                Err(kube::Error::Api(status)) if status.code == 409 && attempt < TRIES => {}
                Err(error) => return Err(self.refused(error)),
            }
        }
    }

    async fn get(&self) -> Result<Option<ConfigMap>, StateError> {
        self.api.get_opt(&self.name).await.map_err(|error| self.refused(error))
    }

    fn entry(&self, map: Option<&ConfigMap>, issuer: &IssuerUrl) -> Result<Option<Saved>, StateError> {
        let name = name_of(issuer);
        let text = map.and_then(|map| map.data.as_ref()?.get(&name));
        text.map(|text| super::read(text.as_bytes(), || format!("entry {name} of {}", self.place)))
            .transpose()
    }

    async fn put(&self, map: Option<ConfigMap>, saved: &Saved) -> kube::Result<()> {
        let text = serde_json::to_string(saved).map_err(kube::Error::SerdeError)?;
        let entry = (name_of(&saved.issuer), text);
        let params = PostParams::default();
        match map {
            None => {
                let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
                let data = Some(BTreeMap::from([entry]));
                let map = ConfigMap { metadata, data, ..ConfigMap::default() };
                self.api.create(&params, &map).await.map(drop)
            }
            Some(mut map) => {
                map.data.get_or_insert_default().extend([entry]);
                self.api.replace(&self.name, &params, &map).await.map(drop)
            }
        }
    }

    fn refused(&self, error: kube::Error) -> StateError {
        StateError::Cluster { place: self.place.clone(), source: Box::new(error) }
    }
}

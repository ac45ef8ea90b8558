//! A ConfigMap that carries the JWKS, byte for byte as kube-apiserver would serve it, for whoever mounts it.
//!
//! Writes are conditional on `resourceVersion`, and whose it is says the annotation [`OWNER_ANNOTATION`]. Other keys of
//! its data, labels and annotations stay.
//!
//! The right to create cannot be limited to one name (RBAC knows the name only of what is there), so it may be left
//! out where somebody else makes the ConfigMap:
//!
//! ```yaml
//! rules:
//!   - apiGroups: [""]
//!     resources: [configmaps]
//!     resourceNames: [cluster-a-jwks]
//!     verbs: [get, update]
//!   - apiGroups: [""]
//!     resources: [configmaps]
//!     verbs: [create]
//! ```

use std::collections::BTreeMap;

use async_trait::async_trait;
use chancery_core::jwks::JwksError;
use chancery_core::publication::Version;
use chancery_core::quoted::one_line;
use chancery_core::upload::HeldKeys;
use chancery_core::{CachePolicy, DocumentKind, DocumentSet, IssuerUrl, Jwks};
use chancery_wire::error_chain;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt as _};

use super::config::{ConfigMapPlace, SinkPlace};
use super::{JwksSink, Upload};
use crate::limits::{CONFIG_MAP, EXCERPT};
use crate::store::{Failure, Operation, StoreError, StoreErrorKind};

/// The annotation that says whose a ConfigMap is.
pub const OWNER_ANNOTATION: &str = "chancery.dev/owner";

/// Keys in a ConfigMap.
#[derive(Clone)]
pub struct ConfigMapSink {
    api: Api<ConfigMap>,
    place: ConfigMapPlace,
    issuer: IssuerUrl,
}

impl std::fmt::Debug for ConfigMapSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConfigMapSink").field("place", &self.place).finish_non_exhaustive()
    }
}

impl ConfigMapSink {
    /// The sink of a place in the cluster of `client`. Nothing is asked of it yet.
    pub fn new(client: Client, place: &ConfigMapPlace, issuer: &IssuerUrl) -> Self {
        let api = Api::namespaced(client, &place.namespace);
        Self { api, place: place.clone(), issuer: issuer.clone() }
    }

    async fn get(&self) -> Result<Option<ConfigMap>, Failure> {
        limited(self.api.get_opt(&self.place.name)).await
    }

    async fn put(&self, upload: Upload<'_>) -> Result<(), Failure> {
        let found = self.get().await?;
        if found.as_ref().and_then(version) != upload.held.version {
            return Err(Failure::conflict("it was written, made or deleted in the meantime"));
        }
        let (params, name) = (PostParams::default(), &self.place.name);
        let is_new = found.is_none();
        let wanted = self.with(found.unwrap_or_default(), upload);
        match is_new {
            true => limited(self.api.create(&params, &wanted)).await?,
            // It carries the resourceVersion that was read, which the API server compares.
            false => limited(self.api.replace(name, &params, &wanted)).await?,
        };
        Ok(())
    }

    /// The ConfigMap with what is to be uploaded in it.
    fn with(&self, mut config_map: ConfigMap, upload: Upload<'_>) -> ConfigMap {
        config_map.metadata.name = Some(self.place.name.clone());
        let owner = upload.owner.to_string();
        config_map.annotations_mut().insert(OWNER_ANNOTATION.to_owned(), owner);
        config_map.data.get_or_insert_default().extend(self.entries(upload.jwks));
        config_map
    }

    /// What must lie under our keys of `data`.
    fn entries(&self, jwks: &Jwks) -> BTreeMap<String, String> {
        let documents = DocumentSet::new(self.issuer.clone(), jwks.clone(), CachePolicy::default());
        let text = |kind| String::from_utf8_lossy(&documents.document(kind).bytes).into_owned();
        let discovery = self.place.discovery_key.clone().map(|key| (key, text(DocumentKind::Discovery)));
        BTreeMap::from_iter(discovery.into_iter().chain([(self.place.key.clone(), text(DocumentKind::Jwks))]))
    }

    fn held(&self, found: &ConfigMap) -> Result<HeldKeys, Failure> {
        let value = |key: &String| found.data.as_ref()?.get(key);
        let mut held = match value(&self.place.key).map(|text| HeldKeys::of_jwks(text.as_bytes())) {
            Some(Ok(held)) => held,
            // What nobody can read, nobody uses.
            None | Some(Err(JwksError::NotJson(_) | JwksError::NoKeys)) => HeldKeys::default(),
            Some(Err(error)) => HeldKeys { unsupported: vec![error.to_string()], ..HeldKeys::default() },
        };
        if let (Some(key), Some(jwks)) = (&self.place.discovery_key, Jwks::new(held.keys.iter().cloned())) {
            held.stale = self.entries(&jwks).get(key) != value(key);
        }
        held.version = version(found);
        match found.annotations().get(OWNER_ANNOTATION) {
            None => {
                let is_empty = found.data.iter().all(BTreeMap::is_empty) && found.binary_data.is_none();
                held.unmarked = !is_empty;
            }
            Some(owner) => {
                held.owner = Some(owner.parse().map_err(|error| {
                    let remedy = "somebody else wrote the annotation: look at it, or use another ConfigMap";
                    Failure::new(StoreErrorKind::Misconfigured, error, remedy)
                })?);
            }
        }
        Ok(held)
    }
}

#[async_trait]
impl JwksSink for ConfigMapSink {
    async fn read(&self) -> Result<HeldKeys, StoreError> {
        let read = self.get().await;
        let held =
            read.and_then(|found| found.map_or_else(|| Ok(HeldKeys::default()), |found| self.held(&found)));
        held.map_err(|failure| failure.at(self.describe(), Operation::Read, &self.place.key))
    }

    async fn write(&self, upload: Upload<'_>) -> Result<(), StoreError> {
        let written = self.put(upload).await;
        written.map_err(|failure| failure.at(self.describe(), Operation::Write, &self.place.key))
    }

    fn describe(&self) -> String {
        SinkPlace::ConfigMap(&self.place).to_string()
    }
}

fn version(config_map: &ConfigMap) -> Option<Version> {
    config_map.resource_version().map(Version)
}

async fn limited<T>(call: impl Future<Output = Result<T, kube::Error>> + Send) -> Result<T, Failure> {
    match tokio::time::timeout(CONFIG_MAP, call).await {
        Ok(answer) => answer.map_err(|error| explain(&error)),
        Err(elapsed) => Err(Failure::new(StoreErrorKind::TimedOut, elapsed, "it is read again")),
    }
}

/// What the API server's answer means. Its words name the verb, the object and who we are.
fn explain(error: &kube::Error) -> Failure {
    let kube::Error::Api(status) = error else {
        let cause = error_chain::describe(error, ToString::to_string);
        return Failure::new(
            StoreErrorKind::TimedOut,
            cause,
            "check the API server's address; it is read again",
        );
    };
    let cause = format!("{} ({})", one_line(&status.message, EXCERPT), status.code);
    let (kind, remedy) = match status.code {
        401 => (StoreErrorKind::Denied, "renew the credentials of this process"),
        403 => (
            StoreErrorKind::Denied,
            "grant that verb by RBAC; `create` cannot be limited to a name, `get` and `update` can",
        ),
        404 => (StoreErrorKind::NoSuchContainer, "make the namespace"),
        409 => return Failure::conflict(cause),
        408 | 429 | 500.. => (StoreErrorKind::Unavailable, "it is tried again"),
        _ => (
            StoreErrorKind::Misconfigured,
            "the ConfigMap cannot be written as it is: if it is immutable, delete it",
        ),
    };
    Failure::new(kind, cause, remedy)
}

//! Documents in a cluster: one ConfigMap for each, so that writers of different documents never meet and none grows
//! with the number of the others.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use tokio::time::timeout;

use super::{ByteSwap, CellError, StoredBytes, Version};
use crate::access::explain;
use crate::limits;

/// The one entry of each ConfigMap.
const ENTRY: &str = "document.json";

/// The label by which a person finds them.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "chancery");

/// ConfigMaps of one namespace whose names begin alike.
#[derive(Clone)]
pub(super) struct Objects {
    api: Api<ConfigMap>,
    namespace: String,
    prefix: String,
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects").field("place", &self.place("*")).finish_non_exhaustive()
    }
}

impl Objects {
    pub fn new(client: kube::Client, namespace: &str, prefix: &str) -> Self {
        let (namespace, prefix) = (namespace.to_owned(), prefix.to_owned());
        Self { api: Api::namespaced(client, &namespace), namespace, prefix }
    }

    pub fn place(&self, name: &str) -> String {
        format!("ConfigMap {}/{}", self.namespace, self.full(name))
    }

    pub async fn read(&self, name: &str) -> Result<Option<StoredBytes>, CellError> {
        self.within_time(name, self.get(name)).await
    }

    pub async fn swap(
        &self,
        name: &str,
        bytes: &[u8],
        expected: Option<&Version>,
    ) -> Result<ByteSwap, CellError> {
        self.within_time(name, async {
            match self.put(name, bytes, expected).await {
                Ok(version) => Ok(ByteSwap::Swapped(version)),
                // 409: it was changed, or is there already. 404: it was deleted; of a new one, that its namespace is missing.
                Err(kube::Error::Api(status))
                    if status.code == 409 || status.code == 404 && expected.is_some() =>
                {
                    self.get(name).await.map(ByteSwap::Lost)
                }
                Err(error) => Err(error),
            }
        })
        .await
    }

    async fn get(&self, name: &str) -> kube::Result<Option<StoredBytes>> {
        let found = self.api.get_opt(&self.full(name)).await?;
        Ok(found.map(|object| StoredBytes {
            version: version(&object),
            bytes: object.data.and_then(|mut data| data.remove(ENTRY)).unwrap_or_default().into_bytes(),
        }))
    }

    async fn put(&self, name: &str, bytes: &[u8], expected: Option<&Version>) -> kube::Result<Version> {
        let metadata = ObjectMeta {
            name: Some(self.full(name)),
            labels: Some(BTreeMap::from([(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned())])),
            resource_version: expected.map(|Version(version)| version.clone()),
            ..ObjectMeta::default()
        };
        let data = Some(BTreeMap::from([(ENTRY.to_owned(), String::from_utf8_lossy(bytes).into_owned())]));
        let object = ConfigMap { metadata, data, ..ConfigMap::default() };
        let params = PostParams::default();
        let written = match expected {
            Some(_) => self.api.replace(&self.full(name), &params, &object).await?,
            None => self.api.create(&params, &object).await?,
        };
        Ok(version(&written))
    }

    async fn within_time<R>(
        &self,
        name: &str,
        call: impl Future<Output = kube::Result<R>>,
    ) -> Result<R, CellError> {
        let problem = match timeout(limits::CALL, call).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => explain(&error),
            Err(_) => format!("the API server did not answer within {} s", limits::CALL.as_secs()),
        };
        Err(CellError::Refused { place: self.place(name), problem })
    }

    fn full(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }
}

fn version(object: &ConfigMap) -> Version {
    Version(object.metadata.resource_version.clone().unwrap_or_default())
}

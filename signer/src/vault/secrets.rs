//! One immutable Secret for each key.
//!
//! Its name is made of the key's digest in hexadecimal, since a key id has characters that no name may have.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chancery_cluster::access::explain;
use chancery_cluster::limits;
use chancery_core::KeyId;
use chancery_keygen::{Passphrase, PrivateKey};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::time::timeout;

use super::{Entry, KeyVault, VaultError, read, written};

/// The one entry of each Secret.
const ENTRY: &str = "key.pem";

/// The label by which the Secrets of a vault are found.
const VAULT: &str = "chancery.dev/key-vault";

/// Where the key id is written for a person.
const KID: &str = "chancery.dev/kid";

/// The Secrets of one namespace whose names begin alike.
#[derive(Clone)]
pub struct SecretVault {
    api: Api<Secret>,
    namespace: String,
    prefix: String,
    passphrase: Option<Arc<Passphrase>>,
}

impl fmt::Debug for SecretVault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretVault").field("place", &self.place()).finish_non_exhaustive()
    }
}

impl SecretVault {
    /// The keys in Secrets of `namespace` whose names begin with `prefix`, sealed if there is a passphrase. Nothing is
    /// asked yet.
    pub fn new(client: Client, namespace: &str, prefix: &str, passphrase: Option<Passphrase>) -> Self {
        let (namespace, prefix) = (namespace.to_owned(), prefix.to_owned());
        let api = Api::namespaced(client, &namespace);
        Self { api, namespace, prefix, passphrase: passphrase.map(Arc::new) }
    }

    fn name(&self, kid: &KeyId) -> String {
        let digest = URL_SAFE_NO_PAD.decode(kid.as_str()).unwrap_or_default();
        let hexadecimal: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{hexadecimal}", self.prefix)
    }

    fn place_of(&self, kid: &KeyId) -> String {
        format!("Secret {}/{}", self.namespace, self.name(kid))
    }

    async fn within_time<R>(
        &self,
        place: impl FnOnce() -> String,
        call: impl Future<Output = kube::Result<R>>,
    ) -> Result<R, VaultError> {
        let problem = match timeout(limits::CALL, call).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => explain(&error),
            Err(_) => format!("the API server did not answer within {} s", limits::CALL.as_secs()),
        };
        Err(VaultError::Refused { place: place(), problem })
    }

    fn object(&self, key: &PrivateKey) -> Result<Secret, VaultError> {
        let kid = key.public_key().key_id();
        let text = written(key, self.passphrase.as_deref())?;
        let metadata = ObjectMeta {
            name: Some(self.name(kid)),
            labels: Some(BTreeMap::from([(VAULT.to_owned(), self.prefix.clone())])),
            annotations: Some(BTreeMap::from([(KID.to_owned(), kid.to_string())])),
            ..ObjectMeta::default()
        };
        let data = BTreeMap::from([(ENTRY.to_owned(), ByteString(text.as_bytes().to_vec()))]);
        Ok(Secret { metadata, immutable: Some(true), data: Some(data), ..Secret::default() })
    }
}

#[async_trait]
impl KeyVault for SecretVault {
    fn place(&self) -> String {
        format!("Secrets {}/{}-*", self.namespace, self.prefix)
    }

    async fn list(&self) -> Result<Vec<KeyId>, VaultError> {
        let params = ListParams::default().labels(&format!("{VAULT}={}", self.prefix));
        // Names and annotations are all that is asked for.
        let listed = self.within_time(|| self.place(), self.api.list_metadata(&params)).await?;
        let kid = |metadata: ObjectMeta| metadata.annotations?.get(KID)?.parse().ok();
        let mut found: Vec<KeyId> = listed.items.into_iter().filter_map(|it| kid(it.metadata)).collect();
        found.sort();
        Ok(found)
    }

    async fn load(&self, kid: &KeyId) -> Result<PrivateKey, VaultError> {
        let name = self.name(kid);
        let found = self.within_time(|| self.place_of(kid), self.api.get_opt(&name)).await?;
        let text = found.and_then(|secret| secret.data?.remove(ENTRY));
        let text = text.ok_or_else(|| VaultError::Missing { place: self.place(), kid: kid.clone() })?;
        let text = zeroize::Zeroizing::new(text.0);
        let (kid, passphrase, place) = (kid.clone(), self.passphrase.clone(), self.place_of(kid));
        let opened = tokio::task::spawn_blocking(move || {
            read(&Entry { place, kid: &kid }, &text, passphrase.as_deref())
        });
        opened.await.map_err(|_| VaultError::Lost(self.place()))?
    }

    async fn store(&self, key: Arc<PrivateKey>) -> Result<(), VaultError> {
        let vault = self.clone();
        let kid = key.public_key().key_id().clone();
        let object = tokio::task::spawn_blocking(move || vault.object(&key));
        let object = object.await.map_err(|_| VaultError::Lost(self.place()))??;
        let create = async {
            match self.api.create(&PostParams::default(), &object).await {
                // It is there already, or the answer to our own try was lost.
                Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
                created => created.map(drop),
            }
        };
        self.within_time(|| self.place_of(&kid), create).await?;
        // What is in the cluster is what counts, whoever wrote it.
        self.load(&kid).await.map(drop)
    }

    async fn destroy(&self, kid: &KeyId) -> Result<(), VaultError> {
        let delete = async {
            match self.api.delete(&self.name(kid), &DeleteParams::default()).await {
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                deleted => deleted.map(drop),
            }
        };
        self.within_time(|| self.place_of(kid), delete).await
    }
}

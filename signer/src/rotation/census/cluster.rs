//! Secrets and ConfigMaps of a cluster, page by page.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chancery_cluster::access::{ClusterChoice, explain};
use chancery_cluster::limits;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::ListParams;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::{Census, CensusConfig, Counter};
use crate::rotation::feed::{Feed, FeedError, RingSeen};

/// The Secrets that kube-controller-manager, and before 1.24 every ServiceAccount, has tokens in.
const SECRETS: &str = "type=kubernetes.io/service-account-token";

/// kube-apiserver writes here when it sees such a token in use: a day.
const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";

/// Either kind may have a megabyte each. Secrets with tokens have a few thousand bytes.
const SECRETS_A_PAGE: u32 = 200;
const CONFIG_MAPS_A_PAGE: u32 = 20;

/// Between two pages: nobody waits for a census.
const PAUSE: Duration = Duration::from_millis(50);

/// What the last census came to; or why there is none.
pub(in crate::rotation) type CensusSeen = Result<Arc<Census>, String>;

/// Begins to count a cluster, again and again. Nothing is asked yet.
///
/// # Errors
/// When the kubeconfig cannot be used.
pub(in crate::rotation) async fn begin(
    config: &CensusConfig,
    base: &Path,
) -> Result<Feed<CensusSeen>, FeedError> {
    let client = open(config, base).await?;
    let every = config.every();
    Ok(Feed::begin(|ring, found| again_and_again(client, every, (ring, found))))
}

/// Counts a cluster once.
///
/// # Errors
/// When the cluster cannot be reached or refuses.
pub async fn count_cluster(
    config: &CensusConfig,
    base: &Path,
    counter: &mut Counter,
) -> Result<(), CensusError> {
    let client = open(config, base).await?;
    count(&client, counter).await.map_err(CensusError::Refused)
}

async fn open(config: &CensusConfig, base: &Path) -> Result<Client, FeedError> {
    let (kubeconfig, context) = (config.kubeconfig.as_deref(), config.context.as_deref());
    let opened = ClusterChoice { kubeconfig, context, base }.client().await;
    opened.map_err(|error| FeedError::Access { part: "census", error })
}

/// Why a cluster cannot be counted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CensusError {
    /// It cannot be reached.
    #[error(transparent)]
    Feed(#[from] FeedError),
    /// It refuses.
    #[error("{0}; the account needs `list` of Secrets and ConfigMaps in every namespace")]
    Refused(String),
}

/// Counts once.
///
/// # Errors
/// In words: half a census is none.
async fn count(client: &Client, counter: &mut Counter) -> Result<(), String> {
    let secrets = ListParams::default().fields(SECRETS).limit(SECRETS_A_PAGE);
    each("Secrets", (Api::all(client.clone()), secrets), |secret: Secret| {
        let name = name(&secret);
        let last_used = secret.metadata.labels.as_ref().and_then(|labels| labels.get(LAST_USED));
        for (entry, bytes) in secret.data.iter().flatten() {
            let place = format!("Secret {name} {entry}");
            counter.read(&String::from_utf8_lossy(&bytes.0), &place, last_used.map(String::as_str));
        }
    })
    .await?;
    let config_maps = ListParams::default().limit(CONFIG_MAPS_A_PAGE);
    each("ConfigMaps", (Api::all(client.clone()), config_maps), |map: ConfigMap| {
        let name = name(&map);
        for (entry, text) in map.data.iter().flatten() {
            counter.read(text, &format!("ConfigMap {name} {entry}"), None);
        }
        for (entry, bytes) in map.binary_data.iter().flatten() {
            counter.read(&String::from_utf8_lossy(&bytes.0), &format!("ConfigMap {name} {entry}"), None);
        }
    })
    .await
}

fn name<K: Resource>(object: &K) -> String {
    let meta = object.meta();
    [meta.namespace.as_deref(), meta.name.as_deref()].map(Option::unwrap_or_default).join("/")
}

/// Reads all of a kind, one page in memory at a time.
async fn each<K>(
    what: &str,
    (api, mut page): (Api<K>, ListParams),
    mut read: impl FnMut(K),
) -> Result<(), String>
where
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    loop {
        let listed = timeout(limits::CALL, api.list(&page)).await;
        let late = |_| format!("{what} cannot be listed: no answer within {} s", limits::CALL.as_secs());
        let refused = |error| format!("{what} cannot be listed: {}", explain(&error));
        let listed = listed.map_err(late)?.map_err(refused)?;
        listed.items.into_iter().for_each(&mut read);
        match listed.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(()),
        }
        sleep(PAUSE).await;
    }
}

/// Counts for as long as somebody wants to know.
async fn again_and_again(
    client: Client,
    every: Duration,
    (mut ring, found): (RingSeen, watch::Sender<Option<CensusSeen>>),
) {
    loop {
        let counter =
            ring.wait_for(Option::is_some).await.ok().and_then(|seen| seen.as_ref().map(Counter::new));
        let Some(mut counter) = counter else { return };
        let counted = count(&client, &mut counter).await;
        if found.send(Some(counted.map(|()| Arc::new(counter.over())))).is_err() {
            return;
        }
        sleep(every).await;
    }
}

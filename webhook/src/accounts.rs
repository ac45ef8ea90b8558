//! ServiceAccounts, kept by a watch of their metadata: an admission waits for nobody, but for one short look at the API
//! server where a pod comes together with its ServiceAccount.
//!
//! Of each ServiceAccount only the annotations that we read are kept: ten thousand of them take a few MiB.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use chancery_cluster::access::explain;
use chancery_cluster::backoff::Backoff;
use chancery_cluster::error_chain;
use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PartialObjectMeta;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::metrics::{Lookup, Metrics};
use crate::misspelt::is_of_interest;
use crate::settings::Account;

/// client-go's reflector waits so long after its first failure, and at most so long.
const PAUSES: (Duration, Duration) = (Duration::from_millis(800), Duration::from_secs(30));

/// How long a look at the API server may take. kube-apiserver waits for us meanwhile.
const LOOK: Duration = Duration::from_secs(1);

/// Looks at a time: a burst of pods without ServiceAccounts must not become a burst of requests.
const LOOKS: usize = 10;

type Annotations = BTreeMap<String, String>;
type ByName = BTreeMap<(String, String), Arc<Annotations>>;

/// Every ServiceAccount of the cluster. Clones share it.
#[derive(Clone)]
pub struct Accounts {
    known: Arc<RwLock<Known>>,
    client: Client,
    looks: Arc<Semaphore>,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct Known {
    accounts: ByName,
    is_complete: bool,
}

impl fmt::Debug for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accounts").field("is_complete", &self.is_complete()).finish_non_exhaustive()
    }
}

impl Accounts {
    /// None yet. `client` is for single requests.
    pub fn new(client: Client, metrics: Arc<Metrics>) -> Self {
        Self { known: Arc::default(), client, looks: Arc::new(Semaphore::new(LOOKS)), metrics }
    }

    /// Whether all were listed once. An outage after that leaves what is known.
    pub fn is_complete(&self) -> bool {
        self.known.read().unwrap_or_else(PoisonError::into_inner).is_complete
    }

    /// What is known of a ServiceAccount, and else what the API server says of it now.
    pub async fn find(&self, namespace: &str, name: &str) -> Account {
        let key = (namespace.to_owned(), name.to_owned());
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner).accounts.get(&key).cloned();
        if let Some(annotations) = known {
            return Account::Found(annotations.as_ref().clone());
        }
        let found = self.look(namespace, name).await;
        self.metrics.looked(match &found {
            Account::Found(_) => Lookup::Found,
            Account::Missing => Lookup::Missing,
            Account::Unknown(_) => Lookup::Failed,
        });
        found
    }

    async fn look(&self, namespace: &str, name: &str) -> Account {
        let Ok(_place) = self.looks.try_acquire() else {
            return Account::Unknown(format!("{LOOKS} others are being looked for"));
        };
        let api = Api::<ServiceAccount>::namespaced(self.client.clone(), namespace);
        match timeout(LOOK, api.get_metadata_opt(name)).await {
            Ok(Ok(Some(account))) => Account::Found(annotations_of(account)),
            Ok(Ok(None)) => Account::Missing,
            Ok(Err(error)) => Account::Unknown(explain(&error)),
            Err(_) => Account::Unknown(format!("no answer within {} s", LOOK.as_secs())),
        }
    }

    /// Follows the cluster for as long as it is polled. `watching` bears the silence of a watch.
    pub async fn follow(self, watching: Client) {
        let mut backoff = Backoff::new(PAUSES.0, PAUSES.1);
        let mut listing = ByName::new();
        let mut failing = false;
        let api = Api::<PartialObjectMeta<ServiceAccount>>::all(watching);
        let events = watcher(api, watcher::Config::default());
        let mut events = pin!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    if self.take(event, &mut listing) {
                        backoff.reset();
                        if std::mem::take(&mut failing) {
                            info!("ServiceAccounts are watched again");
                        }
                    }
                }
                Err(error) => {
                    if !std::mem::replace(&mut failing, true) {
                        let problem = error_chain(&error);
                        warn!(%problem, "ServiceAccounts cannot be watched; what is known of them is still used. Check RBAC: get, list and watch of serviceaccounts");
                    }
                    sleep(backoff.next_pause()).await;
                }
            }
        }
    }

    /// Whether it says something of the cluster, and not only that something will be said.
    fn take(&self, event: Event<PartialObjectMeta<ServiceAccount>>, listing: &mut ByName) -> bool {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Init => {
                listing.clear();
                return false;
            }
            Event::InitApply(account) => {
                listing.extend(kept(account));
                return false;
            }
            Event::InitDone => *known = Known { accounts: std::mem::take(listing), is_complete: true },
            Event::Apply(account) => known.accounts.extend(kept(account)),
            Event::Delete(account) => {
                if let Some((key, _)) = kept(account) {
                    known.accounts.remove(&key);
                }
            }
        }
        self.metrics.accounts(known.accounts.len());
        true
    }
}

fn kept(account: PartialObjectMeta<ServiceAccount>) -> Option<((String, String), Arc<Annotations>)> {
    let key = (account.metadata.namespace.clone()?, account.metadata.name.clone()?);
    Some((key, Arc::new(annotations_of(account))))
}

fn annotations_of(account: PartialObjectMeta<ServiceAccount>) -> Annotations {
    let all = account.metadata.annotations.unwrap_or_default();
    all.into_iter().filter(|(key, _)| is_of_interest(key)).collect()
}

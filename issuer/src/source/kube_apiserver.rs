//! The key sets that the replicas of a control plane serve at `/openid/v1/jwks`.
//!
//! Replicas may differ while keys are rolled, and a load balancer shows one at random: so each replica is read by
//! its own address and is a source of its own, and what one of them has dropped another may still show.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chancery_cluster::access::{AccessError, ClusterChoice, client, watching_client};
use chancery_cluster::api_server::discovery;
use futures_util::StreamExt as _;
use futures_util::future::{AbortHandle, Abortable, abortable};
use futures_util::stream::FuturesUnordered;
use http::Uri;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, Config};
use serde::Deserialize;

pub(crate) use self::replica::Replica;
use super::SourceError;
use super::objects::Objects;
use super::reporter::SourceReporter;
use crate::minted_token::Workload;

mod replica;

/// How long a cluster may take to say which replicas it has.
const LISTING: Duration = Duration::from_secs(10);

/// `kubeApiserver`: the replicas in `endpoints`, or those that the cluster itself lists, or else the one server
/// of the kubeconfig or the pod.
///
/// ```yaml
/// kubeApiserver:
///   endpoints: ["https://10.0.0.11:6443", "https://10.0.0.12:6443"]
///   kubeconfig: admin.conf
/// ```
///
/// Needs the ClusterRole `system:service-account-issuer-discovery`, which every ServiceAccount has by default, and
/// with `discover` also `list` and `watch` of EndpointSlices in the namespace `default`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct KubeApiserverSource {
    /// The URL of each replica, verified by the cluster's CA.
    #[serde(default)]
    pub endpoints: Vec<String>,
    /// Whether to follow the EndpointSlices of the Service `default/kubernetes`: a replica that appears is read, one
    /// that leaves is gone. Their certificates must be for `kubernetes.default.svc`.
    #[serde(default)]
    pub discover: bool,
    /// The name that the certificates of `endpoints` are for, when it is not the host in their URLs.
    pub tls_server_name: Option<String>,
    /// In whose name each replica is asked for a token at every reading, so that it is known which key signs; needs
    /// `create` on `serviceaccounts/token` of that ServiceAccount. The token is for nobody, and dropped.
    pub canary: Option<Workload>,
    /// Seconds between two readings of a replica.
    #[serde(default = "default_poll_seconds")]
    pub poll_seconds: NonZeroU64,
    /// The kubeconfig of the cluster; when missing, the cluster in which this process is a pod.
    pub kubeconfig: Option<PathBuf>,
    /// The context in the kubeconfig; its current one when missing.
    pub context: Option<String>,
}

/// Ten seconds: a key that a replica shows from its start on signs as soon, so we should not be slower than a
/// human who watches.
fn default_poll_seconds() -> NonZeroU64 {
    NonZeroU64::new(10).unwrap_or(NonZeroU64::MIN)
}

impl fmt::Display for KubeApiserverSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("kube-apiserver")
    }
}

/// A [`KubeApiserverSource`] with its clients.
#[derive(Debug)]
pub(super) struct KubeApiserver {
    access: Access,
    replicas: Replicas,
}

/// How a replica is reached.
#[derive(Clone, Debug)]
struct Access {
    config: Config,
    poll: Duration,
    canary: Option<Workload>,
}

#[derive(Debug)]
enum Replicas {
    Fixed(Vec<Replica>),
    Discovered(Objects<EndpointSlice>),
}

impl KubeApiserver {
    pub async fn open(config: &KubeApiserverSource, base_dir: &Path) -> Result<Self, SourceError> {
        let endpoints = endpoints(config)?;
        let (kubeconfig, context) = (config.kubeconfig.as_deref(), config.context.as_deref());
        let mut cluster = ClusterChoice { kubeconfig, context, base: base_dir }.config().await?;
        let replicas = if config.discover {
            let api = Api::namespaced(watching_client(cluster.clone())?, discovery::NAMESPACE);
            Some(Objects::new(api, kube::runtime::watcher::Config::default().labels(discovery::LABELS)))
        } else {
            None
        };
        cluster.tls_server_name = match replicas {
            Some(_) => Some(discovery::SERVER_NAME.to_owned()),
            None => config.tls_server_name.clone().or(cluster.tls_server_name),
        };
        // A replica in trouble is asked again in its own time.
        cluster.default_retry = false;
        let poll = Duration::from_secs(config.poll_seconds.get());
        let access = Access { config: cluster, poll, canary: config.canary.clone() };
        let replicas = match replicas {
            Some(slices) => Replicas::Discovered(slices),
            None if endpoints.is_empty() => Replicas::Fixed(vec![access.replica(None)?]),
            None => Replicas::Fixed(
                endpoints.into_iter().map(|url| access.replica(Some(url))).collect::<Result<_, _>>()?,
            ),
        };
        Ok(Self { access, replicas })
    }

    pub async fn run(self, reporter: SourceReporter) {
        match self.replicas {
            Replicas::Fixed(replicas) => {
                for replica in &replicas {
                    reporter.sibling(replica.url()).found().await;
                }
                let readers = replicas.into_iter().map(|replica| {
                    let reporter = reporter.sibling(replica.url());
                    replica.run(reporter)
                });
                futures_util::future::join_all(readers).await;
            }
            Replicas::Discovered(slices) => follow(slices, self.access, reporter).await,
        }
    }
}

/// The replicas as they are now.
///
/// # Errors
/// When the configuration cannot be used, or the cluster does not say which there are.
pub(crate) async fn replicas(
    config: &KubeApiserverSource,
    base_dir: &Path,
) -> Result<Vec<Replica>, SourceError> {
    let KubeApiserver { access, replicas } = KubeApiserver::open(config, base_dir).await?;
    let mut slices = match replicas {
        Replicas::Fixed(replicas) => return Ok(replicas),
        Replicas::Discovered(slices) => slices,
    };
    let unknown = |problem: String| SourceError::Value {
        field: "kubeApiserver.discover",
        problem: format!("cannot find the replicas: {problem}; or list them as `endpoints`"),
    };
    let listed = tokio::time::timeout(LISTING, slices.next()).await;
    let listed = listed.map_err(|_| unknown("no answer".to_owned()))?.map_err(unknown)?;
    let urls = discovery::replicas(listed.values());
    if urls.is_empty() {
        return Err(unknown("the EndpointSlices of default/kubernetes list none".to_owned()));
    }
    urls.iter().map(|url| access.replica_at(url)).collect()
}

impl Access {
    /// The replica at a URL that the cluster lists.
    fn replica_at(&self, url: &str) -> Result<Replica, SourceError> {
        let problem = |error| AccessError::Client { url: url.to_owned(), problem: format!("{error}") };
        let parsed: Uri = url.parse().map_err(|error: http::uri::InvalidUri| problem(error))?;
        self.replica(Some(parsed))
    }

    /// The replica at `url`, or the cluster's one server.
    fn replica(&self, url: Option<Uri>) -> Result<Replica, SourceError> {
        let mut config = self.config.clone();
        if let Some(url) = url {
            config.cluster_url = url;
        }
        let url = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        Ok(Replica { url, client: client(config)?, poll: self.poll, canary: self.canary.clone() })
    }
}

/// Reads every replica that the cluster lists, for as long as it lists it.
async fn follow(mut slices: Objects<EndpointSlice>, access: Access, reporter: SourceReporter) {
    let mut readers = ReplicaReaders { access, reporter, running: BTreeMap::new() };
    // Polled here and not spawned, so that no reader outlives its source.
    let mut reading = FuturesUnordered::new();
    loop {
        tokio::select! {
            // A reader ends when its replica has left.
            Some(_) = reading.next() => {}
            listed = slices.next() => match listed {
                Ok(slices) => {
                    let listed = discovery::replicas(slices.values());
                    reading.extend(readers.follow(listed).await);
                }
                Err(error) => readers.reporter.fail(format!("cannot find the replicas: {error}")).await,
            },
        }
    }
}

/// The readers of the replicas that a cluster lists.
struct ReplicaReaders {
    access: Access,
    reporter: SourceReporter,
    running: BTreeMap<String, AbortHandle>,
}

impl ReplicaReaders {
    /// Ends the readers of replicas that have left, and returns readers of those that are new.
    async fn follow(
        &mut self,
        listed: BTreeSet<String>,
    ) -> Vec<Abortable<impl Future<Output = ()> + Send + use<>>> {
        if listed.is_empty() {
            // Somebody has just told us so: there is one at least.
            let error =
                "the EndpointSlices of default/kubernetes list no replica; going on with those before";
            self.reporter.fail(error.to_owned()).await;
            return Vec::new();
        }
        self.reporter.recovered();
        let left: Vec<String> = self.running.keys().filter(|url| !listed.contains(*url)).cloned().collect();
        for url in left {
            // A reader that was told to end is never polled again, so no reading comes after this.
            self.running.remove(&url).iter().for_each(AbortHandle::abort);
            self.reporter.sibling(&url).gone().await;
        }
        let found: Vec<String> = listed.into_iter().filter(|url| !self.running.contains_key(url)).collect();
        for url in &found {
            self.reporter.sibling(url).found().await;
        }
        let mut readers = Vec::new();
        for url in found {
            match self.access.replica_at(&url) {
                Ok(replica) => {
                    let (reader, ends) = abortable(replica.run(self.reporter.sibling(&url)));
                    self.running.insert(url, ends);
                    readers.push(reader);
                }
                Err(error) => self.reporter.fail(crate::error_chain(&error)).await,
            }
        }
        readers
    }
}

/// The URLs of the configured replicas.
fn endpoints(config: &KubeApiserverSource) -> Result<Vec<Uri>, SourceError> {
    let refuse = |problem: String| Err(SourceError::Value { field: "kubeApiserver.endpoints", problem });
    if config.discover && (!config.endpoints.is_empty() || config.tls_server_name.is_some()) {
        return refuse(
            "given together with `discover`, which finds the replicas itself; remove one of them".to_owned(),
        );
    }
    let mut urls = Vec::new();
    for endpoint in &config.endpoints {
        match endpoint.parse::<Uri>() {
            Ok(url) if is_replica_url(&url) && !urls.contains(&url) => urls.push(url),
            Ok(url) if urls.contains(&url) => {
                return refuse(format!("{endpoint} is listed twice; remove one"));
            }
            _ => {
                let expected = "expected the URL of an API server, such as https://10.0.0.11:6443";
                return refuse(format!("{} is not usable; {expected}", without_credentials(endpoint)));
            }
        }
    }
    Ok(urls)
}

fn is_replica_url(url: &Uri) -> bool {
    let plain_host = url.authority().is_some_and(|authority| !authority.as_str().contains('@'));
    url.scheme_str() == Some("https") && plain_host && url.query().is_none()
}

/// What comes before `@` in a URL is a password as a rule, and not for a log.
fn without_credentials(url: &str) -> &str {
    url.rsplit_once('@').map_or(url, |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(yaml: &str) -> Result<usize, String> {
        let config: KubeApiserverSource = serde_saphyr::from_str(yaml).unwrap();
        endpoints(&config).map(|urls| urls.len()).map_err(|error| error.to_string())
    }

    #[test]
    fn endpoints_are_https_urls_without_secrets() {
        assert_eq!(check("{}"), Ok(0));
        assert_eq!(check("{discover: true}"), Ok(0));
        assert_eq!(
            check("{endpoints: ['https://10.0.0.1:6443', 'https://rancher.example/k8s/clusters/c-1']}"),
            Ok(2)
        );
        for (yaml, complaint) in [
            ("{discover: true, endpoints: ['https://10.0.0.1:6443']}", "remove one of them"),
            ("{endpoints: ['http://10.0.0.1:6443']}", "expected the URL of an API server"),
            ("{endpoints: ['10.0.0.1:6443']}", "expected the URL of an API server"),
            ("{endpoints: ['https://a:topsecret@10.0.0.1']}", "10.0.0.1 is not usable"),
            ("{endpoints: ['https://10.0.0.1', 'https://10.0.0.1/']}", "listed twice"),
        ] {
            let error = check(yaml).unwrap_err();
            assert!(error.contains(complaint) && !error.contains("topsecret"), "{error}");
        }
    }
}

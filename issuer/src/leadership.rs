//! Whether this replica publishes: always, or while it holds the Lease.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::watch;

#[cfg(feature = "kube")]
use chancery_cluster::lease::{Elector, Term};

use crate::config::LeaderElectionConfig;
use crate::metrics::Metrics;

/// Answers, for one reader, whether this replica publishes now.
#[derive(Clone, Debug)]
pub enum Leading {
    /// There is no other replica, or nobody asked for an election.
    Always,
    /// While the Lease is ours.
    #[cfg(feature = "kube")]
    Elected(watch::Receiver<Term>),
}

impl Leading {
    /// Whether this replica publishes, by the clock of this machine: a task that was held up may be asked before
    /// the one that notices the end of a term.
    pub fn now(&mut self) -> bool {
        match self {
            Self::Always => true,
            #[cfg(feature = "kube")]
            Self::Elected(term) => term.borrow_and_update().is_leader(),
        }
    }

    /// Resolves when the answer may have changed.
    pub async fn changed(&mut self) {
        match self {
            Self::Always => std::future::pending().await,
            #[cfg(feature = "kube")]
            Self::Elected(term) => {
                if term.changed().await.is_err() {
                    // Nobody elects any more, which happens only at the end of the process.
                    std::future::pending::<()>().await;
                }
            }
        }
    }
}

/// The part of the process that takes part in the election.
#[derive(Debug)]
pub enum Leadership {
    /// No election.
    Alone,
    /// A candidate.
    #[cfg(feature = "kube")]
    Candidate {
        /// Takes part.
        elector: Box<Elector>,
        /// What comes of it.
        term: watch::Receiver<Term>,
    },
}

impl Leadership {
    /// Prepares the election if there is to be one: when it is switched on, or in a cluster unless it is off.
    ///
    /// # Errors
    /// When the cluster cannot be reached by what the configuration and the environment say, or a wait is wrong.
    #[cfg(feature = "kube")]
    pub async fn open(config: Option<&LeaderElectionConfig>, base: &Path) -> Result<Self, LeadershipError> {
        use chancery_cluster::access::{ClusterChoice, client, is_in_pod};
        use chancery_cluster::lease::{LeaseConfig, unique_identity};

        let unset = LeaderElectionConfig::default();
        let config = config.unwrap_or(&unset);
        if !config.enabled.unwrap_or_else(is_in_pod) {
            return Ok(Self::Alone);
        }
        let choice = ClusterChoice { kubeconfig: config.kubeconfig.as_deref(), context: None, base };
        let access = choice.config().await?;
        let lease = LeaseConfig {
            namespace: config.namespace.clone().unwrap_or_else(|| access.default_namespace.clone()),
            name: config.name.clone().unwrap_or_else(|| "chancery-issuer".to_owned()),
            identity: unique_identity(&config.identity.clone().unwrap_or_else(host_name)),
            timing: timing(config)?,
        };
        let (elector, term) = Elector::new(client(access)?, lease)?;
        Ok(Self::Candidate { elector: Box::new(elector), term })
    }

    /// Prepares nothing: this build cannot reach a cluster.
    ///
    /// # Errors
    /// When the configuration asks for an election.
    #[cfg(not(feature = "kube"))]
    pub async fn open(config: Option<&LeaderElectionConfig>, _: &Path) -> Result<Self, LeadershipError> {
        match config.and_then(|config| config.enabled) {
            Some(true) => Err(LeadershipError::NotBuilt),
            _ => Ok(Self::Alone),
        }
    }

    /// Whether there is no election.
    pub fn is_alone(&self) -> bool {
        matches!(self, Self::Alone)
    }

    /// What a writer asks.
    pub fn leading(&self) -> Leading {
        match self {
            Self::Alone => Leading::Always,
            #[cfg(feature = "kube")]
            Self::Candidate { term, .. } => Leading::Elected(term.clone()),
        }
    }

    /// Takes part until `shutdown`, then gives the Lease back. Whoever writes must have stopped by then.
    pub async fn run(self, mut shutdown: watch::Receiver<bool>, metrics: Arc<Metrics>) {
        let stopped = async move {
            _ = shutdown.wait_for(|stop| *stop).await;
        };
        match self {
            Self::Alone => {
                metrics.leads(true);
                stopped.await;
            }
            #[cfg(feature = "kube")]
            Self::Candidate { elector, mut term } => {
                metrics.leads(false);
                let report = async {
                    while term.changed().await.is_ok() {
                        metrics.leads(term.borrow_and_update().is_leader());
                    }
                };
                tokio::join!(elector.run(stopped), report);
            }
        }
    }
}

#[cfg(feature = "kube")]
fn timing(
    config: &LeaderElectionConfig,
) -> Result<chancery_cluster::lease::Timing, chancery_cluster::lease::LeaseError> {
    let default = chancery_cluster::lease::Timing::default();
    chancery_cluster::lease::Timing::new(
        config.lease_duration.unwrap_or_else(|| default.lease_duration()),
        config.renew_deadline.unwrap_or_else(|| default.renew_deadline()),
        config.retry_period.unwrap_or_else(|| default.retry_period()),
    )
}

/// In a pod the host name is the pod's, unique among replicas and over restarts.
#[cfg(feature = "kube")]
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Why there can be no election.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeadershipError {
    /// The cluster cannot be reached.
    #[cfg(feature = "kube")]
    #[error("leader election: {0}")]
    Cluster(#[from] chancery_cluster::access::AccessError),
    /// A value cannot be used.
    #[cfg(feature = "kube")]
    #[error(transparent)]
    Lease(#[from] chancery_cluster::lease::LeaseError),
    /// A build without the feature `kube`.
    #[error(
        "leader election needs a cluster, which this build cannot reach; build with `--features kube` or set `enabled: false`"
    )]
    NotBuilt,
}

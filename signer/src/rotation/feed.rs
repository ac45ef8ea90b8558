//! What a task of its own finds out, again and again: whoever rotates takes what was found last, and waits for nobody.

use std::time::Duration;

#[cfg(feature = "kube")]
use chancery_cluster::access::AccessError;
use chancery_core::KeyRing;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How long the first finding is waited for, so that a command which looks once has one.
const FIRST: Duration = Duration::from_secs(30);

/// The ring as whoever rotates read it last.
#[cfg(feature = "kube")]
pub(super) type RingSeen = watch::Receiver<Option<KeyRing>>;

/// The task, and what it found last.
#[derive(Debug)]
pub(super) struct Feed<T> {
    ring: watch::Sender<Option<KeyRing>>,
    found: watch::Receiver<Option<T>>,
    has_waited: bool,
    /// Ends with this.
    _task: JoinSet<()>,
}

impl<T: Clone + Send + Sync + 'static> Feed<T> {
    /// Begins a task that is told of the ring, and tells what it finds.
    #[cfg(feature = "kube")]
    pub fn begin<F: Future<Output = ()> + Send + 'static>(
        task: impl FnOnce(RingSeen, watch::Sender<Option<T>>) -> F,
    ) -> Self {
        let (ring, ring_seen) = watch::channel(None);
        let (finds, found) = watch::channel(None);
        let mut tasks = JoinSet::new();
        tasks.spawn(task(ring_seen, finds));
        Self { ring, found, has_waited: false, _task: tasks }
    }

    /// What was found last; `None` while nothing was found yet.
    pub async fn last(&mut self, ring: &KeyRing) -> Option<T> {
        self.ring.send_if_modified(|seen| {
            let is_new = seen.as_ref().is_none_or(|seen| seen.position() != ring.position());
            if is_new {
                *seen = Some(ring.clone());
            }
            is_new
        });
        if !self.has_waited {
            self.has_waited = true;
            _ = timeout(FIRST, self.found.wait_for(Option::is_some)).await;
        }
        self.found.borrow().clone()
    }
}

/// Why nothing can be looked at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FeedError {
    /// The cluster cannot be reached by what configuration and environment say.
    #[cfg(feature = "kube")]
    #[error("`{part}`: {error}")]
    Access {
        /// The part of the policy.
        part: &'static str,
        /// What is wrong with it.
        error: AccessError,
    },
    /// A build without the feature `kube`.
    #[error("`{0}` needs a cluster, which this build cannot reach; build with `--features kube`")]
    NotBuilt(&'static str),
}

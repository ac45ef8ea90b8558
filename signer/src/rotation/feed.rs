//! What a task of its own finds out, again and again.

#[cfg(feature = "kube")]
use chancery_cluster::access::AccessError;

#[cfg(feature = "kube")]
mod task;

#[cfg(feature = "kube")]
pub(super) use task::{Feed, RingSeen};

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

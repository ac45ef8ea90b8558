//! Tells a cluster what the conditions say: one ConfigMap with all of them, and Events about it.
//!
//! Only the replica that publishes reports, since it alone knows what the targets hold. The ConfigMap is written when
//! something changed and never otherwise, on the resourceVersion that was read. It must exist: a right to create
//! ConfigMaps cannot be limited to one name, a right to update one can.

#[cfg(feature = "kube")]
mod cluster;
#[cfg(feature = "kube")]
mod text;

#[cfg(feature = "kube")]
pub use cluster::{ConditionReporter, ReportError};

#[cfg(not(feature = "kube"))]
pub use absent::{ConditionReporter, ReportError};

#[cfg(not(feature = "kube"))]
mod absent {
    //! A build that cannot reach a cluster.

    use std::path::Path;
    use std::sync::Arc;

    use crate::conditions::ConditionStore;
    use crate::config::ReportConfig;
    use crate::leadership::Leading;

    /// Cannot be made in this build.
    #[derive(Debug)]
    pub enum ConditionReporter {}

    impl ConditionReporter {
        /// Refuses.
        ///
        /// # Errors
        /// Always: this build cannot reach a cluster.
        pub async fn open(
            _: &ReportConfig,
            _: &Path,
            _: Arc<ConditionStore>,
            _: Leading,
        ) -> Result<Self, ReportError> {
            Err(ReportError)
        }

        /// Never called.
        pub async fn run(self) {
            match self {}
        }
    }

    /// A build without the feature `kube`.
    #[derive(Debug, thiserror::Error)]
    #[error(
        "`report` needs a cluster, which this build cannot reach; build with `--features kube` or remove it"
    )]
    pub struct ReportError;
}

//! Issuers that objects of a cluster declare: what an `Issuer` says is what one entry of `chancery.yaml` says.
//!
//! ```text
//!  Issuer objects ──watch──▶ ObjectIndex (pure: the last good spec of each) ──DeclaredIssuer──▶ the service
//!                                  │                                         which holds them against the file (claims)
//!                                  └──▶ StatusWriter (leader only) ◀── conditions, publications, visibility
//! ```
//!
//! Rules, in the order in which the rooms apply them:
//!
//! 1. `spec`: an object says nothing that takes files of this process, other namespaces, or sends credentials to an address
//!    that the configuration does not name. The list of what it may say is the list; what is not there is refused.
//! 2. `index`: a spec that is refused never replaces the last good one of the same object.
//! 3. `claims`: two issuers never share a URL, an owner, a place where they answer or a target. An entry of the file wins
//!    over an object, an older object over a newer one; whoever loses runs as soon as the other is gone.
//! 4. `status`: pure, and the same as long as nothing but time has changed. Nothing is decided by it.
//!
//! Every replica follows the objects and serves what they declare. The one that publishes writes their status, each on the
//! condition that the object still is what was read.

mod claims;
mod declared;
#[cfg(feature = "kube")]
mod index;
#[cfg(feature = "kube")]
mod object;
#[cfg(feature = "kube")]
mod spec;
#[cfg(feature = "kube")]
mod status;
#[cfg(feature = "kube")]
mod watch;
mod watched;
#[cfg(feature = "kube")]
mod writer;

pub use claims::{Claim, Standing, standings};
pub use declared::{Declarations, DeclaredIssuer};
pub use watched::Watched;

#[cfg(feature = "kube")]
pub use watch::{IssuerObjects, ObjectsError};

#[cfg(not(feature = "kube"))]
pub use absent::{IssuerObjects, ObjectsError};

/// The definition of the resource, for `kubectl apply`.
pub const DEFINITION: &str = include_str!("../../deploy/crds/issuers.chancery.dev.yaml");

#[cfg(not(feature = "kube"))]
mod absent {
    //! A build that cannot reach a cluster.

    use std::path::Path;

    use super::{Declarations, Watched};
    use crate::config::ResourcesConfig;

    /// Cannot be made in this build.
    #[derive(Debug)]
    pub enum IssuerObjects {}

    impl IssuerObjects {
        /// Refuses.
        ///
        /// # Errors
        /// Always: this build cannot reach a cluster.
        pub async fn open(_: &ResourcesConfig, _: &Path, _: Watched) -> Result<Self, ObjectsError> {
            Err(ObjectsError)
        }

        /// Never called.
        pub fn declarations(&self) -> Declarations {
            match *self {}
        }

        /// Never called.
        pub async fn run(self) {
            match self {}
        }
    }

    /// A build without the feature `kube`.
    #[derive(Debug, thiserror::Error)]
    #[error(
        "`resources` needs a cluster, which this build cannot reach; build with `--features kube` or remove it"
    )]
    pub struct ObjectsError;
}

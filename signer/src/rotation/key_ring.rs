//! A `KeyRing` of a cluster: what its owner decides of the policy is read there, and what became of it is shown there.
//!
//! The ring itself is elsewhere, in its cell: whoever can write the status changes nothing, and an object that was
//! deleted, restored or cannot be read stops nothing that was begun. A spec that cannot be kept leaves the last good
//! one in force; before there was a good one, no step is taken.

use chancery_core::KeyRing;
use chancery_core::rotation::{NextDue, Plan};

/// What the status shows.
#[derive(Debug)]
pub(super) struct Shown<'a> {
    /// The ring.
    pub ring: &'a KeyRing,
    /// What is to be done with it.
    pub plan: &'a Plan,
    /// When the calendar asks next.
    #[cfg_attr(not(feature = "kube"), expect(dead_code, reason = "shown in a cluster alone"))]
    pub calendar: Option<NextDue>,
}

/// The definition of the resource, for `kubectl apply`.
pub const DEFINITION: &str = include_str!("../../../deploy/crds/keyrings.chancery.dev.yaml");

#[cfg(feature = "kube")]
mod followed;
#[cfg(feature = "kube")]
mod object;
#[cfg(feature = "kube")]
mod status;

#[cfg(feature = "kube")]
pub(super) use followed::FollowedKeyRing;
#[cfg(feature = "kube")]
pub use followed::{KeyRingPolicyError, PolicyInForce, resolved};

#[cfg(not(feature = "kube"))]
pub(super) use absent::FollowedKeyRing;
#[cfg(not(feature = "kube"))]
pub use absent::KeyRingPolicyError;

#[cfg(not(feature = "kube"))]
mod absent {
    //! A build that cannot reach a cluster.

    use chancery_core::rotation::PlannedStep;

    use super::Shown;
    use crate::rotation::config::RotationConfig;

    /// Cannot be made in this build.
    #[derive(Debug)]
    pub enum FollowedKeyRing {}

    impl FollowedKeyRing {
        pub async fn open(config: &RotationConfig) -> Result<Option<Self>, KeyRingPolicyError> {
            config.key_ring.as_ref().map_or(Ok(None), |_| Err(KeyRingPolicyError))
        }

        pub async fn follow(&mut self, _: &RotationConfig) -> Result<Option<RotationConfig>, String> {
            match *self {}
        }

        pub fn is_followed(&self) -> bool {
            match *self {}
        }

        pub(in crate::rotation) async fn show(
            &mut self,
            _: &RotationConfig,
            _: Shown<'_>,
        ) -> Result<(), String> {
            match *self {}
        }

        pub async fn tell(&self, _: &PlannedStep) -> Result<(), String> {
            match *self {}
        }
    }

    /// A build without the feature `kube`.
    #[derive(Debug, thiserror::Error)]
    #[error(
        "`keyRing` needs a cluster, which this build cannot reach; build with `--features kube` or remove it"
    )]
    pub struct KeyRingPolicyError;
}

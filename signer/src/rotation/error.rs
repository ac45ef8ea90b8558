//! Why keys are not rotated.

use chancery_cluster::cell::{CellError, CellStoreError};
use chancery_core::ring::RingError;

use super::canary::CanaryError;
use super::custody::CustodyError;
use super::key_ring::KeyRingPolicyError;
use super::observer::ObserverError;

/// Why a round failed, or there is no rotation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RotationError {
    /// There is no ring.
    #[error(
        "{0} is not there; begin a ring with `chancery ring init`, or take over the keys of a running cluster with `chancery ring adopt`"
    )]
    NoRing(String),
    /// The ring refused what was planned for it.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// A document cannot be read or written.
    #[error(transparent)]
    Cell(#[from] CellError),
    /// A place for documents cannot be opened.
    #[error(transparent)]
    Place(#[from] CellStoreError),
    /// A relying party cannot be asked.
    #[error(transparent)]
    Canary(#[from] CanaryError),
    /// What the policy names cannot be looked at.
    #[error(transparent)]
    Observer(#[from] ObserverError),
    /// The private halves cannot be had.
    #[error(transparent)]
    Custody(#[from] CustodyError),
    /// The object that says how to rotate cannot be had.
    #[error(transparent)]
    KeyRing(#[from] KeyRingPolicyError),
}

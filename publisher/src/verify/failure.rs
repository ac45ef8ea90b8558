//! Why a GET brought no answer, told apart so that the remedy can be named.

use std::time::Duration;

pub use chancery_wire::{CertificateFault, TransportError as FailureKind};
use serde::Serialize;

/// A GET without a complete answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize)]
#[error("{url}: {kind}")]
pub struct FetchError {
    /// What was asked for.
    pub url: String,
    /// Why it was not got.
    pub kind: FailureKind,
    /// From the start to the failure.
    #[serde(serialize_with = "super::report::seconds", rename = "seconds")]
    pub elapsed: Duration,
}

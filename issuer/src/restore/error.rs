//! Why an issuer cannot be restored.

use chancery_core::{KeyId, Owner};

use crate::config::ConfigError;
use crate::state::{NoWriterKey, StateError};

/// Why an issuer cannot be restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// A position that the configuration does not have.
    #[error("the configuration has no such issuer; name one of its `url`s")]
    NoSuchIssuer,
    /// Something the configuration names cannot be used.
    #[error(transparent)]
    Refused(#[from] ConfigError),
    /// The state cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// The state says one id and a person another.
    #[error(
        "the state was kept for the owner {saved}, and {said} was asked for; leave the owner out, or move the state away"
    )]
    OtherOwner {
        /// The id in the state.
        saved: Owner,
        /// What was asked for.
        said: Owner,
    },
    /// Nobody said whose the documents are.
    #[error(
        "the state is lost, and the documents on the targets belong to {found}; say `--owner` with that id if they are this issuer's, or choose other targets if this is a new one"
    )]
    WhoseId {
        /// The ids on the targets.
        found: String,
    },
    /// A published key that nobody has decided about.
    #[error(
        "{kid} is published, no source shows it, and the state that would know it is lost; say `--import {kid}` if workloads still hold tokens of it, or `--drop {kid}` if it is an intruder's or its tokens are dead"
    )]
    Undecided {
        /// Which key.
        kid: KeyId,
    },
    /// The writer key cannot be used.
    #[error(transparent)]
    WriterKey(#[from] NoWriterKey),
    /// Somebody else writes the state.
    #[error("the state changed while it was being restored; stop the service, then run this again")]
    Running,
}

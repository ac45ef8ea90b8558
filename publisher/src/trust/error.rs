//! Why a registration could not be read or changed.

use chancery_core::trust::{Call, TrustBlocked};

/// Why a registration could not be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// It must not be touched.
    #[error("{registration}: {blocked}")]
    Blocked {
        /// As [`Registrar::describe`](super::Registrar::describe) calls it.
        registration: String,
        /// What blocks it, with the remedy.
        blocked: TrustBlocked,
    },
    /// The cloud refused a call.
    #[error("{call} was refused: {answer}; {remedy}")]
    Refused {
        /// Which call.
        call: Box<Call>,
        /// Status, code and message.
        answer: String,
        /// What helps; names the permission when that is what is missing.
        remedy: String,
    },
    /// The cloud could not be asked, or no credentials were to be had.
    #[error("{what}; {remedy}")]
    Unreachable {
        /// What failed, with its cause.
        what: String,
        /// What helps.
        remedy: &'static str,
    },
}

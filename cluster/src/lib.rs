//! What a process in a cluster stands on, whatever its role: the issuer today, a signer and a webhook later.
//!
//! | room | what is in it |
//! |---|---|
//! | [`access`] | how an API server is reached, with a time limit on everything (feature `kube`) |
//! | [`api_server`] | one kube-apiserver, and what it shows of its keys (feature `kube`) |
//! | [`cell`] | a document that survives the process, changed only by compare-and-swap |
//! | [`last_said`] | what goes on is said once |
//! | [`lease`] | leader election by client-go's rule (feature `kube`) |
//! | [`listener`] | accepts connections and has any service answer them, over TLS, within limits for all of the process |
//! | [`socket`] | a unix socket that one process owns, and who may connect |
//! | [`backoff`] | pauses between tries |
//! | [`limits`] | every time limit of this crate |

use std::iter::{once, successors};

use chancery_core::quoted::each_once;

#[cfg(feature = "kube")]
pub mod access;
#[cfg(feature = "kube")]
pub mod api_server;
pub mod backoff;
pub mod cell;
pub mod last_said;
#[cfg(feature = "kube")]
pub mod lease;
pub mod limits;
pub mod listener;
pub mod socket;

/// An error with its causes on one line, each said once: the errors below often repeat those they contain.
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let causes = successors(error.source(), |cause| cause.source()).map(ToString::to_string);
    each_once(once(error.to_string()).chain(causes))
}

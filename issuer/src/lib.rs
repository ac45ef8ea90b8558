//! The public service: it watches where keys come from, publishes their public halves to every target, proves from
//! outside that relying parties see them, and serves the documents itself.
//!
//! ```text
//!  sources ──events──▶ index (one KeyUnion per issuer) ──documents──▶ serve
//!                              │                                       ▲
//!                              └──watch, if the bytes differ──▶ reconcile (leader only)
//!                                     │                         read target, plan, conditional writes, verify
//!                                     └──────────────▶ uploads: the same for whoever is given the keys themselves
//! ```
//!
//! The process holds public halves and the write credentials of its targets, never a private signing key.

pub mod admin;
pub mod backoff;
pub mod collect;
pub mod conditions;
pub mod config;
pub mod doctor;
pub mod held;
pub mod index;
pub mod leadership;
#[cfg(feature = "kube")]
pub mod lease;
mod member;
pub mod metrics;
pub mod outside;
mod pace;
mod reconcile;
pub mod report;
pub mod restore;
pub mod run;
pub mod serve;
pub mod source;
pub mod state;
mod tasks;
pub mod uploads;
pub mod visibility;

/// An error with its causes on one line, for logs.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

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
pub mod collect;
pub mod conditions;
pub mod config;
pub mod doctor;
pub mod index;
mod issuer;
pub mod known_keys;
pub mod leadership;
pub mod metrics;
#[cfg(feature = "kube")]
pub mod migration;
mod minted_token;
pub mod outside;
mod pace;
pub mod published_history;
mod reconcile;
pub mod report;
pub mod resource;
pub mod restore;
pub mod roster;
pub mod serve;
pub mod service;
#[cfg(feature = "kube")]
mod signing_key;
pub mod source;
pub mod state;
pub mod status;
mod tasks;
mod turns;
pub mod uploads;
pub mod visibility;

pub use chancery_cluster::backoff;
pub(crate) use chancery_cluster::error_chain;
pub use issuer::verifier as outside_verifier;

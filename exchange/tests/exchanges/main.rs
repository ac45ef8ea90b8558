//! Exchanges against strict stand-ins of token endpoints: they verify the token's signature, take no field twice and
//! none that they do not know, and refuse what the real ones refuse (reference: the vendors' pages that `src/provider`
//! and `src/registry` name).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[cfg(feature = "agent")]
mod agent;
#[cfg(feature = "agent")]
mod argocd;
mod aws;
mod aws_identity;
mod azure;
#[cfg(all(feature = "azure-sdk", feature = "google-sdk"))]
mod bridges;
#[cfg(feature = "spiffe-broker")]
mod broker;
#[cfg(feature = "kube")]
mod cluster;
mod corpus;
mod disk;
mod fake;
mod google;
mod keys;
mod matrix;
mod metadata;
mod parsers;
mod pipelines;
mod secrets;
mod servers;
mod sources;
mod templates;
mod tenants;
#[cfg(feature = "spiffe")]
mod workload_api;

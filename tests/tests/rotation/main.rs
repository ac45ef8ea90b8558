//! The loop that Chancery is for: a control plane whose keys are rotated while tokens are signed and verified.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod api_servers;
mod canary;
mod cluster;
mod cluster_api;
mod files;
mod files_stage;
mod intruder;
mod key_ring;
mod load;
mod machines;
mod offline;
mod rotations;
mod stage;

/// The tests that start whole control planes take turns: side by side they would only wait for each other's processors.
static STAGE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

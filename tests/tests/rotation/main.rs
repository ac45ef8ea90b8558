//! The loop that Chancery is for: a control plane whose keys are rotated while tokens are signed and verified.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod cluster;
mod load;
mod rotations;
mod stage;

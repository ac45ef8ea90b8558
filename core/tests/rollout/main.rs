//! A control plane of three whose kube-apiservers sign with files, by the real ring, the real plan and the real decision of
//! each node.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

#[path = "../fixture/mod.rs"]
mod fixture;
mod histories;
mod machines;
mod table;
mod world;

//! The public server and the operators' port over real sockets, from outside.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod admin;
mod drain;
mod http;
mod served;
mod tls;

//! The Terraform modules: infrastructure, the same policies as the documentation's, and never a document or a key.
//!
//! What is said by the text of the modules is tested on their text. Terraform itself, with providers that have the schemas
//! of the real ones, runs in the ignored tests: `make soak`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod conditions;
mod contents;
mod plans;
mod policies;
mod readmes;
mod snippets;
mod source;
mod stage;
mod style;

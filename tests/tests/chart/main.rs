//! The Helm chart: what it renders and refuses, what lies in a real cluster after an installation, and our own program
//! started as the rendered pods say, with the rights that were rendered.

#![allow(clippy::indexing_slicing, reason = "a test fails by panicking")]

mod alerts;
mod cluster;
mod helm;
mod installed;
mod pages;
mod played;
mod pod;
mod refusals;
mod rendered;
mod rights;
mod signers;

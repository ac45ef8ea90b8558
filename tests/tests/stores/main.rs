//! Stores: one battery on each, their rights, their faults, what they are asked, and two writers in every order.

mod attacks;
mod azure_blob;
mod from_others;
mod gcs;
mod interleavings;
mod requests;
mod rights;
mod s3;

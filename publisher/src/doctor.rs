//! Why an anonymous reader cannot read what was published: facts, and what they mean.

#[cfg(feature = "gcp")]
pub mod gcs;

//! Why something does not work, by the exact thing that stops it: facts are probed, then explained by a pure function.

#[cfg(feature = "s3")]
pub mod s3;

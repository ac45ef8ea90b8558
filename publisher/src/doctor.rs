//! Why an anonymous reader cannot read, by the exact control that stops it.

#[cfg(feature = "azure")]
pub mod azure_blob;

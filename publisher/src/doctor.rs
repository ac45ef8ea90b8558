//! Which control of a provider keeps anonymous readers out, explained.
//!
//! Each provider has a room with the same shape: facts, the probe that gathers them, and `explain`, which is pure.

use chancery_core::lint::Finding;

use crate::target::TargetConfig;

#[cfg(any(feature = "s3", feature = "azure", feature = "gcp"))]
mod anonymous;

#[cfg(feature = "azure")]
pub mod azure_blob;
#[cfg(feature = "gcp")]
pub mod gcs;
#[cfg(feature = "s3")]
pub mod s3;

/// What stands between a target and anonymous readers, as far as it can be found out from here with the credentials
/// of the publisher and with none. `base` is the URL below which they read. Nothing is changed.
pub async fn controls(config: &TargetConfig, base: &str) -> Vec<Finding> {
    match config.location() {
        #[cfg(feature = "s3")]
        Ok(crate::target::Location::S3(s3)) => match s3::probe(s3, base, None).await {
            Ok(facts) => s3::explain(&facts),
            // Whoever opened the target has said so.
            Err(_) => Vec::new(),
        },
        #[cfg(feature = "azure")]
        Ok(crate::target::Location::AzureBlob(azure)) => {
            azure_blob::explain(&azure_blob::probe(azure, base).await)
        }
        #[cfg(feature = "gcp")]
        Ok(crate::target::Location::Gcs(gcs)) => {
            gcs::explain(&gcs::probe(gcs, Some(base), &gcs::Addresses::of(gcs)).await)
        }
        _ => {
            let _ = base;
            Vec::new()
        }
    }
}

//! Which control of a provider keeps anonymous readers out, explained.

use chancery_core::lint::Finding;

use crate::target::TargetConfig;

#[cfg(feature = "azure")]
pub mod azure_blob;

/// What stands between a target and anonymous readers, as far as it can be found out from here.
pub async fn controls(target: &TargetConfig) -> Vec<Finding> {
    let _ = target;
    Vec::new()
}

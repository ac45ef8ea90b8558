//! What a configuration says of the clouds, for commands that need nothing else of it.

use std::path::Path;

use anyhow::Context as _;
use chancery_core::quoted::escaped;
use chancery_webhook::Settings;
use serde_json::Value;

use super::manifest;

/// The clouds of a configuration, without what the server needs; the usual ones without a file.
///
/// # Errors
/// Names the file and what is wrong in it.
pub fn read(path: Option<&Path>) -> anyhow::Result<Settings> {
    let Some(path) = path else { return Ok(Settings::default()) };
    let mut config = manifest::read(path)?;
    if let Value::Object(object) = &mut config {
        object.retain(|key, _| ["aws", "azure", "gcp"].contains(&key.as_str()));
    }
    serde_json::from_value(config).with_context(|| escaped(path.display()).to_string())
}

//! Objects in files.

use std::path::Path;

use anyhow::Context as _;
use chancery_core::quoted::escaped;
use serde_json::Value;

use crate::given;

/// The only document of a YAML file, or a JSON file.
///
/// # Errors
/// Names the file and what is wrong in it.
pub fn read(path: &Path) -> anyhow::Result<Value> {
    let name = || escaped(path.display()).to_string();
    let bytes = given::read(path)?;
    let text = std::str::from_utf8(&bytes).with_context(name)?;
    serde_saphyr::from_str(text).with_context(name)
}

//! Standard output, where a reader that went away is an error and no panic.

use std::io::Write as _;

use anyhow::Context as _;

/// Writes `text` as it is.
///
/// # Errors
/// When nobody reads it.
pub fn say(text: &str) -> anyhow::Result<()> {
    std::io::stdout().write_all(text.as_bytes()).context("cannot write to standard output")
}

//! A directory as configuration names it.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;

use super::error::TargetError;

/// A directory.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct DirectoryTarget {
    /// What corresponds to the issuer URL: the documents lie below it at their paths.
    pub path: PathBuf,
}

impl DirectoryTarget {
    /// What the types alone cannot say.
    pub(super) fn check(&self) -> Result<(), TargetError> {
        if self.path.as_os_str().is_empty() {
            return Err(TargetError::illegal("directory.path", "", "name a directory"));
        }
        Ok(())
    }
}

impl fmt::Display for DirectoryTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "directory {}", self.path.display())
    }
}

//! The record's file beside the state of its issuer, replaced whole.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use chancery_core::Owner;
use chancery_core::visibility::VisibilityRecord;

use crate::state::replace;

/// `NAME.visibility.json` in the state directory.
#[derive(Clone, Debug)]
pub struct VisibilityFile(PathBuf);

impl VisibilityFile {
    /// The file of an issuer in `directory`, which must exist.
    pub fn new(directory: &Path, owner: &Owner) -> Self {
        // Owners are visible ASCII; a slash would leave the directory.
        Self(directory.join(format!("{}.visibility.json", owner.as_str().replace('/', "%2F"))))
    }

    /// What was saved, nothing when there is no file yet.
    ///
    /// # Errors
    /// When the file is there but cannot be read: without it, keys that relying parties have long seen would wait
    /// again, and a long cache time would be forgotten.
    pub fn load(&self) -> Result<VisibilityRecord, VisibilityFileError> {
        match fs::read(&self.0) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|source| VisibilityFileError::Unreadable { path: self.0.clone(), source }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(VisibilityRecord::default()),
            Err(source) => Err(self.io(source)),
        }
    }

    /// Replaces the file, as the state beside it is.
    ///
    /// # Errors
    /// When the directory cannot be written. The old file is whole then.
    pub fn save(&self, record: &VisibilityRecord) -> Result<(), VisibilityFileError> {
        let replaced =
            serde_json::to_vec(record).map_err(Into::into).and_then(|bytes| replace(&self.0, &bytes));
        replaced.map_err(|source| self.io(source))
    }

    fn io(&self, source: std::io::Error) -> VisibilityFileError {
        VisibilityFileError::Io { path: self.0.clone(), source }
    }
}

/// Why the record cannot be kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VisibilityFileError {
    /// A file that is not ours or was damaged.
    #[error("visibility record {} cannot be read; restore it from a backup, or remove it: every key then waits anew", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// The file system refused.
    #[error("visibility record {} cannot be used", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_and_a_damaged_one_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = VisibilityFile::new(directory.path(), &"team/a".parse().unwrap());
        assert_eq!(file.load().unwrap(), VisibilityRecord::default());
        file.save(&VisibilityRecord::default()).unwrap();
        let path = directory.path().join("team%2Fa.visibility.json");
        assert!(path.is_file());
        assert_eq!(file.load().unwrap(), VisibilityRecord::default());
        fs::write(&path, r#"{"version":2,"longestMaxAgeSeconds":null,"views":{}}"#).unwrap();
        let refused = crate::chain(&file.load().unwrap_err());
        assert!(refused.contains("every key then waits anew") && refused.contains("version 2"), "{refused}");
        let nowhere = VisibilityFile::new(&directory.path().join("missing"), &"a".parse().unwrap());
        assert!(matches!(nowhere.save(&VisibilityRecord::default()), Err(VisibilityFileError::Io { .. })));
    }
}

//! The state in a directory: one JSON file for each issuer, replaced atomically.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use chancery_core::IssuerUrl;

use super::{Saved, StateError, name_of};

/// A directory of this process alone.
#[derive(Clone, Debug)]
pub struct StateDirectory(PathBuf);

impl StateDirectory {
    /// Uses `directory`, which must exist.
    ///
    /// # Errors
    /// When it is not a directory.
    pub fn open(directory: &Path) -> Result<Self, StateError> {
        if directory.is_dir() {
            Ok(Self(directory.to_owned()))
        } else {
            Err(StateError::NoDirectory(directory.to_owned()))
        }
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn load(&self, issuer: &IssuerUrl) -> Result<Option<Saved>, StateError> {
        let path = self.0.join(name_of(issuer));
        match fs::read(&path) {
            Ok(bytes) => super::read(&bytes, || format!("state file {}", path.display())).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(StateError::Io { path, source }),
        }
    }

    /// Temporary file, sync, rename, sync of the directory.
    pub(super) fn save(&self, saved: &Saved) -> Result<(), StateError> {
        let path = self.0.join(name_of(&saved.issuer));
        let fail = |source| StateError::Io { path: path.clone(), source };
        let temporary = path.with_extension("json.new");
        let bytes = serde_json::to_vec(saved).map_err(|error| fail(error.into()))?;
        let mut file = File::create(&temporary).map_err(fail)?;
        file.write_all(&bytes).and_then(|()| file.sync_all()).map_err(fail)?;
        fs::rename(&temporary, &path).map_err(fail)?;
        File::open(&self.0).and_then(|directory| directory.sync_all()).map_err(fail)
    }
}

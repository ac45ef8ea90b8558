//! The state in a directory: one JSON file for each issuer, replaced atomically.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
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

    pub(super) fn save(&self, saved: &Saved) -> Result<(), StateError> {
        let path = self.0.join(name_of(&saved.issuer));
        let replaced = serde_json::to_vec(saved).map_err(Into::into).and_then(|bytes| replace(&path, &bytes));
        replaced.map_err(|source| StateError::Io { path, source })
    }
}

/// Replaces a file of a state directory whole: temporary file, sync, rename, sync of the directory.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("json.new");
    let mut file = File::create(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

//! What must survive a restart: which keys this writer has seen and which it has withdrawn, one file per issuer.
//!
//! Without it a key that vanished from its source before a restart is foreign afterwards: it stays published until
//! somebody withdraws it by hand. That is safe, but not tidy.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use chancery_core::Owner;
use chancery_core::residence::Record;

/// A directory with one JSON file per issuer, replaced atomically.
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

    /// The record of an issuer, empty when there is none yet.
    ///
    /// # Errors
    /// When the file is there but cannot be read: starting without it would turn our own keys into foreign ones.
    pub fn load(&self, owner: &Owner) -> Result<Record, StateError> {
        let path = self.path(owner);
        match fs::read(&path) {
            Ok(bytes) => {
                serde_json::from_slice(&bytes).map_err(|source| StateError::Unreadable { path, source })
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Record::default()),
            Err(source) => Err(StateError::Io { path, source }),
        }
    }

    /// Replaces the record of an issuer: temporary file, sync, rename, sync of the directory.
    ///
    /// # Errors
    /// When the directory cannot be written. The old record is whole then.
    pub fn save(&self, owner: &Owner, record: &Record) -> Result<(), StateError> {
        let path = self.path(owner);
        let fail = |source| StateError::Io { path: path.clone(), source };
        let temporary = path.with_extension("json.new");
        let bytes = serde_json::to_vec(record).map_err(|error| fail(error.into()))?;
        let mut file = File::create(&temporary).map_err(fail)?;
        file.write_all(&bytes).and_then(|()| file.sync_all()).map_err(fail)?;
        fs::rename(&temporary, &path).map_err(fail)?;
        File::open(&self.0).and_then(|directory| directory.sync_all()).map_err(fail)
    }

    /// Owners are visible ASCII; a slash would leave the directory.
    fn path(&self, owner: &Owner) -> PathBuf {
        self.0.join(format!("{}.json", owner.as_str().replace('/', "%2F")))
    }
}

/// Why the state cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The configured place is not a directory.
    #[error("state directory {} does not exist; create it, writable for this process alone", .0.display())]
    NoDirectory(PathBuf),
    /// A record that is not ours or was damaged.
    #[error("state file {} cannot be read; restore it from a backup, or remove it: keys that vanished earlier then stay published as foreign ones", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// The file system refused.
    #[error("state file {} cannot be used", path.display())]
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
        let state = StateDirectory::open(directory.path()).unwrap();
        let owner: Owner = "team/a".parse().unwrap();
        assert_eq!(state.load(&owner).unwrap(), Record::default());
        let kid = "JHJehTTTZlsspKHT-GaJxK7Kd1NQgZJu3fyK6K_QDYU".parse().unwrap();
        let record = Record { generation: 3, keys: Vec::new(), tombstones: vec![kid] };
        state.save(&owner, &record).unwrap();
        assert_eq!(state.load(&owner).unwrap(), record);

        fs::write(directory.path().join("team%2Fa.json"), "{").unwrap();
        assert!(matches!(state.load(&owner), Err(StateError::Unreadable { .. })));
        assert!(StateDirectory::open(&directory.path().join("missing")).is_err());
    }
}

//! The key by which the writers of this service's issuers prove their work: a file of its own, never in the documents
//! beside it, and never at a target.

use std::io::ErrorKind;
use std::path::Path;

use chancery_cluster::cell::StoreMode;
use chancery_core::WriterKey;
use chancery_files::{Existing, NewFile, place};
use chancery_publisher::writer_key_file::{WriterKeyFileError, random_writer_key, read_writer_key};
use zeroize::Zeroizing;

use super::StateStore;

/// Its name in a state directory.
const FILE: &str = "writer-key";

/// The key of a service: the one in `file`, or else the one that lies in its state directory, which is made there when
/// there is none yet. None without a file and without a state.
///
/// # Errors
/// When it cannot be read or made. When the state is in a cluster and no file is given: whoever may read a ConfigMap
/// must not learn it.
pub fn establish(state: Option<&StateStore>, file: Option<&Path>) -> Result<Option<WriterKey>, NoWriterKey> {
    match (file, state) {
        (Some(file), _) => Ok(Some(read_writer_key(file)?)),
        (None, None) => Ok(None),
        (None, Some(state)) => {
            let directory = state.directory().ok_or(NoWriterKey::NeedsFile)?;
            Ok(Some(in_directory(&directory.join(FILE), state.cells().mode())?))
        }
    }
}

fn in_directory(path: &Path, mode: StoreMode) -> Result<WriterKey, WriterKeyFileError> {
    match read_writer_key(path) {
        Err(WriterKeyFileError::File(error)) if error.kind() == ErrorKind::NotFound => {}
        read => return read,
    }
    let key = random_writer_key();
    if mode == StoreMode::ReadWrite {
        let text = Zeroizing::new(format!("{}\n", key.to_secret_text()).into_bytes());
        place(&[NewFile::private(path.to_owned(), text)], Existing::Keep)
            .map_err(WriterKeyFileError::from)?;
    }
    Ok(key)
}

/// Why a service has no writer key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoWriterKey {
    /// Its file cannot be used.
    #[error(transparent)]
    File(#[from] WriterKeyFileError),
    /// The state is where others may read it.
    #[error(
        "`state.configMap` needs `writerKeyFile`, the key that proves what this service writes: make one with `chancery publish writer-key`, keep it in a Secret, and mount that"
    )]
    NeedsFile,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_keeps_the_key_that_was_made_in_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE);
        in_directory(&path, StoreMode::ReadOnly).unwrap();
        assert!(!path.exists(), "a check leaves nothing");
        let made = in_directory(&path, StoreMode::ReadWrite).unwrap();
        assert_eq!(in_directory(&path, StoreMode::ReadWrite).unwrap(), made);
        assert_eq!(read_writer_key(&path).unwrap(), made);
        std::fs::write(&path, "something else").unwrap();
        let refused = in_directory(&path, StoreMode::ReadWrite).unwrap_err().to_string();
        assert!(refused.contains("writer key") && !refused.contains("something else"), "{refused}");
    }
}

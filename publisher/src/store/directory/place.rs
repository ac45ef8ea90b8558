//! The files of one document, and the lock of the directory they lie in.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use chancery_files::LockFile;

use super::directories;
use super::refusal::refused;
use crate::store::{Failure, StoreErrorKind};

/// What every file of ours that is no document has in its name.
const OURS: &str = ".chancery";
/// Longer than anybody who is alive holds the lock.
const PATIENCE: Duration = Duration::from_secs(5);

/// The files of one document.
#[derive(Debug)]
pub(super) struct DocumentFiles {
    root: PathBuf,
    pub(super) folder: PathBuf,
    pub(super) document: PathBuf,
    pub(super) sidecar: PathBuf,
}

impl DocumentFiles {
    /// The files of the document at `path` below `root`. A path cannot leave the root or name a file of ours.
    pub(super) fn of(root: &Path, path: &str) -> Result<Self, Failure> {
        let illegal = || {
            let cause = format!("{path:?} is no path of a document");
            Failure::new(
                StoreErrorKind::Misconfigured,
                cause,
                "use a relative path without `.`, `..` and `.chancery`",
            )
        };
        let plain = path.split('/').all(|part| !part.is_empty() && !part.contains(OURS))
            && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
        let document = root.join(path);
        let (Some(folder), Some(name), true) = (document.parent(), document.file_name(), plain) else {
            return Err(illegal());
        };
        let folder = folder.to_owned();
        let sidecar = folder.join(format!(".{}{OURS}", name.display()));
        Ok(Self { root: root.to_owned(), folder, document, sidecar })
    }

    /// Waits for the lock among the writers of the directory, a hidden file in its root.
    pub(super) fn lock(&self) -> Result<LockFile, Failure> {
        directories::make(&self.root)?;
        LockFile::acquire(&self.root.join(format!("{OURS}.lock")), PATIENCE).map_err(|error| refused(&error))
    }
}

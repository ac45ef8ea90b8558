//! The files of one document, and the lock of the directory they lie in.

use std::fs::{File, TryLockError};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use super::{refused, replace};
use crate::store::{Failure, StoreErrorKind};

/// What every file of ours that is no document has in its name.
const OURS: &str = ".chancery";
/// Longer than anybody who is alive holds the lock.
const PATIENCE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(5);

/// The files of one document.
#[derive(Debug)]
pub(super) struct Place {
    root: PathBuf,
    pub(super) folder: PathBuf,
    pub(super) document: PathBuf,
    pub(super) sidecar: PathBuf,
}

impl Place {
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

    /// Waits for the directory's lock, a hidden file in its root. It is given back when the file is closed, also by
    /// the kernel after a crash.
    pub(super) fn lock(&self) -> Result<File, Failure> {
        let path = self.root.join(format!("{OURS}.lock"));
        replace::make_directories(&self.root).map_err(|error| refused(&self.root, &error))?;
        let mut options = File::options();
        let file = options
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|error| refused(&path, &error))?;
        let started = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::Error(error)) => return Err(refused(&path, &error)),
                Err(TryLockError::WouldBlock) if started.elapsed() > PATIENCE => {
                    let cause = format!("another process has held {} for {PATIENCE:?}", path.display());
                    let remedy = "find it (`fuser` on the lock file) and end it";
                    return Err(Failure::new(StoreErrorKind::Unavailable, cause, remedy));
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(POLL),
            }
        }
    }
}

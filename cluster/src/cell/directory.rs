//! Documents in a directory: one JSON file for each, replaced whole, readable for this user alone unless it is shared.
//!
//! The version of a file is the hash of its bytes. The comparison and the replacement are two steps, which the lock of
//! the directory makes one: no other process writes there, or none during a swap where it is shared, and within this one
//! a mutex lets one thread do so.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chancery_files::{
    Access, Bounds, FileError, LockFile, NewFile, read_blocking, remove_leftovers, replace_blocking, within,
};
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;

use super::{ByteSwap, CellError, StoreMode, StoredBytes, Version};
use crate::limits;

/// The lock's file. It stays when the process ends; the lock on it does not.
const LOCK: &str = ".chancery.lock";

/// The longest document, in bytes; the state of an issuer has a few thousand. Its time is that of the work around it.
const BOUNDS: Bounds = Bounds::regular(16 << 20, limits::FILE);

/// How long a swap waits for that of another process, which takes milliseconds.
const SWAP_OF_OTHERS: Duration = Duration::from_secs(2);

/// How many swaps have a thread. One works, and a few are ready to.
const TURNS: usize = 8;

/// A directory, locked if this process alone may write there.
#[derive(Clone, Debug)]
pub(super) struct Directory {
    path: PathBuf,
    is_shared: bool,
    /// The turns of swaps. Those that wait for theirs have no thread yet, and their time has not begun.
    turns: Arc<Semaphore>,
    /// Held by the work itself, which goes on when nobody waits for it any more.
    writing: Arc<Mutex<()>>,
    /// Dropping it gives the lock back.
    _lock: Option<Arc<LockFile>>,
}

impl Directory {
    pub async fn open(path: &Path, mode: StoreMode) -> Result<Self, CellError> {
        let directory = path.to_owned();
        let lock = in_time("open", path, move || {
            if !directory.is_dir() {
                return Err(FileError::NoDirectory(directory));
            }
            if mode != StoreMode::ReadWrite {
                return Ok(None);
            }
            let lock = LockFile::acquire(&directory.join(LOCK), Duration::ZERO)?;
            remove_leftovers(&directory)?;
            Ok(Some(Arc::new(lock)))
        });
        let _lock = lock.await.map_err(|error| match error {
            FileError::Locked { holder, .. } => CellError::InUse { path: path.to_owned(), holder },
            error => CellError::File(error),
        })?;
        let is_shared = mode == StoreMode::Shared;
        let turns = Arc::new(Semaphore::new(TURNS));
        Ok(Self { path: path.to_owned(), is_shared, turns, writing: Arc::default(), _lock })
    }

    pub fn place(&self, name: &str) -> String {
        self.file(name).display().to_string()
    }

    pub async fn read(&self, name: &str) -> Result<Option<StoredBytes>, CellError> {
        let place = self.file(name);
        let path = place.clone();
        Ok(in_time("read", &place, move || read(&path)).await?)
    }

    pub async fn swap(
        &self,
        name: &str,
        bytes: Vec<u8>,
        expected: Option<&Version>,
    ) -> Result<ByteSwap, CellError> {
        let _turn = self.turns.acquire().await;
        let (expected, writing) = (expected.cloned(), self.writing.clone());
        let place = self.file(name);
        let path = place.clone();
        let shared_lock = self.is_shared.then(|| self.path.join(LOCK));
        let access = if self.is_shared { Access::Public } else { Access::Private };
        let swapped = in_time("replace", &place, move || {
            let _alone = writing.lock().unwrap_or_else(PoisonError::into_inner);
            let _lock = shared_lock.map(|lock| LockFile::acquire(&lock, SWAP_OF_OTHERS)).transpose()?;
            let found = read(&path)?;
            if found.as_ref().map(|found| &found.version) != expected.as_ref() {
                return Ok(ByteSwap::Lost(found));
            }
            let version = version(&bytes);
            replace_blocking(&NewFile { path, bytes: bytes.into(), access })?;
            Ok(ByteSwap::Swapped(version))
        });
        Ok(swapped.await?)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.json"))
    }
}

/// Work on files that neither a runtime thread nor the end of the process waits for longer than the limit.
async fn in_time<T: Send + 'static>(
    action: &'static str,
    path: &Path,
    work: impl FnOnce() -> Result<T, FileError> + Send + 'static,
) -> Result<T, FileError> {
    let place = path.to_owned();
    let done = tokio::task::spawn_blocking(move || within(limits::FILE, action, &place, work)).await;
    // The task cannot be cancelled, and a panic of the work is an error already.
    done.unwrap_or_else(|error| Err(FileError::io(action, path, std::io::Error::other(error))))
}

fn read(path: &Path) -> Result<Option<StoredBytes>, FileError> {
    match read_blocking(path, BOUNDS) {
        Ok(bytes) => Ok(Some(StoredBytes { version: version(&bytes), bytes })),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn version(bytes: &[u8]) -> Version {
    Version(Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect())
}

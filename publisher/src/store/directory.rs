//! A store in a directory that a web server, a volume or a synchronisation serves from.
//!
//! The document lies at its path and holds its exact bytes. What a file cannot carry lies beside it in a hidden
//! sidecar, see [`sidecar`]: the ownership marker, the media type and the cache header.
//!
//! Each write goes through these steps; a crash between any two leaves a whole document, and ours marked as ours:
//!
//! 1. Take the lock of the directory, so that reading and writing are one step among all writers.
//! 2. Read what is there and compare its version with the one expected.
//! 3. Replace the sidecar: it describes the new content *and* still the old one.
//! 4. Replace the document.
//!
//! Replacing is: write a temporary file in the same directory, sync it, rename it, sync the directory. Readers take
//! no lock and change nothing, so that a read-only mount can be read.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use async_trait::async_trait;
use chancery_core::publication::{Precondition, StoredObject, Version};

use self::place::Place;
use self::sidecar::{Record, Sidecar};
use super::{
    DocumentStore, Failure, LARGEST_OBJECT, Operation, Put, Reading, StoreError, StoreErrorKind, check,
};

mod place;
mod replace;
mod sidecar;

/// Longer than any file system in order takes; a hung network mount must not hang the caller with it.
const TIMEOUT: Duration = Duration::from_secs(15);
/// How often a read starts again because a writer was at work.
const READS: usize = 10;

/// Documents in a directory.
#[derive(Clone, Debug)]
pub struct DirectoryStore {
    root: PathBuf,
}

impl DirectoryStore {
    /// The store below `root`, which is made by the first write if it is missing.
    ///
    /// # Errors
    /// When `root` is empty, or relative and the current directory is gone.
    pub fn new(root: impl AsRef<Path>) -> io::Result<Self> {
        Ok(Self { root: std::path::absolute(root)? })
    }

    async fn work<T: Send + 'static>(
        &self,
        operation: Operation,
        path: &str,
        work: impl FnOnce(Place) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        let place = Place::of(&self.root, path);
        let work = tokio::task::spawn_blocking(move || work(place?));
        let result = match tokio::time::timeout(TIMEOUT, work).await {
            Ok(Ok(result)) => result,
            Ok(Err(stopped)) => Err(Failure::new(
                StoreErrorKind::Unavailable,
                stopped,
                "the process is ending; start it again",
            )),
            Err(elapsed) => Err(Failure::new(
                StoreErrorKind::TimedOut,
                elapsed,
                "look at the file system: a network mount may hang",
            )),
        };
        result.map_err(|failure| failure.at(self.describe(), operation, path))
    }
}

#[async_trait]
impl DocumentStore for DirectoryStore {
    async fn read_unless(&self, path: &str, known: Option<&Version>) -> Result<Reading, StoreError> {
        let object = self.work(Operation::Read, path, |place| read(&place)).await?;
        Ok(Reading::of(object, known))
    }

    async fn write(&self, put: Put<'_>) -> Result<Version, StoreError> {
        let (bytes, record) = (put.bytes.to_vec(), Record::of(&put));
        let precondition = put.precondition.clone();
        let work = move |place: Place| write(&place, &bytes, record, &precondition);
        self.work(Operation::Write, put.path, work).await
    }

    fn describe(&self) -> String {
        format!("directory {}", self.root.display())
    }
}

/// Reads both files without the lock. The sidecar describes the old and the new content while it is being replaced,
/// so if it stayed the same around the reading of the document, they belong together.
fn read(place: &Place) -> Result<Option<StoredObject>, Failure> {
    for _ in 0..READS {
        let before = read_file(&place.sidecar)?;
        let Some(bytes) = read_file(&place.document)? else { return Ok(None) };
        if read_file(&place.sidecar)? == before {
            let sidecar = Sidecar::parse(before.as_deref(), &place.sidecar)?;
            return Ok(Some(sidecar.describe(bytes)));
        }
    }
    let cause = format!("{} changed during each of {READS} readings", place.sidecar.display());
    Err(Failure::new(StoreErrorKind::Unavailable, cause, "find out who keeps writing there"))
}

fn write(
    place: &Place,
    bytes: &[u8],
    record: Record,
    precondition: &Precondition,
) -> Result<Version, Failure> {
    let _lock = place.lock()?;
    let current = read(place)?;
    check(precondition, current.as_ref().map(|object| &object.version))?;
    let sidecar = Sidecar::of(record, current.as_ref());
    let version = sidecar.describe(bytes.to_vec()).version;
    replace::make_directories(&place.folder).map_err(|error| refused(&place.folder, &error))?;
    for (path, content) in [(&place.sidecar, sidecar.to_json().as_slice()), (&place.document, bytes)] {
        replace::replace(path, content).map_err(|error| refused(path, &error))?;
    }
    Ok(version)
}

fn read_file(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(refused(path, &error)),
    };
    // Opening a pipe would wait for its other end.
    if !metadata.is_file() || metadata.len() > LARGEST_OBJECT as u64 {
        let cause = format!("{} is not a file of at most {LARGEST_OBJECT} bytes", path.display());
        return Err(Failure::new(StoreErrorKind::Misconfigured, cause, "move it away"));
    }
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(refused(path, &error)),
    }
}

/// The file system's answer as a kind of ours.
fn refused(path: &Path, error: &io::Error) -> Failure {
    use io::ErrorKind as Io;
    let (kind, remedy) = match error.kind() {
        Io::PermissionDenied => (
            StoreErrorKind::Denied,
            "give the user we run as the directory (read, write and search permission)",
        ),
        Io::ReadOnlyFilesystem => (StoreErrorKind::Denied, "mount it writable"),
        Io::NotFound => (StoreErrorKind::NoSuchContainer, "make the directory or mount it"),
        Io::NotADirectory | Io::IsADirectory | Io::InvalidFilename => {
            (StoreErrorKind::Misconfigured, "name a directory in which we may make directories of our own")
        }
        Io::StorageFull | Io::QuotaExceeded => (StoreErrorKind::Unavailable, "make room on the file system"),
        _ => (StoreErrorKind::Unavailable, "look at the file system"),
    };
    Failure::new(kind, format!("{}: {error}", path.display()), remedy)
}

#[cfg(test)]
mod tests;

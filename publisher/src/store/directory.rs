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

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use chancery_core::publication::{Precondition, StoredObject, Version};
use chancery_files::{
    Bounds, FileError, NewFile, read_beginning_blocking, read_blocking, remove_leftovers, replace_blocking,
    within,
};

use self::place::DocumentFiles;
use self::refusal::refused;
use self::sidecar::{Record, Sidecar};
use super::{
    ConditionalRead, DocumentStore, Failure, LARGEST_OBJECT, Operation, Put, StoreError, StoreErrorKind,
    check,
};

mod directories;
mod place;
mod refusal;
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
        work: impl FnOnce(DocumentFiles) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        let place = DocumentFiles::of(&self.root, path);
        let work = tokio::task::spawn_blocking(move || {
            let place = place?;
            let document = place.document.clone();
            // On a thread that nothing waits for: a hung network mount must not hang the end of the process either.
            within(TIMEOUT, "reach", &document, move || Ok(work(place)))
                .unwrap_or_else(|error| Err(refused(&error)))
        });
        let result = work.await.unwrap_or_else(|stopped| {
            let remedy = "the process is ending; start it again";
            Err(Failure::new(StoreErrorKind::Unavailable, stopped, remedy))
        });
        result.map_err(|failure| failure.at(self.describe(), operation, path))
    }
}

#[async_trait]
impl DocumentStore for DirectoryStore {
    async fn read_unless(&self, path: &str, known: Option<&Version>) -> Result<ConditionalRead, StoreError> {
        let object = self.work(Operation::Read, path, |place| read(&place)).await?;
        Ok(ConditionalRead::of(object, known))
    }

    async fn write(&self, put: Put<'_>) -> Result<Version, StoreError> {
        let (bytes, record) = (put.bytes.to_vec(), Record::of(&put));
        let precondition = put.precondition.clone();
        let work = move |place: DocumentFiles| write(&place, &bytes, record, &precondition);
        self.work(Operation::Write, put.path, work).await
    }

    fn describe(&self) -> String {
        format!("directory {}", self.root.display())
    }
}

/// Reads both files without the lock. The sidecar describes the old and the new content while it is being replaced,
/// so if it stayed the same around the reading of the document, they belong together.
fn read(place: &DocumentFiles) -> Result<Option<StoredObject>, Failure> {
    for _ in 0..READS {
        let before = read_file(&place.sidecar)?;
        let beginning = Bounds::regular(LARGEST_OBJECT + 1, TIMEOUT);
        let Some(bytes) = found(read_beginning_blocking(&place.document, beginning))? else {
            return Ok(None);
        };
        if read_file(&place.sidecar)? == before {
            let sidecar = Sidecar::parse(before.as_deref(), &place.sidecar);
            return Ok(Some(sidecar.describe(bytes)));
        }
    }
    let cause = format!("{} changed during each of {READS} readings", place.sidecar.display());
    Err(Failure::new(StoreErrorKind::Unavailable, cause, "find out who keeps writing there"))
}

fn write(
    place: &DocumentFiles,
    bytes: &[u8],
    record: Record,
    precondition: &Precondition,
) -> Result<Version, Failure> {
    let _lock = place.lock()?;
    let current = read(place)?;
    check(precondition, current.as_ref().map(|object| &object.version))?;
    let sidecar = Sidecar::of(record, current.as_ref());
    let version = sidecar.describe(bytes.to_vec()).version;
    directories::make(&place.folder)?;
    // Under the lock: nobody else is about to rename what lies there.
    remove_leftovers(&place.folder).map_err(|error| refused(&error))?;
    for (path, content) in [(&place.sidecar, sidecar.to_json()), (&place.document, bytes.to_vec())] {
        // Web servers run as another user.
        replace_blocking(&NewFile::public(path.clone(), content)).map_err(|error| refused(&error))?;
    }
    Ok(version)
}

fn read_file(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    found(read_blocking(path, Bounds::regular(LARGEST_OBJECT, TIMEOUT)))
}

/// What was read, or nothing where there is no such file.
fn found(read: Result<Vec<u8>, FileError>) -> Result<Option<Vec<u8>>, Failure> {
    match read {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(refused(&error)),
    }
}

#[cfg(test)]
mod tests;

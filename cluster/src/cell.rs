//! A document that survives the process and is changed only by compare-and-swap, so that of two writers one knows that
//! it has lost.
//!
//! ```text
//!  load ──▶ Stored { document, version } ──decide──▶ swap(document, version) ──▶ Swapped(version) | Lost(what is there)
//! ```
//!
//! | store | for | a version is |
//! |---|---|---|
//! | a directory | one process with a volume of its own; a lock keeps out a second one | the SHA-256 of the bytes |
//! | a shared directory | several processes of one machine; the lock is held for as long as each swap takes | the same |
//! | a cluster | replicas, which share what they know; one ConfigMap for each document | its `resourceVersion` |
//!
//! Every document is a JSON object with a number `version`, which the cell writes and checks itself: the type that it
//! holds has no such field. A document without one has version 1. A newer version than the program knows is refused.
//! Fields that the type does not know must be no error, or the first new field breaks a rolling upgrade: do not derive
//! `deny_unknown_fields`, and keep what an older release would lose in a [`LaterFields`].
//!
//! A write whose answer was lost is known as ours when it is tried again: what stands there then is what we wanted.

use std::fmt;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use chancery_files::FileError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

mod directory;
#[cfg(feature = "kube")]
mod object;
mod place;

pub use place::{CellStoreConfig, CellStoreError, ConfigMapsConfig};

/// Fields that a later release has put into a document: kept by an older one that writes it in between.
///
/// ```
/// # use chancery_cluster::cell::LaterFields;
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Document {
///     name: String,
///     #[serde(flatten)]
///     later: LaterFields,
/// }
/// ```
pub type LaterFields = Map<String, Value>;

/// The member of every document that says which form it has.
const VERSION_FIELD: &str = "version";

/// What kind of document a cell holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schema {
    /// Part of the document's name: lower-case letters and hyphens. Two kinds of one subject never meet.
    pub name: &'static str,
    /// The newest form that this program knows, and the one that it writes.
    pub version: u32,
}

/// Which content of a document was read or written. Two are equal if nobody has written in between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(String);

/// A document as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored<T> {
    /// What it says.
    pub document: T,
    /// What a change of it must name.
    pub version: Version,
}

/// What came of a compare-and-swap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swap<T> {
    /// The document is there now, in this version.
    Swapped(Version),
    /// It was not written, since something else than expected stands there; nothing if it was deleted.
    Lost(Option<Stored<T>>),
}

/// What a process may do with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreMode {
    /// Look: beside whoever writes. Every swap is refused.
    ReadOnly,
    /// Write. A directory has one such process at a time.
    ReadWrite,
    /// Write beside others, whom a swap that meets theirs tells so. Everybody may read what is written.
    Shared,
}

/// Where documents are kept.
#[derive(Clone, Debug)]
pub struct CellStore {
    place: CellPlace,
    mode: StoreMode,
}

#[derive(Clone, Debug)]
enum CellPlace {
    Directory(directory::Directory),
    #[cfg(feature = "kube")]
    Cluster(Box<object::Objects>),
}

impl CellStore {
    /// The documents in a directory, which must exist. Writing takes its lock for as long as this value or a clone or
    /// a cell of it lives.
    ///
    /// # Errors
    /// When it is no directory, when another process writes there, or when its files cannot be used.
    pub async fn directory(path: &Path, mode: StoreMode) -> Result<Self, CellError> {
        let place = CellPlace::Directory(directory::Directory::open(path, mode).await?);
        Ok(Self { place, mode })
    }

    /// The documents in ConfigMaps of `namespace` whose names begin with `prefix`. Nothing is asked of the API server
    /// yet. Needs `get` and `update` of them, and `create` of ConfigMaps.
    #[cfg(feature = "kube")]
    pub fn cluster(client: kube::Client, namespace: &str, prefix: &str, mode: StoreMode) -> Self {
        Self { place: CellPlace::Cluster(Box::new(object::Objects::new(client, namespace, prefix))), mode }
    }

    /// The cell of one kind of document about `subject`, such as an issuer URL.
    pub fn cell<T>(&self, subject: &str, schema: Schema) -> Cell<T> {
        let name = format!("{}-{}", schema.name, name_of(subject));
        Cell { store: self.clone(), name, schema, holds: PhantomData }
    }

    /// Whether other processes read and write it too.
    pub fn is_shared(&self) -> bool {
        self.mode == StoreMode::Shared || !matches!(self.place, CellPlace::Directory(_))
    }

    /// Whether documents may be written through it.
    pub fn mode(&self) -> StoreMode {
        self.mode
    }
}

/// Bytes as they were read.
#[derive(Clone, Debug)]
struct StoredBytes {
    bytes: Vec<u8>,
    version: Version,
}

/// What came of a compare-and-swap of bytes.
enum ByteSwap {
    Swapped(Version),
    Lost(Option<StoredBytes>),
}

/// One document.
pub struct Cell<T> {
    store: CellStore,
    name: String,
    schema: Schema,
    holds: PhantomData<fn() -> T>,
}

impl<T> Clone for Cell<T> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone(), name: self.name.clone(), schema: self.schema, holds: PhantomData }
    }
}

impl<T> fmt::Debug for Cell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cell").field("place", &self.place()).field("schema", &self.schema).finish()
    }
}

impl<T> Cell<T> {
    /// Where the document is, for a person.
    pub fn place(&self) -> String {
        match &self.store.place {
            CellPlace::Directory(directory) => directory.place(&self.name),
            #[cfg(feature = "kube")]
            CellPlace::Cluster(objects) => objects.place(&self.name),
        }
    }
}

impl<T: Serialize + DeserializeOwned> Cell<T> {
    /// The document, `None` when there is none yet. Takes no longer than [`limits`](crate::limits) says.
    ///
    /// # Errors
    /// When it is there but cannot be read, and when nobody can say whether it is there.
    pub async fn load(&self) -> Result<Option<Stored<T>>, CellError> {
        let found = match &self.store.place {
            CellPlace::Directory(directory) => directory.read(&self.name).await?,
            #[cfg(feature = "kube")]
            CellPlace::Cluster(objects) => objects.read(&self.name).await?,
        };
        found.map(|found| self.parse(found)).transpose()
    }

    /// Replaces the document whole if it still is what was `expected`: of this version, or nothing at all. Takes no
    /// longer than [`limits`](crate::limits) says. After an error, or when the future is dropped, it may have been
    /// written all the same; the same call made again finds that out.
    ///
    /// # Errors
    /// When the store cannot be written, or was opened to be read.
    pub async fn swap(&self, document: &T, expected: Option<&Version>) -> Result<Swap<T>, CellError> {
        if self.store.mode == StoreMode::ReadOnly {
            return Err(CellError::ReadOnly { place: self.place() });
        }
        let bytes = self.render(document)?;
        let swapped = match &self.store.place {
            CellPlace::Directory(directory) => directory.swap(&self.name, bytes.clone(), expected).await?,
            #[cfg(feature = "kube")]
            CellPlace::Cluster(objects) => objects.swap(&self.name, &bytes, expected).await?,
        };
        Ok(match swapped {
            ByteSwap::Swapped(version) => Swap::Swapped(version),
            ByteSwap::Lost(Some(found)) if found.bytes == bytes => Swap::Swapped(found.version),
            ByteSwap::Lost(found) => Swap::Lost(found.map(|found| self.parse(found)).transpose()?),
        })
    }

    fn render(&self, document: &T) -> Result<Vec<u8>, CellError> {
        let render = || {
            let mut value = serde_json::to_value(document)?;
            if let Value::Object(members) = &mut value {
                members.insert(VERSION_FIELD.to_owned(), self.schema.version.into());
            }
            serde_json::to_vec(&value)
        };
        render().map_err(|source| CellError::Unwritable { place: self.place(), source })
    }

    fn parse(&self, found: StoredBytes) -> Result<Stored<T>, CellError> {
        let unreadable = |source| CellError::Unreadable { place: self.place(), source };
        let mut members: Map<String, Value> = serde_json::from_slice(&found.bytes).map_err(unreadable)?;
        let version = members.remove(VERSION_FIELD).unwrap_or(Value::from(1));
        if version.as_u64().is_none_or(|version| version > self.schema.version.into()) {
            let (place, known) = (self.place(), self.schema.version);
            return Err(CellError::UnknownVersion { place, found: version.to_string(), known });
        }
        let document = serde_json::from_value(Value::Object(members)).map_err(unreadable)?;
        Ok(Stored { document, version: found.version })
    }
}

/// A name for files and Kubernetes objects that no two subjects share and that a person recognises: what of the subject
/// is legal in one, and 64 bits of its SHA-256.
fn name_of(subject: &str) -> String {
    let (_, rest) = subject.split_once("://").unwrap_or(("", subject));
    let legal = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let readable: String = rest.chars().map(legal).take(60).collect();
    let digest = Sha256::digest(subject);
    let hash: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    match readable.trim_matches('-') {
        "" => hash,
        readable => format!("{readable}-{hash}"),
    }
}

/// Why a document cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CellError {
    /// Another process writes there.
    #[error(
        "state directory {} is in use by {holder}; stop that one first, or give this one a directory of its own",
        path.display()
    )]
    InUse {
        /// The directory.
        path: PathBuf,
        /// Who said to be the one.
        holder: String,
    },
    /// The file system refused or does not answer.
    #[error(transparent)]
    File(#[from] FileError),
    /// A document that is not ours or was damaged.
    #[error("{place} cannot be read")]
    Unreadable {
        /// Which file or object.
        place: String,
        /// Why.
        source: serde_json::Error,
    },
    /// A document of a later release.
    #[error("{place} has version {found}; expected {known} or less. Run the release that wrote it")]
    UnknownVersion {
        /// Which file or object.
        place: String,
        /// Its version.
        found: String,
        /// The newest one that this program knows.
        known: u32,
    },
    /// A value that is no JSON object.
    #[error("{place} cannot be written")]
    Unwritable {
        /// Which file or object.
        place: String,
        /// Why.
        source: serde_json::Error,
    },
    /// The store was opened to be read.
    #[error("{place} may only be read by this process")]
    ReadOnly {
        /// Which file or object.
        place: String,
    },
    /// The API server refused or could not be asked.
    #[error("{place} cannot be used; grant get and update on it, and create on configmaps: {problem}")]
    Refused {
        /// Which object.
        place: String,
        /// What the API server said, or why it could not be asked.
        problem: String,
    },
}

#[cfg(test)]
mod tests;

//! The folder of a cache: files by key, a lock for each, and a generation that counts purges.

use std::fs::{DirBuilder, Metadata};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use chancery_core::quoted::escaped;
use chancery_files::{Bounds, FileError, LockFile, NewFile, read_secret, remove_leftovers, replace};
use rustix::fs::statfs;
use zeroize::Zeroizing;

use super::unusable;
use crate::error::ExchangeError;
use crate::key::CacheKey;
use crate::limits;

/// The largest file of a credential, in bytes.
const LARGEST: usize = 256 * 1024;
/// What ends the name of a credential's file.
const ENDING: &str = "json";
/// The file that counts purges.
const GENERATION: &str = "generation";
/// How long a process waits for one that writes a file or purges.
const BRIEFLY: Duration = Duration::from_secs(5);
/// The numbers by which Linux knows file systems that are in memory alone (statfs(2)).
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// On what credentials may lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// In memory alone: tmpfs, as an `emptyDir` of the medium `Memory` and `/run` are.
    Memory,
    /// On anything: who can read the disk, or a backup of it, can read them.
    Any,
}

/// A folder that is this user's alone.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    pub(super) fn open(path: PathBuf, medium: Medium) -> Result<Self, ExchangeError> {
        let name = escaped(path.display()).to_string();
        let failed = |error: std::io::Error| unusable("cache-folder", &format!("{name}: {error}"));
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(error)),
        }
        let metadata = std::fs::symlink_metadata(&path).map_err(failed)?;
        if let Some(why) = exposure(&metadata) {
            return Err(unusable("cache-folder-exposed", &format!("{name} {why}"))
                .expected("a folder that is this user's alone (0700)")
                .remedy(format!("chmod 700 {name}, or name another")));
        }
        let kind = statfs(&path).map_err(|error| failed(error.into()))?.f_type;
        let is_memory = u64::try_from(kind).is_ok_and(|kind| IN_MEMORY.contains(&kind));
        if medium == Medium::Memory && !is_memory {
            return Err(unusable("cache-folder-on-disk", &format!("{name} is on a disk"))
                .expected("a file system in memory, as below /run, or an emptyDir of the medium Memory")
                .remedy("name such a folder, or allow a disk with --cache-on-disk: who can read it or its backup can read the credentials"));
        }
        Ok(Self { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The file of a key, if there is one.
    pub(super) fn read(&self, key: &CacheKey) -> Result<Option<Zeroizing<Vec<u8>>>, FileError> {
        read(&self.file(key))
    }

    /// The lock of a key.
    pub(super) fn lock(&self, key: &CacheKey, patience: Duration) -> Result<LockFile, FileError> {
        LockFile::acquire(&self.path.join(format!("{key}.lock")), patience)
    }

    /// How often anything was purged.
    pub(super) fn generation(&self) -> Result<u64, FileError> {
        let bytes = read(&self.path.join(GENERATION))?;
        let text = bytes.as_deref().and_then(|bytes| std::str::from_utf8(bytes).ok());
        Ok(text.and_then(|text| text.trim().parse().ok()).unwrap_or_default())
    }

    /// Writes the file of a key, unless something was purged since `before`. Returns whether it did.
    pub(super) fn write(
        &self,
        key: &CacheKey,
        bytes: Zeroizing<Vec<u8>>,
        before: u64,
    ) -> Result<bool, FileError> {
        let _lock = self.writing()?;
        if self.generation()? != before {
            return Ok(false);
        }
        // Everybody who writes here holds the lock: what has such a name was left by a process that was killed.
        remove_leftovers(&self.path)?;
        replace(NewFile::private(self.file(key), bytes), limits::FILE)?;
        Ok(true)
    }

    /// Removes the files that `is_meant`, and has nobody write what they are exchanging now. Returns how many.
    pub(super) fn purge(&self, is_meant: impl Fn(&[u8]) -> bool) -> Result<usize, ExchangeError> {
        let failed = |error: FileError| {
            unusable("cache-purge", &error.to_string())
                .remedy("purge again; what is not removed is handed out until it ends")
        };
        let _lock = self.writing().map_err(failed)?;
        let next = self.generation().map_err(failed)?.wrapping_add(1);
        let bytes = Zeroizing::new(next.to_string().into_bytes());
        replace(NewFile::private(self.path.join(GENERATION), bytes), limits::FILE).map_err(failed)?;
        remove_leftovers(&self.path).map_err(failed)?;
        let mut purged = 0;
        for path in self.files().map_err(failed)? {
            let bytes = match read(&path) {
                Ok(Some(bytes)) => bytes,
                Ok(None) => continue,
                // What cannot be read cannot be told from what is meant.
                Err(_) => Zeroizing::default(),
            };
            if is_meant(&bytes) {
                std::fs::remove_file(&path).map_err(|error| failed(FileError::io("remove", &path, error)))?;
                purged += 1;
            }
        }
        Ok(purged)
    }

    /// Removes the files that `is_over`, each with its lock. What cannot be removed is in nobody's way.
    pub(super) fn sweep(&self, is_over: impl Fn(&[u8]) -> bool) {
        for path in self.files().unwrap_or_default() {
            let lock = path.with_extension("lock");
            if let Ok(Some(bytes)) = read(&path)
                && is_over(&bytes)
                // Nobody is about to write it; whoever waits for the lock notices that its file is another one.
                && let Ok(_lock) = LockFile::acquire(&lock, Duration::ZERO)
            {
                _ = std::fs::remove_file(&path);
                _ = std::fs::remove_file(&lock);
            }
        }
    }

    fn writing(&self) -> Result<LockFile, FileError> {
        LockFile::acquire(&self.path.join("generation.lock"), BRIEFLY)
    }

    fn file(&self, key: &CacheKey) -> PathBuf {
        self.path.join(format!("{key}.{ENDING}"))
    }

    /// The files of credentials.
    fn files(&self) -> Result<Vec<PathBuf>, FileError> {
        let failed = |error| FileError::io("list", &self.path, error);
        let entries = std::fs::read_dir(&self.path).map_err(failed)?;
        let paths: Result<Vec<PathBuf>, _> = entries.map(|entry| Ok(entry.map_err(failed)?.path())).collect();
        Ok(paths?
            .into_iter()
            .filter(|path| path.extension().is_some_and(|ending| ending == ENDING))
            .collect())
    }
}

fn read(path: &Path) -> Result<Option<Zeroizing<Vec<u8>>>, FileError> {
    match read_secret(path, Bounds::regular(LARGEST, limits::FILE)) {
        Ok(file) => Ok(Some(file.bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Why others could read or replace what is in a folder.
fn exposure(folder: &Metadata) -> Option<&'static str> {
    if !folder.is_dir() {
        return Some("is no folder");
    }
    if folder.uid() != rustix::process::geteuid().as_raw() {
        return Some("belongs to another user");
    }
    (folder.mode() & 0o077 != 0).then_some("can be read or written by others")
}

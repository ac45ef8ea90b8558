//! One name in one open directory, and the system calls on it. Nothing here follows a symbolic link at the name.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use zeroize::Zeroizing;

use crate::FileError;
use crate::read::read_all;

/// A place for a file: the directory is held open, so that it cannot be exchanged under us.
pub(crate) struct Target {
    directory: OwnedFd,
    name: OsString,
    path: PathBuf,
}

/// Which file a name stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
}

/// A complete file beside a target, not yet under its name.
pub(crate) struct Temporary {
    pub name: OsString,
    /// Held open and locked, which tells it from one that a killed process has left.
    _file: File,
}

/// What is at a name.
pub(crate) struct Content {
    pub bytes: Zeroizing<Vec<u8>>,
    /// Its permission bits.
    pub mode: u32,
}

impl Target {
    pub(crate) fn open(path: &Path) -> Result<Self, FileError> {
        let name = path.file_name().ok_or_else(|| FileError::NoName(path.to_owned()))?.to_owned();
        let parent = match path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(parent, flags, Mode::empty()).map_err(|errno| match errno {
            Errno::NOENT => FileError::NoDirectory(parent.to_owned()),
            Errno::NOTDIR => FileError::NotADirectory(parent.to_owned()),
            other => FileError::io("open", parent, other),
        })?;
        Ok(Self { directory, name, path: path.to_owned() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of another name beside it.
    pub(crate) fn beside(&self, name: &OsStr) -> PathBuf {
        self.path.with_file_name(name)
    }

    pub(crate) fn is_same_name(&self, other: &Self) -> bool {
        self.name == other.name && identity_of_directory(self) == identity_of_directory(other)
    }

    /// The file at the name, if there is one. A symbolic link or anything else than a regular file is refused.
    pub(crate) fn existing(&self) -> Result<Option<Identity>, FileError> {
        let stat = match self.stat() {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(FileError::io("look at", &self.path, errno)),
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(Some(Identity::of(&stat))),
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(&self.directory, &self.name, Vec::new());
                let target = target.map(|bytes| OsString::from_vec(bytes.into_bytes())).unwrap_or_default();
                Err(FileError::SymbolicLink { path: self.path.clone(), target: target.into() })
            }
            _ => Err(FileError::NotAFile(self.path.clone())),
        }
    }

    /// What is at the name, if it is a regular file of at most `limit` bytes.
    pub(crate) fn content(&self, limit: usize) -> Result<Option<Content>, FileError> {
        if self.existing()?.is_none() {
            return Ok(None);
        }
        let failed = |source: io::Error| FileError::io("read", &self.path, source);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.directory, &self.name, flags, Mode::empty());
        let mut file = File::from(file.map_err(|errno| failed(errno.into()))?);
        let stat = rustix::fs::fstat(&file).map_err(|errno| failed(errno.into()))?;
        let size = usize::try_from(stat.st_size).unwrap_or(usize::MAX);
        let bytes = read_all(&mut file, size, limit).map_err(failed)?;
        let too_large = || FileError::TooLarge { path: self.path.clone(), limit };
        Ok(Some(Content { bytes: bytes.ok_or_else(too_large)?, mode: stat.st_mode & 0o777 }))
    }

    /// A hidden name beside the target's, with `tag` in it and `suffix` at its end.
    pub(crate) fn temporary_name(&self, tag: &str, suffix: &str) -> OsString {
        let mut name = OsString::from(".");
        name.push(&self.name);
        name.push(format!(".{tag}{suffix}"));
        name
    }

    /// The tag and the name of every temporary file beside the target that was given such a name.
    pub(crate) fn temporaries(&self, suffix: &str) -> Result<Vec<(String, OsString)>, FileError> {
        let failed = |errno: Errno| FileError::io("list the directory of", &self.path, errno);
        let mut start = OsString::from(".");
        start.push(&self.name);
        start.push(".");
        let mut found = Vec::new();
        for entry in Dir::read_from(&self.directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_bytes();
            let tag =
                name.strip_prefix(start.as_bytes()).and_then(|rest| rest.strip_suffix(suffix.as_bytes()));
            if let Some(tag) = tag.and_then(|tag| str::from_utf8(tag).ok()) {
                found.push((tag.to_owned(), OsStr::from_bytes(name).to_owned()));
            }
        }
        Ok(found)
    }

    /// Whether whoever made a temporary file still lives.
    pub(crate) fn is_held(&self, temporary: &OsStr) -> bool {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.directory, temporary, flags, Mode::empty());
        file.is_ok_and(|file| matches!(File::from(file).try_lock(), Err(std::fs::TryLockError::WouldBlock)))
    }

    /// Creates a temporary file beside the target, with permission bits, content and a sync. Removed again on failure.
    pub(crate) fn write_temporary(
        &self,
        name: OsString,
        mode: u32,
        bytes: &[u8],
    ) -> Result<Temporary, FileError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.directory, &name, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|errno| FileError::io("create a file in the directory of", &self.path, errno))?;
        let mut file = File::from(file);
        // A file system without locks costs the ability to tell a leftover from work that goes on, and no more.
        let _ = file.try_lock();
        match self.fill(&mut file, mode, bytes) {
            Ok(()) => Ok(Temporary { name, _file: file }),
            Err(error) => {
                self.remove(&name);
                Err(error)
            }
        }
    }

    fn fill(&self, file: &mut File, mode: u32, bytes: &[u8]) -> Result<(), FileError> {
        let failed = |source: io::Error| FileError::io("write", &self.path, source);
        // Against the umask as well: what says 0644 must be readable by kube-apiserver's user.
        rustix::fs::fchmod(&*file, Mode::from_raw_mode(mode)).map_err(|errno| failed(errno.into()))?;
        let stat = rustix::fs::fstat(&*file).map_err(|errno| failed(errno.into()))?;
        let found = stat.st_mode & 0o777;
        if found & 0o077 & !mode != 0 {
            return Err(FileError::ModeNotKept { path: self.path.clone(), expected: mode, found });
        }
        file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed)
    }

    /// Gives a temporary file the target's name, unless the name is taken.
    pub(crate) fn name_without_replacing(&self, temporary: &OsStr) -> Result<(), FileError> {
        let directory = &self.directory;
        let renamed =
            rustix::fs::renameat_with(directory, temporary, directory, &self.name, RenameFlags::NOREPLACE);
        let named = match renamed {
            // File systems without this flag have hard links, which never replace either.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                rustix::fs::linkat(directory, temporary, directory, &self.name, AtFlags::empty())
                    .inspect(|()| self.remove(temporary))
            }
            other => other,
        };
        named.map_err(|errno| FileError::io("create", &self.path, errno))
    }

    /// Gives `from` the target's name, replacing what is there.
    pub(crate) fn name_replacing(&self, from: &OsStr) -> Result<(), FileError> {
        rustix::fs::renameat(&self.directory, from, &self.directory, &self.name)
            .map_err(|errno| FileError::io("replace", &self.path, errno))
    }

    /// Whether the name stands for the file that `identity` tells.
    pub(crate) fn is_at_name(&self, identity: Option<Identity>) -> bool {
        identity.is_some() && self.identity() == identity
    }

    /// Removes what is at the target's own name.
    pub(crate) fn remove_target(&self) {
        self.remove(&self.name);
    }

    /// Removes a name of ours. What cannot be removed is found by nobody under a name that matters.
    pub(crate) fn remove(&self, name: &OsStr) {
        let _ = rustix::fs::unlinkat(&self.directory, name, AtFlags::empty());
    }

    pub(crate) fn identity(&self) -> Option<Identity> {
        self.stat().ok().map(|stat| Identity::of(&stat))
    }

    /// Makes the names durable.
    pub(crate) fn sync_directory(&self) -> Result<(), FileError> {
        match rustix::fs::fsync(&self.directory) {
            // Some network file systems do not sync directories.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(errno) => Err(FileError::io("sync the directory of", &self.path, errno)),
        }
    }

    fn stat(&self) -> rustix::io::Result<Stat> {
        rustix::fs::statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW)
    }
}

impl Identity {
    fn of(stat: &Stat) -> Self {
        Self { device: stat.st_dev, inode: stat.st_ino }
    }
}

fn identity_of_directory(target: &Target) -> Option<Identity> {
    rustix::fs::fstat(&target.directory).ok().map(|stat| Identity::of(&stat))
}

/// Sixteen characters that nobody can foresee, for a file's name.
pub(crate) fn random_tag() -> io::Result<String> {
    let random = getrandom::u64().map_err(|error| io::Error::other(error.to_string()))?;
    Ok(format!("{random:016x}"))
}

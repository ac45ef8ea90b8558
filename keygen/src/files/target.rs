//! One name in one open directory, and the system calls on it. Nothing here follows a symbolic link at the name.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use aws_lc_rs::rand;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

use super::{Access, FileError};

/// A place for a file: the directory is held open, so that it cannot be exchanged under us.
pub(super) struct Target {
    directory: OwnedFd,
    name: OsString,
    path: PathBuf,
}

/// Which file a name stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl Target {
    pub(super) fn open(path: &Path) -> Result<Self, FileError> {
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

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn is_same_name(&self, other: &Self) -> bool {
        self.name == other.name && identity_of_directory(self) == identity_of_directory(other)
    }

    /// The file at the name, if there is one. A symbolic link or anything else than a regular file is refused.
    pub(super) fn existing(&self) -> Result<Option<Identity>, FileError> {
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

    /// Creates a temporary file beside the target, with its mode, its content and a sync. Removed again on failure.
    pub(super) fn write_temporary(&self, access: Access, bytes: &[u8]) -> Result<OsString, FileError> {
        let name = temporary_name().map_err(|source| FileError::io("write", &self.path, source))?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.directory, &name, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|errno| FileError::io("create a file in the directory of", &self.path, errno))?;
        let filled = self.fill(File::from(file), access, bytes);
        if filled.is_err() {
            self.remove(&name);
        }
        filled.map(|()| name)
    }

    fn fill(&self, mut file: File, access: Access, bytes: &[u8]) -> Result<(), FileError> {
        let failed = |source: io::Error| FileError::io("write", &self.path, source);
        // Against the umask as well: what says 0644 must be readable by kube-apiserver's user.
        rustix::fs::fchmod(&file, Mode::from_raw_mode(access.mode()))
            .map_err(|errno| failed(errno.into()))?;
        let stat = rustix::fs::fstat(&file).map_err(|errno| failed(errno.into()))?;
        let found = stat.st_mode & 0o777;
        if found & 0o077 & !access.mode() != 0 {
            let path = self.path.clone();
            return Err(FileError::ModeNotKept { path, expected: access.mode(), found });
        }
        file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed)
    }

    /// Gives a temporary file the target's name, unless the name is taken.
    pub(super) fn name_without_replacing(&self, temporary: &OsStr) -> Result<(), FileError> {
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

    /// Gives the file at the target's name a second one, so that the first can be taken.
    pub(super) fn set_aside(&self) -> Result<OsString, FileError> {
        let aside = temporary_name().map_err(|source| FileError::io("set aside", &self.path, source))?;
        let directory = &self.directory;
        let linked = rustix::fs::linkat(directory, &self.name, directory, &aside, AtFlags::empty());
        let done = match linked {
            // Without hard links the name is free for a moment; the old content is not.
            Err(Errno::PERM | Errno::NOSYS | Errno::NOTSUP | Errno::MLINK) => {
                rustix::fs::renameat(directory, &self.name, directory, &aside)
            }
            other => other,
        };
        done.map_err(|errno| FileError::io("set aside", &self.path, errno))?;
        Ok(aside)
    }

    /// Gives `from` the target's name, replacing what is there.
    pub(super) fn name_replacing(&self, from: &OsStr) -> Result<(), FileError> {
        rustix::fs::renameat(&self.directory, from, &self.directory, &self.name)
            .map_err(|errno| FileError::io("replace", &self.path, errno))
    }

    /// Removes what was just placed, unless somebody else has taken the name since.
    pub(super) fn remove_placed(&self, identity: Option<Identity>) {
        if self.stat().ok().map(|stat| Identity::of(&stat)) == identity {
            self.remove(&self.name);
        }
    }

    /// Removes a name of ours. What cannot be removed is found by nobody under a name that matters.
    pub(super) fn remove(&self, name: &OsStr) {
        let _ = rustix::fs::unlinkat(&self.directory, name, AtFlags::empty());
    }

    pub(super) fn identity(&self) -> Option<Identity> {
        self.stat().ok().map(|stat| Identity::of(&stat))
    }

    /// Makes the names durable.
    pub(super) fn sync_directory(&self) -> Result<(), FileError> {
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

fn temporary_name() -> io::Result<OsString> {
    let mut random = [0; 8];
    rand::fill(&mut random).map_err(|_| io::Error::other("the random number generator failed"))?;
    Ok(format!(".chancery-{:016x}.tmp", u64::from_ne_bytes(random)).into())
}

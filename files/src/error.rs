//! What can go wrong with a file, with the remedy.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chancery_core::quoted::escaped;

/// What can go wrong with a file, with the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file is there and may not be replaced.
    #[error("{} exists and was not touched; give another name, or --force to replace it", escaped(.0.display()))]
    Exists(PathBuf),
    /// The target is a symbolic link.
    #[error(
        "{} is a symbolic link to {}; it was not followed, since what is written must not end up elsewhere unseen: name the real file, or remove the link", escaped(.path.display()), escaped(.target.display())
    )]
    SymbolicLink {
        /// The link.
        path: PathBuf,
        /// Where it points.
        target: PathBuf,
    },
    /// A directory, a device or a socket.
    #[error("{} is not a regular file; name a file", escaped(.0.display()))]
    NotAFile(PathBuf),
    /// The path names no file.
    #[error("{} names no file; expected a path that ends in a file name", escaped(.0.display()))]
    NoName(PathBuf),
    /// Two files under one name.
    #[error("{} is given for two files; give each its own name", escaped(.0.display()))]
    Twice(PathBuf),
    /// The directory is missing.
    #[error("directory {} does not exist; create it with `mkdir -p -m 700 {}`", escaped(.0.display()), escaped(.0.display()))]
    NoDirectory(PathBuf),
    /// Not a directory.
    #[error("{} is not a directory; name one", escaped(.0.display()))]
    NotADirectory(PathBuf),
    /// Missing rights.
    #[error("no permission to {action} {}; run as a user who may, or name another place", escaped(.path.display()))]
    Permission {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
    },
    /// The file system does not keep permission bits.
    #[error(
        "the file system of {} does not keep mode {expected:04o} (it shows {found:04o}), so others could read the key; mount it with umask=077, or write to another file system", escaped(.path.display())
    )]
    ModeNotKept {
        /// The file that was to be written.
        path: PathBuf,
        /// The mode it was given.
        expected: u32,
        /// The mode it has.
        found: u32,
    },
    /// More than what is expected there can hold.
    #[error("{} has more than {limit} bytes and was not read; expected a smaller file", escaped(.path.display()))]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The most that would be read, in bytes.
        limit: usize,
    },
    /// The file system did not answer in time.
    #[error(
        "cannot {action} {}: no answer for {after:.1?}; the disk or the network mount below it hangs, or it is a pipe that nobody writes to", escaped(.path.display())
    )]
    Hanging {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// How long ago the oldest work that hangs there began.
        after: Duration,
    },
    /// Another process holds the lock.
    #[error("{} is held by {holder}; wait for it or end it (`fuser -v` names it)", escaped(.path.display()))]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// Who holds it, as far as it can be told.
        holder: String,
    },
    /// Anything else the system says.
    #[error("cannot {action} {}: {source}", escaped(.path.display()))]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl FileError {
    /// Which of the system's errors it is or is like, for callers that tell a missing file from other failures.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Self::Exists(_) => io::ErrorKind::AlreadyExists,
            Self::SymbolicLink { .. } | Self::NotAFile(_) | Self::NoName(_) | Self::Twice(_) => {
                io::ErrorKind::InvalidInput
            }
            Self::NoDirectory(_) => io::ErrorKind::NotFound,
            Self::NotADirectory(_) => io::ErrorKind::NotADirectory,
            Self::Permission { .. } => io::ErrorKind::PermissionDenied,
            Self::ModeNotKept { .. } => io::ErrorKind::Unsupported,
            Self::TooLarge { .. } => io::ErrorKind::FileTooLarge,
            Self::Hanging { .. } => io::ErrorKind::TimedOut,
            Self::Locked { .. } => io::ErrorKind::WouldBlock,
            Self::Io { source, .. } => source.kind(),
        }
    }

    /// `source`, met when `action` was tried on `path`: names the common cases, and keeps the system's words otherwise.
    pub fn io(action: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        let (path, source) = (path.to_owned(), source.into());
        match source.kind() {
            io::ErrorKind::PermissionDenied => Self::Permission { action, path },
            io::ErrorKind::AlreadyExists => Self::Exists(path),
            _ => Self::Io { action, path, source },
        }
    }
}

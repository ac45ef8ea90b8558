//! What can go wrong with a file, with the remedy.

use std::io;
use std::path::{Path, PathBuf};

/// What can go wrong with a file, with the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file is there and may not be replaced.
    #[error("{} exists and was not touched; give another name, or --force to replace it", .0.display())]
    Exists(PathBuf),
    /// The target is a symbolic link.
    #[error(
        "{} is a symbolic link to {}; it was not followed, since a key must not end up elsewhere unseen: name the real file, or remove the link", .path.display(), .target.display()
    )]
    SymbolicLink {
        /// The link.
        path: PathBuf,
        /// Where it points.
        target: PathBuf,
    },
    /// A directory, a device or a socket.
    #[error("{} is not a regular file; name a file", .0.display())]
    NotAFile(PathBuf),
    /// The path names no file.
    #[error("{} names no file; expected a path that ends in a file name", .0.display())]
    NoName(PathBuf),
    /// Two files under one name.
    #[error("{} is given for two files; give each its own name", .0.display())]
    Twice(PathBuf),
    /// The directory is missing.
    #[error("directory {} does not exist; create it with `mkdir -p -m 700 {}`", .0.display(), .0.display())]
    NoDirectory(PathBuf),
    /// Not a directory.
    #[error("{} is not a directory; name one", .0.display())]
    NotADirectory(PathBuf),
    /// Missing rights.
    #[error("no permission to {action} {}; run as a user who may, or name another place", .path.display())]
    Permission {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
    },
    /// The file system does not keep permission bits.
    #[error(
        "the file system of {} does not keep mode {expected:04o} (it shows {found:04o}), so others could read the key; mount it with umask=077, or write to another file system", .path.display()
    )]
    ModeNotKept {
        /// The file that was to be written.
        path: PathBuf,
        /// The mode it was given.
        expected: u32,
        /// The mode it has.
        found: u32,
    },
    /// More than a key file holds.
    #[error("{} has more than 1 MiB and is not read; expected a key file", .0.display())]
    TooLarge(PathBuf),
    /// Anything else the system says.
    #[error("cannot {action} {}: {source}", .path.display())]
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
    /// Names the common cases; everything else keeps the system's words.
    pub(crate) fn io(action: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        let (path, source) = (path.to_owned(), source.into());
        match source.kind() {
            io::ErrorKind::PermissionDenied => Self::Permission { action, path },
            io::ErrorKind::AlreadyExists => Self::Exists(path),
            _ => Self::Io { action, path, source },
        }
    }
}

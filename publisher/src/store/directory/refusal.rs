//! What a file system answers, as kinds of ours.

use std::io;

use chancery_files::FileError;

use crate::store::{Failure, StoreErrorKind};

/// The failure that a file's error is.
pub(super) fn refused(error: &FileError) -> Failure {
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
        Io::InvalidInput | Io::FileTooLarge => {
            (StoreErrorKind::Misconfigured, "find out who put it there, and move it away")
        }
        Io::StorageFull | Io::QuotaExceeded => (StoreErrorKind::Unavailable, "make room on the file system"),
        Io::WouldBlock => (StoreErrorKind::Unavailable, "find who holds it and end it"),
        Io::TimedOut => (StoreErrorKind::TimedOut, "look at the file system: a network mount may hang"),
        _ => (StoreErrorKind::Unavailable, "look at the file system"),
    };
    Failure::new(kind, error.to_string(), remedy)
}

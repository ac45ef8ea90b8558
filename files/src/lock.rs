//! A file that one process holds at a time.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use chancery_core::quoted::quoted;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::FileError;

/// How long a waiting process sleeps between two tries; a store holds its lock for milliseconds.
const POLL: Duration = Duration::from_millis(5);

/// The longest note of a holder that is read.
const LONGEST_NOTE: u64 = 200;

/// A lock that is held until this value is dropped. The kernel gives it back as well when the process ends in any
/// way.
///
/// The file is for its owner alone (0600): whoever may open a file may lock it, so that one which others can read
/// lets them stop us. It stays when the lock is given back; removing it would let two processes hold two locks of
/// one name.
#[derive(Debug)]
pub struct LockFile {
    _file: File,
}

impl LockFile {
    /// Takes the lock at `path`, trying for as long as `patience`; zero tries once. Blocks as long as the file system
    /// does: within [`within`](crate::within), it has its time limit.
    ///
    /// # Errors
    /// [`FileError::Locked`] says who holds it, if that can be told. A symbolic link is not followed.
    pub fn acquire(path: &Path, patience: Duration) -> Result<Self, FileError> {
        let started = Instant::now();
        loop {
            let mut file = open(path)?;
            match file.try_lock() {
                Ok(()) if is_still_at(path, &file) => {
                    sign(&mut file);
                    return Ok(Self { _file: file });
                }
                // Somebody has removed the file that we hold: its name stands for another one, or for none.
                Ok(()) => {}
                Err(TryLockError::Error(error)) => return Err(FileError::io("lock", path, error)),
                Err(TryLockError::WouldBlock) if started.elapsed() >= patience => {
                    return Err(FileError::Locked { path: path.to_owned(), holder: holder(&mut file) });
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(POLL),
            }
        }
    }
}

fn open(path: &Path) -> Result<File, FileError> {
    let failed = |errno: Errno| FileError::io("lock", path, errno);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags | OFlags::NOCTTY, Mode::RUSR | Mode::WUSR) {
        Ok(file) => File::from(file),
        Err(Errno::LOOP) => {
            let target = std::fs::read_link(path).unwrap_or_else(|_| PathBuf::from("another place"));
            return Err(FileError::SymbolicLink { path: path.to_owned(), target });
        }
        Err(errno) => return Err(failed(errno)),
    };
    let metadata = file.metadata().map_err(|source| FileError::io("lock", path, source))?;
    if !metadata.is_file() {
        return Err(FileError::NotAFile(path.to_owned()));
    }
    if metadata.mode() & 0o777 != 0o600 {
        // An earlier version let everybody open it. A file system that keeps no modes is not refused for it.
        let _ = rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR);
    }
    Ok(file)
}

fn is_still_at(path: &Path, file: &File) -> bool {
    let identity = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    let held = file.metadata().map(identity).ok();
    held.is_some() && std::fs::symlink_metadata(path).map(identity).ok() == held
}

/// Writes who holds the lock. For a person who looks for a process to end; nothing decides by it.
fn sign(file: &mut File) {
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    let note = format!("process {} on {host}\n", std::process::id());
    let _ = file.set_len(0).and_then(|()| file.write_all(note.as_bytes()));
}

fn holder(file: &mut File) -> String {
    let mut note = String::new();
    let _ = file.rewind();
    let _ = file.take(LONGEST_NOTE).read_to_string(&mut note);
    match note.trim() {
        "" => "another process".to_owned(),
        note => format!("another process, which calls itself {}", quoted(note)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn one_holds_it_and_the_next_is_told_who() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let held = LockFile::acquire(&path, Duration::ZERO).unwrap();
        let error = LockFile::acquire(&path, Duration::from_millis(10)).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, FileError::Locked { .. }), "{text}");
        assert!(text.contains(&format!("process {} on", std::process::id())), "{text}");
        drop(held);
        LockFile::acquire(&path, Duration::ZERO).unwrap();
    }

    #[test]
    fn who_waits_gets_it_when_it_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let held = LockFile::acquire(&path, Duration::ZERO).unwrap();
        let waiting = std::thread::spawn({
            let path = path.clone();
            move || LockFile::acquire(&path, Duration::from_secs(60))
        });
        drop(held);
        waiting.join().unwrap().unwrap();
    }

    #[test]
    fn nobody_else_may_open_it_even_where_an_earlier_version_let_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        drop(LockFile::acquire(&path, Duration::ZERO).unwrap());
        assert_eq!(mode(&path), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        drop(LockFile::acquire(&path, Duration::ZERO).unwrap());
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn a_link_is_not_followed_and_what_is_no_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let (path, elsewhere) = (folder.path().join("lock"), folder.path().join("elsewhere"));
        symlink(&elsewhere, &path).unwrap();
        let error = LockFile::acquire(&path, Duration::ZERO).unwrap_err();
        assert!(matches!(error, FileError::SymbolicLink { .. }), "{error}");
        assert!(!elsewhere.exists());
        fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert!(LockFile::acquire(&path, Duration::ZERO).is_err());
    }

    #[test]
    fn a_file_that_was_removed_under_its_holder_is_no_lock_any_more() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let _held = LockFile::acquire(&path, Duration::ZERO).unwrap();
        fs::remove_file(&path).unwrap();
        let second = LockFile::acquire(&path, Duration::ZERO).unwrap();
        assert!(LockFile::acquire(&path, Duration::ZERO).is_err());
        drop(second);
    }
}

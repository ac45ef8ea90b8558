//! Reading with a bound for everything: the kind of the file, its size, and the time it takes.

use std::fs::{File, Metadata};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use zeroize::Zeroizing;

use crate::{FileError, within};

/// What is read at most, and for how long it is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The largest file, in bytes.
    pub bytes: usize,
    /// How long the file system may take over all of it.
    pub time: Duration,
    /// What is read.
    pub kinds: Kinds,
}

/// What is read. Links are followed: kubelet's volumes are made of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinds {
    /// Regular files. Nothing else is opened in a way that could wait for somebody.
    Regular,
    /// Pipes as well, as a shell's `<(command)` gives one: somebody may be at the other end, and takes their time.
    RegularOrPipe,
}

impl Bounds {
    /// Regular files of at most `bytes`, read within `time`.
    pub const fn regular(bytes: usize, time: Duration) -> Self {
        Self { bytes, time, kinds: Kinds::Regular }
    }
}

/// A file that may hold private material. Its bytes are wiped on drop, and no copy of them is left on the way.
pub struct SecretFile {
    /// The content.
    pub bytes: Zeroizing<Vec<u8>>,
    /// Whether it is a regular file that its group or others may read.
    pub readable_by_others: bool,
}

/// Reads a file that holds nothing private.
///
/// # Errors
/// Which path, and what is wrong with it: missing, of another kind, too large, not readable, or without an answer.
pub fn read(path: &Path, bounds: Bounds) -> Result<Vec<u8>, FileError> {
    read_secret(path, bounds).map(plain)
}

/// Reads a file that may hold private material.
///
/// # Errors
/// As [`read`](read()).
pub fn read_secret(path: &Path, bounds: Bounds) -> Result<SecretFile, FileError> {
    let place = path.to_owned();
    within(bounds.time, "read", path, move || read_secret_blocking(&place, bounds))
}

/// As [`read`](read()), without its time limit: for work that is itself [`within`] one.
///
/// # Errors
/// As [`read`](read()), except for the time.
pub fn read_blocking(path: &Path, bounds: Bounds) -> Result<Vec<u8>, FileError> {
    read_secret_blocking(path, bounds).map(plain)
}

/// As [`read_secret`], without its time limit: for work that is itself [`within`] one.
///
/// # Errors
/// As [`read`](read()), except for the time.
pub fn read_secret_blocking(path: &Path, bounds: Bounds) -> Result<SecretFile, FileError> {
    let too_large = || FileError::TooLarge { path: path.to_owned(), limit: bounds.bytes };
    let Opened { mut file, metadata } = open_allowed(path, bounds.kinds)?;
    let size = usize::try_from(metadata.size()).unwrap_or(usize::MAX);
    if size > bounds.bytes {
        return Err(too_large());
    }
    let bytes = read_all(&mut file, size, bounds.bytes);
    let bytes = bytes.map_err(|source| FileError::io("read", path, source))?.ok_or_else(too_large)?;
    let readable_by_others = metadata.is_file() && metadata.mode() & 0o044 != 0;
    Ok(SecretFile { bytes, readable_by_others })
}

/// As [`read_blocking`], but of a file that is larger than `bounds` allow its beginning, as much as they allow.
///
/// # Errors
/// As [`read_blocking`], except for the size.
pub fn read_beginning_blocking(path: &Path, bounds: Bounds) -> Result<Vec<u8>, FileError> {
    let Opened { file, metadata } = open_allowed(path, bounds.kinds)?;
    let size = usize::try_from(metadata.size()).unwrap_or(usize::MAX);
    let mut beginning = file.take(bounds.bytes as u64);
    let bytes = read_all(&mut beginning, size.min(bounds.bytes), bounds.bytes);
    let bytes = bytes.map_err(|source| FileError::io("read", path, source))?;
    Ok(bytes.map(|mut bytes| std::mem::take(&mut *bytes)).unwrap_or_default())
}

/// A file of an allowed kind.
struct Opened {
    file: File,
    metadata: Metadata,
}

fn open_allowed(path: &Path, kinds: Kinds) -> Result<Opened, FileError> {
    let mut file = File::from(open(path, OFlags::NONBLOCK)?);
    let metadata = file.metadata().map_err(|source| FileError::io("read", path, source))?;
    if metadata.file_type().is_fifo() && kinds == Kinds::RegularOrPipe {
        // Now it may wait for whoever writes.
        file = File::from(open(path, OFlags::empty())?);
    } else if !metadata.is_file() {
        return Err(FileError::NotAFile(path.to_owned()));
    }
    Ok(Opened { file, metadata })
}

/// Everything that `source` holds, wiped on drop, or `None` when it is more than `limit` bytes.
///
/// # Errors
/// Those of the source.
pub fn read_all(
    source: &mut impl Read,
    expected: usize,
    limit: usize,
) -> std::io::Result<Option<Zeroizing<Vec<u8>>>> {
    // One byte more than expected, so that the end is met without growing.
    let mut bytes = Zeroizing::new(vec![0; expected.saturating_add(1).min(limit.saturating_add(1))]);
    let mut filled = 0;
    loop {
        let Some(room) = bytes.get_mut(filled..).filter(|room| !room.is_empty()) else {
            if filled > limit {
                return Ok(None);
            }
            // It has grown, or it is a pipe. A vector that grows by itself would leave a copy behind.
            let mut larger =
                Zeroizing::new(vec![0; (bytes.len() * 2).max(FIRST_ROOM).min(limit.saturating_add(1))]);
            larger.iter_mut().zip(bytes.iter()).for_each(|(to, from)| *to = *from);
            bytes = larger;
            continue;
        };
        match source.read(room) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    if filled > limit {
        return Ok(None);
    }
    bytes.truncate(filled);
    Ok(Some(bytes))
}

/// What is given to a source of unknown length at first: more than a key has.
const FIRST_ROOM: usize = 16 * 1024;

fn open(path: &Path, flags: OFlags) -> Result<OwnedFd, FileError> {
    // A terminal that is named by mistake must not become ours.
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
    rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| FileError::io("read", path, errno))
}

fn plain(mut file: SecretFile) -> Vec<u8> {
    std::mem::take(&mut *file.bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::PathBuf;

    use super::*;

    const TIME: Duration = Duration::from_secs(60);

    fn bounds(bytes: usize) -> Bounds {
        Bounds::regular(bytes, TIME)
    }

    fn pipe(folder: &Path) -> PathBuf {
        let path = folder.join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .unwrap();
        path
    }

    #[test]
    fn a_file_is_read_up_to_the_limit_and_not_beyond() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for length in [0, 1, 9, 10] {
            fs::write(&path, vec![b'x'; length]).unwrap();
            assert_eq!(read(&path, bounds(10)).unwrap(), vec![b'x'; length]);
        }
        fs::write(&path, [b'x'; 11]).unwrap();
        let error = read(&path, bounds(10)).unwrap_err();
        assert!(matches!(error, FileError::TooLarge { limit: 10, .. }), "{error}");
        assert!(error.to_string().contains("file"), "{error}");
    }

    #[test]
    fn of_a_larger_file_the_beginning_is_read_where_that_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for length in [0, 9, 10, 11, 1 << 20] {
            fs::write(&path, vec![b'x'; length]).unwrap();
            assert_eq!(read_beginning_blocking(&path, bounds(10)).unwrap(), vec![b'x'; length.min(10)]);
        }
        // A file of a terabyte that takes no room on the disk.
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(read_beginning_blocking(&path, bounds(10)).unwrap(), [0; 10]);
        let error = read_beginning_blocking(&pipe(folder.path()), bounds(10)).unwrap_err();
        assert!(matches!(error, FileError::NotAFile(_)), "{error}");
    }

    #[test]
    fn what_is_longer_than_it_says_is_read_whole_or_refused() {
        // Files of /proc have no size.
        let path = Path::new("/proc/self/status");
        assert!(read(path, bounds(1 << 20)).unwrap().starts_with(b"Name:"));
        assert!(matches!(read(path, bounds(10)), Err(FileError::TooLarge { .. })));
        for length in [0, 5, FIRST_ROOM, FIRST_ROOM + 1, 100_000] {
            let content = vec![7; length];
            let read =
                |limit| read_all(&mut content.as_slice(), 3, limit).unwrap().map(|bytes| bytes.to_vec());
            assert_eq!(read(100_000), Some(content.clone()));
            assert_eq!(length.checked_sub(1).and_then(read), None);
        }
    }

    #[test]
    fn devices_folders_and_pipes_are_named_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = pipe(folder.path());
        for path in [Path::new("/dev/zero"), folder.path(), pipe.as_path()] {
            let error = read_blocking(path, bounds(10)).unwrap_err();
            assert!(matches!(error, FileError::NotAFile(_)), "{error}");
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        }
        let missing = read(&folder.path().join("missing"), bounds(10)).unwrap_err();
        assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
    }

    #[test]
    fn a_pipe_is_read_where_it_is_allowed_and_given_up_without_a_writer() {
        let folder = tempfile::tempdir().unwrap();
        let path = pipe(folder.path());
        let allowed = |time| Bounds { bytes: 100_000, time, kinds: Kinds::RegularOrPipe };
        let writer = std::thread::spawn({
            let path = path.clone();
            move || File::options().write(true).open(path).unwrap().write_all(&[b'x'; 70_000]).unwrap()
        });
        assert_eq!(read(&path, allowed(TIME)).unwrap().len(), 70_000);
        writer.join().unwrap();
        let error = read(&path, allowed(Duration::from_millis(10))).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut, "{error}");
    }

    #[test]
    fn links_are_followed_and_rights_are_seen() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&path, "secret").unwrap();
        symlink(&path, &link).unwrap();
        for (mode, expected) in [(0o600, false), (0o640, true), (0o604, true)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let file = read_secret(&link, bounds(10)).unwrap();
            assert_eq!((file.bytes.as_slice(), file.readable_by_others), (b"secret".as_slice(), expected));
        }
    }
}

//! The unix socket, which has no other protection than who may reach its name.
//!
//! Rules, in the order in which the code applies them:
//!
//! 1. The directory belongs to root or to this user, and nobody else may write to it: who may, could put a socket of
//!    their own there. The directories above it may not be exchanged by others either.
//! 2. One process at a time has the lock beside the socket. A second one is refused, with the name of the first.
//! 3. What is at the name is a socket that nobody answers, or nothing. Anything else is left alone.
//! 4. The new socket is made under another name, given its mode and group, and takes its name when nobody can reach it
//!    with any other rights.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use chancery_core::quoted::escaped;
use chancery_files::{FileError, LockFile};
use rustix::fs::{AtFlags, CWD, Gid, Mode};

/// The most bytes that the kernel takes as the name of a socket, its terminator left out (unix(7)).
const LONGEST_NAME: usize = 107;

/// Where to listen, and who may connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketConfig {
    /// The socket's name.
    pub path: PathBuf,
    /// The group that may connect beside this user: the number or the name that `/etc/group` has.
    pub group: Option<String>,
}

/// A socket that is ours until this value is dropped.
#[derive(Debug)]
pub struct OwnedSocket {
    listener: UnixListener,
    path: PathBuf,
    inode: (u64, u64),
    _lock: LockFile,
}

impl OwnedSocket {
    /// Takes the name. Connections wait until somebody accepts them.
    ///
    /// # Errors
    /// Which of the rules keeps it from the name, and what to do.
    pub fn bind(config: &SocketConfig) -> Result<Self, SocketError> {
        let path = config.path.clone();
        let group = config.group.as_deref().map(group_number).transpose()?;
        check_place(&path)?;
        let lock =
            LockFile::acquire(&beside(&path, ".lock"), Duration::ZERO).map_err(|error| match error {
                FileError::Locked { holder, .. } => SocketError::InUse { path: path.clone(), holder },
                error => SocketError::Lock(error),
            })?;
        check_name(&path)?;
        let failed = |source| SocketError::Bind { path: path.clone(), source };
        let temporary = beside(&path, ".new");
        // Only somebody with the lock makes this name.
        let _ = std::fs::remove_file(&temporary);
        let listener = UnixListener::bind(&temporary).map_err(failed)?;
        let placed = place(&temporary, &path, group).map_err(failed);
        if placed.is_err() {
            let _ = std::fs::remove_file(&temporary);
        }
        let inode = placed?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Self { listener, path, inode, _lock: lock })
    }

    /// A second handle of what is listened on.
    ///
    /// # Errors
    /// When the process is out of files.
    pub fn listener(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }

    /// The socket's name.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for OwnedSocket {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|inode| inode == self.inode) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Whether a process could listen there: rules 1 and 3, without the lock.
///
/// # Errors
/// As [`OwnedSocket::bind`].
pub fn check(config: &SocketConfig) -> Result<(), SocketError> {
    config.group.as_deref().map(group_number).transpose()?;
    check_place(&config.path)
}

/// Rule 1.
fn check_place(path: &Path) -> Result<(), SocketError> {
    let longest = beside(path, ".lock");
    if longest.as_os_str().len() > LONGEST_NAME {
        return Err(SocketError::TooLong(path.to_owned()));
    }
    let directory = path.parent().filter(|directory| directory.is_absolute());
    let directory = directory.ok_or_else(|| SocketError::Relative(path.to_owned()))?;
    let real = directory.canonicalize().map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => SocketError::NoDirectory(directory.to_owned()),
        _ => SocketError::Directory { path: directory.to_owned(), source },
    })?;
    let own = rustix::process::geteuid().as_raw();
    for (above, place) in real.ancestors().enumerate() {
        let seen = std::fs::metadata(place);
        let seen = seen.map_err(|source| SocketError::Directory { path: place.to_owned(), source })?;
        if !seen.is_dir() {
            return Err(SocketError::NoDirectory(place.to_owned()));
        }
        let (owner, mode) = (seen.uid(), seen.mode() & 0o7777);
        if owner != 0 && owner != own {
            return Err(SocketError::ForeignDirectory { path: place.to_owned(), owner });
        }
        // In a sticky directory nobody can exchange what another one has made, but anybody can be the first.
        let is_sticky = above > 0 && mode & 0o1000 != 0;
        if mode & 0o022 != 0 && !is_sticky {
            return Err(SocketError::OpenDirectory { path: place.to_owned(), mode });
        }
    }
    Ok(())
}

/// Rule 3.
fn check_name(path: &Path) -> Result<(), SocketError> {
    let refuse = |source| SocketError::Bind { path: path.to_owned(), source };
    let kind = match std::fs::symlink_metadata(path) {
        Ok(seen) => seen.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(refuse(error)),
    };
    if !kind.is_socket() {
        return Err(SocketError::NotASocket(path.to_owned()));
    }
    match UnixStream::connect(path) {
        Ok(stream) => {
            let peer = rustix::net::sockopt::socket_peercred(stream.as_fd());
            let process = peer.map_or(0, |peer| peer.pid.as_raw_nonzero().get());
            let holder = format!("process {process}, which has no lock of ours");
            Err(SocketError::InUse { path: path.to_owned(), holder })
        }
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Err(error) => Err(refuse(error)),
    }
}

/// Rule 4; returns which file it is.
fn place(temporary: &Path, path: &Path, group: Option<Gid>) -> io::Result<(u64, u64)> {
    let mode = if group.is_some() { 0o660 } else { 0o600 };
    if let Some(group) = group {
        rustix::fs::chownat(CWD, temporary, None, Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
    }
    rustix::fs::chmod(temporary, Mode::from_raw_mode(mode))?;
    let inode = identity(temporary)?;
    std::fs::rename(temporary, path)?;
    Ok(inode)
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    std::fs::symlink_metadata(path).map(|seen| (seen.dev(), seen.ino()))
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn group_number(group: &str) -> Result<Gid, SocketError> {
    if let Ok(number) = group.parse() {
        return Ok(Gid::from_raw(number));
    }
    let groups = std::fs::read_to_string("/etc/group").unwrap_or_default();
    let number = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(group)).then(|| fields.nth(1)?.parse().ok()).flatten()
    });
    number.map(Gid::from_raw).ok_or_else(|| SocketError::NoGroup(group.to_owned()))
}

/// Why the socket cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// Not an absolute path.
    #[error("socket {}: expected an absolute path in a directory of its own, such as /run/chancery/agent.sock", escaped(.0.display()))]
    Relative(PathBuf),
    /// The kernel takes no name so long.
    #[error("socket {}: the name and `.lock` after it have more than {LONGEST_NAME} bytes, which no socket may have; choose a shorter one", escaped(.0.display()))]
    TooLong(PathBuf),
    /// The directory is missing.
    #[error("{} is no directory; create it with `install -d -m 0750 {}`, or with RuntimeDirectory= of systemd", escaped(.0.display()), escaped(.0.display()))]
    NoDirectory(PathBuf),
    /// The directory cannot be looked at.
    #[error("cannot look at directory {}: {source}", escaped(.path.display()))]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Others may write to the directory.
    #[error("directory {} has mode {mode:04o}: others than its owner may put a socket of their own there; run `chmod go-w {}`", escaped(.path.display()), escaped(.path.display()))]
    OpenDirectory {
        /// Which.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The directory is somebody else's.
    #[error("directory {} belongs to user {owner}, who could put another socket there; expected root or this user", escaped(.path.display()))]
    ForeignDirectory {
        /// Which.
        path: PathBuf,
        /// Its owner's number.
        owner: u32,
    },
    /// Another process listens.
    #[error("socket {} is in use by {holder}; stop that one first, or give this one a socket of its own", escaped(.path.display()))]
    InUse {
        /// The socket.
        path: PathBuf,
        /// Who.
        holder: String,
    },
    /// Something else has the name.
    #[error("{} is no socket and was not touched; remove it, or choose another name", escaped(.0.display()))]
    NotASocket(PathBuf),
    /// No such group.
    #[error("no group is called {0:?} in /etc/group; give one that is there, or its number")]
    NoGroup(String),
    /// The lock cannot be had.
    #[error(transparent)]
    Lock(FileError),
    /// The system refused.
    #[error("cannot listen on {}: {source}", escaped(.path.display()))]
    Bind {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn directory(mode: u32) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
        folder
    }

    fn config(folder: &tempfile::TempDir) -> SocketConfig {
        SocketConfig { path: folder.path().join("s.sock"), group: None }
    }

    #[test]
    fn only_this_user_may_connect_and_nothing_is_left_when_it_ends() {
        let folder = directory(0o755);
        let config = config(&folder);
        let socket = OwnedSocket::bind(&config).unwrap();
        assert_eq!(fs::symlink_metadata(&config.path).unwrap().mode() & 0o777, 0o600);
        UnixStream::connect(&config.path).unwrap();
        drop(socket);
        assert!(!config.path.exists());
        assert!(!beside(&config.path, ".new").exists());
    }

    #[test]
    fn a_directory_that_others_may_write_to_is_refused() {
        for mode in [0o775, 0o757, 0o1777, 0o770] {
            let folder = directory(mode);
            let error = OwnedSocket::bind(&config(&folder)).unwrap_err();
            assert!(matches!(error, SocketError::OpenDirectory { .. }), "{mode:o}: {error}");
            let below = folder.path().join("below");
            fs::create_dir(&below).unwrap();
            let inside = OwnedSocket::bind(&SocketConfig { path: below.join("s.sock"), group: None });
            assert_eq!(inside.is_ok(), mode == 0o1777, "{mode:o}");
        }
    }

    #[test]
    fn a_dead_socket_is_replaced_and_a_living_one_is_named() {
        let folder = directory(0o700);
        let config = config(&folder);
        drop(UnixListener::bind(&config.path).unwrap());
        assert!(config.path.exists());
        let living = OwnedSocket::bind(&config).unwrap();
        let error = OwnedSocket::bind(&config).unwrap_err().to_string();
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
        drop(living);

        let _foreign = UnixListener::bind(&config.path).unwrap();
        let error = OwnedSocket::bind(&config).unwrap_err().to_string();
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
        assert!(error.contains("no lock of ours"), "{error}");
    }

    #[test]
    fn what_is_no_socket_stays() {
        let folder = directory(0o700);
        let config = config(&folder);
        fs::write(&config.path, "mine").unwrap();
        assert!(matches!(OwnedSocket::bind(&config), Err(SocketError::NotASocket(_))));
        assert_eq!(fs::read_to_string(&config.path).unwrap(), "mine");
    }

    #[test]
    fn names_that_cannot_be_are_refused_with_a_remedy() {
        let folder = directory(0o700);
        let bind = |path: PathBuf, group: Option<&str>| {
            OwnedSocket::bind(&SocketConfig { path, group: group.map(str::to_owned) }).unwrap_err()
        };
        assert!(matches!(bind("s.sock".into(), None), SocketError::Relative(_)));
        assert!(matches!(bind(folder.path().join("x/s.sock"), None), SocketError::NoDirectory(_)));
        assert!(matches!(bind(folder.path().join("x".repeat(120)), None), SocketError::TooLong(_)));
        let socket = folder.path().join("s.sock");
        assert!(matches!(bind(socket, Some("no-such-group")), SocketError::NoGroup(_)));
    }
}

//! Files: read with a limit, and created exclusively, synced, all or none.
//!
//! [`place`] proceeds by these rules, in this order:
//!
//! 1. Every target is looked at before anything is written: its directory must exist, its name must be free or,
//!    when replacing, a regular file. A symbolic link is never followed, replaced or written through.
//! 2. Every file is written under a temporary name beside its target, created exclusively with mode 0600, given
//!    its mode and synced. A file system that cannot keep the mode is refused.
//! 3. The temporary files take their names in the order given, without replacing; when replacing, the old file
//!    keeps a second name until the caller has kept the result.
//! 4. The directories are synced.
//! 5. Whatever fails, and whenever the result is dropped before [`Placed::keep`], everything is undone.
//!
//! A process killed between two names of rule 3 leaves a prefix of the order, so the private half is named first: the
//! public half can be made from it again, and never the other way round.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

mod directories;
mod error;
mod placement;
mod target;

pub use directories::place_below;
pub use error::FileError;
pub use placement::{Placed, place};

/// The most bytes that are read as a key file; a cluster's whole history of keys takes a hundredth of it.
pub const MAX_BYTES: usize = 1 << 20;

/// A file to create.
pub struct NewFile {
    /// Where.
    pub path: PathBuf,
    /// Who may read it.
    pub access: Access,
    /// Its content.
    pub bytes: Zeroizing<Vec<u8>>,
}

impl NewFile {
    /// A file that everybody may read.
    pub fn public(path: PathBuf, bytes: Vec<u8>) -> Self {
        Self { path, access: Access::Public, bytes: Zeroizing::new(bytes) }
    }
}

impl fmt::Debug for NewFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("NewFile");
        shown.field("path", &self.path).field("access", &self.access).finish_non_exhaustive()
    }
}

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The owner alone: mode 0600.
    Private,
    /// Everybody: mode 0644.
    Public,
}

impl Access {
    /// The permission bits.
    pub fn mode(self) -> u32 {
        match self {
            Self::Private => 0o600,
            Self::Public => 0o644,
        }
    }
}

/// What to do about a file that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Refuse.
    Keep,
    /// Replace it; the old content stays until the new is complete.
    Replace,
}

/// The content of a file, wiped on drop.
pub struct Contents {
    /// The bytes.
    pub bytes: Zeroizing<Vec<u8>>,
    /// Whether it is a regular file that its group or others may read.
    pub readable_by_others: bool,
}

/// Reads a file of at most [`MAX_BYTES`]; `-` is standard input.
///
/// # Errors
/// Says which file, what failed and what to do.
pub fn read(path: &Path) -> Result<Contents, FileError> {
    use std::os::unix::fs::PermissionsExt as _;
    let failed = |source| FileError::io("read", path, source);
    if path == Path::new("-") {
        let bytes = read_all(path, std::io::stdin().lock())?;
        return Ok(Contents { bytes, readable_by_others: false });
    }
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err(FileError::NotAFile(path.to_owned()));
    }
    let bytes = read_all(path, file)?;
    let readable_by_others = metadata.is_file() && metadata.permissions().mode() & 0o044 != 0;
    Ok(Contents { bytes, readable_by_others })
}

fn read_all(path: &Path, source: impl Read) -> Result<Zeroizing<Vec<u8>>, FileError> {
    // Room for everything at once: a buffer that grows leaves copies of a secret behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_BYTES + 1));
    let read = source.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|source| FileError::io("read", path, source))?;
    if bytes.len() > MAX_BYTES {
        return Err(FileError::TooLarge(path.to_owned()));
    }
    Ok(bytes)
}

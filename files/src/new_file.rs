//! What is to be written, and over what.

use std::fmt;
use std::path::PathBuf;

use zeroize::Zeroizing;

use crate::Access;

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

    /// A file that its owner alone may read.
    pub fn private(path: PathBuf, bytes: Zeroizing<Vec<u8>>) -> Self {
        Self { path, access: Access::Private, bytes }
    }
}

impl fmt::Debug for NewFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("NewFile");
        shown.field("path", &self.path).field("access", &self.access).finish_non_exhaustive()
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

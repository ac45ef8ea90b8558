//! The two files of a key: written together, read back, and kept only when they hold the very same key.

use std::path::{Path, PathBuf};

use chancery_core::KeyId;
use zeroize::Zeroizing;

use crate::files::{self, Access, Existing, FileError, NewFile};
use crate::pem_file::{Content, PemBlock};
use crate::{KeyError, Passphrase, PemFile, PrivateKey};

/// Where the two halves go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPairPaths {
    /// The private half, mode 0600.
    pub private: PathBuf,
    /// The public half, mode 0644.
    pub public: PathBuf,
}

impl KeyPairPaths {
    /// `sa.key` and `sa.pub`, as kubeadm names them.
    pub fn in_directory(directory: &Path) -> Self {
        Self { private: directory.join("sa.key"), public: directory.join("sa.pub") }
    }
}

/// Writes both halves or neither: the private one in the form that kube-apiserver reads, or sealed, when there is a
/// passphrase; the public one as PKIX. Reads them back and compares the key ids before it keeps them.
///
/// # Errors
/// Says which file failed and why, or that what was read back is not what was written. Nothing is left behind then.
pub fn write(
    key: &PrivateKey,
    paths: &KeyPairPaths,
    passphrase: Option<&Passphrase>,
    existing: Existing,
) -> Result<(), KeyPairError> {
    let private = match passphrase {
        Some(passphrase) => key.to_sealed_pem(passphrase)?,
        None => key.to_exposed_pem()?,
    };
    let new = |path: &PathBuf, access, bytes: &[u8]| NewFile {
        path: path.clone(),
        access,
        bytes: Zeroizing::new(bytes.to_vec()),
    };
    let placed = files::place(
        &[
            new(&paths.private, Access::Private, private.as_bytes()),
            new(&paths.public, Access::Public, key.public_key().to_pem().as_bytes()),
        ],
        existing,
    )?;
    let expected = key.public_key().key_id();
    read_back(&paths.private, passphrase, expected, |block| {
        matches!(block.content, Content::Private(..))
            && (passphrase.is_some() || (block.as_signing_file().is_read() && block.as_key_file().is_read()))
    })?;
    read_back(&paths.public, None, expected, |block| block.as_key_file().is_read())?;
    placed.keep();
    Ok(())
}

fn read_back(
    path: &Path,
    passphrase: Option<&Passphrase>,
    expected: &KeyId,
    accept: impl Fn(&PemBlock) -> bool,
) -> Result<(), KeyPairError> {
    let contents = files::read(path)?;
    let text = str::from_utf8(&contents.bytes).unwrap_or_default();
    let file = PemFile::read(text, passphrase);
    let found = match file.blocks.as_slice() {
        [block] if accept(block) => block.public_key().map(|key| key.key_id().clone()),
        _ => None,
    };
    if found.as_ref() == Some(expected) {
        return Ok(());
    }
    Err(KeyPairError::ReadBack {
        path: path.to_owned(),
        expected: expected.clone(),
        found: found.map_or_else(|| "no readable key".to_owned(), |id| format!("key {id}")),
    })
}

/// Why a key pair could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyPairError {
    /// The key could not be encoded or sealed.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A file could not be written or read back.
    #[error(transparent)]
    File(#[from] FileError),
    /// What was read back is not what was written.
    #[error(
        "{} was read back with {found} where {expected} was written; both halves were removed again, the disk is not to be trusted", .path.display()
    )]
    ReadBack {
        /// The file.
        path: PathBuf,
        /// The key that was written.
        expected: KeyId,
        /// What was found.
        found: String,
    },
}

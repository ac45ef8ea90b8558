//! The two files of a key: written together, read back, and kept only when they hold the very same key.

use std::path::{Path, PathBuf};

use chancery_core::KeyId;
use chancery_files::{Existing, FileError, NewFile, Settled, Staged, Unfinished};
use zeroize::Zeroizing;

use crate::pem_file::{Content, PemBlock};
use crate::{KeyError, Passphrase, PemFile, PrivateKey, secret_file};

/// Where the two halves go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPairPaths {
    /// The private half, mode 0600.
    pub private: PathBuf,
    /// The public half, mode 0644.
    pub public: PathBuf,
}

impl KeyPairPaths {
    /// The pair that a file seems to be a half of, by its name: `x.key` and `x.pub`.
    pub fn around(file: &Path) -> Option<Self> {
        let (private, public) = (file.with_extension("key"), file.with_extension("pub"));
        (file == private || file == public).then_some(Self { private, public })
    }

    /// `sa.key` and `sa.pub`, as kubeadm names them.
    pub fn in_directory(directory: &Path) -> Self {
        Self { private: directory.join("sa.key"), public: directory.join("sa.pub") }
    }
}

/// Both halves, complete beside the names that they are to take. Dropped, they are gone again.
#[must_use = "the halves are removed again unless they are placed"]
pub struct StagedKeyPair(Staged);

impl StagedKeyPair {
    /// Gives both halves their names, or neither.
    ///
    /// # Errors
    /// Says which file failed and why; then everything is as it was.
    pub fn place(self) -> Result<(), KeyPairError> {
        Ok(self.0.place()?)
    }
}

/// Writes both halves or neither, and reads them back before they take their names: [`stage`], then
/// [`StagedKeyPair::place`].
///
/// # Errors
/// Says which file failed and why, or that what was read back is not what was written. Nothing is left behind then.
pub fn write(
    key: &PrivateKey,
    paths: &KeyPairPaths,
    passphrase: Option<&Passphrase>,
    existing: Existing,
) -> Result<(), KeyPairError> {
    stage(key, paths, passphrase, existing)?.place()
}

/// Writes both halves beside the names that they are to take: the private one in the form that kube-apiserver reads, or
/// sealed, when there is a passphrase; the public one as PKIX. Reads them back and compares the key ids.
///
/// # Errors
/// As [`write()`].
pub fn stage(
    key: &PrivateKey,
    paths: &KeyPairPaths,
    passphrase: Option<&Passphrase>,
    existing: Existing,
) -> Result<StagedKeyPair, KeyPairError> {
    let private = match passphrase {
        Some(passphrase) => key.to_sealed_pem(passphrase)?,
        None => key.to_exposed_pem()?,
    };
    let private = Zeroizing::new(private.as_bytes().to_vec());
    let staged = chancery_files::stage(
        &[
            NewFile::private(paths.private.clone(), private),
            NewFile::public(paths.public.clone(), key.public_key().to_pem().into_bytes()),
        ],
        existing,
    )?;
    let expected = key.public_key().key_id();
    for (half, written) in staged.temporaries().enumerate() {
        if half == 0 {
            read_back(&written, passphrase, expected, |block| {
                let read = block.as_signing_file().is_read() && block.as_key_file().is_read();
                matches!(block.content, Content::Private(..)) && (passphrase.is_some() || read)
            })?;
        } else {
            read_back(&written, None, expected, |block| block.as_key_file().is_read())?;
        }
    }
    Ok(StagedKeyPair(staged))
}

/// Brings to an end what a killed process has begun at `paths`: both halves or neither. See
/// [`unfinished`](chancery_files::unfinished()).
///
/// # Errors
/// Says which file failed and why.
pub fn settle(paths: &KeyPairPaths) -> Result<Vec<Settled>, FileError> {
    unfinished(paths)?.into_iter().map(Unfinished::settle).collect()
}

/// What a killed process has left at `paths`.
///
/// # Errors
/// When a folder cannot be listed or the private half cannot be read.
pub fn unfinished(paths: &KeyPairPaths) -> Result<Vec<Unfinished>, FileError> {
    chancery_files::unfinished(&[paths.private.clone(), paths.public.clone()])
}

fn read_back(
    path: &Path,
    passphrase: Option<&Passphrase>,
    expected: &KeyId,
    accept: impl Fn(&PemBlock) -> bool,
) -> Result<(), KeyPairError> {
    let contents = secret_file::read(path)?;
    let file = PemFile::read(&contents.bytes, passphrase);
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
        "{} was read back with {found} where {expected} was written; neither half was kept, the disk is not to be trusted", .path.display()
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

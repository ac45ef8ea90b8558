//! Custody of private halves, each under the key id of its public half.
//!
//! | place | one key is | readable with |
//! |---|---|---|
//! | [`SealedDirectory`] | a file that `chancery keygen` would call sealed (PBES2 PKCS#8) | the passphrase |
//! | [`SecretVault`] (feature `kube`) | one immutable Secret | `get` of Secrets in its namespace; and the passphrase, if there is one |
//!
//! A half is written once, and is durable when [`KeyVault::store`] returns: only then may its public half enter a ring.
//! Destroying one removes it and syncs that. Nothing is overwritten first: neither flash, nor copy-on-write file systems, nor
//! etcd write where the old bytes are, so it would only look like more. What a backup holds is in the backup still.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chancery_core::KeyId;
use chancery_files::{Bounds, FileError, read_secret};
use chancery_keygen::passphrase::PassphraseError;
use chancery_keygen::pem_file::Content;
use chancery_keygen::{KeyError, Passphrase, PemFile, PrivateKey};
use zeroize::Zeroizing;

mod directory;
#[cfg(feature = "kube")]
mod secrets;

pub use directory::SealedDirectory;
#[cfg(feature = "kube")]
pub use secrets::SecretVault;

/// Where private halves are kept.
#[async_trait]
pub trait KeyVault: Debug + Send + Sync {
    /// Where it is, for a person.
    fn place(&self) -> String;

    /// The keys that are there.
    async fn list(&self) -> Result<Vec<KeyId>, VaultError>;

    /// One of them. Its public half was found to have this key id.
    async fn load(&self, kid: &KeyId) -> Result<PrivateKey, VaultError>;

    /// Writes a key that is not there; it is durable then. Doing it again changes nothing.
    async fn store(&self, key: Arc<PrivateKey>) -> Result<(), VaultError>;

    /// Removes a key, durably. Doing it again changes nothing.
    async fn destroy(&self, kid: &KeyId) -> Result<(), VaultError>;
}

/// The most that a passphrase file may have and take.
const PASSPHRASE: Bounds = Bounds::regular(4096, Duration::from_secs(5));

/// Reads the passphrase that seals the keys of a vault.
pub(crate) fn read_passphrase(path: &Path) -> Result<Passphrase, PassphraseFileError> {
    let file = read_secret(path, PASSPHRASE)?;
    let passphrase = Passphrase::from_file_bytes(&file.bytes);
    passphrase.map_err(|source| PassphraseFileError::Passphrase { path: path.to_owned(), source })
}

/// Why there is no passphrase.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PassphraseFileError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// What is in it is none.
    #[error("{}: {source}", path.display())]
    Passphrase {
        /// The file.
        path: PathBuf,
        /// Why.
        source: PassphraseError,
    },
}

/// The text of a key as it is kept.
fn written(key: &PrivateKey, passphrase: Option<&Passphrase>) -> Result<Zeroizing<String>, VaultError> {
    Ok(match passphrase {
        Some(passphrase) => key.to_sealed_pem(passphrase)?,
        None => key.to_exposed_pem()?,
    })
}

/// The one key in a text that is kept at `place`, if it is the one that its name says.
fn read(entry: &Entry<'_>, text: &[u8], passphrase: Option<&Passphrase>) -> Result<PrivateKey, VaultError> {
    let unreadable = |problem: String| VaultError::Unreadable { place: entry.place.clone(), problem };
    let mut blocks = PemFile::read(text, passphrase).blocks.into_iter();
    let key = match (blocks.next().map(|block| block.content), blocks.next()) {
        (Some(Content::Private(key, _)), None) => *key,
        (Some(Content::Unusable(reason)), _) => return Err(unreadable(reason.to_string())),
        _ => return Err(unreadable("expected one private key, as PEM".to_owned())),
    };
    let found = key.public_key().key_id();
    if found != entry.kid {
        let (place, expected, found) = (entry.place.clone(), entry.kid.clone(), found.clone());
        return Err(VaultError::AnotherKey { place, expected, found });
    }
    Ok(key)
}

/// What is read, and where.
struct Entry<'a> {
    place: String,
    kid: &'a KeyId,
}

/// Why a key cannot be kept or had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VaultError {
    /// It is not there.
    #[error(
        "{place} has no private half of {kid}; put it there with the tool that made it, or rotate to a key that is"
    )]
    Missing {
        /// The vault.
        place: String,
        /// Which key.
        kid: KeyId,
    },
    /// Another key has its name.
    #[error(
        "{place} holds the private half of {found} under the name of {expected}; it was not used: find out who put it there, and rotate"
    )]
    AnotherKey {
        /// Which file or Secret.
        place: String,
        /// By its name.
        expected: KeyId,
        /// What is in it.
        found: KeyId,
    },
    /// No key can be read.
    #[error("{place}: {problem}")]
    Unreadable {
        /// Which file or Secret.
        place: String,
        /// Why.
        problem: String,
    },
    /// The directory may not be used.
    #[error("{place} {problem}")]
    Directory {
        /// Which.
        place: String,
        /// Why, and what to do.
        problem: String,
    },
    /// The key cannot be written.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The file system refused or does not answer.
    #[error(transparent)]
    File(#[from] FileError),
    /// The API server refused or could not be asked.
    #[error("{place} cannot be used; grant get, list, create and delete on it: {problem}")]
    Refused {
        /// Which Secret.
        place: String,
        /// What the API server said, or why it could not be asked.
        problem: String,
    },
    /// The work on it was cut short.
    #[error("the work on {0} was cut short by a fault of ours; try again")]
    Lost(String),
}

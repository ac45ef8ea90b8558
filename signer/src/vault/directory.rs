//! Sealed files in a directory.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chancery_core::KeyId;
use chancery_files::{Bounds, Existing, FileError, NewFile, Unfinished, within};
use chancery_keygen::{Passphrase, PrivateKey};
use tokio::task::spawn_blocking;
use zeroize::Zeroizing;

use super::{Entry, KeyVault, VaultError, read, written};

/// What ends the name of a key's file.
const ENDING: &str = ".sealed.pem";

/// The most that a key's file may have, and the time that the file system may take over it.
const BOUNDS: Bounds = Bounds::regular(64 << 10, Duration::from_secs(5));

/// A directory with one sealed file for each key, named by its key id.
#[derive(Clone, Debug)]
pub struct SealedDirectory {
    path: PathBuf,
    passphrase: Arc<Passphrase>,
}

impl SealedDirectory {
    /// The keys in a directory, which must exist and be closed to others. What a killed process left of a key is removed.
    ///
    /// # Errors
    /// When it is no such directory.
    pub fn open(path: &Path, passphrase: Passphrase) -> Result<Self, VaultError> {
        let seen = std::fs::metadata(path).map_err(|source| match source.kind() {
            ErrorKind::NotFound => FileError::NoDirectory(path.to_owned()),
            _ => FileError::io("look at", path, source),
        })?;
        if !seen.is_dir() {
            return Err(FileError::NotADirectory(path.to_owned()).into());
        }
        if seen.mode() & 0o077 != 0 {
            let place = path.display().to_string();
            let problem = format!(
                "has mode {:04o}, so that others may read or exchange sealed keys; run `chmod 700 {place}`",
                seen.mode() & 0o7777
            );
            return Err(VaultError::Directory { place, problem });
        }
        Ok(Self { path: path.to_owned(), passphrase: Arc::new(passphrase) })
    }

    fn file(&self, kid: &KeyId) -> PathBuf {
        self.path.join(format!("{kid}{ENDING}"))
    }

    /// Work on the directory's files that nobody waits for longer than the limit.
    async fn on<T: Send + 'static>(
        &self,
        action: &'static str,
        path: PathBuf,
        work: impl FnOnce(&Path) -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, VaultError> {
        let place = path.clone();
        let done = spawn_blocking(move || within(BOUNDS.time, action, &place, move || work(&path))).await;
        Ok(done.map_err(|_| VaultError::Lost(self.place()))??)
    }
}

#[async_trait]
impl KeyVault for SealedDirectory {
    fn place(&self) -> String {
        self.path.display().to_string()
    }

    async fn list(&self) -> Result<Vec<KeyId>, VaultError> {
        self.on("list", self.path.clone(), |path| {
            let failed = |source| FileError::io("list", path, source);
            let mut found = Vec::new();
            for entry in std::fs::read_dir(path).map_err(failed)? {
                let name = entry.map_err(failed)?.file_name();
                let kid = name.to_str().and_then(|name| name.strip_suffix(ENDING)?.parse().ok());
                found.extend(kid);
            }
            found.sort();
            Ok(found)
        })
        .await
    }

    async fn load(&self, kid: &KeyId) -> Result<PrivateKey, VaultError> {
        let path = self.file(kid);
        let found = self
            .on("read", path.clone(), |path| match chancery_files::read_secret_blocking(path, BOUNDS) {
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                found => found.map(Some),
            })
            .await?;
        let Some(file) = found else {
            return Err(VaultError::Missing { place: self.place(), kid: kid.clone() });
        };
        let (kid, passphrase) = (kid.clone(), self.passphrase.clone());
        // Opening a seal takes a processor for a third of a second.
        let opened = spawn_blocking(move || {
            let entry = Entry { place: path.display().to_string(), kid: &kid };
            read(&entry, &file.bytes, Some(&passphrase))
        });
        opened.await.map_err(|_| VaultError::Lost(self.place()))?
    }

    async fn store(&self, key: Arc<PrivateKey>) -> Result<(), VaultError> {
        let kid = key.public_key().key_id().clone();
        let (path, passphrase) = (self.file(&kid), self.passphrase.clone());
        let sealed = spawn_blocking(move || written(&key, Some(&passphrase)));
        let sealed = sealed.await.map_err(|_| VaultError::Lost(self.place()))??;
        let bytes = Zeroizing::new(sealed.as_bytes().to_vec());
        let stored = self.on("write", path, |path| {
            settle(path)?;
            chancery_files::place(&[NewFile::private(path.to_owned(), bytes)], Existing::Keep)
        });
        match stored.await {
            Err(VaultError::File(FileError::Exists(_))) => {}
            stored => stored?,
        }
        // What is on the disk is what counts, whoever wrote it.
        self.load(&kid).await.map(drop)
    }

    async fn destroy(&self, kid: &KeyId) -> Result<(), VaultError> {
        self.on("remove", self.file(kid), |path| {
            settle(path)?;
            match std::fs::remove_file(path) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                removed => removed.map_err(|source| FileError::io("remove", path, source))?,
            }
            let directory = path.parent().unwrap_or(Path::new("/"));
            let synced = File::open(directory).and_then(|directory| directory.sync_all());
            synced.map_err(|source| FileError::io("sync", directory, source))
        })
        .await
    }
}

/// Removes what a killed process left of the file.
fn settle(path: &Path) -> Result<(), FileError> {
    let left = chancery_files::unfinished(&[path.to_owned()])?;
    left.into_iter().try_for_each(|left: Unfinished| left.settle().map(drop))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use chancery_keygen::KeySpec;

    use super::*;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        folder
    }

    fn vault(folder: &tempfile::TempDir, passphrase: &str) -> SealedDirectory {
        SealedDirectory::open(folder.path(), Passphrase::from_file_bytes(passphrase.as_bytes()).unwrap())
            .unwrap()
    }

    fn key() -> Arc<PrivateKey> {
        Arc::new(PrivateKey::generate(KeySpec::P256).unwrap())
    }

    #[tokio::test]
    async fn a_key_is_written_once_read_back_and_destroyed() {
        let folder = folder();
        let vault = vault(&folder, "one");
        let keys = [key(), key()];
        let mut kids: Vec<KeyId> = keys.iter().map(|key| key.public_key().key_id().clone()).collect();
        for key in &keys {
            vault.store(key.clone()).await.unwrap();
            vault.store(key.clone()).await.unwrap();
            let read = vault.load(key.public_key().key_id()).await.unwrap();
            assert_eq!(read.public_key(), key.public_key());
        }
        let text = fs::read_to_string(vault.file(&kids[0])).unwrap();
        assert!(text.contains("ENCRYPTED PRIVATE KEY"));
        assert_eq!(fs::metadata(vault.file(&kids[0])).unwrap().mode() & 0o777, 0o600);
        vault.destroy(&kids[0]).await.unwrap();
        vault.destroy(&kids[0]).await.unwrap();
        assert!(matches!(vault.load(&kids[0]).await, Err(VaultError::Missing { .. })));
        kids.remove(0);
        assert_eq!(vault.list().await.unwrap(), kids);
    }

    #[tokio::test]
    async fn a_key_under_another_ones_name_is_refused() {
        let folder = folder();
        let vault = vault(&folder, "one");
        let (a, b) = (key(), key());
        vault.store(a.clone()).await.unwrap();
        fs::rename(vault.file(a.public_key().key_id()), vault.file(b.public_key().key_id())).unwrap();
        assert!(matches!(vault.load(b.public_key().key_id()).await, Err(VaultError::AnotherKey { .. })));
        assert!(matches!(vault.store(b.clone()).await, Err(VaultError::AnotherKey { .. })));
    }

    #[tokio::test]
    async fn another_passphrase_opens_nothing_and_an_open_directory_is_refused() {
        let folder = folder();
        let key = key();
        vault(&folder, "one").store(key.clone()).await.unwrap();
        let other = vault(&folder, "two").load(key.public_key().key_id()).await;
        assert!(matches!(other, Err(VaultError::Unreadable { .. })));
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o750)).unwrap();
        let passphrase = Passphrase::from_file_bytes(b"one").unwrap();
        let error = SealedDirectory::open(folder.path(), passphrase).unwrap_err();
        assert!(error.to_string().contains("chmod 700"), "{error}");
    }
}

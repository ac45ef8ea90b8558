//! The two files that kube-apiserver reads when it starts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chancery_core::key_file::read_public_keys;
use chancery_core::rollout::NodeKeys;
use chancery_core::{KeyId, PublicKey};
use chancery_files::{
    Bounds, FileError, LockFile, NewFile, read_secret, remove_leftovers, replace_blocking, within,
};
use chancery_keygen::pem_file::Content;
use chancery_keygen::{KeyError, PemFile, PrivateKey};
use tokio::task::spawn_blocking;
use zeroize::Zeroizing;

/// A hundred keys take a tenth of the size.
const BOUNDS: Bounds = Bounds::regular(1 << 20, Duration::from_secs(5));

/// Who holds it writes these files.
const LOCK: &str = ".chancery-key-files.lock";

/// The files, as kube-apiserver's flags name them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFilePair {
    /// `--service-account-signing-key-file`, such as `/etc/kubernetes/pki/sa.key`.
    pub signing: PathBuf,
    /// `--service-account-key-file`, such as `/etc/kubernetes/pki/sa.pub`.
    pub verifying: PathBuf,
}

/// What was read.
#[derive(Debug)]
pub(super) struct FilesRead {
    pub keys: NodeKeys,
    /// The first one of those that verify.
    pub first: Option<KeyId>,
    /// The public halves of those that verify.
    pub public: BTreeMap<KeyId, PublicKey>,
}

impl KeyFilePair {
    /// Keeps a second process from these files, and removes what a killed one has left.
    pub(super) async fn lock(&self) -> Result<LockFile, FilesError> {
        let folders = [&self.signing, &self.verifying].map(|path| folder(path).to_owned());
        blocking(move || {
            let [lock, other] = &folders;
            let place = lock.clone();
            Ok(within(BOUNDS.time, "lock", &place, {
                let (lock, other) = (lock.clone(), other.clone());
                move || {
                    let held = LockFile::acquire(&lock.join(LOCK), Duration::ZERO)?;
                    remove_leftovers(&lock)?;
                    remove_leftovers(&other)?;
                    Ok(held)
                }
            })?)
        })
        .await
    }

    /// What kube-apiserver would read. A file that is missing has no keys.
    pub(super) async fn read(&self) -> Result<FilesRead, FilesError> {
        let Self { signing, verifying } = self.clone();
        blocking(move || {
            let signs = match content(&signing)? {
                Some(bytes) => first_private(&bytes),
                None => None,
            };
            let bytes = content(&verifying)?.unwrap_or_default();
            let keys = read_public_keys(&*bytes).keys;
            let first = keys.first().map(|key| key.key_id().clone());
            let public: BTreeMap<KeyId, PublicKey> =
                keys.into_iter().map(|key| (key.key_id().clone(), key)).collect();
            let verifies = public.keys().cloned().collect();
            Ok(FilesRead { keys: NodeKeys { signs, verifies }, first, public })
        })
        .await
    }

    /// Replaces the file of the keys that verify, durably.
    pub(super) async fn write_verifying(&self, keys: Vec<PublicKey>) -> Result<(), FilesError> {
        let file = self.new_verifying(&keys);
        blocking(move || write(file)).await
    }

    /// Replaces the file of the key that signs, durably, as kube-apiserver reads it: not sealed. Right after that follows the
    /// file of the keys that verify, in the order that is given.
    pub(super) async fn write_signing(
        &self,
        key: PrivateKey,
        verifying: Vec<PublicKey>,
    ) -> Result<(), FilesError> {
        let (path, verifying) = (self.signing.clone(), self.new_verifying(&verifying));
        blocking(move || {
            let pem = key.to_exposed_pem()?;
            write(NewFile::private(path, Zeroizing::new(pem.as_bytes().to_vec())))?;
            write(verifying)
        })
        .await
    }

    fn new_verifying(&self, keys: &[PublicKey]) -> NewFile {
        let text: String = keys.iter().map(PublicKey::to_pem).collect();
        NewFile::public(self.verifying.clone(), text.into_bytes())
    }
}

fn write(file: NewFile) -> Result<(), FilesError> {
    let path = file.path.clone();
    Ok(within(BOUNDS.time, "replace", &path, move || replace_blocking(&file))?)
}

fn content(path: &Path) -> Result<Option<Zeroizing<Vec<u8>>>, FilesError> {
    match read_secret(path, BOUNDS) {
        Ok(file) => Ok(Some(file.bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The key that kube-apiserver would sign with.
pub(crate) fn first_private(bytes: &Zeroizing<Vec<u8>>) -> Option<KeyId> {
    let blocks = PemFile::read(&**bytes, None).blocks.into_iter();
    blocks.filter(|block| block.as_signing_file().is_read()).find_map(|block| match block.content {
        Content::Private(key, _) => Some(key.public_key().key_id().clone()),
        _ => None,
    })
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FilesError> + Send + 'static,
) -> Result<T, FilesError> {
    spawn_blocking(work).await.map_err(|_| FilesError::Lost)?
}

/// Why the files cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilesError {
    /// The file system refused or does not answer, or another process has them.
    #[error(transparent)]
    File(#[from] FileError),
    /// The key cannot be written.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The work was cut short.
    #[error("the work on the key files was cut short by a fault of ours; try again")]
    Lost,
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use chancery_keygen::KeySpec;

    use super::*;

    #[tokio::test]
    async fn what_was_written_is_read_as_kube_apiserver_does() {
        let dir = tempfile::tempdir().unwrap();
        let pair = KeyFilePair { signing: dir.path().join("sa.key"), verifying: dir.path().join("sa.pub") };
        let held = pair.lock().await.unwrap();
        assert!(matches!(pair.lock().await, Err(FilesError::File(FileError::Locked { .. }))));
        let nothing = pair.read().await.unwrap();
        assert_eq!(nothing.keys, NodeKeys::default());
        for spec in [KeySpec::P256, KeySpec::Rsa2048] {
            let (one, two) =
                (PrivateKey::generate(spec).unwrap(), PrivateKey::generate(KeySpec::P256).unwrap());
            let public = vec![one.public_key().clone(), two.public_key().clone()];
            let kids = public.iter().map(|key| key.key_id().clone()).collect();
            let expected = NodeKeys { signs: Some(one.public_key().key_id().clone()), verifies: kids };
            let (first, others) = (public[0].key_id().clone(), vec![public[1].clone(), public[0].clone()]);
            pair.write_verifying(others).await.unwrap();
            pair.write_signing(one, public).await.unwrap();
            let read = pair.read().await.unwrap();
            assert_eq!((read.keys, read.first), (expected, Some(first)));
        }
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&pair.signing), mode(&pair.verifying)), (0o600, 0o644));
        drop(held);
        pair.lock().await.unwrap();
    }
}

//! Keys in plain files, as kube-apiserver takes them: the way in from a cluster that signs with files, and the way back.
//!
//! The files are read again every [`PERIOD`], and when somebody asks. What is there then is what a person has put there, so it is taken over at
//! once; what cannot be read changes nothing. A block that gives no key is refused as a whole file is: a key that is
//! missing rejects tokens.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};
use chancery_cluster::last_said::LastSaid;
use chancery_core::quoted::escaped;
use chancery_files::{Bounds, FileError, SecretFile, read_secret};
use chancery_keygen::passphrase::PassphraseError;
use chancery_keygen::pem_file::Content;
use chancery_keygen::{Passphrase, PemFile, PrivateKey, Unusable};
use jiff::Timestamp;
use tokio::sync::Notify;
use tracing::{error, info, warn};

use crate::metrics::Metrics;
use crate::signer_keys::{SignerKeys, SignerKeysError, SignerKeysParts, SignerKeysSender, VerificationKey};
use crate::signing::{ActiveKey, SigningError};

/// The time between two looks at the files.
pub const PERIOD: Duration = Duration::from_secs(10);

/// The most that a key file may have and take.
const BOUNDS: Bounds = Bounds::regular(1 << 20, Duration::from_secs(5));

/// Which files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyFilesConfig {
    /// The private key that signs: the first one in the file.
    pub signing: PathBuf,
    /// The passphrase of private keys that are sealed.
    pub passphrase: Option<PathBuf>,
    /// Keys that verify and are shown.
    pub shown: Vec<PathBuf>,
    /// Keys that verify and are kept out of kube-apiserver's JWKS.
    pub excluded: Vec<PathBuf>,
}

/// Reads the files whenever it is asked.
#[derive(Debug)]
pub struct KeyFiles {
    config: KeyFilesConfig,
    /// What was read last, and the digest of all the files then.
    last: Option<(Arc<SignerKeys>, Vec<u8>)>,
}

impl KeyFiles {
    /// Nothing is read yet.
    pub fn new(config: KeyFilesConfig) -> Self {
        Self { config, last: None }
    }

    /// The keys as they are, confirmed at `now`. Blocks for as long as the files may take.
    ///
    /// # Errors
    /// Which file, or which block of it, is of no use.
    pub fn read(&mut self, now: Timestamp) -> Result<Arc<SignerKeys>, KeyFilesError> {
        let files = self.open()?;
        let digest = files.digest();
        let keys = match &self.last {
            Some((keys, known)) if *known == digest => keys.confirmed(now),
            _ => files.keys(&self.config, now)?,
        };
        let keys = Arc::new(keys);
        self.last = Some((keys.clone(), digest));
        Ok(keys)
    }

    fn open(&self) -> Result<OpenFiles, KeyFilesError> {
        let read = |path: &PathBuf| read_secret(path, BOUNDS).map_err(KeyFilesError::File);
        let each = |paths: &[PathBuf]| paths.iter().map(read).collect::<Result<Vec<_>, _>>();
        let KeyFilesConfig { signing, passphrase, shown, excluded } = &self.config;
        Ok(OpenFiles {
            signing: read(signing)?,
            passphrase: passphrase.as_ref().map(read).transpose()?,
            shown: each(shown)?,
            excluded: each(excluded)?,
        })
    }
}

/// What goes on beside the files.
#[derive(Clone, Debug)]
pub struct Following {
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Asks for a look at once.
    pub prompt: Arc<Notify>,
}

/// Keeps the keys new until the receivers are gone, with a look whenever `prompt` asks for one.
pub async fn follow(mut files: KeyFiles, keys: SignerKeysSender, around: Following) {
    let Following { metrics, prompt } = around;
    let mut said = LastSaid::default();
    loop {
        tokio::select! {
            () = keys.closed() => return,
            () = prompt.notified() => {}
            () = tokio::time::sleep(PERIOD) => {}
        }
        let read = tokio::task::spawn_blocking(move || {
            let read = files.read(Timestamp::now());
            (files, read)
        });
        // The task cannot be cancelled; without its files there is nothing left to follow.
        let Ok((back, read)) = read.await else { return };
        files = back;
        match read {
            Ok(new) => {
                let old = keys.send_replace(Some(new.clone()));
                if said.forget() {
                    info!("the key files can be read again");
                }
                if !old.is_some_and(|old| old.says_the_same(&new)) {
                    info!("keys taken over: {new}");
                }
            }
            Err(problem) => {
                metrics.source_failed();
                let problem = problem.to_string();
                if said.is_new(&problem) {
                    error!("going on with the keys as they were: {problem}");
                }
            }
        }
    }
}

/// The files, read and not yet understood.
struct OpenFiles {
    signing: SecretFile,
    passphrase: Option<SecretFile>,
    shown: Vec<SecretFile>,
    excluded: Vec<SecretFile>,
}

impl OpenFiles {
    fn digest(&self) -> Vec<u8> {
        let mut digest = Context::new(&SHA256);
        let all =
            [&self.signing].into_iter().chain(&self.passphrase).chain(&self.shown).chain(&self.excluded);
        for file in all {
            digest.update(&file.bytes.len().to_be_bytes());
            digest.update(&file.bytes);
        }
        digest.finish().as_ref().to_vec()
    }

    fn keys(&self, config: &KeyFilesConfig, now: Timestamp) -> Result<SignerKeys, KeyFilesError> {
        let passphrase = self.passphrase(config)?;
        if self.signing.readable_by_others {
            let path = config.signing.display();
            warn!(
                "{path} can be read by others than its owner, who can sign with it; run `chmod 600 {path}`"
            );
        }
        let signing = PemFile::read(&self.signing.bytes, passphrase.as_ref());
        let mut verification = public_halves(&config.signing, &signing, false)?;
        for (paths, files, is_excluded) in
            [(&config.shown, &self.shown, false), (&config.excluded, &self.excluded, true)]
        {
            for (path, file) in paths.iter().zip(files) {
                let file = PemFile::read(&file.bytes, passphrase.as_ref());
                verification.extend(public_halves(path, &file, is_excluded)?);
            }
        }
        let active =
            first_private(signing).ok_or_else(|| KeyFilesError::NoPrivateKey(config.signing.clone()))?;
        let active = Some(Arc::new(ActiveKey::new(active.into_signing_key())?));
        let parts =
            SignerKeysParts { active, verification, position: None, allowed: None, confirmed_at: now };
        Ok(SignerKeys::new(parts)?)
    }

    fn passphrase(&self, config: &KeyFilesConfig) -> Result<Option<Passphrase>, KeyFilesError> {
        let Some((file, path)) = self.passphrase.as_ref().zip(config.passphrase.clone()) else {
            return Ok(None);
        };
        let passphrase = Passphrase::from_file_bytes(&file.bytes);
        passphrase.map(Some).map_err(|source| KeyFilesError::Passphrase { path, source })
    }
}

fn first_private(file: PemFile) -> Option<PrivateKey> {
    file.blocks.into_iter().find_map(|block| match block.content {
        Content::Private(key, _) => Some(*key),
        _ => None,
    })
}

fn public_halves(
    path: &Path,
    file: &PemFile,
    is_excluded: bool,
) -> Result<Vec<VerificationKey>, KeyFilesError> {
    let mut found = Vec::new();
    for block in &file.blocks {
        match (&block.content, block.public_key()) {
            (_, Some(key)) => found.push(VerificationKey { public_key: key.clone(), is_excluded }),
            (Content::Unusable(reason), _) if !reason.is_harmless() => {
                let (path, position, reason) = (path.to_owned(), block.position, Box::new(reason.clone()));
                return Err(KeyFilesError::Block { path, position, reason });
            }
            _ => {}
        }
    }
    if found.is_empty() {
        return Err(KeyFilesError::NoKey(path.to_owned()));
    }
    Ok(found)
}

/// Why files give no keys.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFilesError {
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A block of no use.
    #[error("{}, block {position}: {reason}", escaped(.path.display()))]
    Block {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        position: usize,
        /// Why.
        reason: Box<Unusable>,
    },
    /// A file without a key.
    #[error("{} holds no key; expected `-----BEGIN ... KEY-----` blocks or certificates", escaped(.0.display()))]
    NoKey(PathBuf),
    /// A signing file without a private key.
    #[error("{} holds no private key; expected the file that kube-apiserver is given as --service-account-signing-key-file, or one that `chancery keygen new` made", escaped(.0.display()))]
    NoPrivateKey(PathBuf),
    /// A passphrase that is none.
    #[error("{}: {source}", escaped(.path.display()))]
    Passphrase {
        /// The file.
        path: PathBuf,
        /// Why.
        source: PassphraseError,
    },
    /// The key cannot sign.
    #[error(transparent)]
    Signing(#[from] SigningError),
    /// The keys are no set for kube-apiserver.
    #[error(transparent)]
    Keys(#[from] SignerKeysError),
}

#[cfg(test)]
mod tests {
    use std::fs;

    use chancery_keygen::KeySpec;

    use super::*;

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn write(&self, name: &str, text: &str) -> PathBuf {
            let path = self.0.path().join(name);
            fs::write(&path, text).unwrap();
            path
        }

        fn key(&self, name: &str) -> (PathBuf, PrivateKey) {
            let key = PrivateKey::generate(KeySpec::P256).unwrap();
            (self.write(name, &key.to_exposed_pem().unwrap()), key)
        }
    }

    #[test]
    fn the_first_private_key_signs_and_all_verify() {
        let folder = Folder(tempfile::tempdir().unwrap());
        let (signing, first) = folder.key("sa.key");
        let (old, _) = folder.key("old.key");
        let (hidden, _) = folder.key("hidden.key");
        // k3s keeps the keys that verify behind the one that signs.
        let both = [fs::read_to_string(&signing).unwrap(), fs::read_to_string(&old).unwrap()].concat();
        fs::write(&signing, both).unwrap();
        let config = KeyFilesConfig { signing, shown: vec![old], excluded: vec![hidden], passphrase: None };
        let keys = KeyFiles::new(config).read(Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(keys.active().unwrap().public_key(), first.public_key());
        assert_eq!(keys.verification().len(), 3);
        assert_eq!(keys.verification().iter().filter(|key| key.is_excluded).count(), 1);
    }

    #[test]
    fn what_is_unchanged_is_confirmed_and_what_is_broken_is_named() {
        let folder = Folder(tempfile::tempdir().unwrap());
        let (signing, _) = folder.key("sa.key");
        let mut files =
            KeyFiles::new(KeyFilesConfig { signing: signing.clone(), ..KeyFilesConfig::default() });
        let first = files.read(Timestamp::UNIX_EPOCH).unwrap();
        let later = Timestamp::UNIX_EPOCH + Duration::from_secs(10);
        let second = files.read(later).unwrap();
        assert!(Arc::ptr_eq(first.active().unwrap(), second.active().unwrap()));
        assert_eq!(second.confirmed_at(), later);

        let (_, other) = folder.key("sa.key");
        let third = files.read(later).unwrap();
        assert_eq!(third.active().unwrap().public_key(), other.public_key());
        folder.write("sa.key", &other.public_key().to_pem());
        assert!(matches!(files.read(later), Err(KeyFilesError::NoPrivateKey(_))));
        folder.write("sa.key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
        let error = files.read(later).unwrap_err().to_string();
        assert!(error.contains("sa.key, block 1"), "{error}");
        fs::remove_file(&signing).unwrap();
        assert!(matches!(files.read(later), Err(KeyFilesError::File(_))));
    }

    #[test]
    fn a_sealed_key_is_opened() {
        let folder = Folder(tempfile::tempdir().unwrap());
        let passphrase = folder.write("passphrase", "correct horse\n");
        let key = PrivateKey::generate(KeySpec::P256).unwrap();
        let sealed = key.to_sealed_pem(&Passphrase::from_file_bytes(b"correct horse").unwrap()).unwrap();
        let signing = folder.write("sa.key", &sealed);
        let mut config =
            KeyFilesConfig { signing, passphrase: Some(passphrase), ..KeyFilesConfig::default() };
        let read = |config: &KeyFilesConfig| KeyFiles::new(config.clone()).read(Timestamp::UNIX_EPOCH);
        assert_eq!(read(&config).unwrap().active().unwrap().public_key(), key.public_key());
        config.passphrase = None;
        assert!(read(&config).unwrap_err().to_string().contains("passphrase"));
    }
}

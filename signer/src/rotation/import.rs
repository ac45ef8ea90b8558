//! Takes a bundle that was made on a machine without a network: the private halves into custody first, then the bundle
//! beside the ring. Cut short anywhere and done again, it goes on; done twice, it changes nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use chancery_cluster::cell::{CellError, CellStoreError, StoreMode, Swap};
use chancery_core::key_bundle::{BundledKey, KeyBundle};
use chancery_core::rotation::{Admission, AdmissionError, ImportingRing, admit};
use chancery_core::{KeyId, KeyRing};
use chancery_files::{Bounds, FileError, read_secret};
use chancery_keygen::bundle::{self, BundleError, DOCUMENT, SIGNATURE};
use chancery_keygen::pem_file::Content;
use chancery_keygen::{Passphrase, PemFile, PrivateKey};
use tokio::task::spawn_blocking;

use super::bundles::{EnrolmentError, ImportedBundles, SignedBundle, bundles_cell, opened};
use super::config::RotationConfig;
use super::custody::CustodyError;
use super::requests::{RequestError, RingDesk};
use crate::vault::{KeyVault, VaultError};

/// A file of a bundle; a hundred keys have a tenth of it.
const BOUNDS: Bounds = Bounds::regular(1 << 20, Duration::from_secs(30));

/// How often a lost race is run again. Bundles are imported by people.
const TRIES: usize = 10;

/// What came of an import.
#[derive(Debug)]
pub struct Imported {
    /// The keys of the bundle, in the order in which they are to sign.
    pub keys: Vec<BundledKey>,
    /// Whether it was imported to its end before.
    pub was_known: bool,
    /// How many private halves came into custody now.
    pub taken: usize,
    /// Where the private halves are.
    pub custody: String,
}

/// A bundle on a medium.
#[derive(Debug)]
pub struct BundleFolder {
    /// Where it lies.
    pub path: PathBuf,
    /// What opens its private halves.
    pub passphrase: Arc<Passphrase>,
}

/// Imports a bundle into the ring of a policy.
///
/// # Errors
/// When nobody enrolled vouches for it, it is not for this ring, or something cannot be read or written.
pub async fn import(config: &RotationConfig, folder: &BundleFolder) -> Result<Imported, ImportError> {
    let offline = config.offline.as_ref().ok_or(ImportError::NotOffline)?;
    let enrolled = offline.enrolled(&config.base)?;
    let read = |name| Ok::<_, ImportError>(chancery_files::read(&folder.path.join(name), BOUNDS)?);
    let document = text(read(DOCUMENT)?, folder)?;
    let signature = text(read(SIGNATURE)?, folder)?.trim_ascii().to_owned();
    let bundle = bundle::open(document.as_bytes(), &signature, &enrolled)
        .map_err(|source| ImportError::Bundle { path: folder.path.clone(), source })?;

    let desk = RingDesk::open(config, StoreMode::Shared).await?;
    let cell = bundles_cell(&config.ring.open(&config.base, StoreMode::Shared).await?, &config.issuer);
    let admission = |imported: &ImportedBundles, ring: &KeyRing| {
        let (imported, _) = opened(imported, &config.issuer, &enrolled);
        let algorithm = config.policy.settings().algorithm;
        admit(&bundle, ImportingRing { issuer: &config.issuer, algorithm, ring, imported: &imported })
    };
    let mut stored = cell.load().await?;
    let before = stored.as_ref().map(|stored| stored.document.clone()).unwrap_or_default();
    let admitted = admission(&before, &desk.read().await?)?;
    let vault = config.keys.open(&config.base).await?;
    let taken = hold(&bundle, &admitted, Places { folder, vault: vault.as_ref() }).await?;
    for _ in 0..TRIES {
        let (mut imported, version) = match stored {
            Some(stored) => (stored.document, Some(stored.version)),
            None => (ImportedBundles::default(), None),
        };
        let Admission { is_new, .. } = admission(&imported, &desk.read().await?)?;
        if !is_new {
            let (keys, was_known) = (bundle.keys().to_vec(), !admitted.is_new);
            return Ok(Imported { keys, was_known, taken, custody: vault.place() });
        }
        imported.bundles.push(SignedBundle::new(document.clone(), signature.clone()));
        stored = match cell.swap(&imported, version.as_ref()).await? {
            Swap::Swapped(_) => cell.load().await?,
            Swap::Lost(found) => found,
        };
    }
    Err(ImportError::Contended(cell.place()))
}

/// Where private halves come from and go to.
struct Places<'a> {
    folder: &'a BundleFolder,
    vault: &'a dyn KeyVault,
}

/// Brings the private halves into custody, and says how many were not there. Each is read back.
async fn hold(
    bundle: &KeyBundle,
    admission: &Admission,
    Places { folder, vault }: Places<'_>,
) -> Result<usize, ImportError> {
    let held = vault.list().await?;
    let mut taken = 0;
    for (place, key) in
        bundle.keys().iter().enumerate().filter(|(place, _)| admission.to_hold.contains(place))
    {
        if held.contains(key.kid()) {
            vault.load(key.kid()).await?;
            continue;
        }
        let path = folder.path.join(bundle::private_half(place));
        let (kid, passphrase) = (key.kid().clone(), folder.passphrase.clone());
        // Opening a seal takes a processor for a third of a second.
        let opened = spawn_blocking(move || private_half(path, kid, &passphrase)).await;
        vault.store(Arc::new(opened.map_err(|_| ImportError::Lost)??)).await?;
        taken += 1;
    }
    Ok(taken)
}

fn private_half(path: PathBuf, kid: KeyId, passphrase: &Passphrase) -> Result<PrivateKey, ImportError> {
    let file = PemFile::read(&read_secret(&path, BOUNDS)?.bytes, Some(passphrase));
    let problem = match file.blocks.into_iter().next().map(|block| block.content) {
        Some(Content::Private(key, _)) if *key.public_key().key_id() == kid => return Ok(*key),
        Some(Content::Private(key, _)) => format!("it holds {}", key.public_key().key_id()),
        Some(Content::Unusable(reason)) => reason.to_string(),
        _ => "it holds no private key".to_owned(),
    };
    Err(ImportError::PrivateHalf { path, kid, problem })
}

fn text(bytes: Vec<u8>, folder: &BundleFolder) -> Result<String, ImportError> {
    let garbled = |_| ImportError::Bundle { path: folder.path.clone(), source: BundleError::NoSignature };
    String::from_utf8(bytes).map_err(garbled)
}

impl BundleFolder {
    /// A bundle in `path`, whose private halves are opened with the one line in a file.
    ///
    /// # Errors
    /// When that file cannot be read or holds no passphrase.
    pub fn new(path: &Path, passphrase_file: &Path) -> Result<Self, ImportError> {
        let passphrase = crate::vault::read_passphrase(passphrase_file).map_err(CustodyError::from)?;
        Ok(Self { path: path.to_owned(), passphrase: Arc::new(passphrase) })
    }
}

/// Why a bundle was not imported, or not to its end: then do it again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The policy makes keys.
    #[error(
        "the policy makes its keys where the ring is; to import them, give it `offline` with the `bundleKeys` that may vouch for a bundle"
    )]
    NotOffline,
    /// Nobody may vouch for one.
    #[error(transparent)]
    Enrolment(#[from] EnrolmentError),
    /// It is not believed.
    #[error("{}: {source}", path.display())]
    Bundle {
        /// Which bundle.
        path: PathBuf,
        /// Why.
        source: BundleError,
    },
    /// It is not for this ring.
    #[error(transparent)]
    Admission(#[from] AdmissionError),
    /// A private half is of no use.
    #[error("{} is to hold the private half of {kid}, sealed: {problem}", path.display())]
    PrivateHalf {
        /// Which file.
        path: PathBuf,
        /// Which key.
        kid: KeyId,
        /// What is wrong.
        problem: String,
    },
    /// The ring cannot be read.
    #[error(transparent)]
    Ring(#[from] RequestError),
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The private halves cannot be kept.
    #[error(transparent)]
    Vault(#[from] VaultError),
    /// Custody cannot be opened.
    #[error(transparent)]
    Custody(#[from] CustodyError),
    /// The place of the ring cannot be opened.
    #[error(transparent)]
    Place(#[from] CellStoreError),
    /// The document cannot be read or written.
    #[error(transparent)]
    Cell(#[from] CellError),
    /// Somebody else writes all the time.
    #[error("{0} is written by somebody else all the time; try again")]
    Contended(String),
    /// The work was cut short.
    #[error("opening a private half was cut short by a fault of ours; try again")]
    Lost,
}

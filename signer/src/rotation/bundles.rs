//! The bundles of keys that were imported: a document beside the ring.
//!
//! It holds each bundle with its signature, and every reader verifies that by the keys that the policy enrols: whoever
//! can write the document can leave bundles out, and can bring no key of their own in.

use std::path::{Path, PathBuf};
use std::time::Duration;

use chancery_cluster::cell::{Cell, CellStore, LaterFields, Schema, Version};
use chancery_cluster::error_chain;
use chancery_core::key_bundle::{BundledKey, KeyBundle};
use chancery_core::key_file::read_public_keys;
use chancery_core::{IssuerUrl, PublicKey};
use chancery_files::{Bounds, FileError};
use chancery_keygen::bundle;
use serde::{Deserialize, Serialize};

/// A public key has less than a kilobyte.
const BOUNDS: Bounds = Bounds::regular(64 << 10, Duration::from_secs(5));

/// With fewer keys left, a new bundle is asked for when nothing is said.
const USUAL_FEWEST: usize = 2;

/// Keys come in bundles, from a machine without a network.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct OfflineConfig {
    /// The public halves of those who may vouch for a bundle: PEM files.
    bundle_keys: Vec<PathBuf>,
    /// With fewer keys left, a new bundle is asked for.
    #[serde(default = "usual_fewest")]
    pub fewest: usize,
}

fn usual_fewest() -> usize {
    USUAL_FEWEST
}

impl OfflineConfig {
    /// Reads the keys of those who may vouch for a bundle; relative paths start at `base`.
    ///
    /// # Errors
    /// When a file cannot be read or holds no public key.
    pub fn enrolled(&self, base: &Path) -> Result<Vec<PublicKey>, EnrolmentError> {
        let mut enrolled = Vec::new();
        for path in &self.bundle_keys {
            let path = base.join(path);
            let found = read_public_keys(&chancery_files::read(&path, BOUNDS)?);
            if found.keys.is_empty() || !found.skipped.is_empty() {
                return Err(EnrolmentError::NoKey(path));
            }
            enrolled.extend(found.keys);
        }
        match enrolled.is_empty() {
            true => Err(EnrolmentError::Nobody),
            false => Ok(enrolled),
        }
    }
}

/// Why nobody can vouch for a bundle.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnrolmentError {
    /// No file is named.
    #[error(
        "`offline` names no `bundleKeys`; give the public half of the key that `chancery keygen bundle` signs with"
    )]
    Nobody,
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file with something else.
    #[error("{} is to hold public keys and nothing else, as PEM; `chancery keygen inspect` shows what it holds", .0.display())]
    NoKey(PathBuf),
}

/// What was imported, in this order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ImportedBundles {
    pub bundles: Vec<SignedBundle>,
    #[serde(flatten)]
    later: LaterFields,
}

/// One bundle as it came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SignedBundle {
    pub document: String,
    pub signature: String,
    #[serde(flatten)]
    later: LaterFields,
}

impl SignedBundle {
    pub fn new(document: String, signature: String) -> Self {
        Self { document, signature, later: LaterFields::new() }
    }

    fn open(&self, enrolled: &[PublicKey]) -> Result<KeyBundle, String> {
        let opened = bundle::open(self.document.as_bytes(), &self.signature, enrolled);
        opened.map_err(|error| error_chain(&error))
    }
}

/// The document of an issuer.
pub(super) fn bundles_cell(store: &CellStore, issuer: &IssuerUrl) -> Cell<ImportedBundles> {
    store.cell(issuer.as_str(), Schema { name: "key-bundles", version: 1 })
}

/// Opens those that somebody enrolled vouches for. Of the others it says why not.
pub(super) fn opened(
    imported: &ImportedBundles,
    issuer: &IssuerUrl,
    enrolled: &[PublicKey],
) -> (Vec<KeyBundle>, Vec<String>) {
    let (mut bundles, mut troubles) = (Vec::new(), Vec::new());
    for (number, signed) in (1..).zip(&imported.bundles) {
        match signed.open(enrolled) {
            Ok(bundle) if bundle.issuer() == issuer => bundles.push(bundle),
            Ok(bundle) => troubles.push(format!("imported bundle {number} is for {}", bundle.issuer())),
            Err(why) => troubles.push(format!("imported bundle {number} is passed over: {why}")),
        }
    }
    (bundles, troubles)
}

/// Reads the imported keys, round after round.
#[derive(Debug)]
pub(super) struct ImportedKeys {
    cell: Cell<ImportedBundles>,
    issuer: IssuerUrl,
    enrolled: Vec<PublicKey>,
    /// What was read last: verifying takes longer than to see that nothing changed.
    last: Option<(Version, Vec<BundledKey>, Vec<String>)>,
}

impl ImportedKeys {
    pub fn new(store: &CellStore, issuer: &IssuerUrl, enrolled: Vec<PublicKey>) -> Self {
        Self { cell: bundles_cell(store, issuer), issuer: issuer.clone(), enrolled, last: None }
    }

    /// Every key, in the order in which they are to sign, or why that is not known.
    pub async fn read(&mut self, troubles: &mut Vec<String>) -> Result<Vec<BundledKey>, String> {
        let stored = match self.cell.load().await {
            Ok(Some(stored)) => stored,
            Ok(None) => return Ok(Vec::new()),
            Err(error) => {
                let why = error_chain(&error);
                troubles.push(format!("the imported bundles cannot be read: {why}"));
                return Err(why);
            }
        };
        let (keys, passed_over) = match self.last.take() {
            Some((version, keys, passed_over)) if version == stored.version => (keys, passed_over),
            _ => {
                let (bundles, passed_over) = opened(&stored.document, &self.issuer, &self.enrolled);
                (bundles.iter().flat_map(KeyBundle::keys).cloned().collect(), passed_over)
            }
        };
        troubles.extend(passed_over.iter().cloned());
        self.last = Some((stored.version, keys.clone(), passed_over));
        Ok(keys)
    }
}

//! Everything that core decides by, read from where it is.
//!
//! What cannot be read is not known, and what is not known holds steps back: nothing here is an error of the round.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chancery_cluster::cell::{Cell, CellStore, CellStoreConfig, CellStoreError, StoreMode};
use chancery_cluster::error_chain;
use chancery_core::key_bundle::BundledKey;
use chancery_core::ring::{Acknowledgement, WallTime};
use chancery_core::rotation::Observations;
use chancery_core::rotation::calendar::Calendar;
use chancery_core::visibility::{Obstacle, RecordReader, VisibilityRecord};
use chancery_core::{IssuerUrl, KeyId, KeyRing, PublicKey};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::bundles::{EnrolmentError, ImportedKeys};
use super::config::RotationConfig;
use super::feed::FeedError;
use super::feeds::Feeds;
use crate::acknowledgement::{SCHEMA as ACKNOWLEDGEMENT, subject};
use crate::vault::KeyVault;

/// What of an issuer's visibility concerns a rotation. The issuer writes it; here it is read.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct VisibilityDocument {
    issuer: IssuerUrl,
    #[serde(default)]
    record: VisibilityRecord,
}

/// Reads what there is to know about one ring.
#[derive(Debug)]
pub struct Observer {
    issuer: IssuerUrl,
    /// Where signers are heard of which nothing else is said: beside the ring.
    beside: CellStore,
    heard: BTreeMap<String, CellStore>,
    expected: BTreeSet<String>,
    visibility: Option<Cell<VisibilityDocument>>,
    reader: RecordReader,
    started: Instant,
    vault: Arc<dyn KeyVault>,
    /// Keys in custody of which the ring knows nothing yet: their public halves, or why they cannot be opened.
    newcomers: BTreeMap<KeyId, Result<PublicKey, String>>,
    calendar: Option<Calendar>,
    feeds: Feeds,
    /// Where keys come in bundles.
    imported: Option<ImportedKeys>,
}

/// What was found.
#[derive(Debug)]
pub struct Observed {
    /// For core.
    pub observations: Observations,
    /// The key ids in custody, if that is known.
    pub held: Option<Vec<KeyId>>,
    /// What could not be read, and why.
    pub troubles: Vec<String>,
}

impl Observer {
    /// Opens the places that a policy names, to be read.
    ///
    /// # Errors
    /// When one of them cannot be, or nobody can vouch for imported keys.
    pub async fn open(config: &RotationConfig, vault: Arc<dyn KeyVault>) -> Result<Self, ObserverError> {
        let base = &config.base;
        let open = async |place: &CellStoreConfig| place.open(base, StoreMode::ReadOnly).await;
        let mut heard = BTreeMap::new();
        for (name, place) in &config.signers {
            if let Some(place) = place {
                heard.insert(name.clone(), open(place).await?);
            }
        }
        let visibility = match &config.visibility {
            Some(place) => Some(open(place).await?.cell(config.issuer.as_str(), VISIBILITY)),
            None => None,
        };
        let beside = open(&config.ring).await?;
        let imported = match &config.offline {
            Some(offline) => Some(ImportedKeys::new(&beside, &config.issuer, offline.enrolled(base)?)),
            None => None,
        };
        Ok(Self {
            issuer: config.issuer.clone(),
            imported,
            beside,
            heard,
            expected: config.signers.keys().cloned().collect(),
            visibility,
            reader: RecordReader::default(),
            started: Instant::now(),
            vault,
            newcomers: BTreeMap::new(),
            calendar: config.calendar.clone(),
            feeds: Feeds::begin(config).await?,
        })
    }

    /// Looks once. A visibility record that was not seen to move says nothing about now.
    pub async fn observe(&mut self, ring: &KeyRing) -> Observed {
        let mut troubles = Vec::new();
        let acknowledgements = self.hear(ring, &mut troubles).await;
        let visibility = self.look(&mut troubles).await;
        let imported = match &mut self.imported {
            Some(imported) => imported.read(&mut troubles).await,
            None => Err("keys are made here".to_owned()),
        };
        let (held, keys) = self.custody(ring, imported.as_deref().unwrap_or_default(), &mut troubles).await;
        let now = WallTime(u64::try_from(Timestamp::now().as_second()).unwrap_or_default());
        let mut observations = Observations {
            now,
            acknowledgements,
            expected_signers: self.expected.clone(),
            visibility,
            held: keys,
            imported,
            calendar: self.calendar.as_ref().and_then(|calendar| calendar.next_due(ring.activated(), now)),
            ..Observations::default()
        };
        self.feeds.add_to(&mut observations, ring, &mut troubles).await;
        Observed { observations, held, troubles }
    }

    /// Keeps to another calendar from now on.
    pub(super) fn keep_to(&mut self, calendar: Option<Calendar>) {
        self.calendar = calendar;
    }

    /// The visibility record that was read last, of whatever age.
    pub fn last_record(&self) -> Option<&VisibilityRecord> {
        self.reader.last()
    }

    /// Every signer that is expected, is waited for or was forgotten: one that was forgotten may speak again.
    async fn hear(&self, ring: &KeyRing, troubles: &mut Vec<String>) -> BTreeMap<String, Acknowledgement> {
        let known = ring.signers().map(|(name, _)| name).chain(ring.forgotten());
        let names: BTreeSet<&str> = known.chain(self.expected.iter().map(String::as_str)).collect();
        let mut heard = BTreeMap::new();
        for name in names {
            let store = self.heard.get(name).unwrap_or(&self.beside);
            let cell: Cell<Acknowledgement> = store.cell(&subject(&self.issuer, name), ACKNOWLEDGEMENT);
            match cell.load().await {
                Ok(Some(stored)) => _ = heard.insert(name.to_owned(), stored.document),
                Ok(None) => {}
                Err(error) => troubles.push(format!("signer {name} is not heard: {}", error_chain(&error))),
            }
        }
        heard
    }

    async fn look(&mut self, troubles: &mut Vec<String>) -> Result<VisibilityRecord, Obstacle> {
        let Some(cell) = &self.visibility else { return Err(Obstacle::NoView) };
        // Before it is read: its age is not taken for shorter than it is.
        let now = self.started.elapsed();
        match cell.load().await {
            Ok(Some(stored)) if stored.document.issuer == self.issuer => {
                self.reader.read(stored.document.record, now);
            }
            Ok(Some(stored)) => {
                let (place, found) = (cell.place(), stored.document.issuer);
                troubles.push(format!(
                    "{place} is the visibility record of {found}; name the state of this issuer"
                ));
            }
            Ok(None) => {}
            Err(error) => {
                troubles.push(format!("the visibility record cannot be read: {}", error_chain(&error)));
            }
        }
        self.reader.current(now)
    }

    /// What is in custody: all of it by key id, and the public halves that are known.
    async fn custody(
        &mut self,
        ring: &KeyRing,
        imported: &[BundledKey],
        troubles: &mut Vec<String>,
    ) -> (Option<Vec<KeyId>>, Vec<PublicKey>) {
        let listed = match self.vault.list().await {
            Ok(listed) => listed,
            Err(error) => {
                troubles.push(format!("what is in custody is not known: {}", error_chain(&error)));
                return (None, Vec::new());
            }
        };
        self.newcomers.retain(|kid, _| is_new(ring, kid) && listed.contains(kid));
        troubles.extend(self.newcomers.values().filter_map(|opened| opened.clone().err()));
        let known = |kid: &KeyId| {
            let bundled = || Some(imported.iter().find(|key| key.kid() == kid)?.public_key.clone());
            let newcomer = || self.newcomers.get(kid)?.clone().ok();
            ring.key(kid).map(|key| key.public_key.clone()).or_else(bundled).or_else(newcomer)
        };
        let keys = listed.iter().filter_map(known).collect();
        (Some(listed), keys)
    }

    /// Opens one key in custody that the ring does not know, if there is one that was not opened before. Whoever wants to
    /// make a key looks first whether another one has, or a crash has left one; else nobody needs to know: opening
    /// one takes a processor for a third of a second.
    pub async fn open_newcomer(&mut self, ring: &KeyRing, held: &[KeyId]) -> bool {
        let is_unknown = |kid: &&KeyId| is_new(ring, kid) && !self.newcomers.contains_key(*kid);
        let Some(kid) = held.iter().find(is_unknown) else { return false };
        let opened = self.vault.load(kid).await;
        let opened = opened.map(|key| key.public_key().clone());
        let opened = opened.map_err(|error| format!("{kid} cannot be opened: {}", error_chain(&error)));
        self.newcomers.insert(kid.clone(), opened);
        true
    }

    /// Knows a key that this process has made.
    pub fn know(&mut self, key: PublicKey) {
        self.newcomers.insert(key.key_id().clone(), Ok(key));
    }
}

/// Why what a policy names cannot be looked at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObserverError {
    /// A place for documents cannot be opened.
    #[error(transparent)]
    Place(#[from] CellStoreError),
    /// A cluster cannot be reached.
    #[error(transparent)]
    Feed(#[from] FeedError),
    /// Nobody can vouch for the keys that are to be imported.
    #[error(transparent)]
    Enrolment(#[from] EnrolmentError),
}

fn is_new(ring: &KeyRing, kid: &KeyId) -> bool {
    ring.key(kid).is_none() && ring.tombstone(kid).is_none()
}

/// The documents with the visibility of issuers.
const VISIBILITY: chancery_cluster::cell::Schema = chancery_cluster::cell::Schema {
    name: VisibilityRecord::DOCUMENT,
    version: VisibilityRecord::DOCUMENT_VERSION,
};

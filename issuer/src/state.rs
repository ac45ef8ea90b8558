//! What must survive a restart, for each issuer: its id, which keys this writer has seen and which it has withdrawn.
//!
//! Without it a key that vanished from its source before a restart is foreign afterwards: it stays published until
//! somebody withdraws it by hand. That is safe, but not tidy. And without it the id is derived from the issuer URL, so
//! that a cluster that was made anew under the same URL passes for the old one.
//!
//! Each issuer has one document, in a cell that is changed only by compare-and-swap: in a directory of one process, or in
//! a cluster where replicas share it ([`chancery_cluster::cell`]). The [`Recorder`] writes it while the service runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chancery_cluster::cell::{
    Cell, CellError, CellStore, CellStoreConfig, CellStoreError, LaterFields, Schema, StoreMode, Stored, Swap,
};
use chancery_core::issuer_keys::KeyRecord;
use chancery_core::publication::Contact;
use chancery_core::{IssuerUrl, Owner};
use chancery_publisher::writer_key_file::first_decision_now;
use rustls::crypto::aws_lc_rs::default_provider;
use serde::{Deserialize, Serialize};

mod recorder;
mod writer_key;

pub use recorder::{Recorded, Recorder};
pub use writer_key::{NoWriterKey, establish as establish_writer_key};

/// The documents with the state of the issuers.
const STATE: Schema = Schema { name: "state", version: 1 };

/// The state of one issuer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Saved {
    /// Whose state it is, so that a file under a wrong name is not taken for another's.
    pub issuer: IssuerUrl,
    /// The id in the marker of everything that is published.
    #[serde(with = "owner_as_text")]
    pub owner: Owner,
    /// The targets that we have been at, by name, each with the JWKS that we last wrote there or last adopted.
    #[serde(default)]
    pub targets: BTreeMap<String, Contact>,
    /// The keys.
    #[serde(default)]
    pub record: KeyRecord,
    /// What a later release has put there.
    #[serde(flatten)]
    pub later: LaterFields,
}

impl Saved {
    /// The state of an issuer of which nothing is known yet.
    pub fn begin(issuer: IssuerUrl, owner: Owner) -> Self {
        Self {
            issuer,
            owner,
            targets: BTreeMap::new(),
            record: KeyRecord::begin(first_decision_now()),
            later: LaterFields::default(),
        }
    }

    /// Whether `newer` differs from this in nothing but the time for which keys have been missing, and that has grown.
    /// A time that starts again is news: a crash before it is recorded must not shorten a key's retention.
    fn has_only_aged(&self, newer: &Self) -> bool {
        let mut aged = self.clone();
        for (key, newer) in aged.record.keys.iter_mut().zip(&newer.record.keys) {
            key.missing_for_seconds = key.missing_for_seconds.max(newer.missing_for_seconds);
        }
        aged == *newer
    }
}

/// Where the state of the issuers is kept.
#[derive(Clone, Debug)]
pub struct StateStore {
    cells: CellStore,
    directory: Option<PathBuf>,
}

impl StateStore {
    /// The store that a configuration names; relative paths start at `base`. Writing into a directory takes its lock,
    /// for as long as anything of this store lives.
    ///
    /// # Errors
    /// When it cannot be reached or another process writes there, or this build lacks it.
    pub async fn open(config: &CellStoreConfig, base: &Path, mode: StoreMode) -> Result<Self, StateError> {
        let cells = config.open(base, mode).await?;
        Ok(Self { cells, directory: config.directory.clone() })
    }

    /// The state of an issuer, ready to be recorded; begun with a random id, or the one that is `configured`, when there
    /// is none yet. In a store that is only read, what is begun is not saved.
    ///
    /// # Errors
    /// When it is there but cannot be read: starting without it would turn our own keys into foreign ones. When it
    /// was kept for another id than the configured one.
    pub async fn establish(
        &self,
        issuer: &IssuerUrl,
        configured: Option<&Owner>,
    ) -> Result<Recorder, StateError> {
        let begun = || Saved::begin(issuer.clone(), configured.cloned().unwrap_or_else(random_owner));
        let recorder = match self.load(issuer).await? {
            Some(stored) => Recorder::new(self.cell(issuer), stored.document, Some(stored.version)),
            None if self.cells.mode() == StoreMode::ReadOnly => {
                Recorder::new(self.cell(issuer), begun(), None)
            }
            None => self.begin(begun()).await?,
        };
        let saved = &recorder.saved().owner;
        match configured {
            Some(configured) if configured != saved => Err(StateError::OtherOwner {
                issuer: issuer.to_string(),
                saved: saved.clone(),
                configured: configured.clone(),
            }),
            _ => Ok(recorder),
        }
    }

    async fn begin(&self, begun: Saved) -> Result<Recorder, StateError> {
        let cell = self.cell(&begun.issuer);
        match cell.swap(&begun, None).await? {
            Swap::Swapped(version) => Ok(Recorder::new(cell, begun, Some(version))),
            Swap::Lost(Some(theirs)) => Ok(Recorder::new(cell, theirs.document, Some(theirs.version))),
            // Somebody made it and deleted it at once.
            Swap::Lost(None) => Ok(Recorder::new(cell, begun, None)),
        }
    }

    /// The state of an issuer, `None` when there is none yet.
    ///
    /// # Errors
    /// When it is there but cannot be read.
    pub async fn load(&self, issuer: &IssuerUrl) -> Result<Option<Stored<Saved>>, StateError> {
        match self.cell(issuer).load().await? {
            Some(stored) if stored.document.issuer != *issuer => Err(StateError::OtherIssuer {
                issuer: issuer.to_string(),
                found: stored.document.issuer.to_string(),
            }),
            stored => Ok(stored),
        }
    }

    /// Where the state of an issuer is.
    pub fn cell(&self, issuer: &IssuerUrl) -> Cell<Saved> {
        self.cells.cell(issuer.as_str(), STATE)
    }

    /// Where other documents are kept beside the state.
    pub fn cells(&self) -> &CellStore {
        &self.cells
    }

    /// The directory, for what is kept beside the state.
    pub fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    /// Whether other replicas read and write it too: then the leader alone may.
    pub fn is_shared(&self) -> bool {
        self.cells.is_shared()
    }
}

/// `chancery-` and 128 random bits: a cluster that was made anew must not pass for the one before it.
pub fn random_owner() -> Owner {
    let mut bytes = [0; 16];
    #[expect(clippy::expect_used, reason = "a system without random numbers serves no TLS either")]
    default_provider().secure_random.fill(&mut bytes).expect("random numbers");
    #[expect(clippy::expect_used, reason = "base64url and a hyphen are a legal marker")]
    format!("chancery-{}", URL_SAFE_NO_PAD.encode(bytes)).parse().expect("a legal marker")
}

mod owner_as_text {
    use chancery_core::Owner;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub fn serialize<S: Serializer>(owner: &Owner, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(owner.as_str())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Owner, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Why the state cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The place cannot be opened.
    #[error("state: {0}")]
    Place(CellStoreError),
    /// A document that is not ours or was damaged.
    #[error(
        "the state is damaged; restore it from a backup, or remove it and run `chancery publish restore`, which goes on from what is published"
    )]
    Damaged(#[source] CellError),
    /// It cannot be reached, or another process writes there.
    #[error(transparent)]
    Cell(CellError),
    /// The state of another issuer.
    #[error("the state of {issuer} is that of {found}; put each issuer's state back under its own name")]
    OtherIssuer {
        /// Whose state was wanted.
        issuer: String,
        /// Whose it is.
        found: String,
    },
    /// The state of another id.
    #[error(
        "the state of {issuer} was kept for the owner {saved}, and the configuration says {configured}; set `owner` to {saved}, or move the state away if {configured} is a new issuer"
    )]
    OtherOwner {
        /// Whose state.
        issuer: String,
        /// The id in it.
        saved: Owner,
        /// The id in the configuration.
        configured: Owner,
    },
}

impl From<CellStoreError> for StateError {
    fn from(error: CellStoreError) -> Self {
        match error {
            CellStoreError::Cell(error) => error.into(),
            error => Self::Place(error),
        }
    }
}

impl From<CellError> for StateError {
    fn from(error: CellError) -> Self {
        match error {
            CellError::Unreadable { .. } => Self::Damaged(error),
            error => Self::Cell(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn open(directory: &Path, mode: StoreMode) -> Result<StateStore, StateError> {
        let config = CellStoreConfig::of_directory(directory);
        StateStore::open(&config, Path::new(""), mode).await
    }

    fn issuer(url: &str) -> IssuerUrl {
        url.parse().unwrap()
    }

    /// The one file of a directory.
    fn only_file(directory: &Path) -> PathBuf {
        let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        let files: Vec<_> = files.filter(|path| path.extension().is_some_and(|it| it == "json")).collect();
        assert_eq!(files.len(), 1, "{files:?}");
        files.into_iter().next().unwrap()
    }

    #[tokio::test]
    async fn an_issuer_keeps_the_id_it_began_with() {
        let directory = tempfile::tempdir().unwrap();
        let state = open(directory.path(), StoreMode::ReadWrite).await.unwrap();
        let a = issuer("https://id.example.com/a");
        assert_eq!(state.load(&a).await.unwrap(), None);

        let begun = state.establish(&a, None).await.unwrap().saved().clone();
        assert_ne!(begun.owner, Owner::of_issuer(&a));
        assert_ne!(begun.owner, random_owner());
        assert_eq!(*state.establish(&a, Some(&begun.owner)).await.unwrap().saved(), begun);

        let other = state.establish(&a, Some(&random_owner())).await.unwrap_err().to_string();
        assert!(other.contains(begun.owner.as_str()), "{other}");
    }

    #[tokio::test]
    async fn a_document_under_a_wrong_name_and_a_damaged_one_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let state = open(directory.path(), StoreMode::ReadWrite).await.unwrap();
        let (a, b) = (issuer("https://id.example.com/a"), issuer("https://id.example.com/b"));
        state.establish(&a, None).await.unwrap();
        let file = only_file(directory.path());
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace("example.com/a", "example.com/b")).unwrap();
        assert!(matches!(state.load(&a).await, Err(StateError::OtherIssuer { .. })));
        assert_eq!(state.load(&b).await.unwrap(), None);
        std::fs::write(&file, "{").unwrap();
        let damaged = state.load(&a).await.unwrap_err();
        assert!(damaged.to_string().contains("chancery publish restore"), "{damaged}");
    }

    #[tokio::test]
    async fn a_check_pins_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let state = open(directory.path(), StoreMode::ReadOnly).await.unwrap();
        state.establish(&issuer("https://id.example.com/a"), None).await.unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn exactly_one_place_that_exists() {
        let missing = open(Path::new("/no/such/directory"), StoreMode::ReadWrite).await;
        assert!(matches!(missing, Err(StateError::Cell(CellError::File(_)))));
        let nowhere = CellStoreConfig::default();
        let opened = StateStore::open(&nowhere, Path::new(""), StoreMode::ReadWrite).await;
        assert!(matches!(opened, Err(StateError::Place(CellStoreError::OnePlace))));
    }

    #[test]
    fn what_a_later_release_has_written_is_kept() {
        let text = r#"{"issuer":"https://a.example","owner":"a","record":{"keys":[],"tombstones":[],"new":1},"writerKey":"x"}"#;
        let saved: Saved = serde_json::from_str(text).unwrap();
        assert_eq!(saved.later.get("writerKey"), Some(&"x".into()));
        assert!(serde_json::to_string(&saved).unwrap().contains(r#""writerKey":"x""#));
    }
}

//! Where the keys come from, opened and followed by what the configuration says.

use std::sync::Arc;

use chancery_cluster::cell::{CellError, CellStore, StoreMode};
use chancery_core::IssuerUrl;
use jiff::Timestamp;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tracing::info;

use crate::acknowledgement::{Acknowledger, Naming};
use crate::config::{KeySource, RingConfig, RingPlace, VaultPlace};
use crate::key_files::{self, Following, KeyFiles, KeyFilesError};
use crate::metrics::Metrics;
use crate::record::RecordKeeper;
use crate::ring_source::{RingError, RingParts, RingSource, ring_cell};
use crate::signer_keys::{SignerKeys, SignerKeysSender};
use crate::vault::{KeyVault, PassphraseFileError, SealedDirectory, VaultError, read_passphrase};

/// What every source is given.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    pub issuer: IssuerUrl,
    /// Where this signer writes.
    pub state: Option<CellStore>,
    pub record: Arc<RecordKeeper>,
    pub metrics: Arc<Metrics>,
}

/// A source.
#[derive(Debug)]
pub(crate) enum Source {
    Files(Box<KeyFiles>, Arc<Metrics>),
    Ring(Box<RingSource>),
}

impl Source {
    /// Opens the places that it names, and reads no key yet.
    pub async fn open(config: KeySource, around: &Surroundings) -> Result<Self, SourceError> {
        Ok(match config {
            KeySource::Files(config) => Self::Files(Box::new(KeyFiles::new(config)), around.metrics.clone()),
            KeySource::Ring(config) => Self::Ring(Box::new(open_ring(&config, around).await?)),
        })
    }

    /// The first keys. A ring is waited for.
    pub async fn first(self) -> Result<(Self, Arc<SignerKeys>), SourceError> {
        match self {
            Self::Files(files, metrics) => {
                let (files, keys) = read_files(files).await?;
                info!("keys taken over: {keys}");
                Ok((Self::Files(files, metrics), keys))
            }
            Self::Ring(mut ring) => {
                let keys = ring.first().await;
                Ok((Self::Ring(ring), keys))
            }
        }
    }

    /// Reads the keys once, without a trace.
    pub async fn look(self) -> Result<Arc<SignerKeys>, SourceError> {
        match self {
            Self::Files(files, _) => Ok(read_files(files).await?.1),
            Self::Ring(mut ring) => Ok(ring.look().await?),
        }
    }

    /// Keeps the keys new until the receivers are gone, with a look whenever `prompt` asks for one.
    pub async fn follow(self, keys: SignerKeysSender, prompt: Arc<Notify>) {
        match self {
            Self::Files(files, metrics) => {
                key_files::follow(*files, keys, Following { metrics, prompt }).await;
            }
            Self::Ring(ring) => (*ring).follow(keys, prompt).await,
        }
    }
}

async fn read_files(mut files: Box<KeyFiles>) -> Result<(Box<KeyFiles>, Arc<SignerKeys>), SourceError> {
    let read = spawn_blocking(move || files.read(Timestamp::now()).map(|keys| (files, keys))).await;
    Ok(read.map_err(|_| SourceError::Lost)??)
}

async fn open_ring(config: &RingConfig, around: &Surroundings) -> Result<RingSource, SourceError> {
    let state = around.state.clone().ok_or(SourceError::NoState)?;
    let (ring, heard) = match &config.ring {
        RingPlace::Directory(path) => (CellStore::directory(path, StoreMode::ReadOnly).await?, state),
        #[cfg(feature = "kube")]
        RingPlace::Cluster(place) => {
            let store = |mode| async move {
                Ok::<_, SourceError>(CellStore::cluster(
                    client(place).await?,
                    &place.namespace,
                    &place.prefix,
                    mode,
                ))
            };
            (store(StoreMode::ReadOnly).await?, store(StoreMode::ReadWrite).await?)
        }
    };
    let boot = boot_id()?;
    let naming = Naming { signer: &config.name, boot: &boot };
    Ok(RingSource::new(RingParts {
        ring: ring_cell(&ring, &around.issuer),
        vault: open_vault(config).await?,
        record: around.record.clone(),
        acknowledger: Acknowledger::new(&heard, &around.issuer, naming),
        start_from_record: config.start_from_record,
        metrics: around.metrics.clone(),
    }))
}

async fn open_vault(config: &RingConfig) -> Result<Arc<dyn KeyVault>, SourceError> {
    let passphrase = config.passphrase.as_deref().map(read_passphrase).transpose()?;
    Ok(match &config.keys {
        VaultPlace::Directory(path) => {
            let passphrase = passphrase.ok_or(SourceError::NoPassphrase)?;
            Arc::new(SealedDirectory::open(path, passphrase)?)
        }
        #[cfg(feature = "kube")]
        VaultPlace::Cluster(place) => {
            let client = client(place).await?;
            Arc::new(crate::vault::SecretVault::new(client, &place.namespace, &place.prefix, passphrase))
        }
    })
}

#[cfg(feature = "kube")]
async fn client(place: &crate::config::ClusterPlace) -> Result<kube::Client, SourceError> {
    let choice = chancery_cluster::access::ClusterChoice {
        kubeconfig: place.kubeconfig.as_deref(),
        context: place.context.as_deref(),
        base: std::path::Path::new(""),
    };
    Ok(choice.client().await?)
}

/// Sixteen characters that tell this start of the process from every other one.
pub(crate) fn boot_id() -> Result<String, SourceError> {
    let mut bytes = [0; 8];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| SourceError::Random)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The key files cannot be used.
    #[error(transparent)]
    KeyFiles(#[from] KeyFilesError),
    /// The ring cannot be used.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// A place of documents cannot be used.
    #[error(transparent)]
    Cell(#[from] CellError),
    /// The private halves cannot be used.
    #[error(transparent)]
    Vault(#[from] VaultError),
    /// A cluster cannot be reached.
    #[cfg(feature = "kube")]
    #[error(transparent)]
    Access(#[from] chancery_cluster::access::AccessError),
    /// The passphrase cannot be had.
    #[error(transparent)]
    Passphrase(#[from] PassphraseFileError),
    /// Sealed files, and nothing to open them with.
    #[error("a directory of sealed keys without a passphrase; give --passphrase-file")]
    NoPassphrase,
    /// A ring, and nothing to remember it by.
    #[error("a key ring without a state directory; give --state-dir")]
    NoState,
    /// No randomness.
    #[error("the system gives no random numbers; check that it has a working random number generator")]
    Random,
    /// The work was cut short.
    #[error("the look at the keys was cut short by a fault of ours; try again")]
    Lost,
}

//! Where keys come from: a key ring, watched key files, the key sets of kube-apiserver's replicas, ConfigMaps and Secrets.
//!
//! ```text
//!  world ──▶ reading of every part ──▶ Parts (the last good reading of each) ──▶ SourceReporter ──▶ SourceEvent
//! ```
//!
//! Rules that every kind keeps:
//!
//! 1. Only public halves become values. What is no public key is skipped and named.
//! 2. A part (a file, a value of a ConfigMap, a replica) that cannot be read keeps what it showed last until it is
//!    really gone. One that was never read since the start makes the source incomplete. Whether and how long a vanished key stays published is decided above, by
//!    [`IssuerKeys`](chancery_core::issuer_keys::IssuerKeys).
//! 3. An event is sent when it says something new, and not for every look. Operators are told of each
//!    ([`SourceHealth`]).

use std::path::{Path, PathBuf};

use chancery_cluster::cell::{CellStoreConfig, CellStoreError};
use chancery_core::retention::SourceId;
use chancery_core::ring::RingDecision;
use chancery_core::{IssuerUrl, PublicKey};
use serde::Deserialize;
use tokio::sync::mpsc;

#[cfg(feature = "kube")]
pub(crate) use self::health::CanaryJudge;
pub use self::health::SourceHealth;
#[cfg(feature = "kube")]
pub(crate) use self::objects::Objects;
pub use self::once::read_once;
use self::reporter::SourceReporter;

#[cfg(feature = "kube")]
pub mod config_map;
pub mod files;
mod health;
#[cfg(feature = "kube")]
pub mod kube_apiserver;
#[cfg(feature = "kube")]
mod objects;
mod once;
mod parts;
mod reporter;
mod ring;
#[cfg(feature = "kube")]
pub mod secret;
#[cfg(feature = "kube")]
mod selection;

/// One entry of `sources`: a name, and exactly one of `files`, `ring`, `kubeApiserver`, `configMap` and `secret`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "SourceFields")]
pub struct SourceConfig {
    /// What a person calls it, in logs and metrics; made from what it reads when missing.
    pub name: Option<String>,
    /// Where it reads.
    pub kind: SourceKind,
}

impl SourceConfig {
    /// Whether it is a key ring, which decides.
    pub fn is_ring(&self) -> bool {
        matches!(self.kind, SourceKind::Ring(_))
    }
}

/// Where a source reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// `files`: key files and folders of them.
    Files(files::FilesSource),
    /// `ring`: a key ring, which decides.
    Ring(CellStoreConfig),
    /// `kubeApiserver`: the key set that each replica of a control plane serves.
    #[cfg(feature = "kube")]
    KubeApiserver(kube_apiserver::KubeApiserverSource),
    /// `configMap`: PEM values of ConfigMaps.
    #[cfg(feature = "kube")]
    ConfigMap(config_map::ConfigMapSource),
    /// `secret`: the public half in Secrets.
    #[cfg(feature = "kube")]
    Secret(secret::SecretSource),
}

/// What a source has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceEvent {
    /// One of several sources at a place is known now, as a replica of a control plane, and has not been read yet.
    /// All that are known at the start come before the first reading of any.
    Found {
        /// Which source.
        source: SourceId,
    },
    /// A reading: all keys that the source shows now.
    Listed {
        /// Which source.
        source: SourceId,
        /// Its keys, in its order; may be empty.
        keys: Vec<PublicKey>,
        /// What gave no key, each as a phrase that names the place and the reason.
        skipped: Vec<String>,
        /// Parts that were never read whole since the start. If there is one the listing is incomplete: its keys add
        /// to what is known, and nothing that it lacks counts as dropped.
        unread: Vec<String>,
    },
    /// A key ring was read: what it says is decided.
    Decided {
        /// Which source.
        source: SourceId,
        /// What the ring says.
        decision: RingDecision,
    },
    /// The source is gone for good, as a replica that left the control plane.
    Gone {
        /// Which source.
        source: SourceId,
    },
    /// The source, or a part of it, cannot be read; what it showed last holds. Sent once per change of the error,
    /// and over when the next [`Listed`](Self::Listed) comes.
    Failed {
        /// Which source.
        source: SourceId,
        /// What came, what was expected, what to do.
        error: String,
    },
}

/// A source that is ready to run: everything that can be known before is checked.
#[derive(Debug)]
pub struct Source {
    id: SourceId,
    reader: SourceReader,
}

#[derive(Debug)]
enum SourceReader {
    Files(files::Files),
    Ring(ring::Ring),
    #[cfg(feature = "kube")]
    KubeApiserver(Box<kube_apiserver::KubeApiserver>),
    #[cfg(feature = "kube")]
    ConfigMap(config_map::ConfigMaps),
    #[cfg(feature = "kube")]
    Secret(secret::Secrets),
}

impl Source {
    /// Checks `config`, the entry of an issuer at `position`, whose relative paths start at `base`. Needs a tokio runtime.
    ///
    /// # Errors
    /// When something is missing, contradictory or unreadable, with the remedy. Nothing has been read from the
    /// network yet: a cluster that does not answer is no error here.
    pub async fn open(
        config: &SourceConfig,
        position: usize,
        issuer: &IssuerUrl,
        base: &Path,
    ) -> Result<Self, SourceError> {
        let reader = match &config.kind {
            SourceKind::Files(config) => SourceReader::Files(files::Files::open(config, base)?),
            SourceKind::Ring(config) => SourceReader::Ring(ring::Ring::open(config, issuer, base).await?),
            #[cfg(feature = "kube")]
            SourceKind::KubeApiserver(config) => SourceReader::KubeApiserver(Box::new(
                kube_apiserver::KubeApiserver::open(config, base).await?,
            )),
            #[cfg(feature = "kube")]
            SourceKind::ConfigMap(config) => {
                SourceReader::ConfigMap(config_map::ConfigMaps::open(config, base).await?)
            }
            #[cfg(feature = "kube")]
            SourceKind::Secret(config) => SourceReader::Secret(secret::Secrets::open(config, base).await?),
        };
        let name = config.name.clone().unwrap_or_else(|| config.kind.to_string());
        Ok(Self { id: SourceId { position, name }, reader })
    }

    /// Its place and name. Each replica of a `kubeApiserver` source reports under the same place and its own URL.
    pub fn id(&self) -> &SourceId {
        &self.id
    }

    /// Reads and goes on reading; ends only when the receiver of the events is gone. Whatever it started has ended then,
    /// but for a look at a file system that does not answer.
    pub async fn run(self, events: mpsc::Sender<Box<SourceEvent>>, health: SourceHealth) {
        let reporter = SourceReporter::new(self.id, events.clone(), health);
        tokio::select! {
            () = self.reader.run(reporter) => {}
            () = events.closed() => {}
        }
    }
}

impl SourceReader {
    /// Each boxed by itself: a file need not keep the room that a cluster takes.
    async fn run(self, reporter: SourceReporter) {
        match self {
            Self::Files(files) => Box::pin(files.run(reporter)).await,
            Self::Ring(ring) => Box::pin(ring.run(reporter)).await,
            #[cfg(feature = "kube")]
            Self::KubeApiserver(replicas) => Box::pin(replicas.run(reporter)).await,
            #[cfg(feature = "kube")]
            Self::ConfigMap(config_maps) => Box::pin(config_maps.run(reporter)).await,
            #[cfg(feature = "kube")]
            Self::Secret(secrets) => Box::pin(secrets.run(reporter)).await,
        }
    }
}

/// Why a source cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// A path that is not there or cannot be looked at.
    #[error("cannot read {}; give the path of a key file or of a folder of key files", path.display())]
    Path {
        /// Which path.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A value that cannot be used.
    #[error("`{field}`: {problem}")]
    Value {
        /// The field, as the configuration spells it.
        field: &'static str,
        /// What came, what was expected, what to do.
        problem: String,
    },
    /// The place of the key ring cannot be opened.
    #[error("ring: {0}")]
    Ring(#[from] CellStoreError),
    /// The cluster cannot be reached by what is configured.
    #[cfg(feature = "kube")]
    #[error(transparent)]
    Access(#[from] chancery_cluster::access::AccessError),
}

/// The YAML form of [`SourceConfig`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct SourceFields {
    name: Option<String>,
    files: Option<files::FilesSource>,
    ring: Option<CellStoreConfig>,
    kube_apiserver: Option<KubeApiserverFields>,
    config_map: Option<ConfigMapFields>,
    secret: Option<SecretFields>,
}

#[cfg(feature = "kube")]
use config_map::ConfigMapSource as ConfigMapFields;
#[cfg(feature = "kube")]
use kube_apiserver::KubeApiserverSource as KubeApiserverFields;
#[cfg(feature = "kube")]
use secret::SecretSource as SecretFields;
#[cfg(not(feature = "kube"))]
use serde::de::{
    IgnoredAny as ConfigMapFields, IgnoredAny as KubeApiserverFields, IgnoredAny as SecretFields,
};

impl TryFrom<SourceFields> for SourceConfig {
    type Error = String;

    fn try_from(fields: SourceFields) -> Result<Self, Self::Error> {
        let kinds = [
            fields.files.map(|config| Ok(SourceKind::Files(config))),
            fields.ring.map(|config| Ok(SourceKind::Ring(config))),
            fields.kube_apiserver.map(kube_apiserver_kind),
            fields.config_map.map(config_map_kind),
            fields.secret.map(secret_kind),
        ];
        let mut given = kinds.into_iter().flatten();
        let expected = "exactly one of `files`, `ring`, `kubeApiserver`, `configMap` and `secret`";
        match (given.next(), given.count()) {
            (Some(kind), 0) => Ok(Self { name: fields.name, kind: kind? }),
            (Some(_), more) => {
                Err(format!("a source of {} kinds; expected {expected}, so make one entry of each", more + 1))
            }
            (None, _) => Err(format!("a source that reads nothing; expected {expected}")),
        }
    }
}

#[cfg(feature = "kube")]
fn kube_apiserver_kind(config: KubeApiserverFields) -> Result<SourceKind, String> {
    Ok(SourceKind::KubeApiserver(config))
}

#[cfg(feature = "kube")]
fn config_map_kind(config: ConfigMapFields) -> Result<SourceKind, String> {
    Ok(SourceKind::ConfigMap(config))
}

#[cfg(feature = "kube")]
fn secret_kind(config: SecretFields) -> Result<SourceKind, String> {
    Ok(SourceKind::Secret(config))
}

#[cfg(not(feature = "kube"))]
use not_built as kube_apiserver_kind;
#[cfg(not(feature = "kube"))]
use not_built as config_map_kind;
#[cfg(not(feature = "kube"))]
use not_built as secret_kind;

#[cfg(not(feature = "kube"))]
fn not_built(_: serde::de::IgnoredAny) -> Result<SourceKind, String> {
    Err("this program was built without the feature `kube`; use `files`, or build it with `--features kube`"
        .to_owned())
}

impl std::fmt::Display for SourceKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Files(config) => config.fmt(f),
            Self::Ring(config) => write!(f, "ring {config}"),
            #[cfg(feature = "kube")]
            Self::KubeApiserver(config) => config.fmt(f),
            #[cfg(feature = "kube")]
            Self::ConfigMap(config) => write!(f, "configmap {}", config.selection()),
            #[cfg(feature = "kube")]
            Self::Secret(config) => write!(f, "secret {}", config.selection()),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;

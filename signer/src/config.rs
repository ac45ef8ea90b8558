//! What a signer is told.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use chancery_cluster::socket::SocketConfig;
use chancery_core::IssuerUrl;

use crate::admission::DEFAULT_CONCURRENCY;
use crate::claims::IssuancePolicy;
use crate::key_files::KeyFilesConfig;
use crate::rotation::RotationMetrics;

/// The shortest `max_token_expiration_seconds` that kube-apiserver accepts, in seconds (KEP-740).
pub const SHORTEST_MAXIMUM: Duration = Duration::from_secs(600);

/// The longest lifetime of a token unless it is said otherwise: what AKS gives.
pub const DEFAULT_MAXIMUM: Duration = Duration::from_secs(24 * 3600);

/// After how long kube-apiserver asks for the keys again unless it is said otherwise: they come from memory.
pub const DEFAULT_REFRESH_HINT: Duration = Duration::from_secs(60);

/// Everything that a signer of one issuer is told.
#[derive(Clone, Debug)]
pub struct SignerConfig {
    /// Where kube-apiserver connects.
    pub socket: SocketConfig,
    /// What is signed.
    pub policy: IssuancePolicy,
    /// After how long kube-apiserver shall ask for the keys again.
    pub refresh_hint: Duration,
    /// Signatures that are made or waited for at a time.
    pub concurrency: usize,
    /// Where the keys are.
    pub keys: KeySource,
    /// Where this signer keeps what it must not forget.
    pub state_directory: Option<PathBuf>,
    /// The operators' port.
    pub admin: Option<SocketAddr>,
    /// What a rotation that runs beside the signer shows on the operators' port.
    pub rotation: Option<Arc<RotationMetrics>>,
    /// The version of the program.
    pub version: &'static str,
}

/// Where the keys are.
#[derive(Clone, Debug)]
pub enum KeySource {
    /// In plain files.
    Files(KeyFilesConfig),
    /// In a ring, with the private halves in custody.
    Ring(RingConfig),
}

/// Where a ring and its private halves are.
#[derive(Clone, Debug)]
pub struct RingConfig {
    /// Where the ring's document is.
    pub ring: RingPlace,
    /// Where the private halves are.
    pub keys: VaultPlace,
    /// The passphrase that opens them.
    pub passphrase: Option<PathBuf>,
    /// The name of this signer among all of the ring: one each.
    pub name: String,
    /// Whether to sign by the recorded ring while the store cannot be read after a start.
    pub start_from_record: bool,
}

/// Where a ring's document is.
#[derive(Clone, Debug)]
pub enum RingPlace {
    /// In a directory, to which its writer writes. What this signer acknowledges goes to its own state directory.
    Directory(PathBuf),
    /// In ConfigMaps, with what this signer acknowledges.
    #[cfg(feature = "kube")]
    Cluster(ClusterPlace),
}

/// Where private halves are.
#[derive(Clone, Debug)]
pub enum VaultPlace {
    /// In sealed files.
    Directory(PathBuf),
    /// In Secrets.
    #[cfg(feature = "kube")]
    Cluster(ClusterPlace),
}

/// Objects of one namespace whose names begin alike.
#[cfg(feature = "kube")]
#[derive(Clone, Debug)]
pub struct ClusterPlace {
    /// The kubeconfig; without one, the cluster in which this process is a pod.
    pub kubeconfig: Option<PathBuf>,
    /// The context in it.
    pub context: Option<String>,
    /// The namespace.
    pub namespace: String,
    /// What their names begin with.
    pub prefix: String,
}

/// The name of a signer of which nothing is said: that of its machine.
pub fn default_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

impl SignerConfig {
    /// A signer with the defaults, whose audiences of kube-apiserver itself are the issuer URL, as kube-apiserver has it.
    pub fn new(issuer: IssuerUrl, socket: PathBuf, keys: KeySource) -> Self {
        let api_audiences = vec![issuer.to_string()];
        Self {
            socket: SocketConfig { path: socket, group: None },
            policy: IssuancePolicy { issuer, longest_lifetime: DEFAULT_MAXIMUM, api_audiences },
            refresh_hint: DEFAULT_REFRESH_HINT,
            concurrency: DEFAULT_CONCURRENCY,
            keys,
            state_directory: None,
            admin: None,
            rotation: None,
            version: env!("CARGO_PKG_VERSION"),
        }
    }

    /// Whether kube-apiserver would accept it.
    ///
    /// # Errors
    /// Which setting is out of its range.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.policy.longest_lifetime < SHORTEST_MAXIMUM {
            return Err(ConfigError::Maximum(self.policy.longest_lifetime.as_secs()));
        }
        if self.refresh_hint < Duration::from_secs(1) {
            return Err(ConfigError::RefreshHint);
        }
        if self.concurrency == 0 {
            return Err(ConfigError::Concurrency);
        }
        if matches!(self.keys, KeySource::Ring(_)) && self.state_directory.is_none() {
            return Err(ConfigError::NoState);
        }
        Ok(())
    }
}

/// What cannot be meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Shorter than kube-apiserver accepts; in seconds.
    #[error(
        "a longest token lifetime of {0} s; expected at least 600 s, below which kube-apiserver does not start"
    )]
    Maximum(u64),
    /// No time.
    #[error("a refresh hint of less than 1 s; expected 1 s or more, such as 60 s")]
    RefreshHint,
    /// Nobody is let in.
    #[error("no signature at a time; expected 1 or more")]
    Concurrency,
    /// A ring, and no place to remember it.
    #[error(
        "a key ring without a state directory: after a restart an older ring could not be told from a newer one; give --state-dir"
    )]
    NoState,
}

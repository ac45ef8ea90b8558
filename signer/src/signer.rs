//! One signer: its keys, what it answers with, and its socket, opened in an order in which nothing is answered too early.
//!
//! ```text
//! state ──▶ operators' port ──▶ keys ──▶ socket ──▶ answers
//!
//! kube-apiserver waits for the socket for 60 s, and connects again by itself
//! ```

use std::io;
use std::sync::Arc;

use chancery_cluster::cell::{CellError, CellStore, StoreMode};
use chancery_cluster::socket::{self, OwnedSocket, SocketError};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tracing::info;

use crate::admin::{Admin, AdminError, Watched};
use crate::config::{ConfigError, SignerConfig};
use crate::metrics::Metrics;
use crate::private_memory;
use crate::record::RecordKeeper;
use crate::serve;
use crate::service::{SignerService, SignerServiceParts};
use crate::signer_keys::SignerKeysSender;
use crate::source::{Source, SourceError, Surroundings};

/// A signer that has its keys and its socket, and does not answer yet.
#[derive(Debug)]
pub struct Signer {
    socket: OwnedSocket,
    service: Arc<SignerService>,
    source: Source,
    keys: SignerKeysSender,
    prompt: Arc<Notify>,
    /// Told to end with the rest. Dropped, it ends where it stands.
    admin: JoinSet<()>,
    stopping: watch::Sender<bool>,
    /// Kept for its lock.
    _state: Option<CellStore>,
}

impl Signer {
    /// Reads the keys, then takes the socket.
    ///
    /// # Errors
    /// What cannot be used, and what to do.
    pub async fn open(config: SignerConfig) -> Result<Self, SignerError> {
        config.check()?;
        private_memory::keep();
        let issuer = config.policy.issuer.clone();
        let (state, record) = state_of(&config, StoreMode::ReadWrite).await?;
        let metrics = Arc::new(Metrics::new(config.version, &issuer));
        let around = Surroundings { issuer, state, record: record.clone(), metrics: metrics.clone() };
        let source = Source::open(config.keys, &around).await?;
        let (keys, receiver) = watch::channel(None);
        let watched = Watched {
            metrics: metrics.clone(),
            keys: receiver.clone(),
            record: record.clone(),
            rotation: config.rotation,
        };
        let (stopping, shutdown) = watch::channel(false);
        let mut admin = JoinSet::new();
        if let Some(address) = config.admin {
            // It answers while a ring is waited for.
            admin.spawn(Admin::bind(address, watched).await?.run(shutdown));
        }
        let service = Arc::new(SignerService::new(SignerServiceParts {
            policy: config.policy,
            refresh_hint: config.refresh_hint,
            keys: receiver,
            record,
            concurrency: config.concurrency,
            metrics,
        }));
        let (source, first) = source.first().await?;
        keys.send_replace(Some(first));
        let socket = OwnedSocket::bind(&config.socket)?;
        Ok(Self {
            socket,
            service,
            source,
            keys,
            prompt: Arc::default(),
            admin,
            stopping,
            _state: around.state,
        })
    }

    /// Whoever notifies this has the keys looked at now, and not only when it is time.
    pub fn prompt(&self) -> Arc<Notify> {
        self.prompt.clone()
    }

    /// What answers on the socket, for whoever asks from within this process.
    pub fn service(&self) -> Arc<SignerService> {
        self.service.clone()
    }

    /// Answers until `stop` resolves, then lets the calls under way end.
    ///
    /// # Errors
    /// When the socket is of no use, or a part ended that should have run on.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), SignerError> {
        let Self { socket, service, source, keys, prompt, mut admin, stopping, _state } = self;
        let shutdown = stopping.subscribe();
        let mut following = tokio::spawn(source.follow(keys, prompt));
        let mut serving = tokio::spawn(serve::serve(socket, service, shutdown));
        let ended = tokio::select! {
            () = stop => {
                info!("stopping: calls under way are answered");
                stopping.send_replace(true);
                served((&mut serving).await)
            }
            ended = &mut serving => served(ended),
            _ = &mut following => Err(SignerError::Lost("the look at the keys")),
        };
        stopping.send_replace(true);
        following.abort();
        admin.shutdown().await;
        ended
    }
}

/// Opens everything that a signer of this configuration would, apart from the socket and what would keep a running one
/// from its own.
///
/// # Errors
/// As [`Signer::open`].
pub async fn check(config: SignerConfig) -> Result<(), SignerError> {
    config.check()?;
    socket::check(&config.socket)?;
    let issuer = config.policy.issuer.clone();
    let (state, record) = state_of(&config, StoreMode::ReadOnly).await?;
    let metrics = Arc::new(Metrics::new(config.version, &issuer));
    let around = Surroundings { issuer, state, record, metrics };
    Source::open(config.keys, &around).await?.look().await?;
    Ok(())
}

async fn state_of(
    config: &SignerConfig,
    mode: StoreMode,
) -> Result<(Option<CellStore>, Arc<RecordKeeper>), SignerError> {
    let Some(path) = &config.state_directory else {
        return Ok((None, Arc::new(RecordKeeper::in_memory())));
    };
    let store = CellStore::directory(path, mode).await?;
    let record = RecordKeeper::open(&store, &config.policy.issuer).await?;
    Ok((Some(store), Arc::new(record)))
}

fn served(ended: Result<io::Result<()>, tokio::task::JoinError>) -> Result<(), SignerError> {
    ended.map_err(|_| SignerError::Lost("the socket"))?.map_err(SignerError::Socket)
}

/// Why there is no signer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignerError {
    /// A setting out of its range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The state directory cannot be used.
    #[error(transparent)]
    State(#[from] CellError),
    /// There are no keys.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The operators' port cannot be had.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// The socket cannot be had.
    #[error(transparent)]
    Bind(#[from] SocketError),
    /// The socket is of no use.
    #[error("cannot listen on the socket: {0}")]
    Socket(#[source] io::Error),
    /// A part has ended that should have run on.
    #[error("{0} ended by a fault of ours; the process ends with it, so that it is started again")]
    Lost(&'static str),
}

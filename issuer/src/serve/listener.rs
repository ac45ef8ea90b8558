//! Accepts connections, over TLS if a certificate is configured, and ends them in order.
//!
//! Limits, so that a few clients cannot keep everybody else out:
//!
//! - at most [`MAX_CONNECTIONS`] connections, and never more than half of the files this process may open: the rest
//!   wait in the kernel's queue;
//! - a TLS handshake has [`HANDSHAKE`] to end, in a task of its own, so nobody waits behind it;
//! - a connection on which nothing is answered for 30 to 60 seconds is closed, whether it rests or sends its request
//!   head byte by byte;
//! - a request head of more than 16 KiB is refused.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use jiff::Timestamp;
use rustix::process::{Resource, getrlimit};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::{Ticketer, default_provider};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, info, warn};

use super::certificate::{self, CertificateError, Certificates, TlsConfig};
use super::connection::{Protocol, told_to_stop};
use super::{Documents, ServeConfig};
use crate::metrics::Metrics;

/// Connections at a time. One that rests on TLS takes about 30 KiB.
pub const MAX_CONNECTIONS: usize = 2048;

/// How long a TLS handshake may take.
pub const HANDSHAKE: Duration = Duration::from_secs(10);

/// How long connections may take to end once the server was told to stop: one second for the first request of a
/// connection that has had none, ten for answers under way, and one to spare.
pub const DRAIN: Duration = Duration::from_secs(12);

/// The wait after a failed accept, which fails again at once while the process is out of files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A bound listener that does not answer yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<Tls>,
    protocol: Arc<Protocol>,
    metrics: Arc<Metrics>,
}

impl Server {
    /// Reads the certificate, if there is one, and takes the address.
    ///
    /// # Errors
    /// Says which address or which file cannot be used.
    pub async fn bind(
        config: &ServeConfig,
        documents: Documents,
        metrics: Arc<Metrics>,
    ) -> Result<Self, ServeError> {
        let tls = config.tls.clone().map(|files| Tls::open(files, &metrics)).transpose()?;
        let unbound = |error| ServeError::Bind { address: config.listen, error };
        let listener = TcpListener::bind(config.listen).await.map_err(unbound)?;
        let address = listener.local_addr().map_err(unbound)?;
        let protocol = Arc::new(Protocol::new(documents, metrics.requests().clone()));
        Ok(Self { listener, address, tls, protocol, metrics })
    }

    /// The address that was taken, with its real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `shutdown` turns true or its sender is gone, then stops accepting and gives the requests that
    /// are being answered [`DRAIN`] to end.
    pub async fn run(self, shutdown: watch::Receiver<bool>) {
        info!(address = %self.address, tls = self.tls.is_some(), "serving");
        let mut connections = JoinSet::new();
        let mut stop = shutdown.clone();
        tokio::select! {
            biased;
            () = told_to_stop(&mut stop) => {}
            () = self.accept(&mut connections, &shutdown) => {}
            () = self.reload() => {}
        }
        // Who connected before the signal is answered, also if nobody had come round to accepting it.
        while let Some(Ok((stream, _))) = self.listener.accept().now_or_never() {
            connections.spawn(self.connection(stream, shutdown.clone()));
        }
        drop(self.listener);
        let drained = timeout(DRAIN, async { while connections.join_next().await.is_some() {} }).await;
        if drained.is_err() {
            let open = connections.len();
            warn!(
                connections = open,
                seconds = DRAIN.as_secs(),
                "connections did not end in time and are cut"
            );
        }
    }

    /// Accepts for as long as it is polled.
    async fn accept(&self, connections: &mut JoinSet<()>, shutdown: &watch::Receiver<bool>) {
        let room = Arc::new(Semaphore::new(max_connections()));
        loop {
            // The semaphore is never closed.
            let Ok(place) = room.clone().acquire_owned().await else { return };
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                Some(_) = connections.join_next() => continue,
            };
            match accepted {
                Ok((stream, _)) => {
                    let connection = self.connection(stream, shutdown.clone());
                    connections.spawn(async move {
                        connection.await;
                        drop(place);
                    });
                }
                Err(error) => {
                    warn!(%error, "cannot accept a connection; trying on");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn connection(
        &self,
        stream: TcpStream,
        shutdown: watch::Receiver<bool>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let protocol = self.protocol.clone();
        let acceptor = self.tls.as_ref().map(|tls| tls.acceptor.clone());
        async move {
            // Answers are one small write each; waiting for more only delays them.
            if let Err(error) = stream.set_nodelay(true) {
                debug!(%error, "a connection broke before its first byte");
                return;
            }
            let Some(acceptor) = acceptor else { return protocol.serve(stream, shutdown).await };
            match timeout(HANDSHAKE, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => protocol.serve(stream, shutdown).await,
                Ok(Err(error)) => debug!(%error, "a TLS handshake failed"),
                Err(_) => debug!(seconds = HANDSHAKE.as_secs(), "a TLS handshake took too long"),
            }
        }
    }

    /// Keeps the certificate new for as long as it is polled.
    async fn reload(&self) {
        match &self.tls {
            Some(tls) => certificate::watch(tls.certificates.clone(), self.metrics.clone()).await,
            None => std::future::pending().await,
        }
    }
}

/// Half of the files this process may open, so that publishing never fails because of clients.
fn max_connections() -> usize {
    let files = getrlimit(Resource::Nofile).current.and_then(|files| usize::try_from(files).ok());
    files.map_or(MAX_CONNECTIONS, |files| (files / 2).clamp(1, MAX_CONNECTIONS))
}

struct Tls {
    acceptor: TlsAcceptor,
    certificates: Arc<Certificates>,
}

impl Tls {
    fn open(files: TlsConfig, metrics: &Metrics) -> Result<Self, ServeError> {
        let path = files.certificate.clone();
        let certificates = Arc::new(Certificates::open(files)?);
        if let Some(problem) = certificates.date_problem(Timestamp::now()) {
            warn!(certificate = %path.display(), "the serving certificate {problem}; clients will refuse it");
        }
        metrics.certificate_expires(certificates.not_after());
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(certificates.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.ticketer = Ticketer::new()?;
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), certificates })
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("certificates", &self.certificates).finish_non_exhaustive()
    }
}

/// Why the public server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address is not to be had.
    #[error(
        "cannot listen on {address}: {error}; expected a free address of this machine. Change `listen`, or stop what already listens there"
    )]
    Bind {
        /// The configured address.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// The certificate or its key cannot be used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The TLS library refuses to start.
    #[error(
        "cannot set up TLS: {0}; expected the built-in provider to work. Report this with the version of the kernel"
    )]
    Tls(#[from] rustls::Error),
}

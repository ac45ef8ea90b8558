//! Accepts connections, over TLS if a certificate is configured, has them answered, and ends them in order.
//!
//! | room | what is in it |
//! |---|---|
//! | [`budget`] | [`Connections`]: how many the process may have, and who leaves when there are more |
//! | [`local`] | a unix socket in the place of an address |
//! | [`certificate`] | the TLS serving pair and its replacement |
//! | `connection` | one connection, from its first byte to its end |
//!
//! What answers is any hyper service: a listener knows neither paths nor documents. Its limits keep a few clients from
//! shutting everybody else out, whatever they answer:
//!
//! - all listeners of the process share one [`Connections`], which leaves files for the process' own work and takes
//!   places back from the client that has most;
//! - a TLS handshake has [`limits::HANDSHAKE`] to end, in a task of its own, so nobody waits behind it;
//! - a connection on which nothing is asked for one to two [`limits::IDLE`] is closed, whether it rests or sends its
//!   request head byte by byte, and so is one that is older than [`limits::AGE`];
//! - a request head of more than 16 KiB is refused.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::service::Service;
use jiff::Timestamp;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::{Ticketer, default_provider};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, info, warn};

use self::budget::ConnectionSlot;
use self::connection::{Protocol, told_to_stop};
use crate::limits;

pub mod budget;
pub mod certificate;
mod connection;
pub mod local;

pub use budget::Connections;
pub use certificate::{CertificateError, CertificateStanding, Certificates, Reload, ServingPair, TlsConfig};
pub use local::LocalListener;

/// Where a listener listens, and how.
#[derive(Clone, Debug)]
pub struct ListenerConfig {
    /// The address; port 0 takes a free one.
    pub address: SocketAddr,
    /// The serving certificate. Without it the listener speaks plain HTTP.
    pub tls: Option<TlsConfig>,
    /// The hosts that clients ask for: a new certificate must be for those that the old one was for.
    pub hosts: Vec<String>,
}

/// Told what becomes of the certificate.
pub trait CertificateObserver: Send + Sync {
    /// At start and after each look at the files: what came of it, and what is in use. `certificate` is its file.
    fn looked(&self, certificate: &Path, reload: &Reload, standing: &CertificateStanding);
}

/// Nobody is told of a certificate that is not there.
struct NoCertificate;

impl CertificateObserver for NoCertificate {
    fn looked(&self, _: &Path, _: &Reload, _: &CertificateStanding) {}
}

/// A bound listener that does not answer yet.
pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<Tls>,
    connections: Connections,
    observer: Arc<dyn CertificateObserver>,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Listener {
    /// Reads the certificate, if there is one, and takes the address.
    ///
    /// # Errors
    /// Says which address or which file cannot be used.
    pub async fn bind(
        config: &ListenerConfig,
        connections: &Connections,
        observer: Arc<dyn CertificateObserver>,
    ) -> Result<Self, ListenError> {
        let tls = match &config.tls {
            Some(files) => Some(Tls::open(files, &config.hosts, observer.as_ref())?),
            None => None,
        };
        let unbound = |error| ListenError::Bind { address: config.address, error };
        let listener = TcpListener::bind(config.address).await.map_err(unbound)?;
        let address = listener.local_addr().map_err(unbound)?;
        Ok(Self { listener, address, tls, connections: connections.clone(), observer })
    }

    /// Takes the address, to speak plain HTTP there.
    ///
    /// # Errors
    /// Says why the address cannot be used.
    pub async fn plain(address: SocketAddr, connections: &Connections) -> Result<Self, ListenError> {
        let config = ListenerConfig { address, tls: None, hosts: Vec::new() };
        Self::bind(&config, connections, Arc::new(NoCertificate)).await
    }

    /// Has it speak TLS with a certificate that the process makes itself.
    ///
    /// # Errors
    /// When the TLS library refuses to start.
    pub fn showing(mut self, certificates: Arc<Certificates>) -> Result<Self, ListenError> {
        self.tls = Some(Tls::new(certificates)?);
        Ok(self)
    }

    /// The certificate that it shows; `None` if it speaks plain HTTP.
    pub fn certificates(&self) -> Option<Arc<Certificates>> {
        self.tls.as_ref().map(|tls| tls.certificates.clone())
    }

    /// The address that was taken, with its real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Has `service` answer until `shutdown` turns true or its sender is gone, then stops accepting and gives the
    /// requests that are being answered [`limits::DRAIN`] to end.
    pub async fn run<S, B>(self, service: S, shutdown: watch::Receiver<bool>)
    where
        S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        S::Error: std::error::Error + Send + Sync + 'static,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: std::error::Error + Send + Sync + 'static,
    {
        let Self { listener, address, tls, connections, observer } = self;
        info!(%address, tls = tls.is_some(), "listening");
        let acceptor = tls.as_ref().map(|tls| tls.acceptor.clone());
        let reception =
            Reception { protocol: Arc::new(Protocol::new(service)), acceptor, shutdown: shutdown.clone() };
        let mut open = JoinSet::new();
        let mut stop = shutdown;
        tokio::select! {
            biased;
            () = told_to_stop(&mut stop) => {}
            () = reception.accept(&listener, &connections, &mut open) => {}
            () = reload(tls.as_ref(), observer) => {}
        }
        // Who connected before the signal is answered, also if nobody had come round to accepting it.
        while let Some(Ok((stream, peer))) = listener.accept().now_or_never() {
            let Some(place) = connections.admit(peer.ip()).now_or_never() else { break };
            open.spawn(reception.clone().receive(stream, place));
        }
        drop(listener);
        drain(&mut open, &address).await;
    }
}

/// Waits for the connections of a listener that accepts no more.
async fn drain(open: &mut JoinSet<()>, place: &(dyn fmt::Display + Sync)) {
    let ended = timeout(limits::DRAIN, async { while open.join_next().await.is_some() {} }).await;
    if ended.is_err() {
        let seconds = limits::DRAIN.as_secs();
        warn!(%place, connections = open.len(), seconds, "connections did not end in time and are cut");
    }
}

/// Keeps the certificate new for as long as it is polled.
async fn reload(tls: Option<&Tls>, observer: Arc<dyn CertificateObserver>) {
    match tls {
        Some(tls) => certificate::watch(tls.certificates.clone(), observer).await,
        None => std::future::pending().await,
    }
}

/// What happens to every connection of a listener.
struct Reception<S> {
    protocol: Arc<Protocol<S>>,
    acceptor: Option<TlsAcceptor>,
    shutdown: watch::Receiver<bool>,
}

impl<S> Clone for Reception<S> {
    fn clone(&self) -> Self {
        Self {
            protocol: self.protocol.clone(),
            acceptor: self.acceptor.clone(),
            shutdown: self.shutdown.clone(),
        }
    }
}

impl<S, B> Reception<S>
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: std::error::Error + Send + Sync + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    /// Accepts for as long as it is polled.
    async fn accept(&self, listener: &TcpListener, connections: &Connections, open: &mut JoinSet<()>) {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(_) = open.join_next() => continue,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let place = connections.admit(peer.ip()).await;
                    open.spawn(self.clone().receive(stream, place));
                }
                Err(error) => {
                    warn!(%error, "cannot accept a connection, trying again");
                    sleep(limits::ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn receive(self, stream: TcpStream, place: ConnectionSlot) {
        let place = Arc::new(place);
        // Answers are one small write each; waiting for more only delays them.
        if let Err(error) = stream.set_nodelay(true) {
            debug!(%error, "a connection broke before its first byte");
            return;
        }
        let Some(acceptor) = &self.acceptor else {
            return self.protocol.serve(stream, place, self.shutdown).await;
        };
        let handshake = tokio::select! {
            handshake = timeout(limits::HANDSHAKE, acceptor.accept(stream)) => handshake,
            () = place.must_leave() => return,
        };
        match handshake {
            Ok(Ok(stream)) => self.protocol.serve(stream, place, self.shutdown).await,
            Ok(Err(error)) => debug!(%error, "a TLS handshake failed"),
            Err(_) => debug!(seconds = limits::HANDSHAKE.as_secs(), "a TLS handshake took too long"),
        }
    }
}

struct Tls {
    acceptor: TlsAcceptor,
    certificates: Arc<Certificates>,
}

impl Tls {
    fn open(
        files: &TlsConfig,
        hosts: &[String],
        observer: &dyn CertificateObserver,
    ) -> Result<Self, ListenError> {
        let path = files.certificate.clone();
        let certificates = Arc::new(Certificates::open(files.clone(), hosts)?);
        let standing = certificates.standing(Timestamp::now());
        if let Some(problem) = &standing.problem {
            warn!(certificate = %path.display(), "the serving certificate {problem}; clients will refuse it");
        }
        observer.looked(&path, &Reload::Unchanged, &standing);
        Ok(Self::new(certificates)?)
    }

    fn new(certificates: Arc<Certificates>) -> Result<Self, rustls::Error> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(certificates.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.ticketer = Ticketer::new()?;
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), certificates })
    }
}

/// Why a listener does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
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

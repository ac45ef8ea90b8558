//! Where an agent listens: on the loopback, or on a unix socket. What else would make it a service for strangers.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use chancery_cluster::listener::{Connections, Listener, LocalListener};
use chancery_cluster::socket::SocketConfig;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::Service;
use tokio::sync::watch;

use crate::error::ExchangeError;

/// Connections at a time; SDKs of one workload keep a few.
const MOST_CONNECTIONS: usize = 64;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// An address of the loopback; port 0 takes a free one.
    Loopback(SocketAddr),
    /// A unix socket.
    Socket(SocketConfig),
}

/// Where an agent listens; nothing is answered yet.
#[derive(Debug)]
pub struct Door(Kind);

#[derive(Debug)]
enum Kind {
    Loopback(Listener),
    Socket(PathBuf, LocalListener),
}

impl Door {
    /// Takes the address or the socket's name.
    ///
    /// # Errors
    /// When it cannot be had, or strangers could reach it.
    pub async fn open(place: &Place) -> Result<Self, ExchangeError> {
        let connections = Connections::new(MOST_CONNECTIONS);
        let taken = |error: &dyn std::fmt::Display| {
            ExchangeError::configuration("agent-place-taken").came(&error.to_string())
        };
        match place {
            Place::Loopback(address) if !address.ip().is_loopback() => {
                Err(ExchangeError::configuration("agent-not-loopback")
                    .came(&format!("the address {address}"))
                    .expected("one of the loopback, as 127.0.0.1:9911, or a unix socket")
                    .remedy("an agent serves one workload; give each its own, beside it in its pod"))
            }
            Place::Loopback(address) => {
                let listener = Listener::plain(*address, &connections).await;
                Ok(Self(Kind::Loopback(listener.map_err(|error| taken(&error))?)))
            }
            Place::Socket(config) => {
                let listener = LocalListener::bind(config, &connections).map_err(|error| taken(&error))?;
                Ok(Self(Kind::Socket(config.path.clone(), listener)))
            }
        }
    }

    /// The port, if it has one.
    pub fn port(&self) -> Option<u16> {
        self.address().map(|address| address.port())
    }

    /// The address, if it has one, with its real port.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.0 {
            Kind::Loopback(listener) => Some(listener.address()),
            Kind::Socket(..) => None,
        }
    }

    /// The socket, if it is one.
    pub fn socket(&self) -> Option<&Path> {
        match &self.0 {
            Kind::Loopback(_) => None,
            Kind::Socket(path, _) => Some(path),
        }
    }

    /// Has `service`, an agent or what is shown of one, answer until `shutdown` turns true or its sender is gone, and ends
    /// in order.
    pub async fn run<S>(self, service: S, shutdown: watch::Receiver<bool>)
    where
        S: Service<Request<Incoming>, Response = Response<Full<Bytes>>, Error = Infallible>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
    {
        match self.0 {
            Kind::Loopback(listener) => listener.run(service, shutdown).await,
            Kind::Socket(_, listener) => listener.run(service, shutdown).await,
        }
    }
}

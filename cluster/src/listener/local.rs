//! A unix socket in the place of an address: who may connect is said by its mode and its folder's.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::service::Service;
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tracing::{info, warn};

use super::budget::Connections;
use super::connection::{Protocol, told_to_stop};
use super::drain;
use crate::limits;
use crate::socket::{OwnedSocket, SocketConfig, SocketError};

/// Whoever connects is on this machine, and counts as one client.
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A bound socket on which nothing is answered yet.
pub struct LocalListener {
    socket: OwnedSocket,
    listener: UnixListener,
    connections: Connections,
}

impl fmt::Debug for LocalListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalListener").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl LocalListener {
    /// Takes the socket's name. Called within a runtime.
    ///
    /// # Errors
    /// Why the socket cannot be had.
    pub fn bind(config: &SocketConfig, connections: &Connections) -> Result<Self, SocketError> {
        let socket = OwnedSocket::bind(config)?;
        let failed = |source| SocketError::Bind { path: config.path.clone(), source };
        let listener = UnixListener::from_std(socket.listener().map_err(failed)?).map_err(failed)?;
        Ok(Self { socket, listener, connections: connections.clone() })
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
        let Self { socket, listener, connections } = self;
        let place = socket.path().display().to_string();
        info!(socket = place, "listening");
        let protocol = Arc::new(Protocol::new(service));
        let mut open = JoinSet::new();
        let mut stop = shutdown.clone();
        loop {
            let accepted = tokio::select! {
                biased;
                () = told_to_stop(&mut stop) => break,
                accepted = listener.accept() => accepted,
                Some(_) = open.join_next() => continue,
            };
            match accepted {
                Ok((stream, _)) => {
                    let slot = Arc::new(connections.admit(CLIENT).await);
                    let (protocol, shutdown) = (protocol.clone(), shutdown.clone());
                    open.spawn(async move { protocol.serve(stream, slot, shutdown).await });
                }
                Err(error) => {
                    warn!(%error, "cannot accept a connection, trying again");
                    sleep(limits::ACCEPT_PAUSE).await;
                }
            }
        }
        // Who connected before the signal is answered, also if nobody had come round to accepting it.
        while let Some(Ok((stream, _))) = listener.accept().now_or_never() {
            let Some(slot) = connections.admit(CLIENT).now_or_never() else { break };
            let (protocol, shutdown) = (protocol.clone(), shutdown.clone());
            open.spawn(async move { protocol.serve(stream, Arc::new(slot), shutdown).await });
        }
        // Its name goes first, so that whoever connects anew finds the next process or none.
        drop((listener, socket));
        drain(&mut open, &place).await;
    }
}

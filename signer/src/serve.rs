//! Connections of kube-apiserver, over HTTP/2 from their first byte (gRPC without TLS), and their end in order.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use chancery_cluster::socket::OwnedSocket;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use crate::grpc;
use crate::service::SignerService;

/// Connections at a time. A kube-apiserver has one.
const MOST_CONNECTIONS: usize = 64;
/// Calls that one connection may have open. A client that has more keeps them to itself, where they cannot be turned away:
/// so it is far more than may wait for a signature.
const MOST_STREAMS: u32 = 4096;
/// Calls that may have been given up before they were looked at; a connection with more is closed.
const MOST_RESETS: usize = MOST_STREAMS as usize;
/// The largest head of a request, in bytes.
const LARGEST_HEAD: u32 = 16 * 1024;
/// How long calls may take to end once the process was told to.
pub const DRAIN: Duration = Duration::from_secs(10);
/// The wait after a failed accept, which fails again at once while the process is out of files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Answers on `socket` until `shutdown` turns true or its sender is gone; then new connections are refused, and calls
/// under way end within [`DRAIN`].
///
/// # Errors
/// When the system does not let the socket be used.
pub async fn serve(
    socket: OwnedSocket,
    service: Arc<SignerService>,
    shutdown: watch::Receiver<bool>,
) -> io::Result<()> {
    let listener = UnixListener::from_std(socket.listener()?)?;
    info!(socket = %socket.path().display(), "answering kube-apiserver");
    let mut open = JoinSet::new();
    tokio::select! {
        biased;
        () = told_to_stop(shutdown.clone()) => {}
        () = accept(&listener, &service, &shutdown, &mut open) => {}
    }
    // Its name goes first, so that whoever connects anew finds the next signer or none.
    drop((listener, socket));
    if timeout(DRAIN, async { while open.join_next().await.is_some() {} }).await.is_err() {
        warn!(connections = open.len(), seconds = DRAIN.as_secs(), "calls did not end in time and are cut");
    }
    Ok(())
}

/// Accepts for as long as it is polled.
async fn accept(
    listener: &UnixListener,
    service: &Arc<SignerService>,
    shutdown: &watch::Receiver<bool>,
    open: &mut JoinSet<()>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = open.join_next() => continue,
        };
        match accepted {
            Ok((stream, _)) if open.len() < MOST_CONNECTIONS => {
                open.spawn(converse(stream, service.clone(), shutdown.clone()));
            }
            Ok(_) => {
                warn!(connections = MOST_CONNECTIONS, "too many connections; a new one was closed");
                sleep(ACCEPT_PAUSE).await;
            }
            Err(error) => {
                warn!(%error, "cannot accept a connection, trying again");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn converse(stream: UnixStream, service: Arc<SignerService>, shutdown: watch::Receiver<bool>) {
    if let Ok(peer) = stream.peer_cred() {
        info!(process = peer.pid(), user = peer.uid(), "a client has connected");
    }
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.max_concurrent_streams(MOST_STREAMS).max_header_list_size(LARGEST_HEAD);
    // kube-apiserver gives up calls whose own caller has gone, all at once when it is busy; that is no attack of its.
    builder.max_pending_accept_reset_streams(Some(MOST_RESETS));
    let answer = service_fn(move |request| grpc::answer(service.clone(), request));
    let connection = builder.serve_connection(TokioIo::new(stream), answer);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = told_to_stop(shutdown) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        debug!(%error, "a connection broke");
    }
}

async fn told_to_stop(mut signal: watch::Receiver<bool>) {
    let _ = signal.wait_for(|stop| *stop).await;
}

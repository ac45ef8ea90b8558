//! One connection, from its first byte to its end, in HTTP/1.1 or HTTP/2 as the client chooses.
//!
//! A connection on which nothing was asked during a whole [`limits::IDLE`] period is closed, and so is one that is older
//! than [`limits::AGE`], in order if the client plays along. The same rule ends one that rests, one whose request head
//! never gets complete, and one whose client stopped reading; it costs a counter per request, where hyper's own header
//! timeout costs a timer per request.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tracing::debug;

use super::budget::ConnectionSlot;
use crate::limits;

/// The largest request head, in bytes.
const MAX_HEAD: u16 = 16 * 1024;

/// Requests that one HTTP/2 connection may have open.
const MAX_STREAMS: u32 = 100;

/// How requests are read and answered, the same for every connection of a listener.
#[derive(Clone, Debug)]
pub(super) struct Protocol<S> {
    builder: auto::Builder<TokioExecutor>,
    service: S,
}

impl<S, B> Protocol<S>
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: std::error::Error + Send + Sync + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    pub fn new(service: S) -> Self {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        // The only timer is ours, so hyper needs none.
        builder.http1().header_read_timeout(None).max_buf_size(MAX_HEAD.into());
        builder.http2().max_header_list_size(MAX_HEAD.into()).max_concurrent_streams(MAX_STREAMS);
        Self { builder, service }
    }

    /// Answers on `stream` until the client is done or rests, its `place` is needed by another, or `shutdown` turns
    /// true; then what is being answered is finished.
    pub async fn serve<IO>(&self, stream: IO, place: Arc<ConnectionSlot>, mut shutdown: watch::Receiver<bool>)
    where
        IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let asked = Arc::new(AtomicU64::new(0));
        let service = Counted { service: self.service.clone(), asked: asked.clone(), place: place.clone() };
        let mut connection = pin!(self.builder.serve_connection(TokioIo::new(stream), service));
        tokio::select! {
            biased;
            end = connection.as_mut() => return log(end),
            () = told_to_stop(&mut shutdown) => {
                if let Some(end) = first_request(connection.as_mut(), &asked).await {
                    return log(end);
                }
            }
            () = rests(&asked) => {}
            () = place.must_leave() => {
                connection.as_mut().graceful_shutdown();
                // What can be said without waiting is said: somebody waits for the place.
                let _ = connection.now_or_never();
                return;
            }
        }
        connection.as_mut().graceful_shutdown();
        tokio::select! {
            end = timeout(limits::FAREWELL, connection) => if let Ok(end) = end { log(end) },
            () = place.must_leave() => {}
        }
    }
}

/// Ends when the signal turns true or its sender is gone.
pub(super) async fn told_to_stop(signal: &mut watch::Receiver<bool>) {
    let _ = signal.wait_for(|stop| *stop).await;
}

/// Ends after a whole [`limits::IDLE`] period without a request, or when the connection is old.
async fn rests(asked: &AtomicU64) {
    let begun = Instant::now();
    let mut before = None;
    while begun.elapsed() < limits::AGE {
        let now = asked.load(Ordering::Relaxed);
        if before == Some(now) {
            return;
        }
        before = Some(now);
        sleep(limits::IDLE).await;
    }
}

/// Drives a connection until it was asked something, ended, or had its time; returns how it ended.
async fn first_request<C: Future>(mut connection: Pin<&mut C>, asked: &AtomicU64) -> Option<C::Output> {
    let step = poll_fn(|context| {
        let end = connection.as_mut().poll(context);
        match (end, asked.load(Ordering::Relaxed)) {
            (Poll::Ready(end), _) => Poll::Ready(Some(end)),
            (Poll::Pending, 0) => Poll::Pending,
            (Poll::Pending, _) => Poll::Ready(None),
        }
    });
    timeout(limits::FIRST_REQUEST, step).await.ok().flatten()
}

/// Clients break connections all day; that is theirs to notice.
fn log<E: std::fmt::Display>(end: Result<(), E>) {
    if let Err(error) = end {
        debug!(%error, "a connection broke");
    }
}

/// A service that counts what it is asked.
struct Counted<S> {
    service: S,
    asked: Arc<AtomicU64>,
    place: Arc<ConnectionSlot>,
}

impl<S: Service<Request<Incoming>>> Service<Request<Incoming>> for Counted<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.place.used();
        self.service.call(request)
    }
}

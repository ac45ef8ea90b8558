//! One connection, from its first byte to its end, in HTTP/1.1 or HTTP/2 as the client chooses.
//!
//! A connection on which nothing was answered during a whole [`IDLE`] period is closed, in order if the client plays
//! along. The same rule ends one that rests, one whose request head never gets complete, and one whose client
//! stopped reading; it costs a counter per request, where hyper's own header timeout costs a timer per request.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tracing::debug;

use super::Documents;
use super::answer::answer;
use crate::metrics::RequestCounters;

/// How long a connection may go without an answer; it is noticed between one and two periods.
pub(super) const IDLE: Duration = Duration::from_secs(30);

/// How long a connection that is asked to end may take for it.
const FAREWELL: Duration = Duration::from_secs(5);

/// The largest request head, in bytes.
const MAX_HEAD: u16 = 16 * 1024;

/// Requests that one HTTP/2 connection may have open. They are answered as they come.
const MAX_STREAMS: u32 = 100;

/// How requests are read and answered, the same for every connection of a listener.
#[derive(Clone, Debug)]
pub(super) struct Protocol {
    builder: auto::Builder<TokioExecutor>,
    documents: Documents,
    counters: RequestCounters,
}

impl Protocol {
    pub(super) fn new(documents: Documents, counters: RequestCounters) -> Self {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        // The only timer is ours, so hyper needs none.
        builder.http1().header_read_timeout(None).max_buf_size(MAX_HEAD.into());
        builder.http2().max_header_list_size(MAX_HEAD.into()).max_concurrent_streams(MAX_STREAMS);
        Self { builder, documents, counters }
    }

    /// Answers on `stream` until the client is done, rests, or `shutdown` turns true; then what is being answered
    /// is finished.
    pub(super) async fn serve<IO>(&self, stream: IO, mut shutdown: watch::Receiver<bool>)
    where
        IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let answered = Arc::new(AtomicU64::new(0));
        let service = Answers { protocol: self.clone(), answered: answered.clone() };
        let mut connection = pin!(self.builder.serve_connection(TokioIo::new(stream), service));
        let mut stop = pin!(shutdown.wait_for(|stop| *stop));
        let mut idle = pin!(sleep(IDLE));
        let mut answered_before = 0;
        let grace = loop {
            tokio::select! {
                biased;
                end = connection.as_mut() => return log(end),
                _ = stop.as_mut() => break None,
                () = idle.as_mut() => {
                    let answered_now = answered.load(Ordering::Relaxed);
                    if answered_now == answered_before {
                        break Some(FAREWELL);
                    }
                    answered_before = answered_now;
                    idle.as_mut().reset(Instant::now() + IDLE);
                }
            }
        };
        connection.as_mut().graceful_shutdown();
        match grace {
            // The listener has the deadline for all of them.
            None => log(connection.await),
            Some(grace) => {
                if let Ok(end) = timeout(grace, connection).await {
                    log(end);
                }
            }
        }
    }
}

/// Clients break connections all day; that is theirs to notice.
fn log<E: std::fmt::Display>(end: Result<(), E>) {
    if let Err(error) = end {
        debug!(%error, "a connection broke");
    }
}

struct Answers {
    protocol: Protocol,
    answered: Arc<AtomicU64>,
}

impl Service<Request<Incoming>> for Answers {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let response = answer(&self.protocol.documents.table(), &request);
        self.protocol.counters.answered(response.status());
        self.answered.fetch_add(1, Ordering::Relaxed);
        ready(Ok(response))
    }
}

//! One connection, from its first byte to its end, in HTTP/1.1 or HTTP/2 as the client chooses.
//!
//! A connection on which nothing was answered during a whole [`IDLE`] period is closed, in order if the client plays
//! along. The same rule ends one that rests, one whose request head never gets complete, and one whose client
//! stopped reading; it costs a counter per request, where hyper's own header timeout costs a timer per request.

use std::convert::Infallible;
use std::future::{Ready, poll_fn, ready};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
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
use tokio::time::{sleep, timeout};
use tracing::debug;

use super::Documents;
use super::answer::answer;
use crate::metrics::RequestCounters;

/// How long a connection may go without an answer; it is noticed between one and two periods.
pub(super) const IDLE: Duration = Duration::from_secs(30);

/// How long a connection that is asked to end may take for it.
const FAREWELL: Duration = Duration::from_secs(10);

/// How long a connection that was accepted before the signal to stop may take for its first request. Clients retry
/// by themselves when a connection they had used before is closed, but not when it is a new one.
const FIRST_REQUEST: Duration = Duration::from_secs(1);

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
        tokio::select! {
            biased;
            end = connection.as_mut() => return log(end),
            () = told_to_stop(&mut shutdown) => {
                if let Some(end) = first_answer(connection.as_mut(), &answered).await {
                    return log(end);
                }
            }
            () = rests(&answered) => {}
        }
        connection.as_mut().graceful_shutdown();
        if let Ok(end) = timeout(FAREWELL, connection).await {
            log(end);
        }
    }
}

/// Ends when the signal turns true or its sender is gone.
pub(super) async fn told_to_stop(signal: &mut watch::Receiver<bool>) {
    let _ = signal.wait_for(|stop| *stop).await;
}

/// Ends after a whole [`IDLE`] period without an answer.
async fn rests(answered: &AtomicU64) {
    let mut before = None;
    loop {
        let now = answered.load(Ordering::Relaxed);
        if before == Some(now) {
            return;
        }
        before = Some(now);
        sleep(IDLE).await;
    }
}

/// Drives a connection until it has answered once, ended, or had its time; returns how it ended.
async fn first_answer<C: Future>(mut connection: Pin<&mut C>, answered: &AtomicU64) -> Option<C::Output> {
    let step = poll_fn(|context| {
        let end = connection.as_mut().poll(context);
        match (end, answered.load(Ordering::Relaxed)) {
            (Poll::Ready(end), _) => Poll::Ready(Some(end)),
            (Poll::Pending, 0) => Poll::Pending,
            (Poll::Pending, _) => Poll::Ready(None),
        }
    });
    timeout(FIRST_REQUEST, step).await.ok().flatten()
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

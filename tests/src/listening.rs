//! The one accept loop of the servers and proxies of ours.

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// A listener, each of whose connections is served by a task of its own. All of it ends when it is dropped.
#[derive(Debug)]
pub struct Listening {
    accepting: JoinHandle<()>,
}

impl Listening {
    /// Serves every connection to `listener`.
    pub fn on<F>(listener: TcpListener, mut serve: impl FnMut(TcpStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let accepting = tokio::spawn(async move {
            // Ends the connections with this task.
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => match accepted {
                        Ok((stream, _)) => _ = connections.spawn(serve(stream)),
                        // Of a connection that has ended before it was accepted.
                        Err(_) => tokio::task::yield_now().await,
                    },
                    Some(_) = connections.join_next() => {}
                }
            }
        });
        Self { accepting }
    }

    /// Closes the listener and its connections; they are closed when this returns.
    pub async fn close(mut self) {
        self.accepting.abort();
        // It ends as cancelled.
        let _ = (&mut self.accepting).await;
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Answers the HTTP/1.1 requests of a connection until it ends. An error of `answer` closes it.
pub async fn serve_http<F, E>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    answer: impl Fn(Request<Incoming>) -> F,
) where
    F: Future<Output = Result<Response<Full<Bytes>>, E>>,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let server = hyper::server::conn::http1::Builder::new();
    // An error is a client that has gone.
    let _ = server.serve_connection(TokioIo::new(stream), hyper::service::service_fn(answer)).await;
}

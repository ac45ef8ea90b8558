//! The operators' port, on this machine alone: whether this process lives, whether it can sign, and what it counts.
//!
//! | path | answer |
//! |---|---|
//! | `/livez` | 200 as long as requests are answered at all |
//! | `/readyz` | 200 while there is a key that signs |
//! | `/metrics` | every metric of [`crate::metrics`], and of a rotation that runs here |

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use chancery_cluster::listener::{Connections, ListenError, Listener};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use tokio::sync::watch;

use crate::metrics::{MEDIA_TYPE, Metrics, Shown};
use crate::record::RecordKeeper;
use crate::rotation::RotationMetrics;
use crate::signer_keys::SignerKeysReceiver;

/// A bound port that does not answer yet.
#[derive(Debug)]
pub struct Admin {
    listener: Listener,
    watched: Watched,
}

/// What the port shows.
#[derive(Clone, Debug)]
pub struct Watched {
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// The keys.
    pub keys: SignerKeysReceiver,
    /// The lifetimes.
    pub record: Arc<RecordKeeper>,
    /// The rotation, if one runs here.
    pub rotation: Option<Arc<RotationMetrics>>,
}

impl Admin {
    /// Takes the address.
    ///
    /// # Errors
    /// When it is not one of this machine alone, or cannot be had.
    pub async fn bind(address: SocketAddr, watched: Watched) -> Result<Self, AdminError> {
        if !address.ip().is_loopback() {
            return Err(AdminError::Public(address));
        }
        let listener = Listener::plain(address, &Connections::default()).await?;
        Ok(Self { listener, watched })
    }

    /// Answers until `shutdown` turns true or its sender is gone.
    pub async fn run(self, shutdown: watch::Receiver<bool>) {
        let watched = self.watched;
        let answer = service_fn(move |request: Request<Incoming>| {
            let answer = watched.answer(request.uri().path());
            async move { Ok::<_, Infallible>(answer) }
        });
        self.listener.run(answer, shutdown).await;
    }
}

impl Watched {
    fn answer(&self, path: &str) -> Response<Full<Bytes>> {
        let keys = self.keys.borrow().clone();
        match path {
            "/livez" => text(StatusCode::OK, "ok\n"),
            "/readyz" if keys.as_ref().is_some_and(|keys| keys.active().is_some()) => {
                text(StatusCode::OK, "ready\n")
            }
            "/readyz" => text(StatusCode::SERVICE_UNAVAILABLE, "no key signs\nnot ready\n"),
            "/metrics" => {
                let signed = self.record.recorded().signed.into_iter().collect();
                let page = self.metrics.render(&Shown { keys, signed });
                match page.and_then(|page| self.with_rotation(page)) {
                    Ok(page) => of_type(text(StatusCode::OK, page), MEDIA_TYPE),
                    Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, ""),
                }
            }
            _ => text(StatusCode::NOT_FOUND, "expected /livez, /readyz or /metrics\n"),
        }
    }
}

impl Watched {
    /// One page ends once (OpenMetrics 1.0, section "Overall Structure").
    fn with_rotation(&self, page: String) -> Result<String, std::fmt::Error> {
        let Some(rotation) = &self.rotation else { return Ok(page) };
        let ours = page.strip_suffix("# EOF\n").unwrap_or(&page);
        Ok([ours, &rotation.render()?].concat())
    }
}

fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(text.into()));
    *answer.status_mut() = status;
    of_type(answer, "text/plain; charset=utf-8")
}

fn of_type(mut answer: Response<Full<Bytes>>, media_type: &'static str) -> Response<Full<Bytes>> {
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    answer
}

/// Why there is no operators' port.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// An address that others can reach.
    #[error(
        "the operators' port at {0} could be reached from elsewhere, and a process that holds private keys listens to nobody else; expected an address of this machine alone, such as 127.0.0.1:9650"
    )]
    Public(SocketAddr),
    /// The address is not to be had.
    #[error(transparent)]
    Listen(#[from] ListenError),
}

//! An HTTPS server on a free loopback port, whose certificate and answers a test chooses.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, combinators::BoxBody};
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::pki_types::PrivateKeyDer;
use rustls::{HandshakeKind, ServerConfig};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// A CA and the certificates it issues.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    pub fn new() -> Self {
        Self::named("authority")
    }

    pub fn named(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// The CA certificate.
    pub fn pem(&self) -> Vec<u8> {
        self.pem.clone().into_bytes()
    }

    fn server_config(&self, certificate: &Certificate) -> ServerConfig {
        let mut params = CertificateParams::new(vec![certificate.name.to_owned()]).unwrap();
        if certificate.expired {
            (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
        }
        let key = KeyPair::generate().unwrap();
        let chain = vec![params.signed_by(&key, &self.issuer).unwrap().der().clone()];
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config = builder.unwrap().with_no_client_auth().with_single_cert(chain, key).unwrap();
        config.alpn_protocols = certificate.protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        config
    }
}

/// What the server proves to be.
pub struct Certificate {
    pub name: &'static str,
    pub expired: bool,
    /// ALPN names, the preferred first.
    pub protocols: &'static [&'static str],
}

impl Default for Certificate {
    fn default() -> Self {
        Self { name: "id.example.com", expired: false, protocols: &["h2", "http/1.1"] }
    }
}

/// What one path answers.
#[derive(Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    pub manner: Manner,
}

/// How an answer is given.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    Whole,
    /// Never.
    Hang,
    /// The body breaks off.
    CutOff,
}

/// A running server; it stops when dropped.
pub struct Server {
    pub address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

/// What clients did.
#[derive(Default)]
pub struct Seen {
    pub handshakes: Vec<Option<HandshakeKind>>,
    pub requests: Vec<(String, HeaderMap)>,
}

impl Server {
    pub async fn start(
        authority: &Authority,
        certificate: Certificate,
        answers: BTreeMap<String, Answer>,
    ) -> Self {
        let acceptor = TlsAcceptor::from(Arc::new(authority.server_config(&certificate)));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let task = tokio::spawn(serve(listener, acceptor, Arc::new(answers), seen.clone()));
        Self { address, seen, task }
    }

    pub fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Answers = Arc<BTreeMap<String, Answer>>;

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, answers: Answers, seen: Arc<Mutex<Seen>>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (acceptor, answers, seen) = (acceptor.clone(), answers.clone(), seen.clone());
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            seen.lock().unwrap().handshakes.push(stream.get_ref().1.handshake_kind());
            let service = service_fn(|request| answer(request, answers.clone(), seen.clone()));
            let connection = Builder::new(TokioExecutor::new());
            let _ = connection.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    answers: Answers,
    seen: Arc<Mutex<Seen>>,
) -> Result<Response<BoxBody<Bytes, std::io::Error>>, Infallible> {
    let asked = request.uri().path_and_query().map_or("", |asked| asked.as_str());
    let line = format!("{} {asked}", request.method());
    seen.lock().unwrap().requests.push((line, request.headers().clone()));
    let whole = |body: Vec<u8>| Full::from(body).map_err(|never: Infallible| match never {}).boxed();
    // What is put under `PATH?` answers questions with a query, where it is there.
    let past_caches = request.uri().query().and_then(|_| answers.get(&format!("{}?", request.uri().path())));
    let Some(answer) = past_caches.or_else(|| answers.get(request.uri().path())).cloned() else {
        return Ok(Response::builder().status(404).body(whole(Vec::new())).unwrap());
    };
    let mut response = Response::builder().status(answer.status);
    for (name, value) in answer.headers {
        response = response.header(name, value);
    }
    let body = match answer.manner {
        Manner::Whole => whole(answer.body),
        Manner::Hang => std::future::pending().await,
        Manner::CutOff => BrokenOff { piece: Some(answer.body.into()), waited: false }.boxed(),
    };
    Ok(response.body(body).unwrap())
}

/// A body that fails after its first piece was sent.
struct BrokenOff {
    piece: Option<Bytes>,
    waited: bool,
}

impl Body for BrokenOff {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Some(piece) = self.piece.take() {
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        // hyper writes out what it has when a body has nothing for it yet.
        if !std::mem::replace(&mut self.waited, true) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Some(Err(std::io::Error::other("broken off on purpose"))))
    }
}

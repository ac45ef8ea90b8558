//! One more address of an issuer's host, as a CDN has many: it passes questions on to the origin, or answers from an
//! old copy, or not at all, as a test says.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{AGE, CACHE_CONTROL, CONTENT_TYPE};
use hyper::{Request, Response};
use tokio::net::TcpListener;

use crate::authority::ServerCertificate;
use crate::listening::{Listening, serve_http};

/// How an edge answers.
#[derive(Clone, Debug, Default)]
pub enum Manner {
    /// As the origin does.
    #[default]
    Through,
    /// From an old copy, whatever the question: a server that was not told.
    Old(Copy),
    /// From an old copy of that age in seconds; a question with a query is passed on.
    Cached(Copy, u64),
    /// Every connection is closed before it is one.
    Down,
}

/// Documents by path.
pub type Copy = BTreeMap<String, Document>;

/// An answer that is kept.
#[derive(Clone, Debug)]
pub struct Document {
    /// The whole body.
    pub body: Vec<u8>,
    /// The headers that matter.
    pub headers: Vec<(hyper::header::HeaderName, String)>,
}

/// A running edge, which stops when it is dropped.
#[derive(Debug)]
pub struct Edge {
    shared: Arc<Shared>,
    _listening: Listening,
}

#[derive(Debug)]
struct Shared {
    client: reqwest::Client,
    /// What stands before the path in a question to the origin.
    origin: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    manner: Manner,
    asked: usize,
}

impl Edge {
    /// Listens at `address` with `certificate`, in front of `origin` (scheme, host and port), which `client` reaches.
    pub async fn start(
        address: SocketAddr,
        certificate: &ServerCertificate,
        (client, origin): (&reqwest::Client, &str),
    ) -> Result<Self> {
        let listener = TcpListener::bind(address).await.with_context(|| format!("listen on {address}"))?;
        let acceptor = certificate.acceptor()?;
        let (client, origin) = (client.clone(), origin.to_owned());
        let shared = Arc::new(Shared { client, origin, state: Mutex::default() });
        let answering = shared.clone();
        let listening = Listening::on(listener, move |stream| {
            let (acceptor, shared) = (acceptor.clone(), answering.clone());
            async move {
                if shared.is_down() {
                    return;
                }
                let Ok(stream) = acceptor.accept(stream).await else { return };
                serve_http(stream, |request| shared.answer(request)).await;
            }
        });
        Ok(Self { shared, _listening: listening })
    }

    /// Answers in another manner from now on.
    pub fn answers(&self, manner: Manner) {
        self.shared.state().manner = manner;
    }

    /// How many connections it was offered so far.
    pub fn asked(&self) -> usize {
        self.shared.state().asked
    }

    /// A copy of what the origin answers now at these paths.
    pub async fn copy(&self, paths: &[&str]) -> Result<Copy> {
        let mut copy = Copy::new();
        for path in paths {
            copy.insert((*path).to_owned(), self.shared.fetch(path).await?);
        }
        Ok(copy)
    }
}

impl Shared {
    /// Counts a connection, and says whether it is refused.
    fn is_down(&self) -> bool {
        let mut state = self.state();
        state.asked += 1;
        matches!(state.manner, Manner::Down)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>> {
        let manner = self.state().manner.clone();
        let (path, query) = (request.uri().path(), request.uri().query());
        let asked = request.uri().path_and_query().map_or(path, |asked| asked.as_str());
        let (document, age) = match (manner, query) {
            (Manner::Old(copy), _) => (kept(&copy, path)?, None),
            (Manner::Cached(copy, age), None) => (kept(&copy, path)?, Some(age)),
            (Manner::Through | Manner::Cached(..), _) => (self.fetch(asked).await?, None),
            (Manner::Down, _) => bail!("down"),
        };
        let mut answer = Response::builder();
        for (name, value) in &document.headers {
            answer = answer.header(name, value);
        }
        if let Some(age) = age {
            answer = answer.header(AGE, age);
        }
        Ok(answer.body(Full::new(document.body.into()))?)
    }

    /// An error of the origin closes the connection.
    async fn fetch(&self, path: &str) -> Result<Document> {
        let answer = self.client.get(format!("{}{path}", self.origin)).send().await?.error_for_status()?;
        let header = |name: &hyper::header::HeaderName| {
            Some((name.clone(), answer.headers().get(name)?.to_str().ok()?.to_owned()))
        };
        let headers = [CONTENT_TYPE, CACHE_CONTROL].iter().filter_map(header).collect();
        Ok(Document { body: answer.bytes().await?.into(), headers })
    }
}

fn kept(copy: &Copy, path: &str) -> Result<Document> {
    copy.get(path).cloned().with_context(|| format!("no copy of {path}"))
}

//! Microsoft Entra as far as trust is concerned: the token endpoint, and the federated identity credentials of managed
//! identities (Azure Resource Manager) and applications (Microsoft Graph), all on one host with TLS.
//!
//! A fake of ours, so it is strict: what the real ones would refuse is refused here, and what nobody should send too.
//! A ServiceAccount token is exchanged only if a credential names its issuer, subject and audience exactly and its
//! signature holds against the JWKS that the issuer [shows](Entra::shows). A write while another one is under way for
//! the same identity is answered with 409, the 21st credential with 400.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use hyper::{Method, Request, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::authority::{Authority, LOOPBACK};
use crate::listening::{Listening, serve_http};
use crate::scratch::Scratch;
use crate::token::TokenSigner;

mod exchange;
mod registry;

/// The only directory.
pub const TENANT: &str = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee";
/// What a ServiceAccount token must be for.
pub const AUDIENCE: &str = "api://AzureADTokenExchange";
/// How many entries a page of a list has: fewer than an identity may have.
const PAGE: usize = 8;
/// How long a write is under way.
const WRITING: Duration = Duration::from_millis(30);

/// A running fake.
#[derive(Debug)]
pub struct Entra {
    url: String,
    shared: Arc<Shared>,
    _listening: Listening,
    _dir: Scratch,
}

/// An identity in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// By its resource id.
    Managed(String),
    /// By its client id, as everything else.
    Application,
}

/// A federated identity credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// Unchangeable.
    pub name: String,
    /// `iss`
    pub issuer: String,
    /// `sub`
    pub subject: String,
    /// `aud`
    pub audience: String,
    /// Of applications alone.
    pub description: Option<String>,
}

/// What was asked and answered, without bodies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// The answer.
    pub status: u16,
}

#[derive(Debug)]
struct Identity {
    kind: Kind,
    client_id: String,
    /// What it may call.
    permissions: BTreeSet<String>,
    credentials: Vec<Credential>,
    writing: bool,
}

#[derive(Debug)]
struct Shared {
    url: String,
    signer: TokenSigner,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    identities: Vec<Identity>,
    shown: BTreeMap<String, Value>,
    /// Each token given out: whose it is, and for what.
    issued: BTreeMap<String, (String, String)>,
    /// Answers that the next writes get instead.
    interruptions: VecDeque<Answer>,
    records: Vec<Record>,
}

/// An answer with a JSON body.
#[derive(Clone, Debug)]
struct Answer {
    status: u16,
    retry_after: Option<u64>,
    body: Value,
}

impl Answer {
    fn of(status: u16, body: Value) -> Self {
        Self { status, retry_after: None, body }
    }

    fn error(status: u16, code: &str, message: &str) -> Self {
        Self::of(status, json!({ "error": { "code": code, "message": message } }))
    }
}

/// A request, read whole.
struct Asked {
    method: Method,
    path: String,
    query: String,
    content_type: String,
    bearer: Option<String>,
    body: Bytes,
}

impl Entra {
    /// A directory without identities, whose certificate `authority` issues.
    pub async fn start(authority: &Authority) -> Result<Self> {
        let dir = Scratch::new("entra")?;
        let files = authority.issue(dir.path(), &LOOPBACK)?;
        let acceptor = files.acceptor()?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("https://{}", listener.local_addr()?);
        let signer = TokenSigner::generate()?;
        let shared = Arc::new(Shared { url: url.clone(), signer, state: Mutex::default() });
        let answering = shared.clone();
        let listening = Listening::on(listener, move |stream| {
            let (acceptor, shared) = (acceptor.clone(), answering.clone());
            async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                serve_http(stream, |request| shared.handle(request)).await;
            }
        });
        Ok(Self { url, shared, _listening: listening, _dir: dir })
    }

    /// `https://127.0.0.1:PORT`, which is every endpoint.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Adds an identity that may call what `permissions` say.
    pub fn add(&self, kind: Kind, client_id: &str, permissions: &[&str]) {
        self.shared.state().identities.push(Identity {
            kind,
            client_id: client_id.to_owned(),
            permissions: permissions.iter().map(|one| (*one).to_owned()).collect(),
            credentials: Vec::new(),
            writing: false,
        });
    }

    /// Replaces what an identity may call.
    pub fn permit(&self, client_id: &str, permissions: &[&str]) -> Result<()> {
        let permissions = permissions.iter().map(|one| (*one).to_owned()).collect();
        self.shared.state().by_client(client_id)?.permissions = permissions;
        Ok(())
    }

    /// Registers a credential, as somebody else would.
    pub fn register(&self, client_id: &str, credential: Credential) -> Result<()> {
        self.shared.state().by_client(client_id)?.credentials.push(credential);
        Ok(())
    }

    /// The credentials of an identity.
    pub fn credentials(&self, client_id: &str) -> Result<Vec<Credential>> {
        Ok(self.shared.state().by_client(client_id)?.credentials.clone())
    }

    /// The JWKS that anyone reads at an issuer.
    pub fn shows(&self, issuer: &str, jwks: Value) {
        self.shared.state().shown.insert(issuer.to_owned(), jwks);
    }

    /// The next write meets one of somebody else.
    pub fn somebody_else_writes(&self) {
        let answer = registry::concurrent();
        self.shared.state().interruptions.push_back(answer);
    }

    /// The next write is one too many.
    pub fn throttle(&self, seconds: u64) {
        let answer = Answer::error(429, "TooManyRequests", "The request is being throttled.");
        self.shared.state().interruptions.push_back(Answer { retry_after: Some(seconds), ..answer });
    }

    /// All requests so far.
    pub fn records(&self) -> Vec<Record> {
        self.shared.state().records.clone()
    }
}

impl State {
    fn by_client(&mut self, client_id: &str) -> Result<&mut Identity> {
        let found = self.identities.iter_mut().find(|identity| identity.client_id == client_id);
        found.with_context(|| format!("no identity {client_id}"))
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn handle(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>> {
        let (head, body) = request.into_parts();
        let header = |name| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let asked = Asked {
            method: head.method.clone(),
            path: head.uri.path().to_owned(),
            query: head.uri.query().unwrap_or_default().to_owned(),
            content_type: header(CONTENT_TYPE).to_owned(),
            bearer: header(AUTHORIZATION).strip_prefix("Bearer ").map(str::to_owned),
            body: body.collect().await?.to_bytes(),
        };
        let answer = if asked.path == format!("/{TENANT}/oauth2/v2.0/token") {
            self.exchange(&asked)
        } else {
            self.registry(&asked).await
        };
        let path = head.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
        self.state().records.push(Record { method: head.method, path, status: answer.status });
        let mut response = Response::builder().status(answer.status).header(CONTENT_TYPE, "application/json");
        if let Some(seconds) = answer.retry_after {
            response = response.header(RETRY_AFTER, seconds);
        }
        let body = if answer.status == 204 { Bytes::new() } else { answer.body.to_string().into() };
        Ok(response.body(Full::new(body))?)
    }
}

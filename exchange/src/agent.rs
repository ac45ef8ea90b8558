//! A local agent: the clouds' SDKs fetch a workload's credential from it as they do from a machine of their cloud.
//!
//! | room | what is in it |
//! |---|---|
//! | `guard` | who is answered at all: pure |
//! | [`secret`] | the token by which a client shows that it may ask |
//! | [`door`] | the loopback or a unix socket, and nothing else |
//! | `aws` | AWS's container credentials |
//! | `azure` | Azure's instance metadata, and the managed identity of App Service |
//! | `google` | Google's metadata server |
//! | [`variables`] | how SDKs are told where it is |
//! | [`admin`] | health and counts for an operator, elsewhere |
//! | `query`, `reply` | what is asked after the path, and what is sent back |
//!
//! It holds one workload's credentials, in the [`Cache`]: one exchange at a time, served while they are valid. A request
//! is held against the rules of `guard` first, so that nobody whom they refuse learns which paths there are.

use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chancery_wire::Secret;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::service::Service;
use jiff::Timestamp;
use tracing::{debug, warn};

use self::guard::{Guard, Proof};
use self::query::Query;
use self::reply::Reply;
use self::variables::Announced;
use crate::cache::{Ask, Cache, CacheOptions};
use crate::chain::{Chain, Runner};
use crate::credential::Credential;
use crate::error::ExchangeError;
use crate::metrics::{Metrics, Object};
use crate::provider::Provider;

pub mod admin;
mod aws;
mod azure;
pub mod door;
mod google;
mod guard;
mod query;
mod reply;
pub mod secret;
pub mod variables;

pub use admin::Admin;
pub use door::{Door, Place};

/// How many credentials an agent keeps: as many as there are audiences and sets of scopes that one workload asks for.
const ENTRIES: usize = 256;

/// What an agent answers beside its chain.
#[derive(Clone, Debug, Default)]
pub struct AgentOptions {
    /// What clients may ask for, by scope; where it is empty, anything that the identity may have.
    pub scopes: Vec<String>,
    /// By which clients show that they may ask. Without it anybody who can connect may, where the cloud's own shape has
    /// nothing of the kind.
    pub secret: Option<Secret>,
    /// The port of the door, which a request must name.
    pub port: Option<u16>,
    /// The project, where Google's clients ask for it.
    pub project: Option<String>,
    /// The longest that a credential is handed out, unless it is the cache's usual one.
    pub longest: Option<Duration>,
}

/// Answers requests of one machine for the credentials of one workload. Cheap to clone; clones share their cache.
#[derive(Clone)]
pub struct Agent {
    inner: Arc<Inner>,
}

struct Inner {
    chain: Chain,
    runner: Runner,
    cache: Cache,
    metrics: Arc<Metrics>,
    guard: Guard,
    shape: Shape,
}

/// Whose SDKs are answered.
enum Shape {
    Aws,
    Azure(azure::Identity),
    Google(google::Machine),
}

/// What a request comes to, before any exchange.
enum Asked {
    /// It is answered from what is known.
    Known(Reply),
    /// A credential, and how it is written.
    Credential(Box<Chain>, fn(&Credential, &Query, Timestamp) -> Result<Reply, ExchangeError>),
}

impl Agent {
    /// An agent for the credentials of a chain.
    ///
    /// # Errors
    /// When no SDK asks an agent for what the chain gives, or the shape needs a secret that is not given.
    pub fn new(chain: Chain, runner: Runner, options: AgentOptions) -> Result<Self, ExchangeError> {
        let usual = CacheOptions { entries: ENTRIES, ..CacheOptions::default() };
        let cache = Cache::new(CacheOptions { longest: options.longest.unwrap_or(usual.longest), ..usual });
        let (shape, proof) = match (&chain.provider, &chain.registry, options.secret) {
            (Provider::Aws(_), None, Some(secret)) => (Shape::Aws, Proof::Authorization(secret)),
            (Provider::Aws(_), None, None) => return Err(secret_needed()),
            (Provider::Azure(azure), None, secret) => {
                let identity = azure::Identity::new(azure, &options.scopes, secret.is_some());
                (Shape::Azure(identity), secret.map_or(Proof::Metadata, Proof::IdentityHeader))
            }
            (Provider::Google(google), None, None) => {
                let machine = google::Machine::new(google, &options.scopes, options.project);
                (Shape::Google(machine), Proof::MetadataFlavor)
            }
            (Provider::Google(_), None, Some(_)) => return Err(secret_unused()),
            _ => return Err(no_shape(&chain)),
        };
        let guard = Guard { port: options.port, proof };
        let metrics = Arc::new(Metrics::new(&cache));
        Ok(Self { inner: Arc::new(Inner { chain, runner, cache, metrics, guard, shape }) })
    }

    /// The credentials that it holds.
    pub fn cache(&self) -> &Cache {
        &self.inner.cache
    }

    /// What it counts.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.inner.metrics
    }

    /// The variables by which SDKs find it at an address.
    pub fn variables(&self, address: SocketAddr) -> Vec<Announced> {
        variables::of(&self.inner.shape, address)
    }

    /// The answer to a request.
    pub async fn answer<B: Body>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        let inner = &*self.inner;
        if let Err(refusal) = inner.guard.check(request) {
            debug!(refusal = refusal.in_words(), "a request was refused");
            return inner.shape.finish(inner.shape.refused(&refusal));
        }
        let reply = match Query::parse(request.uri().query().unwrap_or_default()) {
            Ok(query) => self.told(request.uri().path(), &query).await,
            Err(why) => inner.shape.bad_request(&why),
        };
        inner.shape.finish(reply)
    }

    async fn told(&self, path: &str, query: &Query) -> Reply {
        let inner = &*self.inner;
        let asked = match &inner.shape {
            Shape::Aws => aws::asked(&inner.chain, path),
            Shape::Azure(identity) => identity.asked(&inner.chain, path, query),
            Shape::Google(machine) => machine.asked(&inner.chain, path, query),
        };
        let (chain, write) = match asked {
            Asked::Known(reply) => return reply,
            Asked::Credential(chain, write) => (Arc::new(*chain), write),
        };
        let object = object(&chain);
        let key = chain.key(inner.runner.transport());
        let ask = Ask { tally: Some(inner.metrics.of(&object)), ..Ask::new(key, chain.labels.clone()) };
        let given = inner.cache.credential(&ask, || inner.runner.exchanging(&chain)).await;
        let written = given.and_then(|credential| write(&credential, query, Timestamp::now()));
        written.unwrap_or_else(|error| {
            inner.metrics.failed(&object, &error);
            warn!(%error, "no credential for a client");
            inner.shape.failed(&error)
        })
    }
}

impl Shape {
    fn refused(&self, refusal: &guard::Refusal) -> Reply {
        self.error(refusal.status(), "Refused", refusal.in_words())
    }

    fn bad_request(&self, why: &str) -> Reply {
        self.error(400, "BadRequest", why)
    }

    fn failed(&self, error: &ExchangeError) -> Reply {
        let reply = self.error(reply::status_of(error.class()), error.code(), &error.to_string());
        reply.retry_after(error.failure().retry_after)
    }

    fn error(&self, status: u16, code: &str, words: &str) -> Reply {
        match self {
            Self::Aws => aws::error(status, code, words),
            Self::Azure(_) => azure::error(status, code, words),
            Self::Google(_) => google::error(status, words),
        }
    }

    /// What every answer of the shape has.
    fn finish(&self, reply: Reply) -> Response<Full<Bytes>> {
        let reply = match self {
            Self::Google(_) => reply.header("metadata-flavor", "Google"),
            Self::Aws | Self::Azure(_) => reply,
        };
        reply.into_response()
    }
}

impl Service<Request<Incoming>> for Agent {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let agent = self.clone();
        Box::pin(async move { Ok(agent.answer(&request).await) })
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent").field("cache", &self.inner.cache).finish_non_exhaustive()
    }
}

/// Whose a request is counted as: the ServiceAccount's where one acts, otherwise the provider's.
fn object(chain: &Chain) -> Object {
    let operation = match &chain.provider {
        Provider::Aws(_) => "credentials",
        Provider::Google(google)
            if google
                .impersonation
                .as_ref()
                .is_some_and(|impersonation| impersonation.id_token_for.is_some()) =>
        {
            "identity"
        }
        _ => "token",
    };
    let (kind, namespace, name) = match &chain.labels.service_account {
        Some(account) => ("ServiceAccount", account.namespace(), account.name()),
        None => ("Agent", "", chain.provider.name()),
    };
    Object {
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        operation: operation.to_owned(),
    }
}

fn secret_needed() -> ExchangeError {
    ExchangeError::configuration("agent-without-secret")
        .came("an agent for AWS without a secret")
        .expected("a file of which clients send the content in `Authorization`")
        .remedy("name one with --token-file; it is made where it does not exist")
}

fn secret_unused() -> ExchangeError {
    ExchangeError::configuration("agent-secret-unused")
        .came("a secret, and Google's clients, which have no way to send one")
        .expected("no secret, and a loopback that no stranger shares, such as a pod's")
        .remedy("leave --token-file away")
}

fn no_shape(chain: &Chain) -> ExchangeError {
    let what = match &chain.registry {
        Some(_) => "a registry's login",
        None => chain.provider.name(),
    };
    ExchangeError::configuration("agent-without-shape")
        .came(&format!("{what}, which no SDK asks an agent for"))
        .expected("AWS, Azure or Google Cloud, without a registry")
        .remedy(
            "name --to aws, azure or gcp; for anything else, `chancery exchange get` writes files and pipes",
        )
}

//! Whom a repo-server asks for the login of a repository, so that it holds no identity itself and reads no ServiceAccount
//! `GET /v1/repositories/SECRET` on a unix socket.
//!
//! The name of a Secret is all that is asked with. Its fields are read from the cluster, so that nobody is given the login
//! of a project by saying that a repository belongs to it.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::service::Service;
use jiff::Timestamp;
use serde::Serialize;
use tracing::warn;
use zeroize::Zeroizing;

use super::fields::RepositorySecret;
use super::{Login, Settings, Subject, service_account};
use crate::cache::{Ask, Cache};
use crate::chain::{Chain, Identity, Runner};
use crate::credential::{Credential, CredentialKind, RegistryLogin};
use crate::error::{Class, ExchangeError};
use crate::limits::SUBJECT_LIFETIME_SECONDS;
use crate::metrics::{Metrics, Object};
use crate::output;
use crate::registry::Registry;
use crate::service_account::{ServiceAccount, ServiceAccountName, ServiceAccounts};
use crate::subject::{Environment, ServiceAccountSource, SubjectTokenSource};
use crate::tenancy::annotations::identity_of;

/// What every path begins with.
const PATH: &str = "/v1/repositories/";

/// The code of the error for a Secret that does not exist.
pub const MISSING: &str = "argocd-repository-missing";

/// The Secrets of repositories.
#[async_trait]
pub trait Repositories: Send + Sync {
    /// Reads one. That it does not exist is [`MISSING`].
    async fn read(&self, namespace: &str, name: &str) -> Result<RepositorySecret, ExchangeError>;
}

/// Gives the logins of repositories. Cheap to clone; clones share their cache and their counts.
#[derive(Clone)]
pub struct Resolver {
    inner: Arc<Inner>,
}

struct Inner {
    settings: Settings,
    repositories: Arc<dyn Repositories>,
    accounts: Arc<dyn ServiceAccounts>,
    environment: Environment,
    runner: Runner,
    cache: Cache,
    metrics: Arc<Metrics>,
}

/// Where a resolver looks.
pub struct Places {
    /// Secrets of repositories.
    pub repositories: Arc<dyn Repositories>,
    /// ServiceAccounts of projects.
    pub accounts: Arc<dyn ServiceAccounts>,
    /// Where SPIFFE's agent is.
    pub environment: Environment,
}

/// The login of a repository.
#[derive(Clone, Debug)]
pub enum Resolved {
    /// That which stands in the Secret, or none: no provider is named.
    Static,
    /// That of a workload's identity.
    Identity {
        /// The user and the password.
        login: RegistryLogin,
        /// Until when it is good, or is to be asked for again.
        expires_at: Timestamp,
        /// Whose it is.
        account: ServiceAccountName,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    credentials: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    username: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    password: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_account: Option<String>,
}

#[derive(Serialize)]
struct Failed<'a> {
    code: &'a str,
    message: &'a str,
}

impl Resolver {
    /// A resolver that asks nobody yet.
    pub fn new(settings: Settings, places: Places, runner: Runner, cache: Cache) -> Self {
        let Places { repositories, accounts, environment } = places;
        let metrics = Arc::new(Metrics::new(&cache));
        let inner = Inner { settings, repositories, accounts, environment, runner, cache, metrics };
        Self { inner: Arc::new(inner) }
    }

    /// The logins that it holds.
    pub fn cache(&self) -> &Cache {
        &self.inner.cache
    }

    /// What was asked for, counted by Secret.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.inner.metrics
    }

    /// The login of the repository of a Secret.
    ///
    /// # Errors
    /// Which step failed, and what to do. What stands in the Secret beside the provider is never put in its place.
    pub async fn resolve(&self, name: &str) -> Result<Resolved, ExchangeError> {
        let inner = &*self.inner;
        // A Secret's name is one of Kubernetes' as a ServiceAccount's is, and no path.
        let secret = ServiceAccountName::new(&inner.settings.namespace, name)?;
        let object = Object {
            kind: "Secret".to_owned(),
            namespace: secret.namespace().to_owned(),
            name: secret.name().to_owned(),
            operation: "login".to_owned(),
        };
        let resolved = inner.resolve(&object).await;
        match &resolved {
            // Whoever asks for what does not exist makes no counts.
            Err(error) if error.code() == MISSING => {
                inner.metrics.forget(&object.kind, &object.namespace, &object.name);
            }
            Err(error) => inner.metrics.failed(&object, error),
            Ok(_) => {}
        }
        resolved
    }

    /// The answer to a request.
    pub async fn answer<B: Body>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        let name = request.uri().path().strip_prefix(PATH);
        let Some(name) = name.filter(|name| !name.is_empty() && !name.contains('/')) else {
            return told(404, "not-found", "expected /v1/repositories/SECRET");
        };
        if request.method() != Method::GET || request.uri().query().is_some() {
            return told(405, "method", "expected a GET without a query");
        }
        match self.resolve(name).await {
            Ok(resolved) => write(&resolved),
            Err(error) => {
                warn!(%error, secret = name, "no login for a repository");
                let mut response = told(status_of(&error), error.code(), &error.to_string());
                let wait = error.failure().retry_after.map(|wait| HeaderValue::from(wait.as_secs().max(1)));
                response.headers_mut().extend(wait.map(|wait| (RETRY_AFTER, wait)));
                response
            }
        }
    }
}

impl Inner {
    async fn resolve(&self, asks: &Object) -> Result<Resolved, ExchangeError> {
        let secret = self.repositories.read(&asks.namespace, &asks.name).await?;
        let repository = secret.repository()?;
        let Some(identity) = &repository.identity else { return Ok(Resolved::Static) };
        let account = service_account(&self.settings.namespace, &repository.project)?;
        let given = async {
            let account = self.accounts.read(&account).await?;
            let login = repository.login(identity, &account, &self.settings)?;
            self.credential(login, account, asks).await
        };
        let (login, expires_at) = given.await.map_err(|error| match repository.has_static {
            true => error.remedy(
                "the Secret has static credentials as well, which are not used; leave workloadIdentityProvider out to go back to them",
            ),
            false => error,
        })?;
        Ok(Resolved::Identity { login, expires_at, account })
    }

    /// The login, kept no longer than any credential is.
    async fn credential(
        &self,
        login: Login,
        account: ServiceAccount,
        asks: &Object,
    ) -> Result<(RegistryLogin, Timestamp), ExchangeError> {
        let name = account.name.clone();
        let subject = match &login.subject {
            Subject::ServiceAccount => name.subject(),
            Subject::Spiffe(id) => id.clone(),
        };
        let source = self.source(&login.subject, account)?;
        let identity = Identity { name: identity_of(&login.provider), service_account: Some(name) };
        let mut chain = Chain::new(source, login.provider, identity);
        chain.expectation.subject = Some(subject);
        let registry = login.registry.map(Registry::new).transpose()?;
        chain.registry = registry.map(|registry| match &self.settings.endpoints.registry {
            Some(endpoint) => registry.at(endpoint.clone()),
            None => registry,
        });
        let chain = Arc::new(chain);
        let key = chain.key(self.runner.transport());
        let ask = Ask { tally: Some(self.metrics.of(asks)), ..Ask::new(key, chain.labels.clone()) };
        let credential = self.cache.credential(&ask, || self.runner.exchanging(&chain)).await?;
        let hour = credential.issued_at.checked_add(crate::cache::CacheOptions::default().longest);
        let ends = hour.unwrap_or(credential.expires_at).min(credential.expires_at);
        Ok((as_login(&credential, &login.host, &login.username)?, ends))
    }

    fn source(
        &self,
        subject: &Subject,
        account: ServiceAccount,
    ) -> Result<Arc<dyn SubjectTokenSource>, ExchangeError> {
        match subject {
            Subject::ServiceAccount => Ok(Arc::new(ServiceAccountSource {
                cluster: self.accounts.clone(),
                account,
                seconds: SUBJECT_LIFETIME_SECONDS,
                bound: None,
            })),
            #[cfg(feature = "spiffe")]
            Subject::Spiffe(id) => {
                let wanted = Some(id.parse()?);
                Ok(Arc::new(crate::subject::WorkloadApi::new(&self.environment, wanted)?))
            }
            #[cfg(not(feature = "spiffe"))]
            Subject::Spiffe(id) => {
                let variables = &self.environment;
                Err(ExchangeError::configuration("no-spiffe")
                    .came(&format!("{id}, and a build without SPIFFE ({variables:?})")))
            }
        }
    }
}

/// A bearer token as the password of the repository's host; a login as it is, for that host alone.
fn as_login(credential: &Credential, host: &str, username: &str) -> Result<RegistryLogin, ExchangeError> {
    match &credential.kind {
        CredentialKind::Registry(login) if login.host == host => Ok(login.clone()),
        CredentialKind::Bearer(bearer) => Ok(RegistryLogin {
            host: host.to_owned(),
            username: username.to_owned(),
            password: bearer.token.clone(),
        }),
        _ => Err(ExchangeError::configuration("argocd-credential")
            .came(&format!("{} for {host}", credential.kind_in_words()))
            .expected("a login of the repository's host")),
    }
}

fn write(resolved: &Resolved) -> Response<Full<Bytes>> {
    let answer = match resolved {
        Resolved::Static => Answer {
            credentials: "static",
            username: None,
            password: None,
            expires_at: None,
            service_account: None,
        },
        Resolved::Identity { login, expires_at, account } => Answer {
            credentials: "workloadIdentity",
            username: Some(&login.username),
            password: Some(login.password.expose()),
            expires_at: Some(expires_at.to_string()),
            service_account: Some(account.to_string()),
        },
    };
    match output::json(&answer) {
        Ok(text) => response(200, text),
        Err(error) => told(500, error.code(), &error.to_string()),
    }
}

fn told(status: u16, code: &str, message: &str) -> Response<Full<Bytes>> {
    response(status, output::json(&Failed { code, message }).unwrap_or_default())
}

/// An answer whose body is wiped when it was sent.
fn response(status: u16, mut text: Zeroizing<String>) -> Response<Full<Bytes>> {
    let body = Zeroizing::new(std::mem::take(&mut *text).into_bytes());
    let mut response = Response::new(Full::new(Bytes::from_owner(body)));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Whether it makes sense to ask again: after 429 and 503, and not after 4xx.
fn status_of(error: &ExchangeError) -> u16 {
    match error.class() {
        Class::Permanent if error.code() == MISSING => 404,
        Class::Permanent => 422,
        Class::Throttled => 429,
        Class::Transient | Class::Expired | Class::Source => 503,
    }
}

impl Service<Request<Incoming>> for Resolver {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let resolver = self.clone();
        Box::pin(async move { Ok(resolver.answer(&request).await) })
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").field("cache", &self.inner.cache).finish_non_exhaustive()
    }
}

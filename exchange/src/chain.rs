//! From a subject token to a credential: source, preflight, provider, registry.
//!
//! Each try takes a subject token of its own, so that what is sent is fresh however long the tries last. What a wait
//! mends is tried again; what a fresh token mends is tried again once; the rest is told at once.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use chancery_wire::{CallError, RetryBudget};
use jiff::Timestamp;

use crate::cache::{Exchanging, Labels};
use crate::credential::Credential;
use crate::error::{Class, ExchangeError};
use crate::key::{CacheKey, KeyBuilder};
use crate::limits;
use crate::preflight::{self, Expectation};
use crate::provider::Provider;
use crate::registry::Registry;
use crate::service_account::ServiceAccountName;
use crate::subject::SubjectTokenSource;
use crate::token::UnverifiedToken;
use crate::transport::Transport;

/// How often a refusal is tried again that comes sporadically to identities that work.
const SETTLING: u32 = 2;

/// The way from a subject token to a credential.
#[derive(Clone)]
pub struct Chain {
    /// Where subject tokens come from.
    pub source: Arc<dyn SubjectTokenSource>,
    /// Who exchanges them.
    pub provider: Provider,
    /// The registry whose login is wanted at last.
    pub registry: Option<Registry>,
    /// What subject tokens have to be.
    pub expectation: Expectation,
    /// Whose credential it is.
    pub labels: Labels,
}

impl Chain {
    /// A chain from a source to a provider, with what that expects of tokens.
    pub fn new(source: Arc<dyn SubjectTokenSource>, provider: Provider, identity: Identity) -> Self {
        let expectation = provider.expectation();
        let labels = Labels {
            provider: provider.name(),
            identity: identity.name,
            service_account: identity.service_account,
        };
        Self { source, provider, registry: None, expectation, labels }
    }

    /// The name of its credential in a cache: everything that it depends on.
    pub fn key(&self, transport: &Transport) -> CacheKey {
        let mut key = KeyBuilder::default();
        self.source.describe(&mut key);
        self.provider.describe(&mut key);
        Registry::describe(self.registry.as_ref(), &mut key);
        transport.options().describe(&mut key);
        key.text("identity", &self.labels.identity)
            .list("audiences", &self.expectation.audiences)
            .optional("issuer", self.expectation.issuer.as_deref())
            .optional("subject", self.expectation.subject.as_deref());
        key.finish()
    }

    /// The audience that subject tokens are asked with.
    pub fn audience(&self) -> &str {
        self.expectation.audiences.first().map_or("", String::as_str)
    }

    /// A subject token that was held against what is expected of it.
    ///
    /// # Errors
    /// When there is none, or it would be refused.
    pub async fn subject(&self) -> Result<UnverifiedToken, ExchangeError> {
        let token = self.source.token(self.audience()).await?;
        let preflight = preflight::check(&token, &self.expectation, Timestamp::now());
        preflight.verdict(&token)?;
        if let Some(wait) = preflight.wait {
            tokio::time::sleep(wait).await;
        }
        Ok(token)
    }

    async fn once(&self, transport: &Transport) -> Result<Credential, ExchangeError> {
        let subject = self.subject().await?;
        self.provider.exchange(transport, &subject).await
    }
}

/// Whose credential a chain gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The identity at the provider.
    pub name: String,
    /// The ServiceAccount, unless it is this process's own identity.
    pub service_account: Option<ServiceAccountName>,
}

/// Runs chains.
#[derive(Clone)]
pub struct Runner {
    transport: Transport,
    /// Identities that have worked, by the keys of their chains.
    proven: Arc<Mutex<HashSet<CacheKey>>>,
}

impl Runner {
    /// A runner of chains over one transport.
    pub fn new(transport: Transport) -> Self {
        Self { transport, proven: Arc::default() }
    }

    /// The transport.
    pub fn transport(&self) -> &Transport {
        &self.transport
    }

    /// The same work as a value, for a cache.
    pub fn exchanging(&self, chain: &Arc<Chain>) -> Exchanging {
        let (runner, chain) = (self.clone(), chain.clone());
        Box::pin(async move { runner.run(&chain).await })
    }

    /// The credential at the end of a chain, within [`limits::EXCHANGE`] (R0-26).
    ///
    /// # Errors
    /// Which step failed, and what to do.
    pub async fn run(&self, chain: &Chain) -> Result<Credential, ExchangeError> {
        let whole = tokio::time::timeout(limits::EXCHANGE, self.legs(chain)).await;
        whole.unwrap_or_else(|_| Err(ExchangeError::deadline(limits::EXCHANGE)))
    }

    async fn legs(&self, chain: &Chain) -> Result<Credential, ExchangeError> {
        let key = chain.key(&self.transport);
        let tries = Tries { is_proven: self.is_proven(&key), ..Tries::default() };
        let renewable = chain.source.can_renew();
        let credential = budget()
            .run(|| async { chain.once(&self.transport).await.map_err(|error| tries.sort(error, renewable)) })
            .await?;
        self.remember(key);
        let Some(registry) = &chain.registry else { return Ok(credential) };
        let registry_tries = Tries::default();
        budget()
            .run(|| async {
                let login = registry.login(&self.transport, &credential).await;
                login.map_err(|error| registry_tries.sort(error, false))
            })
            .await
    }

    fn is_proven(&self, key: &CacheKey) -> bool {
        self.proven.lock().unwrap_or_else(PoisonError::into_inner).contains(key)
    }

    fn remember(&self, key: CacheKey) {
        let mut proven = self.proven.lock().unwrap_or_else(PoisonError::into_inner);
        if proven.len() >= limits::KNOWN_IDENTITIES {
            proven.clear();
        }
        proven.insert(key);
    }
}

/// What was tried already.
#[derive(Default)]
struct Tries {
    is_proven: bool,
    renewals: AtomicU32,
    settlings: AtomicU32,
}

impl Tries {
    /// Whether a failure is tried again.
    fn sort(&self, error: ExchangeError, renewable: bool) -> CallError<ExchangeError> {
        let again = match error.class() {
            Class::Transient => true,
            // To come back sooner than asked is what throttling is about.
            Class::Throttled => error.failure().retry_after.is_none_or(|wait| wait <= limits::LONGEST_PAUSE),
            Class::Expired => renewable && self.renewals.fetch_add(1, Ordering::Relaxed) == 0,
            Class::Permanent => {
                error.failure().may_settle
                    && self.is_proven
                    && self.settlings.fetch_add(1, Ordering::Relaxed) < SETTLING
            }
            Class::Source => false,
        };
        let retry_after = error.failure().retry_after;
        if again { CallError::Transient { error, retry_after } } else { CallError::Permanent(error) }
    }
}

fn budget() -> RetryBudget {
    RetryBudget {
        total: limits::EXCHANGE / 2,
        jitter: true,
        ..RetryBudget::of_attempts(limits::ATTEMPTS, limits::FIRST_PAUSE, limits::LONGEST_PAUSE)
    }
}

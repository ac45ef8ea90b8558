//! The SDK of Google Cloud (<https://docs.rs/google-cloud-auth>).

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use google_cloud_auth::credentials::{CacheableResource, CredentialsProvider, EntityTag};
use google_cloud_auth::errors::CredentialsError;
use http::header::AUTHORIZATION;
use http::{Extensions, HeaderMap};
use sha2::{Digest as _, Sha256};

use super::{Way, unsuitable};
use crate::cache::Cache;
use crate::chain::{Chain, Runner};
use crate::credential::{Credential, CredentialKind};
use crate::error::{Class, ExchangeError};
use crate::provider::Provider;
use crate::tenancy::{Cloud, Operation, Tenants};

/// What the public universe is called; of it a client needs not be told.
const PUBLIC: &str = "googleapis.com";

type Result<T> = std::result::Result<T, CredentialsError>;

/// Gives the SDK of Google Cloud the tokens of a workload, for the scopes of its chain. Cheap to clone; clones share their
/// cache.
#[derive(Clone)]
pub struct GoogleBridge {
    way: Way,
    universe: Option<String>,
    last: Arc<Mutex<Option<Last>>>,
}

/// The token that was given last: its digest, and what the SDK knows it by.
struct Last {
    digest: [u8; 32],
    tag: EntityTag,
}

impl GoogleBridge {
    /// The tokens at the end of a chain.
    ///
    /// # Errors
    /// When the chain does not end at Google Cloud: a client would send whatever it gives there.
    pub fn new(chain: Arc<Chain>, runner: Runner, cache: Cache) -> std::result::Result<Self, ExchangeError> {
        let host = match (&chain.provider, &chain.registry) {
            (Provider::Google(google), None) => google.endpoint.host().to_owned(),
            _ => return Err(not_google(chain.provider.name())),
        };
        Ok(Self::of(Way::Chain(chain, runner, cache), &host))
    }

    /// The tokens of a tenant's object.
    ///
    /// # Errors
    /// When the tenants' identities are not of Google Cloud.
    pub fn of_tenant(
        tenants: Arc<Tenants>,
        operation: Operation,
    ) -> std::result::Result<Self, ExchangeError> {
        let host = match (&tenants.cloud, &operation.registry) {
            (Cloud::Google { sts, .. }, None) => sts.host().to_owned(),
            _ => return Err(not_google("what the tenants' identities are of")),
        };
        Ok(Self::of(Way::Tenant(tenants, Box::new(operation)), &host))
    }

    fn of(way: Way, sts: &str) -> Self {
        let universe = sts.strip_prefix("sts.").filter(|universe| *universe != PUBLIC);
        Self { way, universe: universe.map(str::to_owned), last: Arc::default() }
    }

    /// What the SDK knows a token by: the same as long as the token is.
    fn tag(&self, token: &str) -> EntityTag {
        let digest: [u8; 32] = Sha256::digest(token).into();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some(last) if last.digest == digest => last.tag.clone(),
            _ => last.insert(Last { digest, tag: EntityTag::new() }).tag.clone(),
        }
    }

    fn headers_of(
        &self,
        credential: &Credential,
        known: Option<&EntityTag>,
    ) -> std::result::Result<CacheableResource<HeaderMap>, ExchangeError> {
        let expected = "a token of Google Cloud";
        let CredentialKind::Bearer(bearer) = &credential.kind else {
            return Err(unsuitable(credential, expected));
        };
        let entity_tag = self.tag(bearer.token.expose());
        if known == Some(&entity_tag) {
            return Ok(CacheableResource::NotModified);
        }
        let value = bearer.token.bearer().map_err(|_| unsuitable(credential, expected))?;
        Ok(CacheableResource::New { entity_tag, data: HeaderMap::from_iter([(AUTHORIZATION, value)]) })
    }
}

impl CredentialsProvider for GoogleBridge {
    async fn headers(&self, extensions: Extensions) -> Result<CacheableResource<HeaderMap>> {
        let given = self.way.credential(&[]).await;
        given.and_then(|credential| self.headers_of(&credential, extensions.get())).map_err(told)
    }

    async fn universe_domain(&self) -> Option<String> {
        self.universe.clone()
    }
}

/// An SDK asks again where it is told that this may help.
fn told(error: ExchangeError) -> CredentialsError {
    let passes = matches!(error.class(), Class::Transient | Class::Throttled);
    CredentialsError::from_source(passes, error)
}

fn not_google(came: &str) -> ExchangeError {
    ExchangeError::configuration("bridge-cloud")
        .came(&format!("{came}, or a registry's login, for the SDK of Google Cloud"))
        .expected("a chain to Google Cloud, without a registry")
}

impl fmt::Debug for GoogleBridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GoogleBridge")
    }
}

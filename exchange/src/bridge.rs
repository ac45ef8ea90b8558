//! Credentials as the SDK of AWS for Rust asks for them, for a program that has both in it. The SDKs of the other clouds, and
//! those of other languages, ask the `agent`.
//!
//! Nothing is frozen into a client: each time that the SDK wants credentials the cache is asked, so that a changed
//! annotation, a ServiceAccount that is gone and a purge count as soon as the SDK asks again (R0-24), which is when what it
//! was given ends.

use std::fmt;
use std::sync::Arc;

use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{self, ProvideCredentials, future};

use crate::cache::{Ask, Cache};
use crate::chain::{Chain, Runner};
use crate::credential::{Credential, CredentialKind};
use crate::error::ExchangeError;
use crate::tenancy::{Operation, Tenants};

/// What the SDK calls the origin of these credentials.
const NAME: &str = "chancery";

/// Gives the SDK of AWS the keys of a workload. Cheap to clone; clones share their cache.
#[derive(Clone)]
pub struct AwsBridge(Way);

#[derive(Clone)]
enum Way {
    Chain(Arc<Chain>, Runner, Cache),
    Tenant(Arc<Tenants>, Operation),
}

impl AwsBridge {
    /// The keys at the end of a chain.
    pub fn new(chain: Arc<Chain>, runner: Runner, cache: Cache) -> Self {
        Self(Way::Chain(chain, runner, cache))
    }

    /// The keys of a tenant's object.
    pub fn of_tenant(tenants: Arc<Tenants>, operation: Operation) -> Self {
        Self(Way::Tenant(tenants, operation))
    }

    async fn keys(&self) -> provider::Result {
        let given = match &self.0 {
            Way::Chain(chain, runner, cache) => {
                let ask = Ask::new(chain.key(runner.transport()), chain.labels.clone());
                cache.credential(&ask, || runner.exchanging(chain)).await
            }
            Way::Tenant(tenants, operation) => tenants.credential(operation).await,
        };
        let given = given.map_err(CredentialsError::provider_error)?;
        keys(&given)
    }
}

fn keys(credential: &Credential) -> provider::Result {
    let CredentialKind::Aws(keys) = &credential.kind else {
        let error = ExchangeError::configuration("bridge-credential")
            .came(&format!("{} for an SDK of AWS", credential.kind_in_words()))
            .expected("a chain to AWS, without a registry");
        return Err(CredentialsError::invalid_configuration(error));
    };
    let token = keys.session_token.as_ref().map(|token| token.expose().to_owned());
    let ends = Some(credential.expires_at.into());
    Ok(Credentials::new(&keys.access_key_id, keys.secret_access_key.expose(), token, ends, NAME))
}

impl ProvideCredentials for AwsBridge {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(self.keys())
    }
}

impl fmt::Debug for AwsBridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AwsBridge")
    }
}

//! The SDK of AWS (<https://docs.rs/aws-credential-types>).

use std::fmt;
use std::sync::Arc;

use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{self, ProvideCredentials, future};

use super::{Way, unsuitable};
use crate::cache::Cache;
use crate::chain::{Chain, Runner};
use crate::credential::{Credential, CredentialKind};
use crate::tenancy::{Operation, Tenants};

/// What the SDK calls the origin of these credentials.
const NAME: &str = "chancery";

/// Gives the SDK of AWS the keys of a workload. Cheap to clone; clones share their cache.
#[derive(Clone)]
pub struct AwsBridge(Way);

impl AwsBridge {
    /// The keys at the end of a chain.
    pub fn new(chain: Arc<Chain>, runner: Runner, cache: Cache) -> Self {
        Self(Way::Chain(chain, runner, cache))
    }

    /// The keys of a tenant's object.
    pub fn of_tenant(tenants: Arc<Tenants>, operation: Operation) -> Self {
        Self(Way::Tenant(tenants, Box::new(operation)))
    }

    async fn keys(&self) -> provider::Result {
        keys(&*self.0.credential(&[]).await.map_err(CredentialsError::provider_error)?)
    }
}

fn keys(credential: &Credential) -> provider::Result {
    let CredentialKind::Aws(keys) = &credential.kind else {
        return Err(CredentialsError::invalid_configuration(unsuitable(credential, "keys of AWS")));
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

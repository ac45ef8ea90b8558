//! The SDK of Azure (<https://docs.rs/azure_core>).

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use azure_core::Error;
use azure_core::credentials::{AccessToken, TokenCredential, TokenRequestOptions};
use azure_core::error::ErrorKind;
use azure_core::time::OffsetDateTime;

use super::{Way, unsuitable};
use crate::cache::Cache;
use crate::chain::{Chain, Runner};
use crate::credential::{Credential, CredentialKind};
use crate::error::ExchangeError;
use crate::provider::Provider;
use crate::tenancy::{Cloud, Operation, Tenants};

/// Gives the SDK of Azure the tokens of a workload, for the scopes that each client names. Cheap to clone; clones share
/// their cache.
#[derive(Clone)]
pub struct AzureBridge(Way);

impl AzureBridge {
    /// The tokens at the end of a chain.
    ///
    /// # Errors
    /// When the chain does not end at Entra: a client would send whatever it gives to Azure.
    pub fn new(chain: Arc<Chain>, runner: Runner, cache: Cache) -> Result<Self, ExchangeError> {
        match (&chain.provider, &chain.registry) {
            (Provider::Azure(_), None) => Ok(Self(Way::Chain(chain, runner, cache))),
            _ => Err(not_entra(chain.provider.name())),
        }
    }

    /// The tokens of a tenant's object.
    ///
    /// # Errors
    /// When the tenants' identities are not Entra's.
    pub fn of_tenant(tenants: Arc<Tenants>, operation: Operation) -> Result<Self, ExchangeError> {
        match (&tenants.cloud, &operation.registry) {
            (Cloud::Azure { .. }, None) => Ok(Self(Way::Tenant(tenants, Box::new(operation)))),
            _ => Err(not_entra("what the tenants' identities are of")),
        }
    }

    async fn bearer(&self, scopes: &[&str]) -> Result<AccessToken, ExchangeError> {
        if scopes.is_empty() {
            return Err(ExchangeError::configuration("scope-missing")
                .came("a token for no scope")
                .expected("one, as https://vault.azure.net/.default"));
        }
        let scopes: Vec<String> = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        token(&*self.0.credential(&scopes).await?)
    }
}

fn token(credential: &Credential) -> Result<AccessToken, ExchangeError> {
    let ends = OffsetDateTime::from_unix_timestamp(credential.expires_at.as_second());
    match (&credential.kind, ends) {
        (CredentialKind::Bearer(bearer), Ok(ends)) => {
            Ok(AccessToken::new(bearer.token.expose().to_owned(), ends))
        }
        _ => Err(unsuitable(credential, "a token of Entra")),
    }
}

fn not_entra(came: &str) -> ExchangeError {
    ExchangeError::configuration("bridge-cloud")
        .came(&format!("{came}, or a registry's login, for the SDK of Azure"))
        .expected("a chain to Azure, without a registry")
}

#[async_trait]
impl TokenCredential for AzureBridge {
    async fn get_token(
        &self,
        scopes: &[&str],
        _: Option<TokenRequestOptions<'_>>,
    ) -> azure_core::Result<AccessToken> {
        self.bearer(scopes).await.map_err(|error| Error::new(ErrorKind::Credential, error))
    }
}

impl fmt::Debug for AzureBridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AzureBridge")
    }
}

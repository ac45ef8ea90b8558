//! Credentials as the clouds' SDKs for Rust ask for them, for a program that has both in it: one feature for each, and
//! none of them linked by `chancery`. SDKs of other languages ask the `agent`.
//!
//! Nothing is frozen into a client: each time that an SDK wants a credential the cache is asked, so that a changed
//! annotation, a ServiceAccount that is gone and a purge count as soon as the SDK asks again (R0-24), which is when what it
//! was given ends.

use std::sync::Arc;

use crate::cache::{Ask, Cache};
use crate::chain::{Chain, Runner};
use crate::credential::Credential;
use crate::error::ExchangeError;
use crate::tenancy::{Operation, Tenants};

#[cfg(feature = "aws-sdk")]
mod aws;
#[cfg(feature = "azure-sdk")]
mod azure;
#[cfg(feature = "google-sdk")]
mod google;

#[cfg(feature = "aws-sdk")]
pub use aws::AwsBridge;
#[cfg(feature = "azure-sdk")]
pub use azure::AzureBridge;
#[cfg(feature = "google-sdk")]
pub use google::GoogleBridge;

/// Whose credentials an SDK is given.
#[derive(Clone)]
enum Way {
    Chain(Arc<Chain>, Runner, Cache),
    Tenant(Arc<Tenants>, Box<Operation>),
}

impl Way {
    /// The credential; for `scopes`, where the SDK names any and the cloud has them.
    async fn credential(&self, scopes: &[String]) -> Result<Arc<Credential>, ExchangeError> {
        match self {
            Self::Chain(chain, runner, cache) => {
                let mut chain = chain.clone();
                if !scopes.is_empty() {
                    Arc::make_mut(&mut chain).provider.ask_for(scopes);
                }
                let ask = Ask::new(chain.key(runner.transport()), chain.labels.clone());
                cache.credential(&ask, || runner.exchanging(&chain)).await
            }
            Self::Tenant(tenants, operation) if scopes.is_empty() => tenants.credential(operation).await,
            Self::Tenant(tenants, operation) => {
                let operation = Operation { scopes: scopes.to_vec(), ..Operation::clone(operation) };
                tenants.credential(&operation).await
            }
        }
    }
}

/// That a chain gives what an SDK has no use for.
fn unsuitable(credential: &Credential, expected: &str) -> ExchangeError {
    ExchangeError::configuration("bridge-credential")
        .came(&format!("{} for an SDK", credential.kind_in_words()))
        .expected(expected.to_owned())
        .remedy("give the bridge a chain to the SDK's own cloud, without a registry")
}

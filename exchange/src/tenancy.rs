//! Many tenants in one process: Flux's RFC-0010, "Multi-tenant workload identity"
//! (<https://github.com/fluxcd/flux2/tree/main/rfcs/0010-multi-tenant-workload-identity>).
//!
//! An object names a ServiceAccount of its own namespace, and the identity at the cloud stands in that ServiceAccount's
//! annotations. The steps, in this order (R0-03), which [`Tenants::credential`] follows:
//!
//! 1. Who acts: the process itself, or a ServiceAccount. The gate and the lockdown decide before anything is read.
//! 2. The ServiceAccount is read, once. One that is gone fails here, whatever a cache holds.
//! 3. Its annotations become an identity; every value is checked before any further network.
//! 4. The key of the final credential, and a look for it in the cache.
//! 5. Only where it is not there: TokenRequest, the token endpoint, the registry; and it is kept.
//!
//! A failure of these steps is told. Never does the process step in with an identity of its own (R0-02).

use std::sync::Arc;

use chancery_wire::Endpoint;

use crate::cache::{Ask, Cache};
use crate::chain::{Chain, Identity, Runner};
use crate::credential::Credential;
use crate::error::{Class, ExchangeError, Stage};
use crate::metrics::{Metrics, Object};
use crate::provider::Provider;
use crate::registry::{Registry, RegistryHost};
use crate::service_account::{ServiceAccountName, ServiceAccounts};
use crate::subject::ServiceAccountSource;

pub mod annotations;

pub use annotations::Cloud;

/// The name of the gate, which errors tell.
pub const GATE: &str = "ObjectLevelWorkloadIdentity";

/// What the operator allows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tenancy {
    /// Whether objects may name ServiceAccounts.
    pub gate: bool,
    /// The ServiceAccount of objects that name none, in their own namespace. With it the process's own identity serves
    /// no object at all.
    pub default_service_account: Option<String>,
}

/// What an object asks for. It cannot name a namespace other than its own (R0-08).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The namespace of the object.
    pub namespace: String,
    /// The ServiceAccount that it names.
    pub service_account: Option<String>,
    /// The registry whose login it needs.
    pub registry: Option<RegistryHost>,
    /// What the credential is for, where it is not what the operator says for all.
    pub scopes: Vec<String>,
    /// What it is counted as, where it is counted.
    pub object: Option<Object>,
}

/// Who acts for an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acting {
    /// This process, with its own identity.
    Itself,
    /// A ServiceAccount.
    ServiceAccount {
        /// Which one.
        name: ServiceAccountName,
        /// Whether the object named it, or the operator for all that name none.
        by_default: bool,
    },
}

impl Tenancy {
    /// Who acts for an operation.
    ///
    /// # Errors
    /// When a ServiceAccount would act while the gate is off, or its name is none.
    pub fn acting(&self, operation: &Operation) -> Result<Acting, ExchangeError> {
        let named = operation.service_account.as_deref().filter(|name| !name.is_empty());
        let Some(name) = named.or(self.default_service_account.as_deref()) else { return Ok(Acting::Itself) };
        if !self.gate {
            return Err(ExchangeError::configuration("tenancy-gate-off")
                .came(&format!("the ServiceAccount {name:?} is to act, and the gate {GATE} is off"))
                .expected("an object without a ServiceAccount, or an operator who has opened the gate")
                .remedy(format!("turn {GATE} on, or leave the ServiceAccount out")));
        }
        let name = ServiceAccountName::new(&operation.namespace, name)?;
        Ok(Acting::ServiceAccount { name, by_default: named.is_none() })
    }
}

/// Gives credentials to many tenants.
pub struct Tenants {
    /// What the operator allows.
    pub tenancy: Tenancy,
    /// Where identities are.
    pub cloud: Cloud,
    /// Whose ServiceAccounts act.
    pub cluster: Arc<dyn ServiceAccounts>,
    /// How long their tokens live, in seconds.
    pub token_seconds: u64,
    /// Where logins of registries are made, where the operator names another place than the cloud's own, such as a VPC
    /// endpoint.
    pub registry_endpoint: Option<Endpoint>,
    /// The way of the process's own identity, where it has one.
    pub own: Option<Arc<Chain>>,
    /// Runs the exchanges.
    pub runner: Runner,
    /// What was given already.
    pub cache: Cache,
    /// Counts by object.
    pub metrics: Arc<Metrics>,
}

impl Tenants {
    /// The credential for an operation.
    ///
    /// # Errors
    /// Which step failed, and what to do.
    pub async fn credential(&self, operation: &Operation) -> Result<Arc<Credential>, ExchangeError> {
        let given = self.given(operation).await;
        if let (Err(error), Some(object)) = (&given, &operation.object) {
            self.metrics.failed(object, error);
        }
        given
    }

    async fn given(&self, operation: &Operation) -> Result<Arc<Credential>, ExchangeError> {
        let chain = match self.tenancy.acting(operation)? {
            Acting::Itself => self.own_chain(operation)?,
            Acting::ServiceAccount { name, by_default } => {
                let read = self.cluster.read(&name).await;
                let account = read.map_err(|error| told_to_whom(error, &name, by_default))?;
                let provider = self.cloud.resolve(&account, operation.registry.as_ref())?;
                let provider = narrowed(provider, operation);
                let identity =
                    Identity { name: annotations::identity_of(&provider), service_account: Some(name) };
                let source = ServiceAccountSource {
                    cluster: self.cluster.clone(),
                    account,
                    seconds: self.token_seconds,
                    bound: None,
                };
                let mut chain = Chain::new(Arc::new(source), provider, identity);
                chain.expectation.subject =
                    chain.labels.service_account.as_ref().map(ServiceAccountName::subject);
                chain.registry = self.registry(operation)?;
                Arc::new(chain)
            }
        };
        let key = chain.key(self.runner.transport());
        let tally = operation.object.as_ref().map(|object| self.metrics.of(object));
        let ask = Ask { tally, ..Ask::new(key, chain.labels.clone()) };
        self.cache.credential(&ask, || self.runner.exchanging(&chain)).await
    }

    fn own_chain(&self, operation: &Operation) -> Result<Arc<Chain>, ExchangeError> {
        let own = self.own.as_ref().ok_or_else(|| {
            ExchangeError::configuration("no-own-identity")
                .came("an object names no ServiceAccount, and this process has no identity of its own")
                .remedy("name a ServiceAccount in the object")
        })?;
        let mut chain = Chain::clone(own);
        chain.provider = narrowed(chain.provider, operation);
        chain.registry = self.registry(operation)?;
        Ok(Arc::new(chain))
    }

    fn registry(&self, operation: &Operation) -> Result<Option<Registry>, ExchangeError> {
        let Some(host) = &operation.registry else { return Ok(None) };
        let registry = Registry::new(host.clone())?;
        Ok(Some(match &self.registry_endpoint {
            Some(endpoint) => registry.at(endpoint.clone()),
            None => registry,
        }))
    }
}

/// A provider that is asked for what an operation needs, where it says.
fn narrowed(mut provider: Provider, operation: &Operation) -> Provider {
    if !operation.scopes.is_empty() {
        provider.ask_for(&operation.scopes);
    }
    provider
}

/// A tenant cannot mend what the operator chose for everybody (R0-11).
fn told_to_whom(error: ExchangeError, name: &ServiceAccountName, by_default: bool) -> ExchangeError {
    if error.code() != "service-account-missing" || !by_default {
        return error;
    }
    ExchangeError::new(Class::Permanent, Stage::Identity, "default-service-account-missing")
        .came(&format!(
            "the object names no ServiceAccount, and the operator's default {name} does not exist"
        ))
        .expected("a ServiceAccount of this name in the object's namespace")
        .remedy("contact the administrator of the cluster, or name a ServiceAccount in the object")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(service_account: Option<&str>) -> Operation {
        Operation {
            namespace: "team-a".to_owned(),
            service_account: service_account.map(str::to_owned),
            registry: None,
            scopes: Vec::new(),
            object: None,
        }
    }

    #[test]
    fn r0_09_r0_10_r0_11_the_gate_and_the_lockdown_decide_before_anything_is_read() {
        let name = |name| ServiceAccountName::new("team-a", name).unwrap();
        let (named, default) = (
            |name| Acting::ServiceAccount { name, by_default: false },
            |name| Acting::ServiceAccount { name, by_default: true },
        );
        for (gate, lockdown, asked, acting) in [
            (false, None, None, Ok(Acting::Itself)),
            (false, None, Some("app"), Err("tenancy-gate-off")),
            (false, Some("default"), None, Err("tenancy-gate-off")),
            (false, Some("default"), Some("app"), Err("tenancy-gate-off")),
            (true, None, None, Ok(Acting::Itself)),
            (true, None, Some(""), Ok(Acting::Itself)),
            (true, None, Some("app"), Ok(named(name("app")))),
            (true, Some("default"), None, Ok(default(name("default")))),
            (true, Some("default"), Some("app"), Ok(named(name("app")))),
            (true, None, Some("other/app"), Err("service-account-name")),
            (true, None, Some("../kube-system/x"), Err("service-account-name")),
        ] {
            let tenancy = Tenancy { gate, default_service_account: lockdown.map(str::to_owned) };
            let found = tenancy.acting(&operation(asked));
            if let Err(error) = &found {
                assert_eq!(error.class(), Class::Permanent);
            }
            assert_eq!(found.map_err(|error| error.code()), acting, "{gate} {lockdown:?} {asked:?}");
        }
        let error = Tenancy::default().acting(&operation(Some("app"))).unwrap_err();
        assert!(error.to_string().contains(GATE), "{error}");
    }
}

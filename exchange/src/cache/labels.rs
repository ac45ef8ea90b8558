//! Whose credentials are kept, and which of them are forgotten.

use crate::service_account::ServiceAccountName;

/// Whose credential a key is for, for [`purge`](super::Cache::purge).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels {
    /// The provider's name.
    pub provider: &'static str,
    /// The identity there: a role, a client id, a service account.
    pub identity: String,
    /// The ServiceAccount, unless it is this process's own identity.
    pub service_account: Option<ServiceAccountName>,
}

/// What is forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purge {
    /// Everything.
    All,
    /// Everything of a provider.
    Provider(String),
    /// Everything of an identity.
    Identity(String),
    /// Everything of a ServiceAccount.
    ServiceAccount(ServiceAccountName),
}

impl Labels {
    pub(super) fn is_covered(&self, what: &Purge) -> bool {
        let service_account = self.service_account.as_ref().map(ToString::to_string);
        what.covers(LabelsAsText {
            provider: self.provider,
            identity: &self.identity,
            service_account: service_account.as_deref(),
        })
    }
}

/// [`Labels`] as they lie in a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LabelsAsText<'a> {
    pub(crate) provider: &'a str,
    pub(crate) identity: &'a str,
    pub(crate) service_account: Option<&'a str>,
}

impl Purge {
    pub(crate) fn covers(&self, labels: LabelsAsText<'_>) -> bool {
        match self {
            Self::All => true,
            Self::Provider(provider) => labels.provider == provider,
            Self::Identity(identity) => labels.identity == identity,
            Self::ServiceAccount(name) => labels.service_account == Some(name.to_string().as_str()),
        }
    }
}

//! The fields of Argo CD's Secrets for repositories. Those that Argo CD ships are read as they are
//! (<https://argo-cd.readthedocs.io/en/stable/operator-manual/argocd-repositories-yaml/>); those that begin with
//! `workloadIdentity` are of its proposal (argo-cd#26174), which is not merged: they stand in this file and in no other.

use std::collections::BTreeMap;
use std::fmt;

use zeroize::Zeroizing;

use crate::error::ExchangeError;

/// By which Argo CD knows its Secrets.
pub const LABEL: &str = "argocd.argoproj.io/secret-type";
/// The values of it: a repository, one that is written to, and what several of them share.
pub const KINDS: [&str; 4] = ["repository", "repository-write", "repo-creds", "repo-write-creds"];

/// Ours: which of the two phases logs in, where it is not the provider's usual one. The proposal says that it can be
/// overridden, and names no field for it.
const AUTHENTICATOR: &str = "workloadIdentityAuthenticator";
/// Fields by which a password or a key stands in the Secret.
const STATIC: [&str; 7] = [
    "username",
    "password",
    "bearerToken",
    "sshPrivateKey",
    "tlsClientCertKey",
    "githubAppPrivateKey",
    "gcpServiceAccountKey",
];

/// A repository, as its Secret says. Fields that are not known here are left alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repository {
    /// `oci://HOST/PATH`, `https://HOST/PATH`, or `HOST/PATH` of an older chart repository.
    pub url: String,
    /// The project; empty for all of them.
    pub project: String,
    /// How a workload's identity logs in; nothing where it does not.
    pub identity: Option<Identity>,
    /// Whether a password, a key or Argo CD's own identity of Azure is configured.
    pub has_static: bool,
}

/// The fields of the proposal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// `workloadIdentityProvider`: aws, gcp, azure, spiffe, k8s.
    pub provider: String,
    /// Which authenticator, where it is not the provider's usual one.
    pub authenticator: Option<String>,
    /// `workloadIdentityTokenURL`.
    pub token_url: Option<String>,
    /// `workloadIdentityAudience`.
    pub audience: Option<String>,
    /// `workloadIdentityUsername`.
    pub username: Option<String>,
    /// `workloadIdentityAuthHost`.
    pub auth_host: Option<String>,
    /// `workloadIdentityPathTemplate`.
    pub path: Option<String>,
    /// `workloadIdentityBodyTemplate`.
    pub body: Option<String>,
    /// `workloadIdentityMethod`: GET, POST.
    pub method: Option<String>,
    /// `workloadIdentityAuthType`: bearer, basic, none.
    pub auth_type: Option<String>,
    /// `workloadIdentityParams`, a JSON object of texts.
    pub params: BTreeMap<String, String>,
    /// `workloadIdentityResponseTokenField`.
    pub token_field: Option<String>,
}

/// A Secret, as far as it is read. Its values are wiped when it is dropped.
#[derive(Clone, Default)]
pub struct RepositorySecret {
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Values, decoded.
    pub values: BTreeMap<String, Zeroizing<String>>,
}

impl RepositorySecret {
    fn text(&self, field: &str) -> Option<String> {
        let value = self.values.get(field).map(|value| value.trim());
        value.filter(|value| !value.is_empty()).map(str::to_owned)
    }

    /// What it says of its repository.
    ///
    /// # Errors
    /// When it is not one of Argo CD's, or a field is none of those that there are.
    pub fn repository(&self) -> Result<Repository, ExchangeError> {
        let kind = self.labels.get(LABEL).map(String::as_str).unwrap_or_default();
        if !KINDS.contains(&kind) {
            return Err(refused(&format!("a Secret whose label {LABEL} is {kind:?}"), &KINDS.join(", ")));
        }
        let identity = match self.text("workloadIdentityProvider") {
            Some(provider) => Some(self.identity(provider)?),
            None => None,
        };
        let is_true = |field| self.text(field).is_some_and(|value| value == "true");
        Ok(Repository {
            url: self.text("url").ok_or_else(|| refused("a Secret without `url`", "the repository's URL"))?,
            project: self.text("project").unwrap_or_default(),
            identity,
            has_static: STATIC.iter().any(|field| self.text(field).is_some())
                || is_true("useAzureWorkloadIdentity"),
        })
    }

    fn identity(&self, provider: String) -> Result<Identity, ExchangeError> {
        let text = |name: &str| self.text(&format!("workloadIdentity{name}"));
        // What serde says may repeat a value.
        let params = text("Params").map(|params| serde_json::from_str(&params));
        let params = params.transpose().map_err(|_| {
            refused("`workloadIdentityParams` in another form", "a JSON object whose values are texts")
        })?;
        Ok(Identity {
            provider,
            authenticator: self.text(AUTHENTICATOR),
            token_url: text("TokenURL"),
            audience: text("Audience"),
            username: text("Username"),
            auth_host: text("AuthHost"),
            path: text("PathTemplate"),
            body: text("BodyTemplate"),
            method: text("Method"),
            auth_type: text("AuthType"),
            params: params.unwrap_or_default(),
            token_field: text("ResponseTokenField"),
        })
    }
}

impl fmt::Debug for RepositorySecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RepositorySecret").field("labels", &self.labels).finish_non_exhaustive()
    }
}

/// A field that says what there is not.
pub(super) fn refused(came: &str, expected: &str) -> ExchangeError {
    ExchangeError::configuration("argocd-repository")
        .came(came)
        .expected(expected.to_owned())
        .remedy("correct the Secret of the repository")
}

//! The JWT auth method of Vault or OpenBao, as configuration names it.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;

use super::error::SinkConfigError;
use super::request::{check_timeout, default_timeout_seconds, server_url};

/// The JWT auth method of Vault or OpenBao at one mount. Exactly one of `tokenFile` and `kubernetes` is given.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct VaultPlace {
    /// `https://HOST[:PORT][/PATH]`, without `/v1`. Plain HTTP to this machine alone, as to an agent beside us.
    pub address: String,
    /// The namespace, sent as `X-Vault-Namespace`.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Where the JWT auth method is mounted, below `auth/`.
    #[serde(default = "default_mount")]
    pub mount: String,
    /// A file with a token that may read and update the method's configuration. Read again for every request.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
    /// Logs in with the pod's ServiceAccount token instead.
    #[serde(default)]
    pub kubernetes: Option<KubernetesLogin>,
    /// PEM certificates of a private CA, instead of the roots of this machine.
    #[serde(default)]
    pub ca: Option<PathBuf>,
    /// Seconds that one request may take.
    #[serde(default = "default_timeout_seconds")]
    pub timeout_seconds: u32,
}

/// Vault's Kubernetes auth method.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct KubernetesLogin {
    /// The role there.
    pub role: String,
    /// Where the method is mounted, below `auth/`.
    #[serde(default = "default_kubernetes_mount")]
    pub mount: String,
    /// The projected token, read again for every login.
    #[serde(default = "default_projected_token")]
    pub token_file: PathBuf,
}

fn default_mount() -> String {
    "jwt".to_owned()
}

fn default_kubernetes_mount() -> String {
    "kubernetes".to_owned()
}

/// Where kubelet puts a pod's own token.
fn default_projected_token() -> PathBuf {
    PathBuf::from("/var/run/secrets/kubernetes.io/serviceaccount/token")
}

impl VaultPlace {
    pub(super) fn check(&self) -> Result<(), SinkConfigError> {
        server_url("vault.address", &self.address)?;
        check_mount("vault.mount", &self.mount)?;
        if let Some(namespace) = &self.namespace {
            check_mount("vault.namespace", namespace)?;
        }
        check_timeout("vault.timeoutSeconds", self.timeout_seconds)?;
        match (&self.token_file, &self.kubernetes) {
            (Some(_), None) => Ok(()),
            (None, Some(login)) if login.role.is_empty() => {
                Err(SinkConfigError::illegal("vault.kubernetes.role", "", "name a role"))
            }
            (None, Some(login)) => check_mount("vault.kubernetes.mount", &login.mount),
            (came, _) => Err(SinkConfigError::IllegalValue {
                field: "vault",
                came: match came {
                    Some(_) => "given both `tokenFile` and `kubernetes`".to_owned(),
                    None => "given neither `tokenFile` nor `kubernetes`".to_owned(),
                },
                remedy: "expected one of them, to know how to log in".to_owned(),
            }),
        }
    }

    pub(super) fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let login = self.kubernetes.iter_mut().map(|login| &mut login.token_file);
        self.token_file.iter_mut().chain(self.ca.iter_mut()).chain(login)
    }
}

impl fmt::Display for VaultPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vault {}/v1/auth/{}/config", self.address.trim_end_matches('/'), self.mount)?;
        self.namespace.as_ref().map_or(Ok(()), |namespace| write!(f, " in namespace {namespace}"))
    }
}

/// A path below `auth/`, or of namespaces: it becomes a part of URLs and headers.
fn check_mount(field: &'static str, path: &str) -> Result<(), SinkConfigError> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let part = |part: &str| !matches!(part, "" | "." | "..") && part.chars().all(legal);
    match path.split('/').all(part) {
        true => Ok(()),
        false => {
            let remedy = "expected letters, digits, `-`, `_` and `.`, with single slashes between, as in `jwt` or `team/jwt`";
            Err(SinkConfigError::illegal(field, path, remedy))
        }
    }
}

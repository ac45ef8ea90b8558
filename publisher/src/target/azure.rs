//! A container of Azure Blob Storage, as configuration names it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Deserialize;

use super::check::{check_base_url, check_prefix, check_timeout, default_timeout_seconds};
use super::error::TargetError;

/// A container, or a prefix in one. Its account is named or, where its host name is another, its endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AzureBlobTarget {
    /// The storage account in the public cloud: `https://ACCOUNT.blob.core.windows.net`.
    #[serde(default)]
    pub account: Option<String>,
    /// The blob endpoint of any other cloud or server, `https://HOST[:PORT][/PATH]`.
    #[serde(default)]
    pub endpoint: Option<String>,
    /// The container; `$web` is what the static website serves.
    pub container: String,
    /// What corresponds to the issuer URL within the container.
    #[serde(default)]
    pub prefix: String,
    /// Where credentials come from. Otherwise from what is set in the environment, if that is anything.
    #[serde(default)]
    pub credential: Option<AzureCredential>,
    /// The application or user-assigned identity. Otherwise `AZURE_CLIENT_ID`.
    #[serde(default)]
    pub client_id: Option<String>,
    /// The directory of the application. Otherwise `AZURE_TENANT_ID`.
    #[serde(default)]
    pub tenant_id: Option<String>,
    /// The ServiceAccount token of a workload identity. Otherwise `AZURE_FEDERATED_TOKEN_FILE`. Read again every
    /// ten minutes.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
    /// Where tokens are given out, `https://HOST`. Otherwise `AZURE_AUTHORITY_HOST`, and then the public cloud's.
    #[serde(default)]
    pub authority_host: Option<String>,
    /// A file with a shared access signature (SAS), the query of its URL. Otherwise `AZURE_STORAGE_SAS_TOKEN`. Read
    /// again for each request.
    #[serde(default)]
    pub sas_file: Option<PathBuf>,
    /// The resource id of the storage account. `chancery doctor` alone uses it, to read the account's settings.
    #[serde(default)]
    pub resource_id: Option<String>,
    /// Seconds that one attempt may take.
    #[serde(default = "default_timeout_seconds")]
    pub timeout_seconds: u32,
}

/// A way to get credentials of Azure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AzureCredential {
    /// A ServiceAccount token is exchanged for an Entra token.
    WorkloadIdentity,
    /// The identity of the machine, where Azure runs it.
    ManagedIdentity,
    /// The secret of an application, in `AZURE_CLIENT_SECRET`.
    ClientSecret,
    /// Whoever is logged in to the `az` command.
    Cli,
    /// A shared access signature.
    Sas,
}

impl AzureCredential {
    const ALL: [(&str, Self); 5] = [
        ("workloadIdentity", Self::WorkloadIdentity),
        ("managedIdentity", Self::ManagedIdentity),
        ("clientSecret", Self::ClientSecret),
        ("cli", Self::Cli),
        ("sas", Self::Sas),
    ];
}

impl FromStr for AzureCredential {
    type Err = String;

    /// As configuration spells it.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|(name, _)| *name == text).map(|(_, credential)| credential);
        let names = || Self::ALL.map(|(name, _)| name).join("`, `");
        found.ok_or_else(|| format!("{text:?} is no way to get credentials; expected one of `{}`", names()))
    }
}

impl fmt::Display for AzureCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.into_iter().find(|(_, credential)| credential == self);
        f.write_str(name.map_or("", |(name, _)| name))
    }
}

/// Whose credentials are used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AzureIdentity {
    /// How; otherwise by what is set in the environment.
    pub credential: Option<AzureCredential>,
    /// As [`AzureBlobTarget::client_id`].
    pub client_id: Option<String>,
    /// As [`AzureBlobTarget::tenant_id`].
    pub tenant_id: Option<String>,
    /// As [`AzureBlobTarget::token_file`].
    pub token_file: Option<PathBuf>,
    /// As [`AzureBlobTarget::authority_host`].
    pub authority_host: Option<String>,
}

impl AzureBlobTarget {
    /// A container with everything else at its default. Needs an account or an endpoint.
    pub fn of_container(container: impl Into<String>) -> Self {
        Self {
            account: None,
            endpoint: None,
            container: container.into(),
            prefix: String::new(),
            credential: None,
            client_id: None,
            tenant_id: None,
            token_file: None,
            authority_host: None,
            sas_file: None,
            resource_id: None,
            timeout_seconds: default_timeout_seconds(),
        }
    }

    /// The prefix without slashes around it.
    pub(crate) fn trimmed_prefix(&self) -> &str {
        self.prefix.trim_matches('/')
    }

    /// What of it a client is made from: two targets that are the same here share one.
    #[cfg(feature = "azure")]
    pub(crate) fn reached_by(&self) -> Self {
        Self { container: String::new(), prefix: String::new(), resource_id: None, ..self.clone() }
    }

    /// The blob endpoint without a slash at its end.
    pub(crate) fn base(&self) -> String {
        match (&self.endpoint, &self.account) {
            (Some(endpoint), _) => endpoint.trim_end_matches('/').to_owned(),
            (None, account) => {
                format!("https://{}.blob.core.windows.net", account.as_deref().unwrap_or_default())
            }
        }
    }

    /// What of it says whose credentials are used.
    pub fn identity(&self) -> AzureIdentity {
        AzureIdentity {
            credential: self.credential,
            client_id: self.client_id.clone(),
            tenant_id: self.tenant_id.clone(),
            token_file: self.token_file.clone(),
            authority_host: self.authority_host.clone(),
        }
    }

    /// What the types alone cannot say.
    pub(super) fn check(&self) -> Result<(), TargetError> {
        check_container(&self.container)?;
        match (&self.account, &self.endpoint) {
            (Some(account), None) => check_account(account)?,
            (None, Some(endpoint)) => check_base_url("azureBlob.endpoint", endpoint, IN_FILES)?,
            (Some(_), Some(endpoint)) => {
                let remedy = "name the account or the endpoint, not both";
                return Err(TargetError::illegal("azureBlob.endpoint", endpoint, remedy));
            }
            (None, None) => {
                return Err(TargetError::IllegalValue {
                    field: "azureBlob.account",
                    came: "not set".to_owned(),
                    remedy: "name the storage account, or its blob endpoint in `endpoint`".to_owned(),
                });
            }
        }
        if let Some(host) = &self.authority_host {
            check_authority_host("azureBlob.authorityHost", host)?;
        }
        if let (Some(file), Some(other)) =
            (&self.sas_file, self.credential.filter(|c| *c != AzureCredential::Sas))
        {
            let remedy = format!("take it away, or the `credential` that asks for another way, `{other}`");
            return Err(TargetError::illegal("azureBlob.sasFile", file, remedy));
        }
        check_prefix("azureBlob.prefix", &self.prefix)?;
        check_timeout("azureBlob.timeoutSeconds", self.timeout_seconds)
    }
}

impl fmt::Display for AzureBlobTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base(), self.container)?;
        if self.trimmed_prefix().is_empty() { Ok(()) } else { write!(f, "/{}", self.trimmed_prefix()) }
    }
}

const IN_FILES: &str = "give a shared access signature by `sasFile` or the environment";

/// 3 to 24 lower-case letters and digits
/// (<https://learn.microsoft.com/azure/storage/common/storage-account-overview#storage-account-name>).
fn check_account(account: &str) -> Result<(), TargetError> {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if (3..=24).contains(&account.len()) && account.chars().all(legal) {
        return Ok(());
    }
    let remedy =
        "expected 3 to 24 lower-case letters and digits, without a host; a whole URL goes into `endpoint`";
    Err(TargetError::illegal("azureBlob.account", account, remedy))
}

/// 3 to 63 lower-case letters, digits and hyphens, or one of those with a dollar
/// (<https://learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata>).
fn check_container(container: &str) -> Result<(), TargetError> {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if matches!(container, "$web" | "$root")
        || (3..=63).contains(&container.len()) && container.chars().all(legal)
    {
        return Ok(());
    }
    let remedy = "expected `$web` or a container's name: 3 to 63 lower-case letters, digits and hyphens; a path goes into `prefix`";
    Err(TargetError::illegal("azureBlob.container", container, remedy))
}

fn check_authority_host(field: &'static str, host: &str) -> Result<(), TargetError> {
    check_base_url(field, host, "give credentials by files or the environment")?;
    // The SDK refuses it too, though only when the target is opened.
    if host.starts_with("https://") {
        return Ok(());
    }
    Err(TargetError::illegal(field, host, "expected https://HOST, since a token is sent there"))
}

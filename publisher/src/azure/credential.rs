//! Where an identity's tokens come from.
//!
//! The SDK has no chain that tries one way after the other, and that is well: a chain that falls through ends with
//! somebody else's rights. What is set decides; where nothing is, the operator has to.

use std::path::PathBuf;
use std::sync::Arc;

use azure_core::cloud::{CloudConfiguration, CustomConfiguration};
use azure_core::credentials::{Secret, TokenCredential};
use azure_core::http::ClientOptions;
use azure_identity::{
    AzureCliCredential, AzureCliCredentialOptions, ClientAssertionCredentialOptions, ClientSecretCredential,
    ClientSecretCredentialOptions, ManagedIdentityCredential, ManagedIdentityCredentialOptions,
    UserAssignedId, WorkloadIdentityCredential, WorkloadIdentityCredentialOptions,
};

use super::words;
use crate::target::{AzureCredential, AzureIdentity};

/// Why there are no credentials.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoCredential {
    pub(crate) came: String,
    pub(crate) remedy: &'static str,
}

/// Variables of the environment by name; an empty one counts as none.
pub(crate) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The environment of this process.
pub(crate) fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The way that is configured, or the one that the environment is made for.
pub(crate) fn choose(
    configured: Option<AzureCredential>,
    environment: Environment<'_>,
) -> Result<AzureCredential, NoCredential> {
    let set = |name| environment(name).is_some();
    if let Some(configured) = configured {
        return Ok(configured);
    }
    let found = [
        (super::sas::VARIABLE, AzureCredential::Sas),
        ("AZURE_FEDERATED_TOKEN_FILE", AzureCredential::WorkloadIdentity),
        ("AZURE_CLIENT_SECRET", AzureCredential::ClientSecret),
        ("IDENTITY_ENDPOINT", AzureCredential::ManagedIdentity),
    ];
    found.into_iter().find(|(name, _)| set(name)).map(|(_, credential)| credential).ok_or(NoCredential {
        came: "not set, and the environment names none".to_owned(),
        remedy: "say `workloadIdentity`, `managedIdentity`, `clientSecret`, `sas` or `cli`; a storage account's key is not taken, so make a shared access signature with it",
    })
}

/// Gives tokens for `identity`, in the way that was chosen. Asks nobody yet.
///
/// # Errors
/// When something that this way needs is missing.
pub(crate) fn open(
    chosen: AzureCredential,
    identity: &AzureIdentity,
    environment: Environment<'_>,
    options: ClientOptions,
) -> Result<Arc<dyn TokenCredential>, NoCredential> {
    let options = in_cloud_of(identity, options);
    let client_id = identity.client_id.clone().or_else(|| environment("AZURE_CLIENT_ID"));
    let tenant_id = identity.tenant_id.clone().or_else(|| environment("AZURE_TENANT_ID"));
    let need = |value: Option<String>, came: &str, remedy| {
        value.ok_or_else(|| NoCredential { came: came.to_owned(), remedy })
    };
    let client = || need(client_id.clone(), "without a client id", "set `clientId` or AZURE_CLIENT_ID");
    let tenant = || need(tenant_id.clone(), "without a tenant id", "set `tenantId` or AZURE_TENANT_ID");
    let opened: azure_core::Result<Arc<dyn TokenCredential>> = match chosen {
        AzureCredential::WorkloadIdentity => {
            let variable = || environment("AZURE_FEDERATED_TOKEN_FILE").map(PathBuf::from);
            let file = identity.token_file.clone().or_else(variable);
            let file = file.ok_or_else(|| NoCredential {
                came: "without a token file".to_owned(),
                remedy: "set `tokenFile` or AZURE_FEDERATED_TOKEN_FILE",
            })?;
            WorkloadIdentityCredential::new(Some(WorkloadIdentityCredentialOptions {
                credential_options: ClientAssertionCredentialOptions { client_options: options },
                client_id: Some(client()?),
                tenant_id: Some(tenant()?),
                token_file_path: Some(file),
            }))
            .map(|credential| credential as _)
        }
        AzureCredential::ManagedIdentity => {
            ManagedIdentityCredential::new(Some(ManagedIdentityCredentialOptions {
                user_assigned_id: client_id.clone().map(UserAssignedId::ClientId),
                client_options: options,
            }))
            .map(|credential| credential as _)
        }
        AzureCredential::ClientSecret => {
            let secret = environment("AZURE_CLIENT_SECRET").map(Secret::new).ok_or_else(|| NoCredential {
                came: "without a secret".to_owned(),
                remedy: "set AZURE_CLIENT_SECRET; there is no setting that takes the secret itself",
            })?;
            let options = ClientSecretCredentialOptions { client_options: options };
            ClientSecretCredential::new(&tenant()?, client()?, secret, Some(options))
                .map(|credential| credential as _)
        }
        AzureCredential::Cli => AzureCliCredential::new(Some(AzureCliCredentialOptions {
            tenant_id,
            ..AzureCliCredentialOptions::default()
        }))
        .map(|credential| credential as _),
        AzureCredential::Sas => {
            return Err(NoCredential {
                came: "a shared access signature".to_owned(),
                remedy: "it opens blobs alone: say `workloadIdentity`, `managedIdentity`, `clientSecret` or `cli`",
            });
        }
    };
    opened.map_err(|error| NoCredential {
        came: format!("unusable: {}", words(&error)),
        remedy: "correct what it is made from, as docs/targets/azure-blob.md lists it",
    })
}

/// A token is asked for where the identity's authority is. Where none is named, the SDK reads AZURE_AUTHORITY_HOST.
fn in_cloud_of(identity: &AzureIdentity, options: ClientOptions) -> ClientOptions {
    let cloud = identity.authority_host.as_ref().map(|host| {
        let mut cloud = CustomConfiguration::default();
        cloud.authority_host.clone_from(host);
        Arc::new(CloudConfiguration::from(cloud))
    });
    ClientOptions { cloud, ..options }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(variables: &[&str]) -> Result<AzureCredential, NoCredential> {
        choose(None, &|name| variables.contains(&name).then(|| "hunter2".to_owned()))
    }

    #[test]
    fn what_is_set_decides() {
        let federated = "AZURE_FEDERATED_TOKEN_FILE";
        for (variables, expected) in [
            (vec!["AZURE_STORAGE_SAS_TOKEN", federated], AzureCredential::Sas),
            (vec![federated, "AZURE_CLIENT_SECRET", "IDENTITY_ENDPOINT"], AzureCredential::WorkloadIdentity),
            (vec!["AZURE_CLIENT_SECRET", "IDENTITY_ENDPOINT"], AzureCredential::ClientSecret),
            (vec!["IDENTITY_ENDPOINT"], AzureCredential::ManagedIdentity),
        ] {
            assert_eq!(choice(&variables), Ok(expected), "{variables:?}");
        }
        assert_eq!(choose(Some(AzureCredential::Cli), &|_| Some(String::new())), Ok(AzureCredential::Cli));
        assert!(choice(&["AZURE_CLIENT_ID"]).unwrap_err().remedy.contains("managedIdentity"));
    }

    #[test]
    fn what_is_missing_is_named() {
        let identity = AzureIdentity::default();
        for (chosen, variables, named) in [
            (AzureCredential::WorkloadIdentity, vec![], "AZURE_FEDERATED_TOKEN_FILE"),
            (AzureCredential::WorkloadIdentity, vec!["AZURE_FEDERATED_TOKEN_FILE"], "AZURE_CLIENT_ID"),
            (AzureCredential::ClientSecret, vec!["AZURE_CLIENT_ID"], "AZURE_CLIENT_SECRET"),
            (AzureCredential::ClientSecret, vec!["AZURE_CLIENT_SECRET"], "AZURE_TENANT_ID"),
            (AzureCredential::Sas, vec![], "workloadIdentity"),
        ] {
            let environment = |name: &str| variables.contains(&name).then(|| "hunter2".to_owned());
            let error = open(chosen, &identity, &environment, ClientOptions::default()).unwrap_err();
            assert!(error.remedy.contains(named), "{chosen:?}: {error:?}");
            assert!(!error.came.contains("hunter2"), "{error:?}");
        }
    }
}

//! The settings of a storage account that decide who reads, from Azure Resource Manager.

use chancery_core::lint::Finding;
use chancery_core::trust::Call;
use chancery_core::trust::azure::Cloud;
use serde_json::Value;

use super::{account_forbids, error, network};
use crate::azure::api::{Api, NOT_AZURE, refused};
use crate::target::AzureIdentity;
use crate::trust::TrustError;

/// A version that every cloud has (<https://learn.microsoft.com/rest/api/storagerp/storage-accounts/get-properties>).
const API_VERSION: &str = "2023-01-01";

/// What of an account and a container in it decides who reads. `None` is what Azure did not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountSettings {
    /// `allowBlobPublicAccess`, which overrides every container.
    pub allows_anonymous: Option<bool>,
    /// `publicNetworkAccess` is `Enabled`.
    pub public_network: Option<bool>,
    /// `networkAcls.defaultAction` is `Allow`.
    pub open_by_default: Option<bool>,
    /// The container's `publicAccess`: `None`, `Blob` or `Container`.
    pub container_access: Option<String>,
}

/// Reads them, with two calls. `account` is the resource id of the storage account.
///
/// # Errors
/// When the caller may not read them; the error names the permission.
pub async fn account_settings(
    account: &str,
    container: &str,
    cloud: Cloud,
    identity: &AzureIdentity,
) -> Result<AccountSettings, TrustError> {
    let api = Api::connect(cloud.management(), cloud, identity)?;
    read(&api, &format!("{}{account}", cloud.management()), container).await
}

pub(super) async fn read(api: &Api, account: &str, container: &str) -> Result<AccountSettings, TrustError> {
    let account_call = call(account, "", "Microsoft.Storage/storageAccounts/read");
    let below = format!("/blobServices/default/containers/{container}");
    let container_call =
        call(account, &below, "Microsoft.Storage/storageAccounts/blobServices/containers/read");
    let (account, container) = (get(api, &account_call).await?, get(api, &container_call).await?);
    Ok(AccountSettings::of(&account, &container))
}

fn call(account: &str, below: &str, permission: &'static str) -> Call {
    let url = format!("{account}{below}?api-version={API_VERSION}");
    let reason = "it says who may read".to_owned();
    Call { method: "GET", url, body: None, permission, reason }
}

async fn get(api: &Api, call: &Call) -> Result<Value, TrustError> {
    let answer = api.make(call).await?;
    serde_json::from_slice(&answer.body)
        .map_err(|error| refused(call, format!("{} without JSON ({error})", answer.status), NOT_AZURE))
}

impl AccountSettings {
    /// Of the two resources as Azure Resource Manager gives them.
    fn of(account: &Value, container: &Value) -> Self {
        let text =
            |value: &Value, pointer: &str| value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let is =
            |pointer: &str, good: &str| text(account, pointer).map(|there| there.eq_ignore_ascii_case(good));
        Self {
            allows_anonymous: account.pointer("/properties/allowBlobPublicAccess").and_then(Value::as_bool),
            public_network: is("/properties/publicNetworkAccess", "Enabled"),
            open_by_default: is("/properties/networkAcls/defaultAction", "Allow"),
            container_access: text(container, "/properties/publicAccess"),
        }
    }

    /// Every one of them that stops an anonymous reader.
    pub(super) fn stop(&self, is_website: bool) -> Vec<Finding> {
        let mut findings = Vec::new();
        if self.public_network == Some(false) || self.open_by_default == Some(false) {
            findings.push(network("its settings say so"));
        }
        if !is_website && self.allows_anonymous == Some(false) {
            findings.push(account_forbids("its settings say so"));
        }
        if !is_website && self.container_access.as_deref() == Some("None") {
            findings.push(error(
                "azure-container-private",
                "the container's settings say so: it lets nobody read without credentials".to_owned(),
                "set its anonymous access level to Blob (az storage container set-permission --public-access blob)",
            ));
        }
        findings
    }
}

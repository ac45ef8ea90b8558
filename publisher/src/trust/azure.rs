//! Registers federated identity credentials with Azure Resource Manager or Microsoft Graph.
//!
//! Writes are made one at a time. A list comes in pages, and the link to the next one is followed only on the host that
//! gave it: the token goes along.

use std::fmt;

use async_trait::async_trait;
use chancery_core::trust::azure::{self, Cloud, Identity, Registered, Wanted};
use chancery_core::trust::{Call, TrustPlan};
use serde_json::{Value, json};

use self::page::Page;
use super::{Registrar, TrustError};
use crate::azure::api::{Api, NOT_AZURE, refused};
use crate::target::AzureIdentity;

mod page;

/// More pages than [`azure::LIMIT`] credentials can fill.
const PAGES: usize = 10;

/// The federated identity credentials of one identity.
pub struct AzureRegistrar {
    wanted: Wanted,
    api: Api,
}

impl AzureRegistrar {
    /// Reads what this machine has of credentials; nobody is asked yet.
    ///
    /// # Errors
    /// When there are no credentials, or the endpoint would get them without TLS.
    pub fn connect(wanted: Wanted, cloud: Cloud, identity: &AzureIdentity) -> Result<Self, TrustError> {
        let api = Api::connect(&wanted.endpoint, cloud, identity)?;
        Ok(Self { wanted, api })
    }

    /// Every credential that the identity has.
    async fn list(&self) -> Result<Vec<Registered>, TrustError> {
        let mut all = Vec::new();
        let mut next = Some(self.wanted.identity.url(&self.wanted.endpoint, ""));
        for _ in 0..PAGES {
            let Some(url) = next else { return Ok(all) };
            let call = self.reading(url);
            let answer = self.api.make(&call).await?;
            let page = Page::read(&answer).map_err(|problem| refused(&call, problem, NOT_AZURE))?;
            all.extend(page.registered);
            next = page.next;
            let strange = next.as_deref().filter(|next| !self.api.is_at(next));
            if strange.is_some() {
                return Err(refused(
                    &call,
                    "a link to another host, which is not followed".to_owned(),
                    NOT_AZURE,
                ));
            }
        }
        Err(refused(&self.reading(String::new()), format!("more than {PAGES} pages"), NOT_AZURE))
    }

    fn reading(&self, url: String) -> Call {
        Call {
            method: "GET",
            url,
            body: None,
            permission: self.wanted.identity.read_permission(),
            reason: "what is registered decides what is called".to_owned(),
        }
    }
}

#[async_trait]
impl Registrar for AzureRegistrar {
    async fn plan(&self) -> Result<TrustPlan, TrustError> {
        let observed = self.list().await?;
        azure::plan(&self.wanted, &observed)
            .map_err(|blocked| TrustError::Blocked { registration: self.describe(), blocked })
    }

    async fn apply(&self, plan: &TrustPlan) -> Result<(), TrustError> {
        for call in &plan.calls {
            self.api.make(call).await?;
            tracing::info!(call = %call, "registered: {}", call.reason);
        }
        Ok(())
    }

    fn describe(&self) -> String {
        format!("federated identity credentials for {} of the {}", self.wanted.issuer, self.wanted.identity)
    }

    fn least_policy(&self) -> String {
        let policy = match &self.wanted.identity {
            identity @ Identity::Managed(id) => json!({
                "Name": "Chancery registrar",
                "Description": "Reads and writes the federated identity credentials of one identity",
                "Actions": [identity.read_permission(), identity.write_permission()],
                // A role is defined for a group at least, and assigned on the identity alone.
                "AssignableScopes": [id.split('/').take(5).collect::<Vec<_>>().join("/")],
            }),
            Identity::Application(_) => owned_by(),
        };
        serde_json::to_string_pretty(&policy).unwrap_or_default()
    }
}

/// `Application.ReadWrite.OwnedBy` of Microsoft Graph, as the manifest of the calling application has it; the caller must
/// be an owner of the application that is changed (<https://learn.microsoft.com/graph/permissions-reference>).
fn owned_by() -> Value {
    json!({ "requiredResourceAccess": [{
        "resourceAppId": "00000003-0000-0000-c000-000000000000",
        "resourceAccess": [{ "id": "18a4783c-866b-4cc7-a460-3d5e5662c884", "type": "Role" }],
    }] })
}

impl fmt::Debug for AzureRegistrar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AzureRegistrar").field("wanted", &self.wanted).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::azure::api::tests::scripted;

    #[tokio::test]
    async fn the_token_does_not_follow_a_link_to_another_host() {
        let page = json!({ "value": [], "nextLink": "https://management.azure.com.example/x" });
        let (api, asked) = scripted(vec![("200 OK", page.to_string())]).await;
        let wanted = Wanted {
            issuer: "https://id.example.com".parse().unwrap(),
            subjects: vec!["system:serviceaccount:ns:web".to_owned()],
            audience: Cloud::Public.audience().to_owned(),
            identity: Identity::application("11111111-2222-3333-4444-555555555555").unwrap(),
            endpoint: api.base().to_string(),
        };
        let error = AzureRegistrar { wanted, api }.plan().await.unwrap_err().to_string();
        assert!(error.contains("another host"), "{error}");
        assert_eq!(asked.await.unwrap().len(), 1);
    }
}

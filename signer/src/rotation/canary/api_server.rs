//! kube-apiservers that trust the issuer, asked by a TokenReview.
//!
//! A TokenReview without audiences asks whether the server takes the token for itself. One that trusts the issuer by
//! structured authentication checks the audience by its configuration and no claim of Kubernetes; the server whose own
//! issuer it is looks for the ServiceAccount that the token names.

use std::path::Path;

use async_trait::async_trait;
use chancery_cluster::access::{AccessError, ClusterChoice, explain};
use chancery_core::rotation::CanaryAnswer;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::Asker;
use super::config::{ApiServerConfig, ServiceAccountConfig};
use super::token::CanaryToken;

/// One of them.
pub(super) struct ApiServer {
    client: Client,
    account: Option<ServiceAccountConfig>,
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiServer").field("account", &self.account).finish_non_exhaustive()
    }
}

impl ApiServer {
    /// Nothing is asked yet.
    pub async fn open(config: &ApiServerConfig, base: &Path) -> Result<Self, AccessError> {
        let (kubeconfig, context) = (config.kubeconfig.as_deref(), config.context.as_deref());
        let client = ClusterChoice { kubeconfig, context, base }.client().await?;
        Ok(Self { client, account: config.service_account.clone() })
    }
}

#[async_trait]
impl Asker for ApiServer {
    /// Those by which the server knows the ServiceAccount.
    async fn claims(&self) -> Result<Option<Value>, String> {
        let Some(ServiceAccountConfig { namespace, name }) = &self.account else { return Ok(None) };
        let found = Api::<ServiceAccount>::namespaced(self.client.clone(), namespace).get(name).await;
        let account = found.map_err(|error| {
            format!("the ServiceAccount {namespace}/{name} cannot be read: {}", explain(&error))
        })?;
        let uid = account.metadata.uid.unwrap_or_default();
        Ok(Some(json!({ "namespace": namespace, "serviceaccount": { "name": name, "uid": uid } })))
    }

    async fn ask(&self, token: &CanaryToken) -> CanaryAnswer {
        let spec = TokenReviewSpec { token: Some(token.expose().to_owned()), audiences: None };
        let review = TokenReview { spec, ..TokenReview::default() };
        let reviews = Api::<TokenReview>::all(self.client.clone());
        let status = match reviews.create(&PostParams::default(), &review).await {
            Ok(review) => review.status.unwrap_or_default(),
            Err(error) => {
                return CanaryAnswer::Silent(format!("TokenReview: {}", token.quoted(&explain(&error))));
            }
        };
        match status.authenticated {
            Some(true) => CanaryAnswer::Accepted,
            _ => CanaryAnswer::Refused(match status.error {
                Some(error) => token.quoted(&error),
                None => "it knows nobody by that token; check the audience, and whom it trusts".to_owned(),
            }),
        }
    }
}

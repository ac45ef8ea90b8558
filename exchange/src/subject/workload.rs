//! Tokens of a ServiceAccount, made for one audience by TokenRequest.

use std::sync::Arc;

use async_trait::async_trait;

use super::{SubjectTokenSource, TokenIdentity};
use crate::error::ExchangeError;
use crate::key::KeyBuilder;
use crate::service_account::{BoundObject, ServiceAccount, ServiceAccounts, TokenRequest};
use crate::token::UnverifiedToken;

/// Tokens of a ServiceAccount. Each exchange has a token of its own, which is kept for nothing else.
#[derive(Clone)]
pub struct ServiceAccountSource {
    /// The API server.
    pub cluster: Arc<dyn ServiceAccounts>,
    /// The ServiceAccount as it was read.
    pub account: ServiceAccount,
    /// How long its tokens live, in seconds.
    pub seconds: u64,
    /// What they end with.
    pub bound: Option<BoundObject>,
}

#[async_trait]
impl SubjectTokenSource for ServiceAccountSource {
    fn origin(&self) -> String {
        format!("TokenRequest for {}", self.account.name)
    }

    fn can_renew(&self) -> bool {
        true
    }

    fn describe(&self, key: &mut KeyBuilder) {
        let (account, bound) = (&self.account, self.bound.as_ref());
        key.text("source", "service-account")
            .text("cluster", self.cluster.cluster())
            .text("namespace", account.name.namespace())
            .text("service_account", account.name.name())
            .text("uid", &account.uid)
            .optional("bound", bound.map(|bound| bound.name.as_str()))
            .optional("bound_uid", bound.and_then(|bound| bound.uid.as_deref()));
    }

    async fn token(&self, audience: &str) -> Result<UnverifiedToken, ExchangeError> {
        let request = TokenRequest {
            account: self.account.name.clone(),
            uid: self.account.uid.clone(),
            audiences: vec![audience.to_owned()],
            seconds: self.seconds,
            bound: self.bound.clone(),
        };
        self.cluster.token(&request).await
    }

    async fn identity(&self, audience: &str) -> Result<TokenIdentity, ExchangeError> {
        // The issuer is the cluster's, and the UID stands in the key.
        Ok(TokenIdentity {
            iss: self.cluster.cluster().to_owned(),
            sub: self.account.name.subject(),
            aud: vec![audience.to_owned()],
        })
    }
}

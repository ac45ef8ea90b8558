//! A token that the cluster mints now: with which key it signs, and as which issuer. The token itself is dropped.

use std::fmt;

use serde::Deserialize;

/// A workload in whose name a token is minted.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Workload {
    /// The ServiceAccount's namespace.
    pub namespace: String,
    /// The ServiceAccount's name.
    pub service_account: String,
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.service_account)
    }
}

/// Has a token minted by the API server that `client` speaks to. Needs `create` on `serviceaccounts/token`.
///
/// # Errors
/// What the API server said.
#[cfg(feature = "kube")]
pub async fn mint(
    client: kube::Client,
    workload: &Workload,
) -> Result<chancery_core::token::TokenFacts, String> {
    use chancery_cluster::api_server::{ApiServer, Canary};
    /// The audience of a token that is dropped: nobody takes it.
    const AUDIENCE: &str = "chancery-canary";
    /// The shortest life that kube-apiserver gives a token, in seconds.
    const LIFETIME: u64 = 600;

    let canary = Canary {
        namespace: &workload.namespace,
        account: &workload.service_account,
        audience: AUDIENCE,
        seconds: LIFETIME,
    };
    let minted = ApiServer::of(client).mint(&canary).await;
    minted.map_err(|error| format!("no token was minted: {error}"))
}

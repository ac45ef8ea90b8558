//! One kube-apiserver, asked at its own address: what a balancer's other servers show says nothing of this one.
//!
//! What is asked for is what everybody asks who wants to know which keys it has: its JWKS, and a token of a ServiceAccount that
//! needs no rights, for an audience that nobody has. Of the token the facts are kept; it is dropped here.

use chancery_core::jwks::{JwksError, ObservedJwks};
use chancery_core::token::TokenFacts;
use http::{Request, Uri};
use kube::Client;
use serde::Deserialize;
use serde_json::json;

use crate::access::{AccessError, ClusterChoice, client, explain};
use crate::limits;

pub mod discovery;

/// Where every kube-apiserver serves its keys (`pkg/serviceaccount/openidmetadata.go`).
const JWKS: &str = "/openid/v1/jwks";

/// A client for one kube-apiserver.
#[derive(Clone)]
pub struct ApiServer {
    client: Client,
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiServer").finish_non_exhaustive()
    }
}

/// A token that nobody takes.
#[derive(Clone, Copy, Debug)]
pub struct Canary<'a> {
    /// The namespace of the ServiceAccount.
    pub namespace: &'a str,
    /// Its name.
    pub account: &'a str,
    /// Whom the token is for.
    pub audience: &'a str,
    /// How long it is to live, in seconds: kube-apiserver gives 600 at least.
    pub seconds: u64,
}

/// The answer to a TokenRequest.
#[derive(Deserialize)]
struct Given {
    status: GivenStatus,
}

#[derive(Deserialize)]
struct GivenStatus {
    token: String,
}

/// The answer to `/version`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    git_version: String,
}

impl ApiServer {
    /// The one at an address of its own, by the credentials and the authority of a kubeconfig. Nothing is asked yet. Its certificate
    /// has to name that address, or `server_name`, or without that what the kubeconfig says as `tls-server-name`.
    ///
    /// # Errors
    /// When the address is not one of https, or the kubeconfig cannot be used.
    pub async fn open(
        choice: &ClusterChoice<'_>,
        server: &Uri,
        server_name: Option<&str>,
    ) -> Result<Self, AccessError> {
        if server.scheme_str() != Some("https") {
            return Err(AccessError::NoHttps(server.to_string()));
        }
        let mut config = choice.config().await?;
        config.cluster_url = server.clone();
        config.tls_server_name = server_name.map(str::to_owned).or(config.tls_server_name);
        Ok(Self { client: client(config)? })
    }

    /// The one that a client speaks to.
    pub fn of(client: Client) -> Self {
        Self { client }
    }

    /// What it serves at a path.
    ///
    /// # Errors
    /// When it does not.
    pub async fn get(&self, path: &str) -> Result<String, Unanswered> {
        self.send(path, Request::get(path).body(Vec::new())).await
    }

    /// The keys that it verifies with and shows.
    ///
    /// # Errors
    /// When it shows none.
    pub async fn jwks(&self) -> Result<ObservedJwks, Unanswered> {
        let text = self.get(JWKS).await?;
        ObservedJwks::parse(text.as_bytes()).map_err(Unanswered::Jwks)
    }

    /// Its release, such as `v1.34.2`.
    ///
    /// # Errors
    /// When it does not say.
    pub async fn version(&self) -> Result<String, Unanswered> {
        let text = self.get("/version").await?;
        let Version { git_version } =
            serde_json::from_str(&text).map_err(|_| Unanswered::Unreadable("/version", "a release"))?;
        Ok(git_version)
    }

    /// What a token says that it issues now.
    ///
    /// # Errors
    /// When it issues none.
    pub async fn mint(&self, canary: &Canary<'_>) -> Result<TokenFacts, Unanswered> {
        let path =
            format!("/api/v1/namespaces/{}/serviceaccounts/{}/token", canary.namespace, canary.account);
        let body = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": { "audiences": [canary.audience], "expirationSeconds": canary.seconds },
        });
        let request = Request::post(&path).header(http::header::CONTENT_TYPE, "application/json");
        let answer = self.send(&path, request.body(body.to_string().into_bytes())).await?;
        let unreadable = || Unanswered::Unreadable("a TokenRequest", "a token of Kubernetes");
        let Given { status } = serde_json::from_str(&answer).map_err(|_| unreadable())?;
        TokenFacts::read(&status.token).ok_or_else(unreadable)
    }

    async fn send(&self, path: &str, request: http::Result<Request<Vec<u8>>>) -> Result<String, Unanswered> {
        let request = request.map_err(|error| Unanswered::Request(error.to_string()))?;
        let late =
            || Unanswered::NotReady(format!("no answer to {path} within {} s", limits::CALL.as_secs()));
        let answer = tokio::time::timeout(limits::CALL, self.client.request_text(request)).await;
        answer.map_err(|_| late())?.map_err(|error| match &error {
            kube::Error::Api(status) if status.code < 500 && status.code != 429 => {
                Unanswered::Refused { path: path.to_owned(), problem: explain(&error) }
            }
            error => Unanswered::NotReady(format!("{path}: {}", explain(error))),
        })
    }
}

/// Why a kube-apiserver did not say what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unanswered {
    /// It does not answer, or is not able to now.
    #[error("{0}")]
    NotReady(String),
    /// The request cannot be made.
    #[error("the request cannot be made: {0}")]
    Request(String),
    /// It refuses.
    #[error("{path} was refused: {problem}")]
    Refused {
        /// What was asked for.
        path: String,
        /// What it said.
        problem: String,
    },
    /// Its JWKS.
    #[error("/openid/v1/jwks cannot be read: {0}")]
    Jwks(JwksError),
    /// Something else that it says.
    #[error("the answer to {0} cannot be read; expected {1}")]
    Unreadable(&'static str, &'static str),
}

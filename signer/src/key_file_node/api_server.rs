//! What the kube-apiserver of this node shows of itself: whether it is ready, the keys it verifies with, the key it signs with.
//!
//! It is asked at its own address: what a balancer's other servers show says nothing of this one. The key that signs is that of
//! a token which it has just issued, for an audience that nobody has and an account that needs no rights; the token is dropped.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chancery_cluster::access::{AccessError, ClusterChoice, client, explain};
use chancery_cluster::limits;
use chancery_core::jwks::{JwksError, ObservedJwks};
use chancery_core::rollout::NodeKeys;
use chancery_core::{KeyId, PublicKey};
use http::{Request, Uri};
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};

/// Whom the tokens are for.
const AUDIENCE: &str = "chancery.dev/key-files";

/// More than the policy allows is asked for, to see whether it is refused.
const BEYOND: Duration = Duration::from_secs(3600);

/// Where a kube-apiserver is asked, and with what.
#[derive(Clone, Debug)]
pub struct ApiServerPlace {
    /// Its own address, such as `https://10.0.0.1:6443`.
    pub server: Uri,
    /// Credentials and authority.
    pub kubeconfig: PathBuf,
    /// A context of it.
    pub context: Option<String>,
    /// The ServiceAccount whose tokens are asked for: namespace and name.
    pub account: (String, String),
}

/// One kube-apiserver.
pub(super) struct NodeApiServer {
    client: Client,
    server: Uri,
    account: (String, String),
    longest: Duration,
}

impl std::fmt::Debug for NodeApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeApiServer").field("server", &self.server).finish_non_exhaustive()
    }
}

/// What one look showed.
#[derive(Debug)]
pub(super) enum Shown {
    /// It is ready.
    Keys { keys: NodeKeys, shown: BTreeMap<KeyId, PublicKey> },
    /// It is not, or does not answer; and why.
    NotReady(String),
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

impl NodeApiServer {
    /// Nothing is asked yet. `longest` is the longest lifetime of tokens for the outside that the policy allows.
    pub async fn open(place: &ApiServerPlace, longest: Duration) -> Result<Self, ApiServerError> {
        if place.server.scheme_str() != Some("https") {
            return Err(ApiServerError::NoHttps(place.server.to_string()));
        }
        let choice = ClusterChoice {
            kubeconfig: Some(&place.kubeconfig),
            context: place.context.as_deref(),
            base: Path::new(""),
        };
        let mut config = choice.config().await?;
        config.cluster_url = place.server.clone();
        let client = client(config)?;
        Ok(Self { client, server: place.server.clone(), account: place.account.clone(), longest })
    }

    /// Asks it.
    ///
    /// # Errors
    /// When it answers, and not with what was asked for.
    pub async fn look(&self) -> Result<Shown, ApiServerError> {
        match self.ask().await {
            Ok((keys, shown)) => Ok(Shown::Keys { keys, shown }),
            Err(Failed::NotReady(why)) => Ok(Shown::NotReady(why)),
            Err(Failed::Refused(why)) => Err(why),
        }
    }

    async fn ask(&self) -> Result<(NodeKeys, BTreeMap<KeyId, PublicKey>), Failed> {
        self.get("/readyz").await?;
        let jwks = ObservedJwks::parse(self.get("/openid/v1/jwks").await?.as_bytes());
        let jwks = jwks.map_err(|problem| self.refused(Problem::Jwks(problem)))?;
        let shown: BTreeMap<KeyId, PublicKey> =
            jwks.keys().map(|key| (key.key_id().clone(), key.clone())).collect();
        let signs = self.signs().await?;
        Ok((NodeKeys { signs: Some(signs), verifies: shown.keys().cloned().collect() }, shown))
    }

    /// The key id of a token that it issues now.
    async fn signs(&self) -> Result<KeyId, Failed> {
        let (namespace, name) = &self.account;
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
        let seconds = self.longest.saturating_add(BEYOND).as_secs();
        let body = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": { "audiences": [AUDIENCE], "expirationSeconds": seconds },
        });
        let request = Request::post(&path).header(http::header::CONTENT_TYPE, "application/json");
        let answer = self.send(&path, request.body(body.to_string().into_bytes())).await?;
        let unreadable = |problem| self.refused(Problem::Token(problem));
        let Given { status } = serde_json::from_str(&answer).map_err(|_| unreadable("the answer"))?;
        let part = |number: usize| -> Option<Value> {
            let bytes = URL_SAFE_NO_PAD.decode(status.token.split('.').nth(number)?).ok()?;
            serde_json::from_slice(&bytes).ok()
        };
        let (header, claims) = part(0).zip(part(1)).ok_or_else(|| unreadable("the token"))?;
        let kid = header.get("kid").and_then(Value::as_str).and_then(|kid| kid.parse().ok());
        let time = |name| claims.get(name).and_then(Value::as_u64);
        let lifetime = time("exp").zip(time("iat")).and_then(|(exp, iat)| exp.checked_sub(iat));
        let (kid, lifetime) = kid.zip(lifetime).ok_or_else(|| unreadable("the header and the claims"))?;
        if lifetime > self.longest.as_secs() {
            return Err(self.refused(Problem::TooLong { lifetime, longest: self.longest.as_secs() }));
        }
        Ok(kid)
    }

    async fn get(&self, path: &str) -> Result<String, Failed> {
        self.send(path, Request::get(path).body(Vec::new())).await
    }

    async fn send(&self, path: &str, request: http::Result<Request<Vec<u8>>>) -> Result<String, Failed> {
        let request = request.map_err(|error| self.refused(Problem::Request(error.to_string())))?;
        let late = || Failed::NotReady(format!("no answer to {path} within {} s", limits::CALL.as_secs()));
        let answer = tokio::time::timeout(limits::CALL, self.client.request_text(request)).await;
        answer.map_err(|_| late())?.map_err(|error| match &error {
            kube::Error::Api(status) if status.code < 500 && status.code != 429 => {
                let (path, problem) = (path.to_owned(), explain(&error));
                self.refused(Problem::Answer { path, problem })
            }
            error => Failed::NotReady(format!("{path}: {}", explain(error))),
        })
    }

    fn refused(&self, problem: Problem) -> Failed {
        Failed::Refused(ApiServerError::Problem { server: self.server.to_string(), problem })
    }
}

/// Why a look showed nothing.
enum Failed {
    NotReady(String),
    Refused(ApiServerError),
}

/// Why a kube-apiserver cannot be asked, or is not fit for this.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApiServerError {
    /// Its address.
    #[error(
        "{0} is not the address of a kube-apiserver; expected this node's own, such as https://10.0.0.1:6443"
    )]
    NoHttps(String),
    /// The kubeconfig.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// What it says.
    #[error("the kube-apiserver at {server}: {problem}")]
    Problem {
        /// Which.
        server: String,
        /// What is wrong.
        problem: Problem,
    },
}

/// What is wrong with what a kube-apiserver says.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The request cannot be made.
    #[error("the request cannot be made: {0}")]
    Request(String),
    /// It refuses.
    #[error(
        "{path} was refused; the account needs get of /readyz and /openid/v1/jwks, and create of serviceaccounts/token: {problem}"
    )]
    Answer {
        /// What was asked for.
        path: String,
        /// What it said.
        problem: String,
    },
    /// Its JWKS.
    #[error("/openid/v1/jwks cannot be read: {0}")]
    Jwks(JwksError),
    /// Its token.
    #[error("{0} of a TokenRequest cannot be read; expected a token of Kubernetes")]
    Token(&'static str),
    /// Its tokens live too long.
    #[error(
        "it issues tokens of {lifetime} s, and the policy allows {longest} s; set its --service-account-max-token-expiration, or longer `lifetimes`"
    )]
    TooLong {
        /// How long.
        lifetime: u64,
        /// What is allowed.
        longest: u64,
    },
}

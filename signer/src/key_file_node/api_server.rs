//! What the kube-apiserver of this node shows of itself: whether it is ready, the keys it verifies with, the key it signs with.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chancery_cluster::access::{AccessError, ClusterChoice};
use chancery_cluster::api_server::{ApiServer, Canary, Unanswered};
use chancery_core::rollout::NodeKeys;
use chancery_core::{KeyId, PublicKey};
use http::Uri;

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
#[derive(Debug)]
pub(super) struct NodeApiServer {
    asked: ApiServer,
    server: Uri,
    account: (String, String),
}

/// What one look showed.
#[derive(Debug)]
pub(super) enum Shown {
    /// It is ready.
    Keys { keys: NodeKeys, shown: BTreeMap<KeyId, PublicKey> },
    /// It is not, or does not answer; and why.
    NotReady(String),
}

impl NodeApiServer {
    /// Nothing is asked yet.
    pub async fn open(place: &ApiServerPlace) -> Result<Self, ApiServerError> {
        let choice = ClusterChoice {
            kubeconfig: Some(&place.kubeconfig),
            context: place.context.as_deref(),
            base: Path::new(""),
        };
        let asked = ApiServer::open(&choice, &place.server, None).await?;
        Ok(Self { asked, server: place.server.clone(), account: place.account.clone() })
    }

    /// Asks it. `longest` is the longest lifetime of tokens for the outside that the policy allows.
    ///
    /// # Errors
    /// When it answers, and not with what was asked for.
    pub async fn look(&self, longest: Duration) -> Result<Shown, ApiServerError> {
        let problem = match self.ask(longest).await {
            Ok((keys, shown)) => return Ok(Shown::Keys { keys, shown }),
            Err(Problem::Unanswered(Unanswered::NotReady(why))) => return Ok(Shown::NotReady(why)),
            Err(problem) => problem,
        };
        Err(ApiServerError::Problem { server: self.server.to_string(), problem })
    }

    async fn ask(&self, longest: Duration) -> Result<(NodeKeys, BTreeMap<KeyId, PublicKey>), Problem> {
        self.asked.get("/readyz").await?;
        let jwks = self.asked.jwks().await?;
        let shown: BTreeMap<KeyId, PublicKey> =
            jwks.keys().map(|key| (key.key_id().clone(), key.clone())).collect();
        let signs = self.signs(longest).await?;
        Ok((NodeKeys { signs: Some(signs), verifies: shown.keys().cloned().collect() }, shown))
    }

    /// The key id of a token that it issues now.
    async fn signs(&self, longest: Duration) -> Result<KeyId, Problem> {
        let (namespace, account) = &self.account;
        let seconds = longest.saturating_add(BEYOND).as_secs();
        let minted = self.asked.mint(&Canary { namespace, account, audience: AUDIENCE, seconds }).await?;
        let kid = minted.kid.parse().ok();
        let (kid, lifetime) = kid.zip(minted.lifetime()).ok_or(Problem::Token)?;
        let longest = longest.as_secs();
        if lifetime > longest {
            return Err(Problem::TooLong { lifetime, longest });
        }
        Ok(kid)
    }
}

/// Why a kube-apiserver cannot be asked, or is not fit for this.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApiServerError {
    /// The address or the kubeconfig.
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
    /// It does not say it.
    #[error("{0}; the account needs get of /readyz and /openid/v1/jwks, and create of serviceaccounts/token")]
    Unanswered(#[from] Unanswered),
    /// Its token.
    #[error("a token that it issues names no key, or not how long it lives; expected a token of Kubernetes")]
    Token,
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

//! A signer in a folder of its own, and kube-apiservers that sign through it.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use e2e::cluster::{API_AUDIENCE, Cluster};
use e2e::etcd::Etcd;
use e2e::kube_apiserver::KubeApiserver;
use e2e::scratch::Scratch;
use e2e::signer::SignerProcess;
use serde_json::{Value, json};

/// An issuer URL that nobody reads: kube-apiserver shows its documents under it all the same.
pub const ISSUER: &str = "https://id.example.com/cluster-a";
/// The ServiceAccount that the suites ask tokens for.
pub const ACCOUNT: (&str, &str) = ("demo", "app");

/// The account as tokens name it.
pub fn subject() -> String {
    format!("system:serviceaccount:{}:{}", ACCOUNT.0, ACCOUNT.1)
}

/// Where a signer runs.
pub struct Stage {
    /// Its socket and its log; and what a test puts there.
    pub dir: Scratch,
}

impl Stage {
    pub fn new() -> Result<Self> {
        Ok(Self { dir: Scratch::new("signer")? })
    }

    /// A signer with these arguments beside issuer, socket and the API server's audience.
    pub async fn signer(&self, arguments: &[&str]) -> Result<SignerProcess> {
        SignerProcess::start(&self.dir, ISSUER, &[&["--api-audience", API_AUDIENCE], arguments].concat())
            .await
    }

    /// A cluster that signs through the signer's socket, whether it is there or not.
    pub async fn cluster(&self) -> Result<Cluster> {
        let etcd = Etcd::shared().await?;
        Cluster::signed_through(etcd.url(), ISSUER, &self.dir.join("signer.sock"))
    }

    /// One kube-apiserver of that cluster, with the account.
    pub async fn apiserver(&self) -> Result<KubeApiserver> {
        let server = KubeApiserver::start(&self.cluster().await?).await?;
        server.create_service_account(ACCOUNT.0, ACCOUNT.1).await?;
        Ok(server)
    }
}

/// A token of the account for the API server itself.
pub async fn token(server: &KubeApiserver) -> Result<String> {
    server.token_request(ACCOUNT, API_AUDIENCE, 3600).await
}

/// The kids in the JWKS that a kube-apiserver serves.
pub async fn shown(server: &KubeApiserver) -> Result<Vec<String>> {
    let set: Value = serde_json::from_slice(&server.get_raw("/openid/v1/jwks").await?)?;
    let keys = set.get("keys").and_then(Value::as_array).cloned().unwrap_or_default();
    Ok(keys.iter().filter_map(|key| Some(key.get("kid")?.as_str()?.to_owned())).collect())
}

/// Claims as kube-apiserver makes them, for a life of so many seconds.
pub fn claims(audience: &str, seconds: u64) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    json!({
        "aud": [audience], "exp": now + seconds, "iat": now, "nbf": now, "iss": ISSUER, "jti": "e2e",
        "kubernetes.io": { "namespace": ACCOUNT.0, "serviceaccount": { "name": ACCOUNT.1, "uid": "u" } },
        "sub": subject(),
    })
}

/// Claims as they travel.
pub fn encoded(claims: impl ToString) -> String {
    URL_SAFE_NO_PAD.encode(claims.to_string())
}

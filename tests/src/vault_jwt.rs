//! The JWT auth method of Vault itself, `vault-plugin-auth-jwt`, behind the paths and statuses of Vault's HTTP API. What
//! a whole Vault has around it (policies, namespaces, seals, other methods) has the stand-in in [`vault`](crate::vault).

use anyhow::{Context, Result, ensure};
use chancery_core::key_file::read_public_keys;
use serde_json::{Value, json};

use crate::process::{Process, READY, mortal};
use crate::relying_party::{Refusal, Verdict};
use crate::scratch::Scratch;
use crate::{binary, http, ports};

const TOKEN: &str = "hvs.of-the-owner";

/// A running method, mounted at `auth/jwt` and not yet configured.
#[derive(Debug)]
pub struct VaultJwt {
    url: String,
    client: reqwest::Client,
    // The process before its folder: fields are dropped in this order.
    _process: Process,
    _dir: Scratch,
}

impl VaultJwt {
    /// Starts it on a free port.
    pub async fn start() -> Result<Self> {
        let dir = Scratch::new("vault-jwt")?;
        let address = ports::free_address()?;
        let mut command = mortal(&binary::server("vault-jwt")?);
        command.args(["--listen", &address, "--token", TOKEN]);
        let mut process = Process::start("vault-jwt", command, &dir.join("log"))?;
        let (url, client) = (format!("http://{address}"), http::client(None)?);
        process.ready(READY, async || client.get(&url).send().await.is_ok()).await?;
        Ok(Self { url, client, _process: process, _dir: dir })
    }

    /// `http://127.0.0.1:PORT`
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The one token, which may do everything.
    pub fn token(&self) -> &'static str {
        TOKEN
    }

    /// Status and body of a write to a path below `auth/jwt`.
    pub async fn write(&self, path: &str, body: &Value) -> Result<(u16, Value)> {
        let url = format!("{}/v1/auth/jwt/{path}", self.url);
        let answer = self.client.post(url).header("x-vault-token", TOKEN).json(body).send().await?;
        let (status, text) = (answer.status().as_u16(), answer.text().await?);
        Ok((status, serde_json::from_str(&text).unwrap_or_default()))
    }

    /// Whether its configuration has this key. Wait for that before you log in: a login that is under way while the
    /// configuration is written may leave the method with the keys before until the next write, since `pathLogin` keeps
    /// what it makes of a configuration that it has read earlier (vault-plugin-auth-jwt 0.26.1; docs/targets/sinks.md).
    pub async fn holds(&self, kid: &str) -> Result<bool> {
        let configuration = self.configuration().await?;
        let keys = configuration.get("jwt_validation_pubkeys").and_then(Value::as_array);
        let held = keys.into_iter().flatten().filter_map(Value::as_str).map(read_public_keys);
        Ok(held.flat_map(|read| read.keys).any(|key| key.key_id().as_str() == kid))
    }

    /// The configuration as it is read, null when there is none.
    pub async fn configuration(&self) -> Result<Value> {
        let url = format!("{}/v1/auth/jwt/config", self.url);
        let answer = self.client.get(url).header("x-vault-token", TOKEN).send().await?;
        let body: Value = answer.json().await?;
        Ok(body.get("data").cloned().unwrap_or_default())
    }

    /// Adds a role for tokens of one subject and audience.
    pub async fn add_role(&self, name: &str, audience: &str, subject: &str) -> Result<()> {
        let role = json!({
            "role_type": "jwt", "user_claim": "sub", "bound_audiences": [audience], "bound_subject": subject,
        });
        let (status, answer) = self.write(&format!("role/{name}"), &role).await?;
        ensure!(status == 204, "role {name}: {status}: {answer}");
        Ok(())
    }

    /// Logs in with a token, as a workload does.
    pub async fn login(&self, role: &str, jwt: &str) -> Result<Verdict> {
        let (status, answer) = self.write("login", &json!({ "role": role, "jwt": jwt })).await?;
        if status != 200 {
            return Ok(Err(Refusal { status: Some(status), reason: answer.to_string() }));
        }
        let auth = answer.get("auth").context("a login without auth")?;
        Ok(Ok(auth.get("metadata").unwrap_or(auth).to_string()))
    }
}

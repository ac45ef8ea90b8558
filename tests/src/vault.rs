//! A strict stand-in for Vault's (and OpenBao's) JWT auth method: its configuration under policies, and logins with
//! tokens that it verifies by the keys it was given; beside it the Kubernetes auth method, for whoever writes that
//! configuration (<https://developer.hashicorp.com/vault/api-docs/auth/jwt>, `vault-plugin-auth-jwt`, OpenBao 2.6).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Result, anyhow};
use bytes::Bytes;
use hyper::{Method, Request};
use serde_json::{Map, Value, json};

use crate::http;
use crate::relying_party::{Refusal, Verdict};
use crate::stand_in::{self, Answer, Api, StandIn};

mod configuration;
mod jws;
mod login;

pub use login::{KubernetesRole, Role};

/// A running Vault. It is unsealed, with the JWT method at `auth/jwt`, not yet configured, and the Kubernetes method at
/// `auth/kubernetes`.
#[derive(Debug)]
pub struct Vault {
    server: StandIn,
    core: Arc<Core>,
}

#[derive(Debug, Default)]
struct Core(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    sealed: bool,
    namespace: String,
    /// What each token may do: capabilities by path.
    tokens: BTreeMap<String, Policy>,
    tokens_made: usize,
    configuration: Option<Map<String, Value>>,
    roles: BTreeMap<String, Role>,
    kubernetes_keys: Vec<String>,
    kubernetes_roles: BTreeMap<String, KubernetesRole>,
    requests: Vec<String>,
    warnings: Vec<String>,
}

/// Capabilities by path, as in `path "auth/jwt/config" { capabilities = ["read", "update"] }`.
type Policy = BTreeMap<String, Vec<String>>;

/// Capabilities of one path.
pub type Rule<'a> = (&'a str, &'a [&'a str]);

impl Vault {
    /// A Vault without namespaces.
    pub async fn start() -> Result<Self> {
        Self::start_in("").await
    }

    /// A Vault whose methods are mounted in this namespace; tokens are good there alone.
    pub async fn start_in(namespace: &str) -> Result<Self> {
        let core = Arc::new(Core::default());
        core.lock().namespace = namespace.to_owned();
        Ok(Self { server: StandIn::start(core.clone()).await?, core })
    }

    /// `http://127.0.0.1:PORT`
    pub fn url(&self) -> &str {
        self.server.url()
    }

    /// A new token that may do what these rules say.
    pub fn token(&self, rules: &[Rule<'_>]) -> String {
        self.core.lock().new_token(policy(rules))
    }

    /// Revokes every token there is.
    pub fn revoke_tokens(&self) {
        self.core.lock().tokens.clear();
    }

    /// Seals it, or unseals it again.
    pub fn seal(&self, sealed: bool) {
        self.core.lock().sealed = sealed;
    }

    /// Configures the JWT method by hand, under the same rules as through the API.
    pub fn configure(&self, fields: &Value) -> Result<()> {
        let mut state = self.core.lock();
        let checked = configuration::checked(fields, state.configuration.as_ref());
        state.configuration = Some(checked.map_err(|error| anyhow!(error))?.fields);
        Ok(())
    }

    /// The configuration as it is stored, null when there is none.
    pub fn configuration(&self) -> Value {
        self.core.lock().configuration.clone().map_or(Value::Null, Value::Object)
    }

    /// The ids that kube-apiserver gives the keys in the configuration, in their order.
    pub fn kids(&self) -> Result<Vec<String>> {
        configuration::keys(&self.configuration()).iter().map(|entry| jws::kid(entry)).collect()
    }

    /// Adds a role of the JWT method.
    pub fn add_role(&self, name: &str, role: Role) {
        self.core.lock().roles.insert(name.to_owned(), role);
    }

    /// Adds a role of the Kubernetes method, which knows a cluster by the public keys of its tokens, PEM.
    pub fn add_kubernetes_role(&self, name: &str, role: KubernetesRole, cluster_keys: &[String]) {
        let mut state = self.core.lock();
        state.kubernetes_keys.extend_from_slice(cluster_keys);
        state.kubernetes_roles.insert(name.to_owned(), role);
    }

    /// Every request that came, as `POST auth/jwt/config`.
    pub fn requests(&self) -> Vec<String> {
        self.core.lock().requests.clone()
    }

    /// What it warned of: fields that it does not know.
    pub fn warnings(&self) -> Vec<String> {
        self.core.lock().warnings.clone()
    }

    /// Logs in with a token at the JWT method, as a workload does.
    pub async fn login(&self, role: &str, jwt: &str) -> Result<Verdict> {
        let namespace = self.core.lock().namespace.clone();
        let request = http::client(None)?
            .post(format!("{}/v1/auth/jwt/login", self.url()))
            .header("x-vault-namespace", namespace)
            .json(&json!({ "role": role, "jwt": jwt }));
        let answer = request.send().await?;
        let status = answer.status();
        let body: Value = answer.json().await?;
        let name = body.pointer("/auth/display_name").and_then(Value::as_str);
        Ok(match name {
            Some(name) if status == 200 => Ok(name.to_owned()),
            _ => Err(Refusal { status: Some(status.as_u16()), reason: body.to_string() }),
        })
    }
}

impl Core {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Api for Core {
    async fn answer(&self, request: Request<Bytes>) -> Answer {
        self.lock().answer(&request)
    }
}

impl State {
    fn answer(&mut self, request: &Request<Bytes>) -> Answer {
        let Some(path) = request.uri().path().strip_prefix("/v1/") else {
            return refuse(404, "no such page");
        };
        self.requests.push(format!("{} {path}", request.method()));
        if self.sealed {
            return refuse(503, "Vault is sealed");
        }
        let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
        let is_here = header("x-vault-namespace").unwrap_or_default().trim_matches('/') == self.namespace;
        let body = serde_json::from_slice(request.body());
        match (request.method(), path) {
            (_, "auth/jwt/login" | "auth/kubernetes/login") if !is_here => no_route(path),
            (&Method::POST | &Method::PUT, "auth/jwt/login") => match body {
                Ok(body) => self.jwt_login(&body),
                Err(error) => refuse(400, &format!("failed to parse JSON input: {error}")),
            },
            (&Method::POST | &Method::PUT, "auth/kubernetes/login") => match body {
                Ok(body) => self.kubernetes_login(&body),
                Err(error) => refuse(400, &format!("failed to parse JSON input: {error}")),
            },
            // Whoever may not ask does not learn what there is.
            (method, path) if !is_here || !self.may(header("x-vault-token"), method, path) => {
                refuse(403, "permission denied")
            }
            (&Method::GET, "auth/jwt/config") => self.read_configuration(),
            (&Method::POST | &Method::PUT, "auth/jwt/config") => self.write_configuration(request),
            (_, "auth/jwt/config") => refuse(405, "1 error occurred:\n\t* unsupported operation\n\n"),
            (_, path) => no_route(path),
        }
    }

    fn may(&self, token: Option<&str>, method: &Method, path: &str) -> bool {
        let capability = match *method {
            Method::GET => "read",
            // The path knows no creation: every write is an update.
            Method::POST | Method::PUT => "update",
            Method::DELETE => "delete",
            _ => return false,
        };
        let capabilities = token.and_then(|token| self.tokens.get(token)?.get(path));
        capabilities.is_some_and(|capabilities| capabilities.iter().any(|granted| granted == capability))
    }

    fn new_token(&mut self, policy: Policy) -> String {
        self.tokens_made += 1;
        let token = format!("hvs.secret-token-number-{}", self.tokens_made);
        self.tokens.insert(token.clone(), policy);
        token
    }

    fn read_configuration(&self) -> Answer {
        match &self.configuration {
            None => stand_in::json(404, &json!({ "errors": [] })),
            Some(fields) => answer(&json!({ "data": configuration::shown(fields) })),
        }
    }

    fn write_configuration(&mut self, request: &Request<Bytes>) -> Answer {
        let content_type = request.headers().get("content-type").and_then(|value| value.to_str().ok());
        if content_type != Some("application/json") {
            return refuse(415, "expected application/json");
        }
        let fields = match serde_json::from_slice(request.body()) {
            Ok(fields) => fields,
            Err(error) => return refuse(400, &format!("failed to parse JSON input: {error}")),
        };
        match configuration::checked(&fields, self.configuration.as_ref()) {
            Err(error) => refuse(400, &error),
            Ok(checked) => {
                self.configuration = Some(checked.fields);
                match checked.unknown.as_slice() {
                    [] => empty(),
                    unknown => {
                        let warning = format!(
                            "Endpoint ignored these unrecognized parameters: [{}]",
                            unknown.join(" ")
                        );
                        self.warnings.push(warning.clone());
                        answer(&json!({ "data": null, "warnings": [warning] }))
                    }
                }
            }
        }
    }
}

fn policy(rules: &[Rule<'_>]) -> Policy {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    rules.iter().map(|(path, capabilities)| ((*path).to_owned(), owned(capabilities))).collect()
}

/// What surrounds every answer of Vault's.
fn answer(content: &Value) -> Answer {
    let mut body = json!({
        "request_id": "6d6fb8f2", "lease_id": "", "renewable": false, "lease_duration": 0,
        "data": null, "wrap_info": null, "warnings": null, "auth": null,
    });
    if let (Some(body), Some(content)) = (body.as_object_mut(), content.as_object()) {
        body.extend(content.clone());
    }
    stand_in::json(200, &body)
}

fn empty() -> Answer {
    let mut answer = Answer::default();
    *answer.status_mut() = hyper::StatusCode::NO_CONTENT;
    answer
}

fn refuse(status: u16, error: &str) -> Answer {
    stand_in::json(status, &json!({ "errors": [error] }))
}

fn no_route(path: &str) -> Answer {
    refuse(404, &format!("no handler for route \"{path}\". route entry not found."))
}

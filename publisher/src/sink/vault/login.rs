//! Where the token comes from: a file, or Vault's Kubernetes auth method
//! (<https://developer.hashicorp.com/vault/api-docs/auth/kubernetes#login>).

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::HeaderValue;
use reqwest::{Method, Url};
use serde::Deserialize;
use serde_json::json;

use super::answer::{Refusal, explain};
use crate::sink::config::{SinkConfigError, VaultPlace};
use crate::sink::http_client::{HttpClient, read_secret};
use crate::store::{Failure, StoreErrorKind};

/// Where requests go.
#[derive(Debug)]
pub(super) struct Server {
    pub http: HttpClient,
    /// `https://HOST/v1`
    pub base: String,
    pub namespace: Option<HeaderValue>,
}

/// Gives tokens.
#[derive(Debug)]
pub(super) enum Login {
    /// The file is read every time: whoever renews the token there need not tell us.
    File(PathBuf),
    Kubernetes(Kubernetes),
}

/// A login whose token is kept while it is good: each login leaves a lease in Vault's storage.
#[derive(Debug)]
pub(super) struct Kubernetes {
    server: Arc<Server>,
    url: Url,
    path: String,
    role: String,
    token_file: PathBuf,
    kept: Mutex<Option<Kept>>,
}

struct Kept {
    text: String,
    /// `None` for a token that never expires.
    until: Option<Instant>,
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").field("until", &self.until).finish_non_exhaustive()
    }
}

/// A token for one request.
pub(super) struct Token {
    pub text: String,
    /// Whether it is from an earlier login, so that a new one may do better.
    pub was_kept: bool,
}

impl Login {
    pub fn new(place: &VaultPlace, server: Arc<Server>) -> Result<Self, SinkConfigError> {
        let illegal = |remedy: &str| SinkConfigError::illegal("vault", place.to_string(), remedy);
        match (&place.token_file, &place.kubernetes) {
            (Some(file), None) => Ok(Self::File(file.clone())),
            (None, Some(login)) => {
                let path = format!("auth/{}/login", login.mount);
                let url = server.url(&path).map_err(|_| illegal("expected an address that is a URL"))?;
                let (role, token_file) = (login.role.clone(), login.token_file.clone());
                Ok(Self::Kubernetes(Kubernetes {
                    server,
                    url,
                    path,
                    role,
                    token_file,
                    kept: Mutex::default(),
                }))
            }
            _ => Err(illegal("expected one of `tokenFile` and `kubernetes`")),
        }
    }

    /// A token that should be good.
    pub async fn token(&self) -> Result<Token, Failure> {
        match self {
            Self::File(path) => Ok(Token { text: read_secret(path).await?, was_kept: false }),
            Self::Kubernetes(kubernetes) => match kubernetes.kept() {
                Some(text) => Ok(Token { text, was_kept: true }),
                None => Ok(Token { text: kubernetes.log_in().await?, was_kept: false }),
            },
        }
    }

    /// Logs in anew next time.
    pub fn forget(&self) {
        if let Self::Kubernetes(kubernetes) = self {
            kubernetes.keep(None);
        }
    }
}

impl Kubernetes {
    fn kept(&self) -> Option<String> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = kept.as_ref().filter(|kept| kept.until.is_none_or(|until| Instant::now() < until));
        kept.map(|kept| kept.text.clone())
    }

    fn keep(&self, kept: Option<Kept>) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = kept;
    }

    async fn log_in(&self) -> Result<String, Failure> {
        let jwt = read_secret(&self.token_file).await?;
        let body = json!({ "role": self.role, "jwt": jwt }).to_string().into_bytes();
        let started = Instant::now();
        let mut answer =
            self.server.send(Method::POST, &self.url, (self.server.headers(), Some(body))).await?;
        if !answer.status.is_success() {
            answer.forget(&jwt);
            return Err(explain(&answer, &Refusal::Login { path: &self.path, role: &self.role }));
        }
        let Ok(Granted { auth }) = serde_json::from_slice(&answer.body) else {
            let cause = format!("POST {} brought no token", self.path);
            return Err(Failure::new(
                StoreErrorKind::Misconfigured,
                cause,
                "give the mount of a Kubernetes auth method",
            ));
        };
        // A third of the life is left for what is under way.
        let life = Duration::from_secs(auth.lease_duration).mul_f64(2.0 / 3.0);
        let until = (auth.lease_duration > 0).then_some(started + life);
        self.keep(Some(Kept { text: auth.client_token.clone(), until }));
        Ok(auth.client_token)
    }
}

#[derive(Deserialize)]
struct Granted {
    auth: Auth,
}

#[derive(Deserialize)]
struct Auth {
    client_token: String,
    /// Seconds; 0 for a token that never expires.
    lease_duration: u64,
}

//! Where the token comes from: a file, or Vault's Kubernetes auth method
//! (<https://developer.hashicorp.com/vault/api-docs/auth/kubernetes#login>).

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use chancery_wire::{Endpoint, Secret, secret};
use http::Method;
use serde::{Deserialize, Serialize};

use super::answer::{VaultCall, explain};
use super::server::Server;
use crate::sink::config::{SinkConfigError, VaultPlace};
use crate::sink::secret_file::read_secret;
use crate::store::{Failure, StoreErrorKind};

/// Gives tokens.
#[derive(Debug)]
pub(super) enum Login {
    /// The file is read every time: whoever renews the token there need not tell us.
    File(PathBuf),
    Kubernetes(KubernetesAuth),
}

/// A login whose token is kept while it is good: each login leaves a lease in Vault's storage.
#[derive(Debug)]
pub(super) struct KubernetesAuth {
    server: Arc<Server>,
    url: Endpoint,
    path: String,
    role: String,
    token_file: PathBuf,
    kept: Mutex<Option<KeptToken>>,
}

/// A token of an earlier login.
#[derive(Debug)]
struct KeptToken {
    text: Secret,
    /// `None` for a token that never expires.
    until: Option<Instant>,
}

/// A token for one request.
pub(super) struct Token {
    pub text: Secret,
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
                let url = server.url(&path);
                let (role, token_file) = (login.role.clone(), login.token_file.clone());
                Ok(Self::Kubernetes(KubernetesAuth {
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

impl KubernetesAuth {
    fn kept(&self) -> Option<Secret> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = kept.as_ref().filter(|kept| kept.until.is_none_or(|until| Instant::now() < until));
        kept.map(|kept| kept.text.clone())
    }

    fn keep(&self, kept: Option<KeptToken>) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = kept;
    }

    async fn log_in(&self) -> Result<Secret, Failure> {
        let jwt = read_secret(&self.token_file).await?;
        let misconfigured = |cause: String| {
            let remedy = "give the mount of a Kubernetes auth method";
            Failure::new(StoreErrorKind::Misconfigured, cause, remedy)
        };
        let mut body = Vec::with_capacity(2 * (self.role.len() + jwt.expose().len()) + 64);
        serde_json::to_writer(&mut body, &LoginBody { role: &self.role, jwt: jwt.expose() })
            .map_err(|error| misconfigured(error.to_string()))?;
        let started = Instant::now();
        let request = self.server.request(Method::POST, &self.url, Some(secret::wiped(body)));
        let mut answer = self.server.send(request).await?;
        if !answer.status().is_success() {
            answer.forget(&jwt);
            return Err(explain(&answer, &VaultCall::Login { path: &self.path, role: &self.role }));
        }
        let Ok(Granted { auth }) = serde_json::from_slice(answer.body()) else {
            return Err(misconfigured(format!("POST {} brought no token", self.path)));
        };
        let text = Secret::new(auth.client_token);
        self.keep(Some(KeptToken { text: text.clone(), until: good_until(started, auth.lease_duration) }));
        Ok(text)
    }
}

/// Until when a token is used: a third of its life is left for what is under way. `None` for a token that never expires,
/// or whose end is further away than a clock can tell.
fn good_until(started: Instant, lease_seconds: u64) -> Option<Instant> {
    if lease_seconds == 0 {
        return None;
    }
    started.checked_add(Duration::from_secs(lease_seconds / 3 * 2 + lease_seconds % 3 * 2 / 3))
}

/// Of <https://developer.hashicorp.com/vault/api-docs/auth/kubernetes#login>.
#[derive(Serialize)]
struct LoginBody<'a> {
    role: &'a str,
    jwt: &'a str,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_lease_is_too_long_for_the_clock() {
        let now = Instant::now();
        assert_eq!(good_until(now, 0), None);
        assert_eq!(good_until(now, 3600), Some(now + Duration::from_secs(2400)));
        assert_eq!(good_until(now, 1), Some(now));
        for endless in [u64::MAX, u64::MAX / 2, i64::MAX as u64] {
            // It must not panic; what the clock cannot tell counts as no end.
            let _ = good_until(now, endless);
        }
        assert_eq!(good_until(now, u64::MAX), None);
    }
}

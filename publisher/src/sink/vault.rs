//! The JWT auth method of Vault and OpenBao, which is given the keys as `jwt_validation_pubkeys` of its configuration
//! (<https://developer.hashicorp.com/vault/api-docs/auth/jwt>, <https://openbao.org/api-docs/auth/jwt/>).
//!
//! Vault replaces the whole configuration at every write and knows no versions. So a write sends back every field that
//! was read, with the keys alone changed; right before it, the configuration is read once more and compared; after
//! it, [`upload`](super::upload()) reads what became of it. A writer that comes in between those two requests may still
//! be overwritten: it is only the keys of writers that read back, as we do, that come back.

use std::sync::Arc;

use async_trait::async_trait;
use chancery_core::IssuerUrl;
use chancery_core::publication::Version;
use chancery_core::upload::HeldKeys;
use chancery_wire::{Endpoint, Secret};
use http::{HeaderMap, HeaderName, Method, StatusCode};
use serde_json::{Map, Value};

use self::answer::{VaultCall, explain};
use self::login::Login;
use self::server::Server;
use super::config::{SinkConfigError, SinkPlace, VaultPlace};
use super::http_client::{SinkAnswer, secret_header};
use super::{JwksSink, Upload};
use crate::store::{Failure, Operation, StoreError};

mod answer;
mod keys;
mod login;
mod server;

/// Keys in the configuration of one mount.
#[derive(Debug)]
pub struct VaultSink {
    server: Arc<Server>,
    login: Login,
    issuer: IssuerUrl,
    path: String,
    url: Endpoint,
    name: String,
}

/// The version of a mount that has no configuration yet.
const UNCONFIGURED: &str = "unconfigured";

impl VaultSink {
    /// The sink of a place. Nothing is asked of Vault yet.
    ///
    /// # Errors
    /// When the place cannot be meant so, or its CA cannot be used.
    pub fn open(place: &VaultPlace, issuer: &IssuerUrl) -> Result<Self, SinkConfigError> {
        let server = Arc::new(Server::of(place)?);
        let path = format!("auth/{}/config", place.mount);
        Ok(Self {
            url: server.url(&path),
            login: Login::new(place, Arc::clone(&server))?,
            server,
            issuer: issuer.clone(),
            path,
            name: SinkPlace::Vault(place).to_string(),
        })
    }

    /// The whole configuration, `None` when the mount has none yet.
    async fn get(&self) -> Result<Option<Map<String, Value>>, Failure> {
        let answer = self.request(Method::GET, None).await?;
        match answer.status() {
            StatusCode::OK => keys::configuration(answer.body()).map(Some),
            // An unknown route is a 404 too, which says so.
            StatusCode::NOT_FOUND if answer::errors(answer.body()).is_empty() => Ok(None),
            _ => Err(explain(&answer, &VaultCall::Config(&self.path))),
        }
    }

    async fn put(&self, upload: Upload<'_>) -> Result<(), Failure> {
        let found = self.get().await?;
        if Some(version(found.as_ref())) != upload.held.version {
            return Err(Failure::conflict("its configuration was written in the meantime"));
        }
        let wanted = keys::with_keys(found, upload.jwks, &self.issuer);
        let body = Value::Object(wanted).to_string().into_bytes();
        let answer = self.request(Method::POST, Some(body)).await?;
        match answer.status().is_success() {
            true => Ok(()),
            false => Err(explain(&answer, &VaultCall::Config(&self.path))),
        }
    }

    /// Makes a request with a token; with a new one when the one that was kept is refused.
    async fn request(&self, method: Method, body: Option<Vec<u8>>) -> Result<SinkAnswer, Failure> {
        let token = self.login.token().await?;
        let answer = self.request_with(&token.text, method.clone(), body.clone()).await?;
        if answer.status() != StatusCode::FORBIDDEN || !token.was_kept {
            return Ok(answer);
        }
        self.login.forget();
        let token = self.login.token().await?;
        self.request_with(&token.text, method, body).await
    }

    async fn request_with(
        &self,
        token: &Secret,
        method: Method,
        body: Option<Vec<u8>>,
    ) -> Result<SinkAnswer, Failure> {
        let header = secret_header("the token", "", token)?;
        let headers = HeaderMap::from_iter([(HeaderName::from_static("x-vault-token"), header)]);
        let request = self.server.request(method, &self.url, body.map(Into::into)).headers(headers);
        let mut answer = self.server.send(request).await?;
        answer.forget(token);
        Ok(answer)
    }
}

#[async_trait]
impl JwksSink for VaultSink {
    async fn read(&self) -> Result<HeldKeys, StoreError> {
        let held = async {
            let configuration = self.get().await?;
            let keys =
                configuration.as_ref().map_or(Ok(Vec::new()), |found| keys::held(found, &self.issuer))?;
            let version = Some(version(configuration.as_ref()));
            Ok(HeldKeys { keys, version, ..HeldKeys::default() })
        };
        held.await.map_err(|failure: Failure| failure.at(self.describe(), Operation::Read, &self.path))
    }

    async fn write(&self, upload: Upload<'_>) -> Result<(), StoreError> {
        self.put(upload).await.map_err(|failure| failure.at(self.describe(), Operation::Write, &self.path))
    }

    fn describe(&self) -> String {
        self.name.clone()
    }
}

/// A configuration names itself: it is short, and holds no secret.
fn version(configuration: Option<&Map<String, Value>>) -> Version {
    let text = |found: &Map<String, Value>| Value::Object(found.clone()).to_string();
    Version(configuration.map_or_else(|| UNCONFIGURED.to_owned(), text))
}

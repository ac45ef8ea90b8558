//! Logins of container registries, from the credential of their cloud.

use std::str::FromStr;

use chancery_wire::{Endpoint, EndpointRule, HttpResponse};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::credential::{Credential, CredentialKind, RegistryLogin};
use crate::error::{Class, ExchangeError, Stage};
use crate::key::KeyBuilder;
use crate::transport::Transport;

pub mod acr;
pub mod ecr;
pub mod host;
pub mod jfrog;

pub use host::{RegistryHost, RegistryKind};

/// The user of Google's registries (<https://docs.cloud.google.com/artifact-registry/docs/docker/authentication>).
const GOOGLE_USER: &str = "oauth2accesstoken";

/// A registry, and where its logins are made.
#[derive(Clone, Debug)]
pub struct Registry {
    host: RegistryHost,
    /// Nobody is asked for a login of Google's.
    endpoint: Option<Endpoint>,
}

impl Registry {
    /// A registry whose logins are made where its cloud documents.
    ///
    /// # Errors
    /// When that is no URL.
    pub fn new(host: RegistryHost) -> Result<Self, ExchangeError> {
        let endpoint = match host.kind() {
            RegistryKind::Ecr { region, .. } => Some(region.ecr()?),
            RegistryKind::EcrPublic => Some(fixed("https://api.ecr-public.us-east-1.amazonaws.com/")?),
            RegistryKind::Acr | RegistryKind::JFrog { .. } => {
                Some(fixed(&format!("https://{}/", host.as_str()))?)
            }
            RegistryKind::Google => None,
        };
        Ok(Self { host, endpoint })
    }

    /// The same with its logins made elsewhere, where the operator says so.
    #[must_use]
    pub fn at(self, endpoint: Endpoint) -> Self {
        Self { endpoint: self.endpoint.map(|_| endpoint), ..self }
    }

    /// Which registry.
    pub fn host(&self) -> &RegistryHost {
        &self.host
    }

    /// Where logins are made, if anybody is asked.
    pub fn endpoint(&self) -> Option<&Endpoint> {
        self.endpoint.as_ref()
    }

    /// Adds what a login depends on beside the cloud's credential. The whole host is part of it, so that what is given
    /// for one registry is never handed out for another.
    pub fn describe(this: Option<&Self>, key: &mut KeyBuilder) {
        key.optional("registry", this.map(|this| this.host.as_str()));
        let endpoint = this.and_then(|this| this.endpoint.as_ref());
        key.optional("registry_endpoint", endpoint.map(|endpoint| endpoint.url().as_str()));
    }

    /// The login, by what the cloud gave.
    ///
    /// # Errors
    /// When it is refused, or the credential is of another cloud.
    pub async fn login(
        &self,
        transport: &Transport,
        credential: &Credential,
    ) -> Result<Credential, ExchangeError> {
        match (self.host.kind(), &credential.kind, &self.endpoint) {
            (RegistryKind::Google, CredentialKind::Bearer(bearer), _) => {
                let login = RegistryLogin {
                    host: self.host.as_str().to_owned(),
                    username: GOOGLE_USER.to_owned(),
                    password: bearer.token.clone(),
                };
                let kind = CredentialKind::Registry(login);
                Ok(Credential::new(kind, credential.issued_at, Some(credential.expires_at)))
            }
            (RegistryKind::Acr, CredentialKind::Bearer(bearer), Some(endpoint)) => {
                let request = acr::request(endpoint, self.host.as_str(), &bearer.token);
                let answer = transport.send(Stage::Registry, request).await?;
                acr::read(&answer, &self.host, Timestamp::now())
                    .map_err(|error| error.without(&bearer.token).target(endpoint.host()))
            }
            (
                RegistryKind::Ecr { .. } | RegistryKind::EcrPublic,
                CredentialKind::Aws(keys),
                Some(endpoint),
            ) => {
                let now = std::time::SystemTime::now();
                let request = ecr::request(endpoint, self.host.kind(), keys, now)?;
                let answer = transport.send(Stage::Registry, request).await?;
                ecr::read(&answer, &self.host, Timestamp::now())
                    .map_err(|error| error.target(endpoint.host()))
            }
            (RegistryKind::JFrog { region }, CredentialKind::Aws(keys), Some(endpoint)) => {
                let now = std::time::SystemTime::now();
                let request = jfrog::request(endpoint, region, keys, now)?;
                let answer = transport.send(Stage::Registry, request).await?;
                jfrog::read(&answer, &self.host, Timestamp::now())
                    .map_err(|error| error.target(endpoint.host()))
            }
            _ => Err(ExchangeError::configuration("registry-of-another-cloud")
                .came(&format!("{} for {}", credential.kind_in_words(), self.host.as_str()))
                .expected("a credential of the registry's own cloud")
                .remedy("use aws for ECR and JFrog, azure for ACR, gcp for Artifact Registry")),
        }
    }
}

/// A refusal, as ACR and JFrog write it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Refusal {
    errors: Vec<Reason>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Reason {
    /// A word at ACR; JFrog's is not looked at.
    code: Value,
    message: String,
}

/// Why there is a refusal, if it says so.
fn reason(answer: &HttpResponse) -> Option<Reason> {
    let Refusal { errors } = serde_json::from_slice(&answer.body).unwrap_or_default();
    errors.into_iter().next()
}

/// A refusal by ACR or JFrog. What was asked for is denied, unless it may be asked for again: `remedy` says what to do then.
fn refused(answer: &HttpResponse, came: Option<&str>, remedy: &'static str) -> ExchangeError {
    let class = Class::of_status(answer.status.as_u16());
    let (code, remedy) = match class {
        Class::Throttled => ("throttled", "ask less often, and keep what was given in a cache"),
        Class::Permanent => ("registry-access-denied", remedy),
        _ => ("server-failed", "try again a little later"),
    };
    ExchangeError::new(class, Stage::Registry, code)
        .status(answer.status.as_u16())
        .came(came.unwrap_or("a refusal without a reason"))
        .retry_after(answer.retry_after())
        .remedy(remedy)
}

fn fixed(url: &str) -> Result<Endpoint, ExchangeError> {
    Endpoint::parse(url, &EndpointRule::any_host())
        .map_err(|error| ExchangeError::endpoint("the registry's endpoint", &error))
}

/// The registry of an image, whose name may be followed by a tag or a digest
/// (<https://github.com/distribution/reference>).
///
/// # Errors
/// When it is on no registry of a cloud that is known here.
pub fn of_image(image: &str) -> Result<RegistryHost, ExchangeError> {
    let (first, rest) = image.split_once('/').unwrap_or((image, ""));
    let is_host = !rest.is_empty() && (first.contains(['.', ':']) || first == "localhost");
    if is_host { RegistryHost::from_str(first) } else { Err(host::unknown(image)) }
}

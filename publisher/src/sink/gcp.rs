//! The keys that are uploaded to an OIDC provider of a workload identity pool, for an issuer that Google cannot read.
//!
//! A provider has no version, so a write cannot be conditional: it is read back, and made anew with what another
//! writer has put there. A provider with another owner's mark is not touched; one without a mark is, since the
//! configuration names it.

use async_trait::async_trait;
use chancery_core::trust::gcp::names::{self, owner_in};
use chancery_core::trust::gcp::{ENDPOINT, Oidc, Provider, uploaded};
use chancery_core::upload::HeldKeys;
use http::Method;
use serde_json::json;

use super::config::GcpProviderPlace;
use super::{JwksSink, Upload};
use crate::google::{GoogleClient, RestError};
use crate::store::{Failure, Operation, StoreError, StoreErrorKind};
use crate::target::TargetError;
use crate::trust::gcp::SCOPE;

/// What is written, as the API calls it.
const FIELD: &str = "oidc.jwksJson";

/// Makes the sink. Reads this machine's credentials; the provider is not touched.
///
/// # Errors
/// When the credentials or the endpoint cannot be used.
pub fn connect(sink: &GcpProviderPlace) -> Result<GcpSink, TargetError> {
    let endpoint = sink.endpoint.as_deref().unwrap_or(ENDPOINT);
    let rest = GoogleClient::new(sink.credentials_file.as_deref(), SCOPE, endpoint).map_err(|came| {
        let remedy = "correct its `endpoint` and its credentials".to_owned();
        TargetError::IllegalValue { field: "gcpProvider", came: format!("unusable: {came}"), remedy }
    })?;
    Ok(GcpSink { rest, name: names::provider(&sink.project, &sink.pool, &sink.provider) })
}

/// The uploaded keys of one provider.
#[derive(Debug)]
pub struct GcpSink {
    rest: GoogleClient,
    name: String,
}

impl GcpSink {
    fn url(&self) -> String {
        format!("{}/v1/{}", self.rest.endpoint(), self.name)
    }

    async fn held(&self) -> Result<HeldKeys, Failure> {
        let json = self.rest.call(&Method::GET, &self.url(), None).await.map_err(failure)?;
        let provider: Provider = serde_json::from_value(json).map_err(|error| {
            Failure::new(StoreErrorKind::Misconfigured, error, "compare `endpoint` with Google's")
        })?;
        held(&provider)
    }

    async fn put(&self, upload: &Upload<'_>) -> Result<(), Failure> {
        let keys = uploaded::json(upload.jwks).map_err(|error| {
            let remedy =
                "sign with RS256 or ES256 wherever tokens are for Google, or leave this provider out";
            Failure::new(StoreErrorKind::Misconfigured, error, remedy)
        })?;
        let url = format!("{}?updateMask={FIELD}", self.url());
        let body = json!({ "oidc": { "jwksJson": keys } });
        let operation = self.rest.call(&Method::PATCH, &url, Some(&body)).await.map_err(failure)?;
        self.rest.finished(operation).await.map_err(failure)?;
        let there = self.held().await?.keys;
        let missing = upload.jwks.keys().iter().find(|key| !there.iter().any(|other| other == *key));
        missing.map_or(Ok(()), |key| {
            Err(Failure::conflict(format!("another writer took the key {} away again", key.key_id())))
        })
    }
}

#[async_trait]
impl JwksSink for GcpSink {
    async fn read(&self) -> Result<HeldKeys, StoreError> {
        self.held().await.map_err(|failure| failure.at(self.describe(), Operation::Read, FIELD))
    }

    async fn write(&self, upload: Upload<'_>) -> Result<(), StoreError> {
        self.put(&upload).await.map_err(|failure| failure.at(self.describe(), Operation::Write, FIELD))
    }

    fn describe(&self) -> String {
        format!("provider {}", self.name)
    }
}

fn held(provider: &Provider) -> Result<HeldKeys, Failure> {
    if provider.state == "DELETED" {
        let remedy =
            "bring it back with `gcloud iam workload-identity-pools providers undelete`, or name another";
        return Err(Failure::new(StoreErrorKind::NoSuchContainer, "the provider is deleted", remedy));
    }
    let oidc: &Oidc = provider.oidc.as_ref().ok_or_else(|| {
        let remedy = "name a provider of the kind OIDC";
        Failure::new(StoreErrorKind::Misconfigured, "the provider is of another kind", remedy)
    })?;
    uploaded::held(oidc, owner_in(&provider.description)).map_err(|error| {
        Failure::new(StoreErrorKind::Misconfigured, error, "look at its keys, and upload them anew by hand")
    })
}

fn failure(error: RestError) -> Failure {
    use StoreErrorKind as Kind;
    let (kind, remedy) = match &error {
        RestError::NoToken(_) => (
            Kind::Denied,
            "correct or give credentials: `credentialsFile`, GOOGLE_APPLICATION_CREDENTIALS, or a machine of Google's",
        ),
        RestError::NoAnswer(_) => (Kind::TimedOut, "try again; if it stays, look at the network"),
        RestError::Refused { status: 401, .. } => (Kind::Denied, "correct or renew the credentials"),
        RestError::Refused { status: 403, .. } => (
            Kind::Denied,
            "grant iam.workloadIdentityPoolProviders.get and iam.workloadIdentityPoolProviders.update on the project",
        ),
        RestError::Refused { status: 404, .. } => {
            (Kind::NoSuchContainer, "make the provider, with `chancery trust gcp apply` for example")
        }
        RestError::Refused { status: 408 | 409 | 429 | 500..=599, .. } => {
            (Kind::Unavailable, "try again; a project takes 60 such writes in a minute")
        }
        RestError::Refused { .. } => (Kind::Misconfigured, "compare the provider with the answer"),
    };
    Failure::new(kind, error, remedy)
}

//! Registers an issuer with a workload identity pool of Google Cloud, through the IAM API
//! (<https://docs.cloud.google.com/iam/docs/reference/rest/v1/projects.locations.workloadIdentityPools>).

use std::path::Path;

use async_trait::async_trait;
use chancery_core::trust::gcp::names;
use chancery_core::trust::gcp::{Observed, Wanted, plan};
use chancery_core::trust::{Body, Call, TrustPlan};
use http::Method;
use serde::de::DeserializeOwned;

use super::{Registrar, TrustError};
use crate::google::{GoogleClient, RestError};

/// The narrower of the two scopes that the API takes.
pub(crate) const SCOPE: &str = "https://www.googleapis.com/auth/iam";

/// The permissions that `plan` and `apply` need, in the order in which they are used.
const PERMISSIONS: [&str; 5] = [
    "iam.workloadIdentityPools.get",
    "iam.workloadIdentityPools.create",
    "iam.workloadIdentityPoolProviders.get",
    "iam.workloadIdentityPoolProviders.create",
    "iam.workloadIdentityPoolProviders.update",
];

/// The registration of one issuer with one provider.
#[derive(Debug)]
pub struct GcpRegistrar {
    rest: GoogleClient,
    wanted: Wanted,
}

impl GcpRegistrar {
    /// A registrar with the credentials of `file`, or of this machine. Nothing is asked of the network yet.
    ///
    /// # Errors
    /// When the credentials or the endpoint cannot be used.
    pub fn connect(wanted: Wanted, file: Option<&Path>, endpoint: &str) -> Result<Self, TrustError> {
        let rest = GoogleClient::new(file, SCOPE, endpoint)
            .map_err(|what| TrustError::Unreachable { what, remedy: CREDENTIALS })?;
        Ok(Self { rest, wanted })
    }

    fn get(&self, name: &str, permission: &'static str) -> Call {
        Call {
            method: "GET",
            url: format!("{}/v1/{name}", self.rest.endpoint()),
            body: None,
            permission,
            reason: "reads what is registered".to_owned(),
        }
    }

    async fn read<T: DeserializeOwned>(&self, call: Call) -> Result<Option<T>, TrustError> {
        match self.rest.call(&Method::GET, &call.url, None).await {
            Ok(json) => serde_json::from_value(json).map(Some).map_err(|error| TrustError::Unreachable {
                what: format!("{call} was answered with something else than such a resource: {error}"),
                remedy: "compare the endpoint with Google's",
            }),
            Err(RestError::Refused { status: 404, .. }) => Ok(None),
            Err(error) => Err(self.failed(call, error)),
        }
    }

    async fn observe(&self) -> Result<Observed, TrustError> {
        let Wanted { project, pool, provider, .. } = &self.wanted;
        let call = self.get(&names::pool(project, pool), "iam.workloadIdentityPools.get");
        let Some(found) = self.read(call).await? else { return Ok(Observed::default()) };
        let call =
            self.get(&names::provider(project, pool, provider), "iam.workloadIdentityPoolProviders.get");
        Ok(Observed { pool: Some(found), provider: self.read(call).await? })
    }

    fn failed(&self, call: Call, error: RestError) -> TrustError {
        match error {
            RestError::Refused { status, message } => {
                let remedy = remedy(status, &message, &call, &self.wanted);
                TrustError::Refused { call: Box::new(call), answer: format!("{status} {message}"), remedy }
            }
            RestError::NoToken(_) => {
                TrustError::Unreachable { what: format!("{call}: {error}"), remedy: CREDENTIALS }
            }
            RestError::NoAnswer(_) => TrustError::Unreachable {
                what: format!("{call} was not answered: {error}"),
                remedy: "look at the network, then plan again: it may have taken effect",
            },
        }
    }
}

const CREDENTIALS: &str = "give credentials: a file that gcloud has made, GOOGLE_APPLICATION_CREDENTIALS, or `gcloud auth application-default login`";

#[async_trait]
impl Registrar for GcpRegistrar {
    async fn plan(&self) -> Result<TrustPlan, TrustError> {
        let observed = self.observe().await?;
        plan(&self.wanted, &observed, self.rest.endpoint())
            .map_err(|blocked| TrustError::Blocked { registration: self.describe(), blocked })
    }

    async fn apply(&self, plan: &TrustPlan) -> Result<(), TrustError> {
        for call in &plan.calls {
            let method = if call.method == "PATCH" { Method::PATCH } else { Method::POST };
            let body = match &call.body {
                Some(Body::Json(body)) => Some(body),
                _ => None,
            };
            let made = async { self.rest.finished(self.rest.call(&method, &call.url, body).await?).await };
            made.await.map_err(|error| self.failed(call.clone(), error))?;
        }
        Ok(())
    }

    fn describe(&self) -> String {
        let Wanted { project, pool, provider, issuer, .. } = &self.wanted;
        format!("{} for {issuer}", names::provider(project, pool, provider))
    }

    fn least_policy(&self) -> String {
        let permissions: String = PERMISSIONS.iter().map(|name| format!("- {name}\n")).collect();
        format!(
            "# gcloud iam roles create chanceryTrust --project={} --file=THIS_FILE\ntitle: Chancery trust\nstage: GA\nincludedPermissions:\n{permissions}",
            self.wanted.project
        )
    }
}

fn remedy(status: u16, message: &str, call: &Call, wanted: &Wanted) -> String {
    let project = &wanted.project;
    match status {
        _ if message.contains("constraints/") => format!(
            "an organization policy forbids it (`gcloud org-policies describe iam.workloadIdentityPoolProviders --project={project} --effective`); ask who keeps it to allow {}",
            wanted.issuer
        ),
        401 => CREDENTIALS.to_owned(),
        403 if message.contains("SERVICE_DISABLED") || message.contains("has not been used in project") => {
            format!("enable the API: `gcloud services enable iam.googleapis.com --project={project}`")
        }
        403 => format!("grant {} on the project {project}", call.permission),
        404 => format!("see that the project {project} exists"),
        409 => "somebody else made it, or an id that was deleted is not free again; plan again".to_owned(),
        429 => "wait a minute: a project takes 60 such writes in a minute".to_owned(),
        500..=599 => "plan again".to_owned(),
        _ => "compare the arguments with the answer".to_owned(),
    }
}

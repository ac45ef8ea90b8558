//! Azure Resource Manager and Microsoft Graph: JSON over HTTPS, with a token of Entra.
//!
//! Both refuse writes that come together (409) and too many calls (429), so each is made again after a pause.

use std::sync::Arc;
use std::time::Duration;

use azure_core::credentials::TokenCredential;
use chancery_core::trust::azure::Cloud;
use chancery_core::trust::{Body, Call};
use chancery_wire::{
    CallError, ClientError, Endpoint, EndpointRule, HttpClient, HttpRequest, RetryBudget, Secret,
};
use http::{HeaderValue, Method, header};

pub(crate) use self::answer::AzureAnswer;
use super::credential::{self, NoCredential};
use super::{sas, transport, words};
use crate::limits::{AZURE_CALL, AZURE_TOKEN};
use crate::target::AzureIdentity;
use crate::trust::error::TrustError;

mod answer;

/// A minute of pauses in all, unless the cloud asks for longer ones.
const BUDGET: RetryBudget = RetryBudget::of_attempts(7, Duration::from_secs(1), Duration::from_secs(60));

/// One of the two, and who asks it.
pub(crate) struct Api {
    base: Endpoint,
    scope: String,
    credential: Arc<dyn TokenCredential>,
    client: HttpClient,
}

impl Api {
    /// Reads what this machine has of credentials; nobody is asked yet.
    ///
    /// # Errors
    /// When there are no credentials, or the endpoint would get them without TLS.
    pub(crate) fn connect(
        endpoint: &str,
        cloud: Cloud,
        identity: &AzureIdentity,
    ) -> Result<Self, TrustError> {
        // A signature opens blobs alone.
        let environment = &|name: &str| credential::environment(name).filter(|_| name != sas::VARIABLE);
        let mut identity = identity.clone();
        if identity.authority_host.is_none() && environment("AZURE_AUTHORITY_HOST").is_none() {
            identity.authority_host = Some(cloud.authority().to_owned());
        }
        let base = Endpoint::parse(endpoint, &EndpointRule::any_host());
        let base = base.map_err(|error| TrustError::Unreachable {
            what: format!("the endpoint {error}"),
            remedy: "expected https://HOST, since a token is sent there",
        })?;
        let missing = |missing: NoCredential| TrustError::Unreachable {
            what: format!("the credential is {}", missing.came),
            remedy: missing.remedy,
        };
        let unequipped = |error: ClientError| TrustError::Unreachable {
            what: error.to_string(),
            remedy: "install a bundle of certificate authorities, or name one in SSL_CERT_FILE",
        };
        let chosen = credential::choose(identity.credential, environment).map_err(missing)?;
        let options = transport::options(AZURE_CALL, None).map_err(unequipped)?;
        let credential = credential::open(chosen, &identity, environment, options).map_err(missing)?;
        Ok(Self::new(base, credential, transport::client(AZURE_CALL).map_err(unequipped)?))
    }

    fn new(base: Endpoint, credential: Arc<dyn TokenCredential>, client: HttpClient) -> Self {
        let scope = format!("{}/.default", base.base());
        Self { base, scope, credential, client }
    }

    #[cfg(test)]
    pub(crate) fn base(&self) -> &Endpoint {
        &self.base
    }

    /// Whether a URL that an answer names may be given the token.
    pub(crate) fn is_at(&self, url: &str) -> bool {
        self.base.admit(url).is_ok()
    }

    /// Makes one call, again after a pause where patience helps.
    ///
    /// # Errors
    /// When it is refused, or gets no answer.
    pub(crate) async fn make(&self, call: &Call) -> Result<AzureAnswer, TrustError> {
        let attempt = || async {
            let answer = self.send(call).await.map_err(CallError::Permanent)?;
            match answer.is_success() {
                true => Ok(answer),
                false if answer.asks_for_patience() => {
                    let retry_after = answer.retry_after;
                    Err(CallError::Transient { error: answer.into_refusal(call), retry_after })
                }
                false => Err(CallError::Permanent(answer.into_refusal(call))),
            }
        };
        BUDGET.run(attempt).await
    }

    async fn send(&self, call: &Call) -> Result<AzureAnswer, TrustError> {
        let unreachable = |what: String| TrustError::Unreachable {
            what,
            remedy: "look at the network and run it again: what was registered stays, and only the rest is called",
        };
        let url = self.base.admit(&call.url).map_err(|error| TrustError::Unreachable {
            what: format!("{call} cannot be made: its URL {error}"),
            remedy: NOT_AZURE,
        })?;
        let method = Method::from_bytes(call.method.as_bytes()).unwrap_or_default();
        let mut request = HttpRequest::new(method, &url).header(header::AUTHORIZATION, self.token().await?);
        if let Some(Body::Json(body)) = &call.body {
            request = request.body(HeaderValue::from_static("application/json"), body.to_string());
        }
        let answer = self.client.send(request).await;
        let answer = answer.map_err(|error| unreachable(format!("{call} got no answer: {error}")))?;
        let (status, retry_after) = (answer.status.as_u16(), answer.retry_after());
        Ok(AzureAnswer::of(status, retry_after, answer.body.to_vec()))
    }

    /// A token, as the value of a header.
    async fn token(&self) -> Result<HeaderValue, TrustError> {
        let scope = &self.scope;
        let missing = |why: String| TrustError::Unreachable {
            what: format!("no token for {scope} was to be had: {why}"),
            remedy: "correct the credentials, or look at the service that gives the tokens",
        };
        let given = tokio::time::timeout(AZURE_TOKEN, self.credential.get_token(&[scope], None)).await;
        let given = given.map_err(|_| missing(format!("none came in {} s", AZURE_TOKEN.as_secs())))?;
        let token = given.map_err(|error| missing(words(&error)))?;
        let token = Secret::new(token.token.secret().to_owned());
        token.bearer().map_err(|error| missing(error.to_string()))
    }
}

/// A call that was answered otherwise than is of use.
pub(crate) fn refused(call: &Call, answer: String, remedy: impl Into<String>) -> TrustError {
    TrustError::Refused { call: Box::new(call.clone()), answer, remedy: remedy.into() }
}

/// What helps where an answer makes no sense.
pub(crate) const NOT_AZURE: &str = "see that the endpoint is Azure's";

#[cfg(test)]
pub(crate) mod tests;

//! Azure Resource Manager and Microsoft Graph: JSON over HTTPS, with a token of Entra.
//!
//! Both refuse writes that come together (409) and too many calls (429), so each is made again after a pause.

use std::sync::Arc;
use std::time::Duration;

use azure_core::credentials::TokenCredential;
use chancery_core::trust::azure::Cloud;
use chancery_core::trust::{Body, Call};
use reqwest::{Method, Url};

pub(crate) use self::answer::Answer;
use super::credential::{self, NoCredential};
use super::{sas, transport, words};
use crate::target::AzureIdentity;
use crate::trust::TrustError;

mod answer;

/// How often a call is made before a cloud that asks for patience is given up.
const TRIES: u32 = 7;
/// The first pause where none is asked for; each further one is twice as long, a minute in all.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest pause that a cloud is granted.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Azure Resource Manager takes seconds at times.
const ATTEMPT: Duration = Duration::from_secs(30);

/// One of the two, and who asks it.
pub(crate) struct Api {
    base: Url,
    scope: String,
    credential: Arc<dyn TokenCredential>,
    client: reqwest::Client,
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
        let base = Url::parse(endpoint).ok().filter(|url| url.scheme() == "https");
        let base = base.ok_or_else(|| TrustError::Unreachable {
            what: format!("the endpoint {endpoint:?} cannot be used"),
            remedy: "expected https://HOST, since a token is sent there",
        })?;
        let missing = |missing: NoCredential| TrustError::Unreachable {
            what: format!("the credential is {}", missing.came),
            remedy: missing.remedy,
        };
        let unequipped = |error: reqwest::Error| TrustError::Unreachable {
            what: words(&error),
            remedy: "install a bundle of certificate authorities, or name one in SSL_CERT_FILE",
        };
        let chosen = credential::choose(identity.credential, environment).map_err(missing)?;
        let options = transport::options(ATTEMPT, None).map_err(unequipped)?;
        let credential = credential::open(chosen, &identity, environment, options).map_err(missing)?;
        Ok(Self::new(base, credential, transport::client(ATTEMPT).map_err(unequipped)?))
    }

    fn new(base: Url, credential: Arc<dyn TokenCredential>, client: reqwest::Client) -> Self {
        let scope = format!("{}/.default", base.as_str().trim_end_matches('/'));
        Self { base, scope, credential, client }
    }

    #[cfg(test)]
    pub(crate) fn base(&self) -> &Url {
        &self.base
    }

    /// Whether a URL that an answer names may be given the token.
    pub(crate) fn is_at(&self, url: &str) -> bool {
        Url::parse(url).is_ok_and(|url| url.origin() == self.base.origin())
    }

    /// Makes one call, again after a pause where patience helps.
    ///
    /// # Errors
    /// When it is refused, or gets no answer.
    pub(crate) async fn make(&self, call: &Call) -> Result<Answer, TrustError> {
        let mut pause = PAUSE;
        for _ in 1..TRIES {
            let answer = self.send(call).await?;
            if answer.is_success() {
                return Ok(answer);
            }
            if !answer.asks_for_patience() {
                return Err(answer.into_refusal(call));
            }
            let asked = answer.retry_after.unwrap_or(pause).min(LONGEST_PAUSE);
            tracing::info!(call = %call, answer = %answer, pause_seconds = asked.as_secs(), "asked for patience; trying again");
            tokio::time::sleep(asked).await;
            pause *= 2;
        }
        let last = self.send(call).await?;
        if last.is_success() { Ok(last) } else { Err(last.into_refusal(call)) }
    }

    async fn send(&self, call: &Call) -> Result<Answer, TrustError> {
        let scope = &self.scope;
        let token = self.credential.get_token(&[scope], None).await;
        let token = token.map_err(|error| TrustError::Unreachable {
            what: format!("no token for {scope} was to be had: {}", words(&error)),
            remedy: "correct the credentials, or look at the service that gives the tokens",
        })?;
        let unreachable = |error: reqwest::Error| TrustError::Unreachable {
            what: format!("{call} got no answer: {}", words(&error)),
            remedy: "look at the network and run it again: what was registered stays, and only the rest is called",
        };
        let method = Method::from_bytes(call.method.as_bytes()).unwrap_or_default();
        let mut request = self.client.request(method, &call.url).bearer_auth(token.token.secret());
        match &call.body {
            Some(Body::Json(body)) => {
                request = request.header("content-type", "application/json").body(body.to_string());
            }
            Some(Body::Form(_)) | None => {}
        }
        Answer::receive(request.send().await.map_err(unreachable)?).await.map_err(unreachable)
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

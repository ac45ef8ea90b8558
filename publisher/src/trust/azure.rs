//! Registers federated identity credentials with Azure Resource Manager or Microsoft Graph.
//!
//! Both refuse writes that come together (409) and too many (429), so calls are made one at a time and again after a
//! pause. A list comes in pages, and the link to the next one is followed only on the host that gave it: the token
//! goes along.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use azure_core::credentials::TokenCredential;
use chancery_core::trust::azure::{self, Cloud, Identity, Registered, Wanted};
use chancery_core::trust::{Body, Call, TrustPlan};
use reqwest::{Method, Url};
use serde_json::{Value, json};

use self::answer::{Answer, Page};
use super::{Registrar, TrustError};
use crate::azure::credential::{self, NoCredential};
use crate::azure::{sas, transport, words};
use crate::target::AzureIdentity;

mod answer;

/// How often a call is made before a cloud that asks for patience is given up.
const TRIES: u32 = 7;
/// The first pause where none is asked for; each further one is twice as long, a minute in all.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest pause that a cloud is granted.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Azure Resource Manager takes seconds at times.
const ATTEMPT: Duration = Duration::from_secs(30);
/// More pages than [`azure::LIMIT`] credentials can fill.
const PAGES: usize = 10;

/// The federated identity credentials of one identity.
pub struct AzureRegistrar {
    wanted: Wanted,
    base: Url,
    credential: Arc<dyn TokenCredential>,
    client: reqwest::Client,
}

impl AzureRegistrar {
    /// Reads what this machine has of credentials; nobody is asked yet.
    ///
    /// # Errors
    /// When there are no credentials, or the endpoint would get them without TLS.
    pub fn connect(wanted: Wanted, cloud: Cloud, identity: &AzureIdentity) -> Result<Self, TrustError> {
        // A signature opens blobs alone.
        let environment = &|name: &str| credential::environment(name).filter(|_| name != sas::VARIABLE);
        let mut identity = identity.clone();
        if identity.authority_host.is_none() && environment("AZURE_AUTHORITY_HOST").is_none() {
            identity.authority_host = Some(cloud.authority().to_owned());
        }
        let base = Url::parse(&wanted.endpoint).ok().filter(|url| url.scheme() == "https");
        let base = base.ok_or_else(|| TrustError::Unreachable {
            what: format!("the endpoint {:?} cannot be used", wanted.endpoint),
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
        let client = transport::client(ATTEMPT).map_err(unequipped)?;
        Ok(Self { wanted, base, credential, client })
    }

    /// Every credential that the identity has.
    async fn list(&self) -> Result<Vec<Registered>, TrustError> {
        let mut all = Vec::new();
        let mut next = Some(self.wanted.identity.url(&self.wanted.endpoint, ""));
        for _ in 0..PAGES {
            let Some(url) = next else { return Ok(all) };
            let call = self.reading(url);
            let answer = self.make(&call).await?;
            let page = Page::read(&answer).map_err(|problem| refused(&call, problem, NOT_AZURE))?;
            all.extend(page.registered);
            next = page.next;
            let strange = next.as_deref().filter(|next| !self.is_ours(next));
            if strange.is_some() {
                return Err(refused(
                    &call,
                    "a link to another host, which is not followed".to_owned(),
                    NOT_AZURE,
                ));
            }
        }
        Err(refused(&self.reading(String::new()), format!("more than {PAGES} pages"), NOT_AZURE))
    }

    fn reading(&self, url: String) -> Call {
        Call {
            method: "GET",
            url,
            body: None,
            permission: self.wanted.identity.read_permission(),
            reason: "what is registered decides what is called".to_owned(),
        }
    }

    fn is_ours(&self, url: &str) -> bool {
        Url::parse(url).is_ok_and(|url| url.origin() == self.base.origin())
    }

    /// Makes one call, again after a pause where patience helps.
    async fn make(&self, call: &Call) -> Result<Answer, TrustError> {
        for tries in 1.. {
            let answer = self.send(call).await?;
            if answer.is_success() {
                return Ok(answer);
            }
            if !answer.asks_for_patience() || tries >= TRIES {
                let remedy = answer.remedy(call);
                return Err(refused(call, answer.to_string(), remedy));
            }
            let pause = answer.retry_after.unwrap_or(PAUSE * (1 << (tries - 1))).min(LONGEST_PAUSE);
            tracing::info!(call = %call, answer = %answer, pause_seconds = pause.as_secs(), "asked for patience; trying again");
            tokio::time::sleep(pause).await;
        }
        Err(refused(call, "never".to_owned(), NOT_AZURE))
    }

    async fn send(&self, call: &Call) -> Result<Answer, TrustError> {
        let scope = format!("{}/.default", self.wanted.endpoint.trim_end_matches('/'));
        let token = self.credential.get_token(&[&scope], None).await;
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

const NOT_AZURE: &str = "see that the endpoint is Azure's";

fn refused(call: &Call, answer: String, remedy: impl Into<String>) -> TrustError {
    TrustError::Refused { call: Box::new(call.clone()), answer, remedy: remedy.into() }
}

#[async_trait]
impl Registrar for AzureRegistrar {
    async fn plan(&self) -> Result<TrustPlan, TrustError> {
        let observed = self.list().await?;
        azure::plan(&self.wanted, &observed)
            .map_err(|blocked| TrustError::Blocked { registration: self.describe(), blocked })
    }

    async fn apply(&self, plan: &TrustPlan) -> Result<(), TrustError> {
        for call in &plan.calls {
            self.make(call).await?;
            tracing::info!(call = %call, "registered: {}", call.reason);
        }
        Ok(())
    }

    fn describe(&self) -> String {
        format!("federated identity credentials for {} of the {}", self.wanted.issuer, self.wanted.identity)
    }

    fn least_policy(&self) -> String {
        let policy = match &self.wanted.identity {
            identity @ Identity::Managed(id) => json!({
                "Name": "Chancery registrar",
                "Description": "Reads and writes the federated identity credentials of one identity",
                "Actions": [identity.read_permission(), identity.write_permission()],
                // A role is defined for a group at least, and assigned on the identity alone.
                "AssignableScopes": [id.split('/').take(5).collect::<Vec<_>>().join("/")],
            }),
            Identity::Application(_) => owned_by(),
        };
        serde_json::to_string_pretty(&policy).unwrap_or_default()
    }
}

/// `Application.ReadWrite.OwnedBy` of Microsoft Graph, as the manifest of the calling application has it; the caller must
/// be an owner of the application that is changed (<https://learn.microsoft.com/graph/permissions-reference>).
fn owned_by() -> Value {
    json!({ "requiredResourceAccess": [{
        "resourceAppId": "00000003-0000-0000-c000-000000000000",
        "resourceAccess": [{ "id": "18a4783c-866b-4cc7-a460-3d5e5662c884", "type": "Role" }],
    }] })
}

impl fmt::Debug for AzureRegistrar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AzureRegistrar").field("wanted", &self.wanted).finish_non_exhaustive()
    }
}

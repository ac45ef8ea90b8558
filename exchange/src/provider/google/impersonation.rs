//! A service account, impersonated with the token of the Security Token Service.

use std::str::FromStr;

use chancery_wire::{Endpoint, EndpointRule, HttpRequest, HttpResponse, Secret};
use http::header::AUTHORIZATION;
use http::{HeaderValue, Method};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;

use crate::credential::Credential;
use crate::error::{Class, ExchangeError, Stage};
use crate::key::KeyBuilder;
use crate::oauth;
use crate::token::expiry_of;

/// The longest that a token of a service account lives without a policy of the organisation, in seconds.
pub const USUAL_LIFETIME: u32 = 3600;

/// Which service account, and for what.
#[derive(Clone, Debug)]
pub struct Impersonation {
    /// Where IAM Service Account Credentials is, as `https://iamcredentials.googleapis.com/`.
    pub endpoint: Endpoint,
    /// Which service account.
    pub email: ServiceAccountEmail,
    /// What for.
    pub scopes: Vec<String>,
    /// How long, 600 to 43 200 seconds.
    pub lifetime_seconds: u32,
    /// An ID token for this audience in the place of an access token
    /// (<https://docs.cloud.google.com/iam/docs/reference/credentials/rest/v1/projects.serviceAccounts/generateIdToken>).
    pub id_token_for: Option<String>,
}

/// `NAME@PROJECT.iam.gserviceaccount.com`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAccountEmail(String);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Generated {
    access_token: String,
    expire_time: Timestamp,
}

#[derive(Deserialize)]
struct GeneratedIdToken {
    token: String,
}

#[derive(Default, Deserialize)]
struct Refused {
    error: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    message: String,
    status: String,
}

/// Where IAM Service Account Credentials of a universe is asked.
///
/// # Errors
/// When the universe is no domain.
pub fn iam_credentials(universe: &str) -> Result<Endpoint, ExchangeError> {
    Endpoint::parse(&format!("https://iamcredentials.{universe}/"), &EndpointRule::any_host())
        .map_err(|error| ExchangeError::endpoint("the universe", &error))
}

impl Impersonation {
    pub(super) fn describe(this: Option<&Self>, key: &mut KeyBuilder) {
        key.optional("impersonation_endpoint", this.map(|this| this.endpoint.url().as_str()))
            .optional("impersonation", this.map(|this| this.email.0.as_str()))
            .set("impersonation_scopes", this.map_or(&[], |this| this.scopes.as_slice()))
            .number("impersonation_seconds", this.map(|this| this.lifetime_seconds.into()))
            .optional("id_token_for", this.and_then(|this| this.id_token_for.as_deref()));
    }

    /// The request.
    ///
    /// # Errors
    /// When the token cannot stand in a header.
    pub fn request(&self, token: &Secret) -> Result<HttpRequest, ExchangeError> {
        let bearer = token.bearer().map_err(|error| {
            ExchangeError::new(Class::Permanent, Stage::Impersonation, "answer-unreadable")
                .came(&format!("the token of the Security Token Service: {error}"))
        })?;
        let (method, body) = match &self.id_token_for {
            Some(audience) => {
                ("generateIdToken", json!({ "delegates": [], "audience": audience, "includeEmail": true }))
            }
            None => (
                "generateAccessToken",
                json!({
                    "delegates": [],
                    "scope": self.scopes,
                    "lifetime": format!("{}s", self.lifetime_seconds),
                }),
            ),
        };
        let path = format!("v1/projects/-/serviceAccounts/{}:{method}", self.email.0);
        Ok(HttpRequest::new(Method::POST, &self.endpoint.below(&path))
            .header(AUTHORIZATION, bearer)
            .body(HeaderValue::from_static("application/json"), body.to_string()))
    }

    /// What was asked for, in an answer.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(crate) fn read_asked(
        &self,
        answer: &HttpResponse,
        now: Timestamp,
    ) -> Result<Credential, ExchangeError> {
        match &self.id_token_for {
            Some(_) => Self::read_id_token(answer, now),
            None => Self::read(answer, now),
        }
    }

    /// The ID token in an answer, which says itself when it ends.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_id_token(answer: &HttpResponse, now: Timestamp) -> Result<Credential, ExchangeError> {
        if !answer.status.is_success() {
            return Err(refused(answer));
        }
        let generated: GeneratedIdToken =
            oauth::read_json(answer, Stage::Impersonation, "a JSON object with `token`")?;
        let expires_at = expiry_of(&generated.token);
        Ok(Credential::bearer(Secret::new(generated.token), now, expires_at))
    }

    /// The token in an answer.
    ///
    /// # Errors
    /// When it is a refusal, or not Google's.
    pub fn read(answer: &HttpResponse, now: Timestamp) -> Result<Credential, ExchangeError> {
        if !answer.status.is_success() {
            return Err(refused(answer));
        }
        let expected = "a JSON object with `accessToken` and `expireTime`";
        let generated: Generated = oauth::read_json(answer, Stage::Impersonation, expected)?;
        Ok(Credential::bearer(Secret::new(generated.access_token), now, Some(generated.expire_time)))
    }
}

fn refused(answer: &HttpResponse) -> ExchangeError {
    let Refused { error } = serde_json::from_slice(&answer.body).unwrap_or_default();
    let class = Class::of_status(answer.status.as_u16());
    let (code, remedy) = match (class, error.status.as_str()) {
        (Class::Throttled, _) => ("throttled", "ask less often, and keep what was given in a cache"),
        (Class::Permanent, "PERMISSION_DENIED") => (
            "google-impersonation-denied",
            "grant roles/iam.workloadIdentityUser on the service account to the workload's principal; a new grant needs a few minutes",
        ),
        (Class::Permanent, "NOT_FOUND") => {
            ("google-no-service-account", "check the service account's e-mail")
        }
        (Class::Permanent, _) => {
            ("google-impersonation-refused", "check the scopes, and a lifetime of at most an hour")
        }
        _ => ("server-failed", "try again a little later"),
    };
    let error_text = match error.message.as_str() {
        "" => "a refusal without a message",
        message => message,
    };
    let refused = ExchangeError::new(class, Stage::Impersonation, code)
        .status(answer.status.as_u16())
        .came(error_text)
        .provider_code(Some(&error.status))
        .retry_after(answer.retry_after())
        .remedy(remedy);
    if code == "google-impersonation-denied" { refused.may_settle() } else { refused }
}

impl ServiceAccountEmail {
    /// The e-mail.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ServiceAccountEmail {
    type Err = ExchangeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let legal =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
        let fits = text.split_once('@').is_some_and(|(name, domain)| {
            (1..=63).contains(&name.len())
                && name.bytes().all(legal)
                && domain.bytes().all(legal)
                && domain.ends_with(".gserviceaccount.com")
                && !domain.contains("..")
                && text.len() <= 254
        });
        if fits {
            return Ok(Self(text.to_owned()));
        }
        Err(ExchangeError::configuration("google-service-account")
            .came(&format!("{text:?} is no service account"))
            .expected("NAME@PROJECT.iam.gserviceaccount.com")
            .remedy("copy it from `gcloud iam service-accounts list`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r0_21_service_accounts_are_checked_before_any_network() {
        assert!("app@my-project.iam.gserviceaccount.com".parse::<ServiceAccountEmail>().is_ok());
        for text in [
            "",
            "app",
            "app@evil.example",
            "a/b@p.iam.gserviceaccount.com",
            "a:x@p.iam.gserviceaccount.com",
            "a@b@p.iam.gserviceaccount.com",
            "a@..iam.gserviceaccount.com.",
            "app@p.iam.gserviceaccount.com ",
        ] {
            assert_eq!(
                text.parse::<ServiceAccountEmail>().unwrap_err().code(),
                "google-service-account",
                "{text}"
            );
        }
    }
}

//! Google's Security Token Service, and the impersonation of a service account with what it gives
//! (<https://docs.cloud.google.com/iam/docs/reference/sts/rest/v1/TopLevel/token>,
//! <https://docs.cloud.google.com/iam/docs/reference/credentials/rest/v1/projects.serviceAccounts/generateAccessToken>).

use std::fmt;
use std::str::FromStr;

use chancery_wire::{Endpoint, EndpointRule, HostPattern, HttpRequest, form};
use http::{HeaderValue, Method};

use crate::error::ExchangeError;
use crate::key::KeyBuilder;
use crate::oauth::{ACCESS_TOKEN_TYPE, TOKEN_EXCHANGE};
use crate::preflight::Expectation;
use crate::token::UnverifiedToken;

pub mod impersonation;

pub use impersonation::{Impersonation, ServiceAccountEmail};

/// What everything of Google Cloud's takes.
pub const CLOUD_PLATFORM: &str = "https://www.googleapis.com/auth/cloud-platform";

/// A provider of workload identity federation that trusts the issuer.
#[derive(Clone, Debug)]
pub struct GoogleProvider {
    /// Where the Security Token Service is. [`sts`] has the right place.
    pub endpoint: Endpoint,
    /// Which provider.
    pub provider: WorkloadProvider,
    /// What for, as [`CLOUD_PLATFORM`].
    pub scopes: Vec<String>,
    /// The type of the subject token.
    pub subject_token_type: String,
    /// The audience that the provider allows, where it is not its own name.
    pub audience: Option<String>,
    /// The service account that is impersonated; without one the workload itself is what policies name.
    pub impersonation: Option<Impersonation>,
}

/// `projects/N/locations/global/workloadIdentityPools/POOL/providers/PROVIDER`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadProvider(String);

/// Where the Security Token Service of a universe is asked; `googleapis.com` is Google's own.
///
/// # Errors
/// When the universe is no domain.
pub fn sts(universe: &str) -> Result<Endpoint, ExchangeError> {
    named("the STS endpoint", &format!("https://sts.{universe}/v1/token"), &universe_rule("sts", universe)?)
}

/// A token URL that somebody else wrote, as in a credentials file: that of the universe, exactly.
///
/// # Errors
/// Why it is refused.
pub fn tenant_sts(text: &str, universe: &str) -> Result<Endpoint, ExchangeError> {
    named("token_url", text, &universe_rule("sts", universe)?.without_loopback())
}

/// A URL that the operator names: any host by https, or this machine.
///
/// # Errors
/// Why it is refused.
pub fn operator_url(text: &str) -> Result<Endpoint, ExchangeError> {
    named("the URL", text, &EndpointRule::any_host())
}

fn universe_rule(service: &str, universe: &str) -> Result<EndpointRule, ExchangeError> {
    let host: Result<HostPattern, _> = format!("{service}.{universe}").parse();
    let host = host.map_err(|error| {
        ExchangeError::configuration("google-universe")
            .came(&error.to_string())
            .expected("a domain as googleapis.com")
    })?;
    Ok(EndpointRule::hosts([host]))
}

fn named(setting: &str, text: &str, rule: &EndpointRule) -> Result<Endpoint, ExchangeError> {
    Endpoint::parse(text, rule).map_err(|error| ExchangeError::endpoint(setting, &error))
}

impl GoogleProvider {
    /// What Google expects of a token: its provider's name as the audience, in one of the spellings that it allows by
    /// itself, or the one that the provider was made with.
    pub fn expectation(&self) -> Expectation {
        let audiences = match &self.audience {
            Some(audience) => vec![audience.clone()],
            None => vec![self.provider.token_audience(), self.provider.sts_audience()],
        };
        Expectation { audiences, algorithms: vec!["RS256", "ES256"], ..Expectation::default() }
    }

    /// Adds everything that the token depends on.
    pub fn describe(&self, key: &mut KeyBuilder) {
        key.text("sts_endpoint", self.endpoint.url().as_str())
            .text("workload_provider", &self.provider.0)
            .text("subject_token_type", &self.subject_token_type)
            .set("scopes", &self.scopes);
        Impersonation::describe(self.impersonation.as_ref(), key);
    }

    /// The request.
    pub fn request(&self, subject: &UnverifiedToken) -> HttpRequest {
        // With impersonation the first token opens nothing but that.
        let scopes = match &self.impersonation {
            Some(_) => CLOUD_PLATFORM.to_owned(),
            None => self.scopes.join(" "),
        };
        let audience = self.provider.sts_audience();
        let fields = [
            ("grant_type", TOKEN_EXCHANGE),
            ("audience", audience.as_str()),
            ("scope", scopes.as_str()),
            ("requested_token_type", ACCESS_TOKEN_TYPE),
            ("subject_token", subject.secret().expose()),
            ("subject_token_type", self.subject_token_type.as_str()),
        ];
        HttpRequest::new(Method::POST, &self.endpoint)
            .body(HeaderValue::from_static(form::MEDIA_TYPE), form::encode(fields))
    }
}

impl WorkloadProvider {
    /// The name without a scheme.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The audience of a subject token that a provider takes by itself.
    pub fn token_audience(&self) -> String {
        format!("https:{}", self.sts_audience())
    }

    /// The audience of the exchange.
    pub fn sts_audience(&self) -> String {
        format!("//iam.googleapis.com/{}", self.0)
    }

    /// The pool's part of it.
    pub fn pool(&self) -> &str {
        self.0.split_once("/providers/").map_or(self.0.as_str(), |(pool, _)| pool)
    }
}

impl FromStr for WorkloadProvider {
    type Err = ExchangeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bare = text.strip_prefix("https:").unwrap_or(text);
        let name = bare.strip_prefix("//iam.googleapis.com/").unwrap_or(text);
        let parts: Vec<&str> = name.split('/').collect();
        let id = |id: &str| {
            let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            (4..=32).contains(&id.len()) && id.bytes().all(legal)
        };
        if let [
            "projects",
            number,
            "locations",
            "global",
            "workloadIdentityPools",
            pool,
            "providers",
            provider,
        ] = parts.as_slice()
            && number.bytes().all(|byte| byte.is_ascii_digit())
            && (1..=30).contains(&number.len())
            && id(pool)
            && id(provider)
        {
            return Ok(Self(name.to_owned()));
        }
        Err(ExchangeError::configuration("google-workload-provider")
            .came(&format!("{text:?} is no provider of workload identity federation"))
            .expected("projects/NUMBER/locations/global/workloadIdentityPools/POOL/providers/PROVIDER, with the project's number and not its id")
            .remedy("copy it from `gcloud iam workload-identity-pools providers describe`"))
    }
}

impl fmt::Display for WorkloadProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r0_21_workload_providers_are_checked_before_any_network() {
        let name = "projects/123/locations/global/workloadIdentityPools/pool/providers/cluster-a";
        for text in [
            name.to_owned(),
            format!("//iam.googleapis.com/{name}"),
            format!("https://iam.googleapis.com/{name}"),
        ] {
            let provider: WorkloadProvider = text.parse().unwrap();
            assert_eq!(provider.as_str(), name);
            assert_eq!(provider.token_audience(), format!("https://iam.googleapis.com/{name}"));
        }
        for text in [
            "",
            "projects/my-project/locations/global/workloadIdentityPools/pool/providers/cluster-a",
            "projects/123/locations/global/workloadIdentityPools/pool",
            "https://evil.example/projects/123/locations/global/workloadIdentityPools/pool/providers/cluster-a",
            "projects/123/locations/global/workloadIdentityPools/pool/providers/cluster-a/x",
            "projects/123/locations/global/workloadIdentityPools/po ol/providers/cluster-a",
        ] {
            assert_eq!(
                text.parse::<WorkloadProvider>().unwrap_err().code(),
                "google-workload-provider",
                "{text}"
            );
        }
    }

    #[test]
    fn s0_04_a_token_url_is_that_of_the_universe() {
        assert_eq!(sts("googleapis.com").unwrap().host(), "sts.googleapis.com");
        assert_eq!(sts("apis-s3nsapis.fr").unwrap().host(), "sts.apis-s3nsapis.fr");
        assert!(tenant_sts("https://sts.googleapis.com/v1/token", "googleapis.com").is_ok());
        for evil in [
            "https://sts.evil.example/v1/token",
            "https://evil.example/sts.googleapis.com",
            "https://a.sts.googleapis.com/v1/token",
            "https://iam.googleapis.com/v1/token",
            "http://sts.googleapis.com/v1/token",
            "http://127.0.0.1/v1/token",
        ] {
            assert!(tenant_sts(evil, "googleapis.com").is_err(), "{evil}");
        }
        assert!(sts("com").is_err() || sts("com").unwrap().host() == "sts.com");
        assert!(sts("evil/x").is_err());
    }
}

//! Microsoft Entra's token endpoint, with a federated token as the client's assertion
//! (<https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow>, the third case).

use std::fmt;
use std::str::FromStr;

use chancery_wire::{Endpoint, EndpointRule, HostPattern, HttpRequest, HttpResponse, form};
use http::{HeaderValue, Method};
use jiff::Timestamp;

use crate::credential::Credential;
use crate::error::ExchangeError;
use crate::key::KeyBuilder;
use crate::oauth::{self, JWT_ASSERTION};
use crate::preflight::Expectation;
use crate::token::UnverifiedToken;

mod refusal;

/// The audience of a federated identity credential, unless it was made with another one.
pub const AUDIENCE: &str = "api://AzureADTokenExchange";

/// The scope of Azure's own management.
pub const MANAGEMENT: &str = "https://management.azure.com/.default";

/// Azure's public cloud.
pub const PUBLIC_AUTHORITY: &str = "https://login.microsoftonline.com/";

/// Where Entra answers, in every cloud of Azure's.
const AUTHORITIES: [&str; 4] = [
    "login.microsoftonline.com",
    "login.microsoftonline.us",
    "login.chinacloudapi.cn",
    "login.partner.microsoftonline.cn",
];

/// An application or managed identity that trusts the issuer.
#[derive(Clone, Debug)]
pub struct AzureProvider {
    /// The authority, as [`PUBLIC_AUTHORITY`].
    pub authority: Endpoint,
    /// The tenant of the identity.
    pub tenant: TenantId,
    /// The identity's client id.
    pub client: ClientId,
    /// For what, as `https://management.azure.com/.default`.
    pub scopes: Vec<String>,
    /// The audience of the federated identity credential.
    pub audience: String,
}

/// A tenant's id or domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantId(String);

/// The client id of an application or a managed identity: a UUID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientId(String);

/// An authority that somebody names who must not have tokens sent elsewhere: Entra in one of Azure's clouds.
///
/// # Errors
/// Why it is refused.
pub fn tenant_authority(text: &str) -> Result<Endpoint, ExchangeError> {
    let hosts: Result<Vec<HostPattern>, _> = AUTHORITIES.iter().map(|host| host.parse()).collect();
    let hosts =
        hosts.map_err(|error| ExchangeError::configuration("endpoint-refused").came(&error.to_string()))?;
    let rule = EndpointRule::hosts(hosts).without_loopback().origin_only();
    Endpoint::parse(text, &rule).map_err(|error| ExchangeError::endpoint("the authority", &error))
}

/// An authority that the operator names: any host by https, or this machine.
///
/// # Errors
/// Why it is refused.
pub fn operator_authority(text: &str) -> Result<Endpoint, ExchangeError> {
    Endpoint::parse(text, &EndpointRule::any_host())
        .map_err(|error| ExchangeError::endpoint("the authority", &error))
}

impl AzureProvider {
    /// What Entra expects of a token.
    pub fn expectation(&self) -> Expectation {
        Expectation {
            audiences: vec![self.audience.clone()],
            algorithms: vec!["RS256"],
            ..Expectation::default()
        }
    }

    /// Adds everything that the token depends on.
    pub fn describe(&self, key: &mut KeyBuilder) {
        key.text("authority", self.authority.url().as_str())
            .text("tenant", &self.tenant.0)
            .text("client", &self.client.0)
            .set("scopes", &self.scopes);
    }

    /// The request.
    pub fn request(&self, subject: &UnverifiedToken) -> HttpRequest {
        let scopes = self.scopes.join(" ");
        let fields = [
            ("client_id", self.client.0.as_str()),
            ("scope", scopes.as_str()),
            ("client_assertion_type", JWT_ASSERTION),
            ("client_assertion", subject.secret().expose()),
            ("grant_type", "client_credentials"),
        ];
        let endpoint = self.authority.below(&format!("{}/oauth2/v2.0/token", self.tenant.0));
        HttpRequest::new(Method::POST, &endpoint)
            .body(HeaderValue::from_static(form::MEDIA_TYPE), form::encode(fields))
    }

    /// The token in an answer.
    ///
    /// # Errors
    /// When it is a refusal, or not Entra's.
    pub fn read(answer: &HttpResponse, now: Timestamp) -> Result<Credential, ExchangeError> {
        if answer.status.is_success() { oauth::read_token(answer, now) } else { Err(refusal::read(answer)) }
    }
}

impl TenantId {
    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl ClientId {
    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TenantId {
    type Err = ExchangeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
        let dots = text.starts_with('.') || text.ends_with('.') || text.contains("..");
        if (1..=253).contains(&text.len()) && text.bytes().all(legal) && !dots {
            return Ok(Self(text.to_owned()));
        }
        Err(ExchangeError::configuration("azure-tenant")
            .came(&format!("{text:?} is no tenant"))
            .expected("a UUID, or a domain such as contoso.onmicrosoft.com")
            .remedy("copy it from `az account show --query tenantId`"))
    }
}

impl FromStr for ClientId {
    type Err = ExchangeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let groups: Vec<usize> = text.split('-').map(str::len).collect();
        let hexadecimal = text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        if groups == [8, 4, 4, 4, 12] && hexadecimal {
            return Ok(Self(text.to_ascii_lowercase()));
        }
        Err(ExchangeError::configuration("azure-client-id")
            .came(&format!("{text:?} is no client id"))
            .expected("a UUID such as 11111111-2222-3333-4444-555555555555")
            .remedy("copy it from `az identity show --query clientId`, and not the principal id"))
    }
}

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r0_21_tenants_and_clients_are_checked_before_any_network() {
        for tenant in ["11111111-2222-3333-4444-555555555555", "contoso.onmicrosoft.com", "common"] {
            assert!(tenant.parse::<TenantId>().is_ok(), "{tenant}");
        }
        for tenant in ["", "a/b", "..", "a?b", "a b", "../x", "ä"] {
            assert_eq!(tenant.parse::<TenantId>().unwrap_err().code(), "azure-tenant", "{tenant}");
        }
        assert!("AAAAAAAA-2222-3333-4444-555555555555".parse::<ClientId>().is_ok());
        for client in ["", "x", "11111111-2222-3333-4444-55555555555g", "11111111222233334444555555555555"] {
            assert_eq!(client.parse::<ClientId>().unwrap_err().code(), "azure-client-id", "{client}");
        }
    }

    #[test]
    fn s0_04_a_tenants_authority_is_entra_alone() {
        for host in AUTHORITIES {
            assert!(tenant_authority(&format!("https://{host}/")).is_ok(), "{host}");
        }
        for evil in [
            "https://login.microsoftonline.com.evil.example/",
            "https://evil.example/login.microsoftonline.com",
            "https://a.login.microsoftonline.com",
            "http://login.microsoftonline.com",
            "https://login.microsoftonline.com:444",
            "https://127.0.0.1/",
        ] {
            assert!(tenant_authority(evil).is_err(), "{evil}");
        }
    }
}

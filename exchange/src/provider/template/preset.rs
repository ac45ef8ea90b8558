//! Templates of servers that are known.

use chancery_wire::Endpoint;
use http::Method;

use super::body::Body;
use super::text::{PathText, Values};
use super::{AnswerFields, Authentication, HttpTemplate};
use crate::error::ExchangeError;

/// A server that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// A robot of Quay that trusts an issuer
    /// (<https://docs.projectquay.io/manage_quay.html#keyless-authentication-robot-accounts>). The user is `ORG+ROBOT`.
    Quay,
    /// JFrog's exchange (<https://jfrog.com/help/r/jfrog-rest-apis/oidc-token-exchange>). `params.provider` is the
    /// name of the configured provider.
    JFrog,
    /// octo-sts (<https://github.com/octo-sts/app>): a token of a GitHub App. `params.scope` is the repository,
    /// `params.identity` the name of the trust policy in it.
    OctoSts,
    /// Vault's and OpenBao's JWT login (<https://developer.hashicorp.com/vault/api-docs/auth/jwt>). `params.role` is the
    /// role, `params.mount` where the method is mounted, `jwt` otherwise; `params.namespace` is sent as `X-Vault-Namespace`.
    Vault,
}

impl Preset {
    /// The audience that tokens for a server have, unless it was set up with another one.
    pub fn audience(self, server: &Endpoint) -> String {
        match self {
            // Its own default is the name alone.
            Self::OctoSts => server.host().to_owned(),
            Self::Quay | Self::JFrog | Self::Vault => server.base().to_owned(),
        }
    }

    /// The template for a server.
    ///
    /// # Errors
    /// When a parameter or the user is missing.
    pub fn template(self, server: Endpoint, mut values: Values) -> Result<HttpTemplate, ExchangeError> {
        if self == Self::Quay && !values.username.contains('+') {
            return Err(ExchangeError::configuration("template-username")
                .came(&format!("{:?} as a robot of Quay", values.username))
                .expected("ORGANISATION+ROBOT")
                .remedy("name the robot with --username"));
        }
        if self == Self::Vault {
            values.params.entry("mount".to_owned()).or_insert_with(|| "jwt".to_owned());
        }
        let (method, path, body, authentication) = match self {
            Self::Quay => (Method::GET, "/oauth2/federation/robot/token", "", Authentication::Basic),
            Self::JFrog => (
                Method::POST,
                "/access/api/v1/oidc/token",
                r#"{"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token_type": "urn:ietf:params:oauth:token-type:id_token", "subject_token": "{token}", "provider_name": "{params.provider}", "provider_type": "Generic OpenID Connect"}"#,
                Authentication::None,
            ),
            Self::OctoSts => (
                Method::GET,
                "/sts/exchange?scope={params.scope}&identity={params.identity}",
                "",
                Authentication::Bearer,
            ),
            Self::Vault => (
                Method::POST,
                "/v1/auth/{params.mount}/login",
                r#"{"role": "{params.role}", "jwt": "{token}"}"#,
                Authentication::None,
            ),
        };
        let answer = match self {
            Self::Quay | Self::OctoSts => AnswerFields::default(),
            Self::JFrog => AnswerFields {
                token: "access_token".to_owned(),
                username: Some("username".to_owned()),
                ..AnswerFields::default()
            },
            Self::Vault => AnswerFields {
                token: "auth.client_token".to_owned(),
                lifetime: "auth.lease_duration".to_owned(),
                username: None,
            },
        };
        HttpTemplate {
            audience: self.audience(&server),
            server,
            method,
            path: PathText::parse(path)?,
            body: Body::parse(body)?,
            authentication,
            values,
            answer,
            login_for: None,
            preset: Some(self),
        }
        .checked()
    }
}

//! A JWT as a grant or as a client's assertion (RFC 7523), for any server that takes it.

use chancery_wire::{Endpoint, HttpRequest, HttpResponse, form};
use http::header::AUTHORIZATION;
use http::{HeaderValue, Method};
use jiff::Timestamp;

use super::client::ClientAuthentication;
use crate::credential::Credential;
use crate::error::ExchangeError;
use crate::key::KeyBuilder;
use crate::oauth::{self, JWT_ASSERTION, JWT_BEARER, JWT_SPIFFE};
use crate::preflight::Expectation;
use crate::token::UnverifiedToken;

/// A server that takes a JWT, and what is asked of it.
#[derive(Clone, Debug)]
pub struct JwtBearer {
    /// The token endpoint.
    pub endpoint: Endpoint,
    /// The audience that the subject token is to have: the server's issuer as the only one (rfc7523bis), which some
    /// servers still want to be their token endpoint.
    pub subject_audience: String,
    /// What the token is used as.
    pub role: JwtRole,
    /// `scope`.
    pub scopes: Vec<String>,
}

/// What a JWT is used as.
#[derive(Clone, Debug)]
pub enum JwtRole {
    /// The grant (RFC 7523 section 2.1), with or without the authentication of a client.
    Grant(ClientAuthentication),
    /// The client's authentication (section 2.2), for `client_credentials`. No other goes with it.
    Client(ClientAssertion),
}

/// How a client's assertion is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientAssertion {
    /// `client_assertion_type`: [`JWT_ASSERTION`], or [`JWT_SPIFFE`] where the server knows clients by their SPIFFE ids.
    pub assertion_type: String,
    /// `client_id`, where the server wants it beside the assertion.
    pub client_id: Option<String>,
}

impl Default for ClientAssertion {
    fn default() -> Self {
        Self { assertion_type: JWT_ASSERTION.to_owned(), client_id: None }
    }
}

impl JwtBearer {
    /// What the server expects of a token.
    pub fn expectation(&self) -> Expectation {
        let by_trust_domain =
            matches!(&self.role, JwtRole::Client(client) if client.assertion_type == JWT_SPIFFE);
        Expectation {
            audiences: vec![self.subject_audience.clone()],
            by_trust_domain,
            ..Expectation::default()
        }
    }

    /// Adds everything that the token depends on.
    pub fn describe(&self, key: &mut KeyBuilder) {
        key.text("token_endpoint", self.endpoint.url().as_str()).set("scopes", &self.scopes);
        match &self.role {
            JwtRole::Grant(client) => client.describe(key.text("role", "grant")),
            JwtRole::Client(assertion) => {
                key.text("role", "client")
                    .text("assertion_type", &assertion.assertion_type)
                    .optional("client_id", assertion.client_id.as_deref());
            }
        }
    }

    /// The request.
    ///
    /// # Errors
    /// When the client's authentication cannot stand in a header.
    pub fn request(&self, subject: &UnverifiedToken) -> Result<HttpRequest, ExchangeError> {
        let scopes = self.scopes.join(" ");
        let (mut fields, basic) = match &self.role {
            JwtRole::Grant(client) => {
                let mut fields = vec![("grant_type", JWT_BEARER), ("assertion", subject.secret().expose())];
                fields.extend(client.fields());
                (fields, client.header()?)
            }
            JwtRole::Client(assertion) => {
                let mut fields = vec![
                    ("grant_type", "client_credentials"),
                    ("client_assertion_type", assertion.assertion_type.as_str()),
                    ("client_assertion", subject.secret().expose()),
                ];
                fields.extend(assertion.client_id.as_deref().map(|id| ("client_id", id)));
                (fields, None)
            }
        };
        fields.extend((!scopes.is_empty()).then_some(("scope", scopes.as_str())));
        let request = HttpRequest::new(Method::POST, &self.endpoint)
            .body(HeaderValue::from_static(form::MEDIA_TYPE), form::encode(fields));
        Ok(match basic {
            Some(basic) => request.header(AUTHORIZATION, basic),
            None => request,
        })
    }

    /// The token in an answer.
    ///
    /// # Errors
    /// When it is a refusal, or not that of RFC 6749.
    pub fn read(answer: &HttpResponse, now: Timestamp) -> Result<Credential, ExchangeError> {
        oauth::read_token(answer, now)
    }
}

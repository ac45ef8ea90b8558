//! OAuth 2.0 Token Exchange (RFC 8693), for any server that speaks it.

use chancery_wire::{Endpoint, EndpointRule, HttpRequest, HttpResponse, Secret, form};
use http::header::AUTHORIZATION;
use http::{HeaderValue, Method};
use jiff::Timestamp;
use url::Url;

use super::client::ClientAuthentication;
use crate::credential::Credential;
use crate::error::ExchangeError;
use crate::key::KeyBuilder;
use crate::oauth::{self, JWT_TYPE, TOKEN_EXCHANGE};
use crate::preflight::Expectation;
use crate::token::UnverifiedToken;

/// A server that exchanges tokens, and what is asked of it.
#[derive(Clone, Debug)]
pub struct TokenExchange {
    /// The token endpoint.
    pub endpoint: Endpoint,
    /// The audience that the subject token is to have; the server's issuer, usually.
    pub subject_audience: String,
    /// `subject_token_type`: a ServiceAccount's token is a JWT and no ID token, and some servers want it called one.
    pub subject_token_type: String,
    /// What the new token is for.
    pub wanted: Wanted,
    /// Who acts for the subject.
    pub actor: Option<Actor>,
    /// How the client proves itself.
    pub client: ClientAuthentication,
}

/// What the new token is for (RFC 8693 section 2.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// `resource`: absolute URIs without a fragment.
    pub resources: Vec<String>,
    /// `audience`.
    pub audiences: Vec<String>,
    /// `scope`.
    pub scopes: Vec<String>,
    /// `requested_token_type`.
    pub token_type: Option<String>,
}

/// Who acts for the subject: a token and its type, never one without the other.
#[derive(Clone, Debug)]
pub struct Actor {
    /// `actor_token`.
    pub token: Secret,
    /// `actor_token_type`.
    pub token_type: String,
}

/// A token endpoint that the operator names.
///
/// # Errors
/// Why it may not be given a token.
pub fn operator_endpoint(text: &str) -> Result<Endpoint, ExchangeError> {
    Endpoint::parse(text, &EndpointRule::any_host())
        .map_err(|error| ExchangeError::endpoint("the token endpoint", &error))
}

impl Wanted {
    /// The same, if RFC 8693 allows it.
    ///
    /// # Errors
    /// Which resource is no absolute URI without a fragment.
    pub fn checked(self) -> Result<Self, ExchangeError> {
        let fits = |text: &&String| Url::parse(text).is_ok_and(|url| url.fragment().is_none());
        match self.resources.iter().find(|text| !fits(text)) {
            None => Ok(self),
            Some(resource) => Err(ExchangeError::configuration("resource-unusable")
                .came(&format!("{resource:?} as a resource"))
                .expected("an absolute URI without a fragment (RFC 8693 section 2.1)")
                .remedy("write the URI of the API that is to take the token")),
        }
    }
}

impl TokenExchange {
    /// An exchange at an endpoint, of a token that is a JWT.
    pub fn new(endpoint: Endpoint, subject_audience: String) -> Self {
        Self {
            endpoint,
            subject_audience,
            subject_token_type: JWT_TYPE.to_owned(),
            wanted: Wanted::default(),
            actor: None,
            client: ClientAuthentication::None,
        }
    }

    /// What the server expects of a token.
    pub fn expectation(&self) -> Expectation {
        Expectation { audiences: vec![self.subject_audience.clone()], ..Expectation::default() }
    }

    /// Adds everything that the token depends on.
    pub fn describe(&self, key: &mut KeyBuilder) {
        key.text("token_endpoint", self.endpoint.url().as_str())
            .text("subject_token_type", &self.subject_token_type)
            .list("resources", &self.wanted.resources)
            .list("audiences", &self.wanted.audiences)
            .set("scopes", &self.wanted.scopes)
            .optional("requested_token_type", self.wanted.token_type.as_deref())
            .optional("actor", self.actor.as_ref().map(|actor| actor.token.expose()))
            .optional("actor_token_type", self.actor.as_ref().map(|actor| actor.token_type.as_str()));
        self.client.describe(key);
    }

    /// The request.
    ///
    /// # Errors
    /// When the client's authentication cannot stand in a header.
    pub fn request(&self, subject: &UnverifiedToken) -> Result<HttpRequest, ExchangeError> {
        let scopes = self.wanted.scopes.join(" ");
        let mut fields = vec![
            ("grant_type", TOKEN_EXCHANGE),
            ("subject_token", subject.secret().expose()),
            ("subject_token_type", self.subject_token_type.as_str()),
        ];
        fields.extend(self.wanted.resources.iter().map(|resource| ("resource", resource.as_str())));
        fields.extend(self.wanted.audiences.iter().map(|audience| ("audience", audience.as_str())));
        fields.extend((!scopes.is_empty()).then_some(("scope", scopes.as_str())));
        fields.extend(self.wanted.token_type.as_deref().map(|kind| ("requested_token_type", kind)));
        if let Some(actor) = &self.actor {
            fields.push(("actor_token", actor.token.expose()));
            fields.push(("actor_token_type", actor.token_type.as_str()));
        }
        fields.extend(self.client.fields());
        let request = HttpRequest::new(Method::POST, &self.endpoint)
            .body(HeaderValue::from_static(form::MEDIA_TYPE), form::encode(fields));
        Ok(match self.client.header()? {
            Some(basic) => request.header(AUTHORIZATION, basic),
            None => request,
        })
    }

    /// The token in an answer.
    ///
    /// # Errors
    /// When it is a refusal, or not that of RFC 8693.
    pub fn read(answer: &HttpResponse, now: Timestamp) -> Result<Credential, ExchangeError> {
        oauth::read_token(answer, now)
    }
}

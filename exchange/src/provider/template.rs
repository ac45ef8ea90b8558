//! A request that the operator describes: how registries and servers with an endpoint of their own are asked.
//!
//! | room | what is in it |
//! |---|---|
//! | [`text`] | texts and paths with places for what an exchange knows |
//! | [`body`] | forms and JSON with such places |
//! | [`preset`] | Quay, JFrog, octo-sts, Vault |
//!
//! 1. The host is the registry's, or one that the operator allows; nothing in a template changes it.
//! 2. The token has a place in `Authorization` and in the body, and none in a URL.
//! 3. Every value is written as its place wants it: none becomes structure.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chancery_wire::{Endpoint, EndpointRule, HostPattern, HttpRequest, HttpResponse, Secret};
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use jiff::Timestamp;
use serde_json::Value;

pub use http::Method;

use self::body::Body;
use self::preset::Preset;
use self::text::{PathText, Values};
use crate::credential::{Credential, CredentialKind, RegistryLogin};
use crate::error::{Class, ExchangeError, Stage};
use crate::key::KeyBuilder;
use crate::preflight::Expectation;
use crate::token::{UnverifiedToken, expiry_of};

pub mod body;
pub mod preset;
pub mod text;

/// The largest answer, in bytes.
const LARGEST: usize = 64 * 1024;

/// A request that the operator describes, and where its answer has the credential.
#[derive(Clone, Debug)]
pub struct HttpTemplate {
    /// The server.
    pub server: Endpoint,
    /// The audience that the subject token is to have.
    pub audience: String,
    /// GET or POST.
    pub method: Method,
    /// The path.
    pub path: PathText,
    /// The body.
    pub body: Body,
    /// Where the token stands in the head.
    pub authentication: Authentication,
    /// What fills the places.
    pub values: Values,
    /// Where the answer has the credential.
    pub answer: AnswerFields,
    /// The host that the credential is a password for; otherwise it is a bearer token.
    pub login_for: Option<String>,
    /// Which server it is, where that is known.
    pub preset: Option<Preset>,
}

/// Where the token stands in the head of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authentication {
    /// `Authorization: Bearer TOKEN` (RFC 6750).
    Bearer,
    /// `Authorization: Basic`, the token as the user's password (RFC 7617).
    Basic,
    /// Nowhere; it is in the body.
    None,
}

/// Where an answer has what, as `token`, or `auth.client_token` for a value within another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerFields {
    /// The credential.
    pub token: String,
    /// How many seconds it lives, where the answer says so.
    pub lifetime: String,
    /// The user, where the answer says who that is.
    pub username: Option<String>,
}

impl Default for AnswerFields {
    fn default() -> Self {
        Self { token: "token".to_owned(), lifetime: "expires_in".to_owned(), username: None }
    }
}

/// The server that a template's requests go to: the registry's own host, or another one that the operator allows.
///
/// # Errors
/// When it is another host, or no host.
pub fn server(
    registry: &str,
    asked: Option<&str>,
    allowed: &[HostPattern],
) -> Result<Endpoint, ExchangeError> {
    let refused = |error| ExchangeError::endpoint("the server of the template", &error);
    let as_url = |host: &str| if host.contains("://") { host.to_owned() } else { format!("https://{host}/") };
    let own = Endpoint::parse(&as_url(registry), &EndpointRule::any_host()).map_err(refused)?;
    match asked {
        None => Ok(own),
        Some(asked) => match own.admit(&as_url(asked)) {
            Ok(_) => Ok(own),
            // A rule without a host is one for any.
            Err(elsewhere) if allowed.is_empty() => Err(refused(elsewhere)),
            Err(_) => {
                Endpoint::parse(&as_url(asked), &EndpointRule::hosts(allowed.to_vec()).without_loopback())
                    .map_err(refused)
            }
        },
    }
}

/// A server that the operator names: any host by https, or this machine.
///
/// # Errors
/// Why it is refused.
pub fn operator_server(text: &str) -> Result<Endpoint, ExchangeError> {
    server(text, None, &[])
}

impl HttpTemplate {
    /// The same, if every place can be filled.
    ///
    /// # Errors
    /// Which parameter is missing, or that the token has no place.
    pub fn checked(self) -> Result<Self, ExchangeError> {
        self.path.filled(&self.values)?;
        let body = self.body.filled(&self.values, "TOKEN")?;
        let has_token = self.authentication != Authentication::None || self.body.has_token();
        if !has_token {
            return Err(ExchangeError::configuration("template-without-token")
                .came("a template without a place for the token")
                .expected("bearer or basic, or {token} in the body"));
        }
        if body.is_some() && self.method == Method::GET {
            return Err(ExchangeError::configuration("template-body")
                .came("a body in a GET")
                .remedy("use POST, or leave the body out"));
        }
        self.namespace()?;
        Ok(self)
    }

    /// The header by which Vault and OpenBao know the namespace, where one is named
    /// (<https://developer.hashicorp.com/vault/docs/enterprise/namespaces#usage>).
    fn namespace(&self) -> Result<Option<HeaderValue>, ExchangeError> {
        let namespace = self.values.params.get("namespace").filter(|_| self.preset == Some(Preset::Vault));
        let header = namespace.map(|namespace| {
            HeaderValue::from_str(namespace).map_err(|_| {
                ExchangeError::configuration("template-parameter")
                    .came(&format!("the namespace {namespace:?}"))
                    .expected("text that a header can carry")
            })
        });
        header.transpose()
    }

    /// What the server expects of a token.
    pub fn expectation(&self) -> Expectation {
        Expectation { audiences: vec![self.audience.clone()], ..Expectation::default() }
    }

    /// Adds everything that the credential depends on.
    pub fn describe(&self, key: &mut KeyBuilder) {
        let params: Vec<&String> =
            self.values.params.iter().flat_map(|(name, value)| [name, value]).collect();
        key.text("template_server", self.server.url().as_str())
            .text("preset", &format!("{:?}", self.preset))
            .text("method", self.method.as_str())
            .text("authentication", &format!("{:?}", self.authentication))
            // What the texts are made of, name by name.
            .text("path", &format!("{:?}", self.path))
            .text("body", &format!("{:?}", self.body))
            .text("username", &self.values.username)
            .text("registry", &self.values.registry)
            .text("repository", &self.values.repository)
            .list("params", &params)
            .text("token_field", &self.answer.token)
            .text("lifetime_field", &self.answer.lifetime)
            .optional("username_field", self.answer.username.as_deref())
            .optional("login_for", self.login_for.as_deref());
    }

    /// The request.
    ///
    /// # Errors
    /// When a place cannot be filled, or the URL would lead elsewhere.
    pub fn request(&self, subject: &UnverifiedToken) -> Result<HttpRequest, ExchangeError> {
        let token = subject.secret();
        let url = format!(
            "{}{}",
            self.server.url().origin().ascii_serialization(),
            self.path.filled(&self.values)?
        );
        let target =
            self.server.admit(&url).map_err(|error| ExchangeError::endpoint("the template's URL", &error))?;
        let mut request = HttpRequest::new(self.method.clone(), &target);
        if let Some(namespace) = self.namespace()? {
            request = request.header(HeaderName::from_static("x-vault-namespace"), namespace);
        }
        let unsendable =
            |_| ExchangeError::configuration("template-username").came("a user that no header can carry");
        let request = match self.authentication {
            Authentication::Bearer => request.header(AUTHORIZATION, token.bearer().map_err(unsendable)?),
            Authentication::Basic => {
                let pair = Secret::new(format!("{}:{}", self.values.username, token.expose()));
                let basic = Secret::new(STANDARD.encode(pair.expose()));
                request.header(AUTHORIZATION, basic.header_value("Basic ").map_err(unsendable)?)
            }
            Authentication::None => request,
        };
        Ok(match self.body.filled(&self.values, token.expose())? {
            Some((media_type, body)) => request.body(media_type, body),
            None => request,
        })
    }

    /// The credential in an answer.
    ///
    /// # Errors
    /// When it is a refusal, or has no credential where one is expected.
    pub fn read(&self, answer: &HttpResponse, now: Timestamp) -> Result<Credential, ExchangeError> {
        if !answer.status.is_success() {
            return Err(refused(answer));
        }
        let unreadable = |came: &str| {
            ExchangeError::new(Class::Permanent, Stage::Exchange, "answer-unreadable")
                .status(answer.status.as_u16())
                .came(came)
                .expected(format!("a JSON object with a text in `{}`", self.answer.token))
                .remedy("check the path of the template, and the field of the token")
        };
        if answer.body.len() > LARGEST {
            return Err(unreadable("more than 64 KiB"));
        }
        let body: Value = serde_json::from_slice(&answer.body).map_err(|_| unreadable("no JSON"))?;
        let token =
            field(&body, &self.answer.token).and_then(Value::as_str).filter(|token| !token.is_empty());
        let token = token.ok_or_else(|| unreadable("an answer without it"))?;
        let expires_at = expiry(&body, &self.answer.lifetime, now).or_else(|| expiry_of(token));
        let token = Secret::new(token.to_owned());
        let Some(host) = &self.login_for else { return Ok(Credential::bearer(token, now, expires_at)) };
        let said = self.answer.username.as_deref().and_then(|name| field(&body, name)?.as_str());
        let username = said.unwrap_or(&self.values.username);
        if username.is_empty() {
            return Err(unreadable("an answer without a user, and none is configured"));
        }
        let login = RegistryLogin { host: host.clone(), username: username.to_owned(), password: token };
        Ok(Credential::new(CredentialKind::Registry(login), now, expires_at))
    }
}

/// A value by its name, or by the names that lead to it.
fn field<'a>(body: &'a Value, path: &str) -> Option<&'a Value> {
    // A name with dots in it goes before a value within another.
    body.get(path).or_else(|| path.split('.').try_fold(body, |value, name| value.get(name)))
}

/// When an answer says that its credential ends: after seconds, or at a moment.
fn expiry(body: &Value, lifetime: &str, now: Timestamp) -> Option<Timestamp> {
    let seconds = |value: &Value| match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    let longest = Duration::from_secs(366 * 24 * 60 * 60);
    let after = field(body, lifetime)
        .and_then(seconds)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .and_then(|lives| now.checked_add(lives.min(longest)).ok());
    after.or_else(|| field(body, "expires_at")?.as_str()?.parse().ok())
}

/// What is known of a server that is not known here: its status, and the beginning of what it says.
fn refused(answer: &HttpResponse) -> ExchangeError {
    let words = String::from_utf8_lossy(&answer.body);
    let is_expired = answer.status.is_client_error() && words.to_ascii_lowercase().contains("expired");
    let (class, code) = match Class::of_status(answer.status.as_u16()) {
        Class::Throttled => (Class::Throttled, "throttled"),
        // Vault's answers while another node of it is to be asked.
        Class::Permanent if matches!(answer.status.as_u16(), 472 | 473) => {
            (Class::Transient, "server-failed")
        }
        Class::Permanent if is_expired => (Class::Expired, "subject-token-expired"),
        Class::Permanent => (Class::Permanent, "template-refused"),
        class => (class, "server-failed"),
    };
    let remedy = match class {
        Class::Transient => "try again a little later",
        Class::Throttled => "ask less often, and keep what was given in a cache",
        Class::Expired => "have the source give a fresh token, and compare the clocks",
        _ => {
            "compare iss, sub and aud of the token that was sent with the trust that is configured at the server"
        }
    };
    ExchangeError::new(class, Stage::Exchange, code)
        .status(answer.status.as_u16())
        .came(if words.trim().is_empty() { "an empty answer" } else { words.trim() })
        .retry_after(answer.retry_after())
        .remedy(remedy)
}

#[cfg(test)]
mod tests;

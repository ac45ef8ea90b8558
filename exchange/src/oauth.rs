//! What OAuth's token endpoints answer (RFC 6749 section 5), which Entra, Google and every RFC 8693 and RFC 7523 server
//! share.

use std::time::Duration;

use chancery_wire::{HttpResponse, Secret};
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::credential::{BearerToken, Credential, CredentialKind};
use crate::error::{Class, ExchangeError, Stage};
use crate::token::expiry_of;

/// `grant_type` of RFC 8693 section 2.1.
pub const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
/// `grant_type` of RFC 7523 section 2.1.
pub const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// `client_assertion_type` of RFC 7523 section 2.2.
pub const JWT_ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/// The same of a JWT-SVID, by which the server knows the client's SPIFFE id (draft-ietf-oauth-spiffe-client-auth).
pub const JWT_SPIFFE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-spiffe";
/// The token type of a JWT that is no ID token, such as a ServiceAccount's (RFC 8693 section 3).
pub const JWT_TYPE: &str = "urn:ietf:params:oauth:token-type:jwt";
/// The token type of an access token (RFC 8693 section 3).
pub const ACCESS_TOKEN_TYPE: &str = "urn:ietf:params:oauth:token-type:access_token";

/// The longest life that is believed: a year.
const LONGEST: u64 = 366 * 24 * 60 * 60;

/// A successful answer (RFC 6749 section 5.1, RFC 8693 section 2.2.1).
#[derive(Deserialize)]
struct TokenAnswer {
    access_token: String,
    token_type: Option<String>,
    expires_in: Option<Lifetime>,
    scope: Option<String>,
    issued_token_type: Option<String>,
}

/// Seconds, which some servers send as text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Lifetime {
    Number(f64),
    Text(String),
}

impl Lifetime {
    fn seconds(&self) -> Option<u64> {
        let seconds = match self {
            Self::Number(seconds) => Duration::try_from_secs_f64(*seconds).ok()?.as_secs(),
            Self::Text(text) => text.parse().ok()?,
        };
        Some(seconds.min(LONGEST))
    }
}

/// A refusal (RFC 6749 section 5.2).
#[derive(Debug, Default, Deserialize)]
pub struct Refusal {
    /// `error`.
    #[serde(default)]
    pub error: String,
    /// `error_description`.
    #[serde(default)]
    pub error_description: String,
    /// Entra's numbers.
    #[serde(default)]
    pub error_codes: Vec<u64>,
    /// Entra's id of the request.
    pub correlation_id: Option<String>,
    /// Entra's id of the trace.
    pub trace_id: Option<String>,
}

/// The token in an answer.
///
/// # Errors
/// When it is a refusal, or no answer of a token endpoint.
pub fn read_token(answer: &HttpResponse, now: Timestamp) -> Result<Credential, ExchangeError> {
    if !answer.status.is_success() {
        return Err(refused(answer, Stage::Exchange));
    }
    let token: TokenAnswer =
        read_json(answer, Stage::Exchange, "a JSON object with `access_token` and `token_type`")?;
    let unusable = |came: &str, expected: &str| {
        unreadable(answer, Stage::Exchange).came(came).expected(expected.to_owned())
    };
    if token.access_token.is_empty() {
        return Err(unusable("an empty `access_token`", "a token"));
    }
    match token.token_type.as_deref().map(str::to_ascii_lowercase).as_deref() {
        // `N_A` is what RFC 8693 section 2.2.1 says of a token that is not an access token.
        Some("bearer" | "n_a") => {}
        Some("dpop") => return Err(unusable("a token of the type DPoP", "Bearer: no key of ours was sent")),
        None => return Err(unusable("no `token_type`", "Bearer (RFC 6749 section 5.1)")),
        Some(_) => return Err(unusable("an unknown `token_type`", "Bearer (RFC 6750)")),
    }
    let lifetime = token.expires_in.as_ref().and_then(Lifetime::seconds).map(Duration::from_secs);
    let ends = lifetime.and_then(|lifetime| now.checked_add(lifetime).ok());
    let expires_at = ends.or_else(|| expiry_of(&token.access_token));
    let bearer = BearerToken {
        token: Secret::new(token.access_token),
        issued_type: token.issued_token_type,
        scope: token.scope,
    };
    Ok(Credential::new(CredentialKind::Bearer(bearer), now, expires_at))
}

/// The JSON of an answer.
///
/// # Errors
/// When it is none, or another than `expected`.
pub fn read_json<T: DeserializeOwned>(
    answer: &HttpResponse,
    stage: Stage,
    expected: &str,
) -> Result<T, ExchangeError> {
    // What serde says may repeat a part of the answer, which may be a token.
    serde_json::from_slice(&answer.body)
        .map_err(|_| unreadable(answer, stage).came("an answer in another form").expected(expected))
}

/// An answer that is not what its kind of server gives.
pub fn unreadable(answer: &HttpResponse, stage: Stage) -> ExchangeError {
    ExchangeError::new(Class::Permanent, stage, "answer-unreadable")
        .status(answer.status.as_u16())
        .remedy("check that the URL is that of the token endpoint")
}

/// The refusal that an answer is, sorted by its error and its words.
pub fn refused(answer: &HttpResponse, stage: Stage) -> ExchangeError {
    let refusal: Refusal = serde_json::from_slice(&answer.body).unwrap_or_default();
    let (class, code) = sort(answer, &refusal);
    let came = match (refusal.error.as_str(), refusal.error_description.as_str()) {
        ("", "") => "an answer without an OAuth error".to_owned(),
        (error, "") => error.to_owned(),
        (error, words) => format!("{error}: {words}"),
    };
    ExchangeError::new(class, stage, code)
        .status(answer.status.as_u16())
        .came(&came)
        .provider_code(Some(&refusal.error))
        .correlation_id(refusal.correlation_id.as_deref().or(answer.header("x-request-id")))
        .retry_after(answer.retry_after())
        .remedy(remedy(class, code))
}

/// The class and the stable name of a refusal.
fn sort(answer: &HttpResponse, refusal: &Refusal) -> (Class, &'static str) {
    match Class::of_status(answer.status.as_u16()) {
        Class::Permanent => {}
        Class::Throttled => return (Class::Throttled, "throttled"),
        class => return (class, "server-failed"),
    }
    let words = refusal.error_description.to_ascii_lowercase();
    let says = |parts: &[&str]| parts.iter().any(|part| words.contains(part));
    match refusal.error.as_str() {
        "temporarily_unavailable" | "server_error" => (Class::Transient, "server-failed"),
        "slow_down" => (Class::Throttled, "throttled"),
        "invalid_grant" | "invalid_request" | "invalid_client" | "access_denied"
            if says(&["expired", "stale", "not yet valid", "before issued", "in the future"]) =>
        {
            (Class::Expired, "subject-token-expired")
        }
        "invalid_grant" | "invalid_request" | "invalid_client"
            if says(&["jti", "replay", "already been used", "already used"]) =>
        {
            (Class::Expired, "subject-token-used-before")
        }
        "invalid_grant" => (Class::Permanent, "oauth-invalid-grant"),
        "invalid_request" => (Class::Permanent, "oauth-invalid-request"),
        "invalid_client" => (Class::Permanent, "oauth-invalid-client"),
        "invalid_target" => (Class::Permanent, "oauth-invalid-target"),
        "invalid_scope" => (Class::Permanent, "oauth-invalid-scope"),
        "unauthorized_client" => (Class::Permanent, "oauth-unauthorized-client"),
        "unsupported_grant_type" => (Class::Permanent, "oauth-unsupported-grant-type"),
        "access_denied" => (Class::Permanent, "oauth-access-denied"),
        _ => (Class::Permanent, "oauth-refused"),
    }
}

fn remedy(class: Class, code: &str) -> &'static str {
    match (class, code) {
        (Class::Transient, _) => "try again a little later",
        (Class::Throttled, _) => "ask less often, and keep what was given in a cache",
        (Class::Expired, "subject-token-used-before") => {
            "the server takes each token once: have the source give a new one for each exchange"
        }
        (Class::Expired, _) => "have the source give a fresh token, and compare the clocks",
        (_, "oauth-invalid-target") => "check the audience and resource against what the server knows",
        (_, "oauth-invalid-scope") => "ask for scopes that the server grants to this identity",
        (_, "oauth-invalid-client") => {
            "check the client's id and authentication, and that the assertion's audience is the server's issuer"
        }
        (_, "oauth-unsupported-grant-type") => {
            "enable the grant at the server, or use one that its metadata names in `grant_types_supported`"
        }
        _ => {
            "compare iss, sub and aud of the token that was sent with the trust that is configured at the server"
        }
    }
}

//! The exchange of an Entra token for a refresh token of Azure Container Registry
//! (<https://github.com/Azure/acr/blob/main/docs/AAD-OAuth.md>).

use chancery_wire::{Endpoint, HttpRequest, HttpResponse, Secret, form};
use http::{HeaderValue, Method};
use jiff::Timestamp;
use serde::Deserialize;

use super::{RegistryHost, reason, refused};
use crate::credential::{Credential, CredentialKind, RegistryLogin};
use crate::error::{ExchangeError, Stage};
use crate::oauth::{read_json, unreadable};
use crate::token::expiry_of;

/// The user of a login by refresh token.
const USER: &str = "00000000-0000-0000-0000-000000000000";

/// The scope of an Entra token for a registry. A token for ARM is refused by registries that do not take those.
pub const SCOPE: &str = "https://containerregistry.azure.net/.default";

/// What to do where the identity is given nothing.
const REMEDY: &str = "grant the identity AcrPull on the registry, and ask Entra for the scope https://containerregistry.azure.net/.default";

#[derive(Deserialize)]
struct RefreshTokenAnswer {
    refresh_token: String,
}

/// The request, to the registry itself: no challenge of its is followed, so that no realm it names is given the token.
pub fn request(endpoint: &Endpoint, service: &str, token: &Secret) -> HttpRequest {
    let fields = [("grant_type", "access_token"), ("service", service), ("access_token", token.expose())];
    HttpRequest::new(Method::POST, &endpoint.below("oauth2/exchange"))
        .body(HeaderValue::from_static(form::MEDIA_TYPE), form::encode(fields))
}

/// The login in an answer.
///
/// # Errors
/// When it is a refusal, or not that of a registry.
pub fn read(answer: &HttpResponse, host: &RegistryHost, now: Timestamp) -> Result<Credential, ExchangeError> {
    if !answer.status.is_success() {
        return Err(denied(answer));
    }
    let RefreshTokenAnswer { refresh_token } =
        read_json(answer, Stage::Registry, "a JSON object with `refresh_token`")?;
    if refresh_token.is_empty() {
        return Err(unreadable(answer, Stage::Registry).came("an empty `refresh_token`").expected("a token"));
    }
    let expires_at = expiry_of(&refresh_token);
    let login = RegistryLogin {
        host: host.as_str().to_owned(),
        username: USER.to_owned(),
        password: Secret::new(refresh_token),
    };
    Ok(Credential::new(CredentialKind::Registry(login), now, expires_at))
}

fn denied(answer: &HttpResponse) -> ExchangeError {
    let reason = reason(answer);
    let code = reason.as_ref().and_then(|reason| reason.code.as_str()).unwrap_or_default();
    let came = reason.as_ref().map(|reason| format!("{code}: {}", reason.message));
    refused(answer, came.as_deref(), REMEDY)
        .provider_code(Some(code))
        .correlation_id(answer.header("x-ms-correlation-request-id"))
}

//! Azure's instance metadata service
//! (<https://learn.microsoft.com/entra/identity/managed-identities-azure-resources/how-to-use-vm-token>), or with a
//! secret the managed identity of App Service (<https://learn.microsoft.com/azure/app-service/overview-managed-identity>),
//! whose address every SDK takes from the environment.

use jiff::Timestamp;
use serde::Serialize;

use super::Asked;
use super::query::{Query, is_one_word};
use super::reply::{self, Reply};
use crate::chain::Chain;
use crate::credential::{Credential, CredentialKind};
use crate::error::ExchangeError;
use crate::provider::AzureProvider;

/// Where instance metadata gives tokens.
pub(super) const METADATA: &str = "/metadata/identity/oauth2/token";
/// Where App Service does; what `IDENTITY_ENDPOINT` ends with.
pub(super) const APP_SERVICE: &str = "/msi/token";
/// How a resource becomes a scope of Entra's second version.
const DEFAULT: &str = "/.default";
/// Parameters that name an identity otherwise than by its client id.
const OTHER_NAMES: [&str; 4] = ["object_id", "principal_id", "msi_res_id", "mi_res_id"];

/// The identity that is served.
pub(super) struct Identity {
    client: String,
    resources: Vec<String>,
    path: &'static str,
}

#[derive(Serialize)]
struct Token<'a> {
    access_token: &'a str,
    client_id: &'a str,
    expires_in: String,
    expires_on: String,
    not_before: String,
    resource: &'a str,
    token_type: &'a str,
}

#[derive(Serialize)]
struct Error<'a> {
    error: &'a str,
    error_description: &'a str,
}

impl Identity {
    pub(super) fn new(azure: &AzureProvider, scopes: &[String], has_secret: bool) -> Self {
        let resources = scopes.iter().map(|scope| bare(scope).to_owned()).collect();
        let path = if has_secret { APP_SERVICE } else { METADATA };
        Self { client: azure.client.as_str().to_owned(), resources, path }
    }

    /// Whether clients prove themselves by a secret.
    pub(super) fn has_secret(&self) -> bool {
        self.path == APP_SERVICE
    }

    pub(super) fn asked(&self, chain: &Chain, path: &str, query: &Query) -> Asked {
        let refused = |status, code, words: &str| Asked::Known(error(status, code, words));
        if path != self.path {
            return refused(404, "not_found", &format!("nothing is at this path; expected {}", self.path));
        }
        if !query.get("api-version").is_some_and(is_version) {
            return refused(400, "invalid_request", "api-version is missing; expected a date, as 2018-02-01");
        }
        let Some(resource) = query.get("resource").filter(|resource| is_one_word(resource)) else {
            return refused(
                400,
                "invalid_request",
                "resource is missing; expected what the token is for, as a URI",
            );
        };
        let is_ours = query.get("client_id").is_none_or(|client| client.eq_ignore_ascii_case(&self.client));
        if !is_ours || query.has_any(&OTHER_NAMES) {
            let words = format!("Identity not found: this agent has the client id {} alone", self.client);
            return refused(400, "invalid_request", &words);
        }
        if !self.resources.is_empty() && !self.resources.iter().any(|allowed| allowed == bare(resource)) {
            let words = format!("the agent gives tokens for {} alone", self.resources.join(", "));
            return refused(403, "invalid_resource", &words);
        }
        let mut chain = chain.clone();
        chain.provider.ask_for(&[format!("{resource}{DEFAULT}")]);
        Asked::Credential(Box::new(chain), write)
    }
}

fn write(credential: &Credential, query: &Query, now: Timestamp) -> Result<Reply, ExchangeError> {
    let CredentialKind::Bearer(bearer) = &credential.kind else {
        return Err(reply::of_another_kind(credential));
    };
    let token = Token {
        access_token: bearer.token.expose(),
        client_id: query.get("client_id").unwrap_or_default(),
        expires_in: credential.duration(now).as_secs().to_string(),
        expires_on: credential.expires_at.as_second().to_string(),
        not_before: credential.issued_at.as_second().to_string(),
        resource: query.get("resource").unwrap_or_default(),
        token_type: "Bearer",
    };
    Reply::json(200, &token)
}

pub(super) fn error(status: u16, code: &str, words: &str) -> Reply {
    Reply::json(status, &Error { error: code, error_description: words })
        .unwrap_or_else(|_| Reply::text(status, words))
}

/// A resource without what makes a scope of it, and without a slash at its end.
fn bare(scope: &str) -> &str {
    scope.strip_suffix(DEFAULT).unwrap_or(scope).trim_end_matches('/')
}

/// `YYYY-MM-DD`.
fn is_version(text: &str) -> bool {
    let is_right = |(place, byte): (usize, u8)| match place {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    text.len() == 10 && text.bytes().enumerate().all(is_right)
}

//! AWS's container credentials
//! (<https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html>).

use chancery_wire::Secret;
use jiff::Timestamp;
use serde::Serialize;

use super::Asked;
use super::query::Query;
use super::reply::{self, Reply};
use crate::chain::Chain;
use crate::credential::{Credential, CredentialKind};
use crate::error::ExchangeError;
use crate::output;

/// What stands behind the port in `AWS_CONTAINER_CREDENTIALS_FULL_URI`.
pub(super) const PATH: &str = "/credentials";

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ContainerCredentials<'a> {
    access_key_id: &'a str,
    secret_access_key: &'a str,
    token: &'a str,
    expiration: String,
}

#[derive(Serialize)]
struct Error<'a> {
    code: &'a str,
    message: &'a str,
}

pub(super) fn asked(chain: &Chain, path: &str) -> Asked {
    match path {
        PATH => Asked::Credential(Box::new(chain.clone()), write),
        _ => Asked::Known(error(404, "NotFound", "nothing is at this path; expected /credentials")),
    }
}

fn write(credential: &Credential, _query: &Query, _now: Timestamp) -> Result<Reply, ExchangeError> {
    let CredentialKind::Aws(keys) = &credential.kind else { return Err(reply::of_another_kind(credential)) };
    let body = ContainerCredentials {
        access_key_id: &keys.access_key_id,
        secret_access_key: keys.secret_access_key.expose(),
        // Without one some SDKs take the whole answer for none.
        token: keys.session_token.as_ref().map(Secret::expose).unwrap_or_default(),
        expiration: output::in_seconds(credential.expires_at),
    };
    Reply::json(200, &body)
}

pub(super) fn error(status: u16, code: &str, words: &str) -> Reply {
    Reply::json(status, &Error { code, message: words }).unwrap_or_else(|_| Reply::text(status, words))
}

//! What Vault's answers mean (<https://developer.hashicorp.com/vault/api-docs#http-status-codes>).

use serde_json::Value;

use crate::sink::http_client::{SinkAnswer, excerpt};
use crate::store::{Failure, StoreErrorKind};

/// Which call was refused, so that the remedy can be named.
#[derive(Clone, Copy, Debug)]
pub(super) enum VaultCall<'a> {
    /// A path below `/v1`, read or updated with a token.
    Config(&'a str),
    /// A login.
    Login {
        /// The path below `/v1`.
        path: &'a str,
        /// The role.
        role: &'a str,
    },
}

/// The `errors` of an answer, joined; empty when it holds none.
pub(super) fn errors(body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let errors = body.get("errors").and_then(Value::as_array);
    let texts: Vec<&str> = errors.into_iter().flatten().filter_map(Value::as_str).collect();
    texts.join("; ")
}

/// The failure that an answer stands for.
pub(super) fn explain(answer: &SinkAnswer, call: &VaultCall<'_>) -> Failure {
    let said = excerpt(&errors(answer.body()));
    if answer.status() == 503 && said.contains("sealed") {
        return Failure::new(
            StoreErrorKind::Unavailable,
            format!("status 503{said}"),
            "unseal it; it is tried again",
        );
    }
    if let Some(failure) = answer.common_failure(&said) {
        return failure;
    }
    let status = answer.status().as_u16();
    match (status, call) {
        (403, VaultCall::Config(path)) => Failure::new(
            StoreErrorKind::Denied,
            format!(
                "status 403{said}. The policy needs: path \"{path}\" {{ capabilities = [\"read\", \"update\"] }}"
            ),
            "grant that to the token, or renew the token",
        ),
        (403, VaultCall::Login { path, role }) => Failure::new(
            StoreErrorKind::Denied,
            format!("POST {path} as role {role}: status 403{said}"),
            "bind the role to the ServiceAccount, namespace and audience of the token that is shown",
        ),
        (404, _) => Failure::new(
            StoreErrorKind::NoSuchContainer,
            format!("status 404{said}"),
            "mount the auth method there (`vault auth enable -path=MOUNT TYPE`), or correct `mount` and `namespace`",
        ),
        (_, VaultCall::Login { path, role }) => Failure::new(
            StoreErrorKind::Misconfigured,
            format!("POST {path} as role {role}: status {status}{said}"),
            "correct the `role` and the `mount` of the login",
        ),
        (_, VaultCall::Config(_)) => Failure::new(
            StoreErrorKind::Misconfigured,
            format!("status {status}{said}"),
            "correct the configuration of the auth method by hand",
        ),
    }
}

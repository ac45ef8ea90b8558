//! What Azure Resource Manager and Microsoft Graph answer; they share the form of an error.

use std::fmt;
use std::time::Duration;

use chancery_core::quoted::one_line;
use chancery_core::trust::Call;
use chancery_core::trust::azure::LIMIT;
use serde::Deserialize;

use crate::azure::first_line;
use crate::limits::EXCERPT;
use crate::trust::error::TrustError;

/// One answer, whole.
#[derive(Clone, Debug, Default)]
pub(crate) struct AzureAnswer {
    pub(crate) status: u16,
    pub(super) retry_after: Option<Duration>,
    pub(crate) body: Vec<u8>,
    code: String,
    message: String,
}

#[derive(Deserialize)]
struct ErrorBody {
    error: ErrorDetail,
}

#[derive(Deserialize)]
struct ErrorDetail {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

impl AzureAnswer {
    pub(crate) fn of(status: u16, retry_after: Option<Duration>, body: Vec<u8>) -> Self {
        let error = serde_json::from_slice::<ErrorBody>(&body).ok().map(|body| body.error);
        let shown = |text: &str| one_line(text, EXCERPT);
        let error = error.map(|error| (shown(&error.code), shown(&first_line(&error.message))));
        let (code, message) = error.unwrap_or_default();
        Self { status, retry_after, body, code, message }
    }

    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Whether the same call can succeed a little later.
    pub(super) fn asks_for_patience(&self) -> bool {
        let concurrent = matches!(
            self.code.as_str(),
            "ConcurrentFederatedIdentityCredentialsWritesForSingleManagedIdentity"
                | "Directory_ConcurrencyViolation"
        );
        matches!(self.status, 408 | 429 | 503) || self.status == 409 && concurrent
    }

    pub(super) fn into_refusal(self, call: &Call) -> TrustError {
        super::refused(call, self.to_string(), self.remedy(call))
    }

    /// What helps.
    fn remedy(&self, call: &Call) -> String {
        let says = |words: &str| self.message.to_lowercase().contains(words);
        match self.status {
            401 => "renew the credentials, and see that they are of the tenant that the identity is in".to_owned(),
            403 => format!("grant {}; a new assignment takes minutes to be seen", call.permission),
            404 => "correct the identity: there is none of that id, or the credentials may not see it".to_owned(),
            400 | 409 if says("issuer and subject") => {
                "another credential of the identity has this issuer and subject, and was registered in the meantime: plan again".to_owned()
            }
            400 | 409 if says("limit") || says("maximum") || says("quota") => {
                format!("an identity has {LIMIT} federated identity credentials at most: spread the ServiceAccounts over several")
            }
            408 | 409 | 429 | 500..=599 => "try again in some minutes: what was registered stays".to_owned(),
            _ => "see that the endpoint is Azure's, and that it takes what is sent".to_owned(),
        }
    }
}

impl fmt::Display for AzureAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status)?;
        let parts = [&self.code, &self.message];
        parts.iter().filter(|part| !part.is_empty()).try_for_each(|part| write!(f, " {part}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(status: u16, code: &str, message: &str) -> AzureAnswer {
        let body = json!({ "error": { "code": code, "message": message } }).to_string();
        AzureAnswer::of(status, None, body.into_bytes())
    }

    #[test]
    fn patience_helps_against_other_writers_and_too_many_calls_only() {
        for (status, code, patience) in [
            (409, "ConcurrentFederatedIdentityCredentialsWritesForSingleManagedIdentity", true),
            (409, "Directory_ConcurrencyViolation", true),
            (409, "Conflict", false),
            (429, "TooManyRequests", true),
            (503, "", true),
            (500, "", false),
            (403, "AuthorizationFailed", false),
        ] {
            assert_eq!(answer(status, code, "").asks_for_patience(), patience, "{status} {code}");
        }
    }
}

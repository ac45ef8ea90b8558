//! What Google Cloud Storage answers, as kinds of ours.
//!
//! Sources: <https://docs.cloud.google.com/storage/docs/json_api/v1/status-codes>,
//! <https://docs.cloud.google.com/storage/docs/json_api/v1/objects/insert> (`storage.objects.delete` when an object is
//! overwritten), <https://docs.cloud.google.com/storage/quotas> (one write of an object in a second).

use std::error::Error as StdError;
use std::fmt;

use chancery_wire::error_chain;
use google_cloud_gax::error::CredentialsError;
use google_cloud_storage::Error;
use google_cloud_storage::error::ReadError;

use crate::store::limits::timed_out;
use crate::store::{Failure, StoreErrorKind, StoreRequest};

/// How much of an answer's text is told.
const LONGEST_MESSAGE: usize = 400;

/// A refusal as the server worded it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GcsRefusal {
    pub(super) status: u16,
    pub(super) message: String,
}

impl GcsRefusal {
    /// The server's answer, or the failure if there was none.
    pub(super) fn of(error: &Error, request: StoreRequest) -> Result<Self, Failure> {
        let error = innermost(error);
        let Some(status) = error.http_status_code() else { return Err(no_answer(error, request)) };
        let said = error.status().map(|status| status.message.clone()).filter(|text| !text.is_empty());
        let text = || error.http_payload().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let message = said.or_else(text).unwrap_or_default();
        Ok(Self { status, message: message.trim().chars().take(LONGEST_MESSAGE).collect() })
    }

    /// Whether a refused reading means that there is no object. Whoever may get objects but not list them is answered
    /// 403 instead, in words that name the right to list.
    pub(super) fn is_absence(&self) -> bool {
        match self.status {
            404 => !self.names_the_bucket(),
            403 => self.says("storage.objects.list"),
            _ => false,
        }
    }

    fn says(&self, words: &str) -> bool {
        self.message.contains(words)
    }

    fn names_the_bucket(&self) -> bool {
        self.message.to_ascii_lowercase().contains("bucket does not exist")
    }

    pub(super) fn into_failure(self, request: StoreRequest) -> Failure {
        use StoreErrorKind as Kind;
        let (kind, remedy) = match self.status {
            412 if self.says("constraints/") => {
                (Kind::Denied, "an organization policy forbids it: ask who keeps it for an exception")
            }
            412 => return Failure::conflict(self.to_string()),
            404 => (Kind::NoSuchContainer, "make the bucket, or correct its name or the endpoint"),
            401 => (Kind::Denied, "correct or renew the credentials"),
            403 if self.says("retention") => {
                (Kind::Misconfigured, "take the retention policy or the hold off the two documents")
            }
            403 => (Kind::Denied, self.missing_permission(request)),
            // Also `rateLimitExceeded`: an object can be written once in a second.
            408 | 425 | 429 | 500..=599 => {
                (Kind::Unavailable, "try again; an object takes one write in a second")
            }
            _ => (Kind::Misconfigured, "compare `bucket` and `endpoint` with what the server expects"),
        };
        Failure::new(kind, self.to_string(), remedy)
    }

    /// The permission that the server names, otherwise those that the request needs.
    fn missing_permission(&self, request: StoreRequest) -> &'static str {
        let named = |permission: &str| self.says(permission);
        match request {
            _ if named("storage.objects.delete") => {
                "grant storage.objects.delete on the two documents: overwriting an object needs it"
            }
            _ if named("storage.objects.create") => "grant storage.objects.create on the two documents",
            _ if named("storage.objects.get") => "grant storage.objects.get on the two documents",
            StoreRequest::Read => "grant storage.objects.get on the two documents",
            StoreRequest::Create => "grant storage.objects.create on the two documents",
            StoreRequest::Replace => {
                "grant storage.objects.create and storage.objects.delete on the two documents: overwriting needs both"
            }
        }
    }
}

impl fmt::Display for GcsRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status)?;
        if self.message.is_empty() { Ok(()) } else { write!(f, " {}", self.message) }
    }
}

/// An answer that began and did not come whole, or came damaged.
pub(super) fn broken_off(error: &Error) -> Failure {
    Failure::new(StoreErrorKind::Unavailable, words(error), "the answer broke off; try again")
}

/// The request did not get there, or its answer did not come back.
fn no_answer(error: &Error, request: StoreRequest) -> Failure {
    use StoreErrorKind as Kind;
    let cause = words(error);
    if let Some(credentials) = error_chain::find::<CredentialsError>(error) {
        return match credentials.is_transient() {
            true => Failure::new(Kind::Unavailable, cause, "look at the service that gives access tokens"),
            false => Failure::new(
                Kind::Denied,
                cause,
                "correct or give credentials: `credentialsFile`, GOOGLE_APPLICATION_CREDENTIALS, `gcloud auth application-default login`, or a machine of Google's",
            ),
        };
    }
    if error.is_timeout() {
        return timed_out(cause);
    }
    if error.is_connect() {
        let remedy =
            "see that the endpoint's name resolves, its port answers and its certificate is known here";
        return Failure::new(Kind::Unavailable, cause, remedy);
    }
    if let Some(ReadError::MissingHeader(_) | ReadError::BadHeaderFormat(..)) = error_chain::find(error) {
        let remedy = "use Google Cloud Storage itself, and no proxy that drops its headers";
        return Failure::new(Kind::Misconfigured, cause, remedy);
    }
    if error.is_binding() {
        return Failure::new(Kind::Misconfigured, cause, "correct the target's `bucket` and `endpoint`");
    }
    match request {
        StoreRequest::Read if !error.is_io() => broken_off(error),
        // A write whose answer is cut or unreadable may have taken effect.
        _ => {
            Failure::new(Kind::TimedOut, cause, "try again; if it stays, look at the network and the server")
        }
    }
}

/// The error of the last attempt, where the SDK wraps it into one about its patience.
fn innermost(error: &Error) -> &Error {
    if !error.is_exhausted() {
        return error;
    }
    error.source().and_then(|source| source.downcast_ref::<Error>()).map_or(error, innermost)
}

/// What lies behind an error of the SDK.
fn words(error: &(dyn StdError + 'static)) -> String {
    let spell = |error: &(dyn StdError + 'static)| error.to_string().chars().take(LONGEST_MESSAGE).collect();
    error_chain::describe(error.source().unwrap_or(error), spell)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, message: &str) -> GcsRefusal {
        GcsRefusal { status, message: message.to_owned() }
    }

    #[test]
    fn every_answer_has_a_meaning() {
        use StoreErrorKind as Kind;
        use StoreRequest::{Create, Read, Replace};
        let lacks = |permission: &str| {
            format!(
                "a@b.iam.gserviceaccount.com does not have {permission} access to the Google Cloud Storage object."
            )
        };
        for (request, status, message, kind, words) in [
            (
                Create,
                412,
                "At least one of the pre-conditions you specified did not hold.",
                Kind::Conflict,
                "again",
            ),
            (Replace, 412, "", Kind::Conflict, "again"),
            (
                Create,
                412,
                "Request violates constraint 'constraints/gcp.resourceLocations'",
                Kind::Denied,
                "organization",
            ),
            (Create, 404, "The specified bucket does not exist.", Kind::NoSuchContainer, "bucket"),
            (Read, 404, "The specified bucket does not exist.", Kind::NoSuchContainer, "bucket"),
            (Read, 401, "Invalid Credentials", Kind::Denied, "credentials"),
            (Read, 403, "", Kind::Denied, "storage.objects.get"),
            (Read, 403, &lacks("storage.objects.get"), Kind::Denied, "grant storage.objects.get"),
            (Create, 403, &lacks("storage.objects.create"), Kind::Denied, "grant storage.objects.create"),
            (Replace, 403, &lacks("storage.objects.delete"), Kind::Denied, "grant storage.objects.delete"),
            (Replace, 403, "", Kind::Denied, "storage.objects.delete"),
            (
                Replace,
                403,
                "Object 'b/k' is subject to bucket's retention policy",
                Kind::Misconfigured,
                "retention",
            ),
            (Replace, 429, "rate limit for object mutation", Kind::Unavailable, "one write in a second"),
            (Read, 503, "", Kind::Unavailable, "again"),
            (Create, 400, "Invalid bucket name: 'B'", Kind::Misconfigured, "bucket"),
            (Read, 301, "", Kind::Misconfigured, "endpoint"),
        ] {
            let failure = answer(status, message).into_failure(request);
            assert_eq!(failure.kind, kind, "{request:?} {status} {message}");
            assert!(failure.remedy.contains(words), "{status} {message}: {}", failure.remedy);
            assert!(failure.cause.to_string().contains(message));
        }
    }

    #[test]
    fn a_refused_reading_may_mean_that_there_is_nothing() {
        for (status, message, absent) in [
            (404, "No such object: b/k", true),
            (404, "Not Found", true),
            (404, "The specified bucket does not exist.", false),
            (403, "a does not have storage.objects.list access to the Google Cloud Storage bucket.", true),
            (403, "a does not have storage.objects.get access to the Google Cloud Storage object.", false),
            (403, "", false),
            (503, "", false),
        ] {
            assert_eq!(answer(status, message).is_absence(), absent, "{status} {message}");
        }
    }
}

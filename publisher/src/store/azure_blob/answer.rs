//! What Azure Blob Storage answers, as kinds of ours.
//!
//! Sources: <https://learn.microsoft.com/rest/api/storageservices/common-rest-api-error-codes>,
//! <https://learn.microsoft.com/rest/api/storageservices/blob-service-error-codes>.

use std::fmt;

use azure_core::error::{Error, ErrorKind};

use crate::azure::{first_line, words};
use crate::store::{Failure, StoreErrorKind, StoreRequest};

/// What grants the right that is missing.
fn grant(request: StoreRequest) -> &'static str {
    match request {
        StoreRequest::Read => {
            "grant Microsoft.Storage/storageAccounts/blobServices/containers/blobs/read on the container (in a shared access signature: r); a new role assignment takes up to ten minutes"
        }
        StoreRequest::Create => {
            "grant Microsoft.Storage/storageAccounts/blobServices/containers/blobs/write on the container (in a shared access signature: c and w); a new role assignment takes up to ten minutes"
        }
        StoreRequest::Replace => {
            "grant Microsoft.Storage/storageAccounts/blobServices/containers/blobs/write on the container (in a shared access signature: w); a new role assignment takes up to ten minutes"
        }
    }
}

/// A refusal as the server worded it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AzureRefusal {
    pub(super) status: u16,
    pub(super) code: String,
    pub(super) message: String,
    pub(super) request_id: String,
}

impl AzureRefusal {
    /// The server's answer, or the failure if there was none.
    pub(super) fn of(error: &Error) -> Result<Self, Failure> {
        let ErrorKind::HttpResponse { status, raw_response, .. } = error.kind() else {
            return Err(no_answer(error));
        };
        let mut answer = Self { status: u16::from(*status), ..Self::default() };
        if let Some(response) = raw_response {
            let body = String::from_utf8_lossy(response.body());
            let header = |name: &'static str| response.headers().get_optional_string(&name.into());
            let element = |name| element(&body, name).map(str::to_owned);
            answer.code = header("x-ms-error-code").or_else(|| element("Code")).unwrap_or_default();
            answer.request_id = header("x-ms-request-id").unwrap_or_default();
            let detail = element("AuthenticationErrorDetail").and_then(|text| harmless(&text));
            let message = element("Message").map(|text| first_line(&text));
            answer.message = message.into_iter().chain(detail).collect::<Vec<_>>().join(" ");
        }
        Ok(answer)
    }

    /// Whether a refused reading means that there is no object.
    pub(super) fn is_absence(&self) -> bool {
        self.status == 404 && self.code == "BlobNotFound"
    }

    pub(super) fn into_failure(self, request: StoreRequest) -> Failure {
        self.failure(request).of_request(self.request_id)
    }

    fn failure(&self, request: StoreRequest) -> Failure {
        use StoreErrorKind as Kind;
        let (kind, remedy) = match (self.code.as_str(), self.status) {
            // The container, then what holds the blob, then the blob.
            ("ContainerNotFound" | "ResourceNotFound", _) => {
                (Kind::NoSuchContainer, "make the container, or correct its name or the account")
            }
            ("LeaseIdMissing" | "LeaseIdMismatchWithBlobOperation" | "LeaseLost", _) => {
                (Kind::Misconfigured, "somebody holds a lease on the blob: break it, or let them release it")
            }
            ("BlobImmutableDueToPolicy" | "BlobImmutableDueToLegalHold", _) => (
                Kind::Misconfigured,
                "an immutability policy keeps the blob: publish to a container without one",
            ),
            ("InvalidBlobType" | "BlobArchived" | "BlobBeingRehydrated", _) => {
                (Kind::Misconfigured, "somebody else made it a blob that cannot be replaced: move it away")
            }
            ("BlobAlreadyExists" | "ConditionNotMet" | "TargetConditionNotMet", _) | (_, 412) => {
                return Failure::conflict(self.to_string());
            }
            // The object whose version was named is gone.
            ("BlobNotFound", _) if request == StoreRequest::Replace => {
                return Failure::conflict(self.to_string());
            }
            (_, 401 | 403) => self.denied(request),
            (_, 404) => {
                (Kind::Misconfigured, "no blob service answers so: correct the account or the endpoint")
            }
            (_, 300..=399) => (Kind::Misconfigured, "name the endpoint that it points to"),
            // `ServerBusy`, `ContainerBeingDeleted`, `OperationTimedOut` and the like.
            (_, 408 | 409 | 425 | 429 | 500..=599) => (Kind::Unavailable, "try again"),
            _ => (
                Kind::Misconfigured,
                "compare `account`, `endpoint` and `container` with what the server expects",
            ),
        };
        Failure::new(kind, self.to_string(), remedy)
    }

    fn denied(&self, request: StoreRequest) -> (StoreErrorKind, &'static str) {
        let remedy = match self.code.as_str() {
            "AuthorizationPermissionMismatch"
            | "AuthorizationResourceTypeMismatch"
            | "InsufficientAccountPermissions" => grant(request),
            "AuthorizationFailure" => {
                "let the account's network rules and the signature's address range take in this machine; where there are none, correct the credentials"
            }
            "AuthorizationSourceIPMismatch" => {
                "make a shared access signature that takes this machine's address"
            }
            "AuthorizationProtocolMismatch" => "give the endpoint as https://",
            "KeyBasedAuthenticationNotPermitted" => {
                "the account forbids signatures made with its keys: use an identity, or a user delegation signature"
            }
            "AccountIsDisabled" => "have the account enabled",
            _ => "correct or renew the credentials",
        };
        (StoreErrorKind::Denied, remedy)
    }
}

/// Without the request's id, which differs each time.
impl fmt::Display for AzureRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status)?;
        let parts = [&self.code, &self.message];
        parts.iter().filter(|text| !text.is_empty()).try_for_each(|text| write!(f, " {text}"))
    }
}

/// The answer began and did not end.
pub(super) fn broken_off(error: &Error) -> Failure {
    Failure::new(StoreErrorKind::Unavailable, words(error), "the answer broke off; try again")
}

/// The request did not get there, or its answer did not come back.
fn no_answer(error: &Error) -> Failure {
    use StoreErrorKind as Kind;
    let cause = words(error);
    let (kind, remedy) = match error.kind() {
        ErrorKind::Credential if token_is_unavailable(error) => {
            (Kind::Unavailable, "try again; if it stays, look at the service that gives the tokens")
        }
        ErrorKind::Credential => {
            (Kind::Denied, "correct the credentials, or let Entra trust them (`chancery trust azure plan`)")
        }
        ErrorKind::Connection => (
            Kind::Unavailable,
            "see that the endpoint's name resolves, its port answers and its certificate is known here; an account that does not exist has no name",
        ),
        ErrorKind::Io => (Kind::TimedOut, "try again; if it stays, look at the network and the server"),
        _ => (Kind::Misconfigured, "correct the target's `endpoint` and `container`"),
    };
    Failure::new(kind, cause, remedy)
}

/// Whether whoever gives the tokens failed, rather than refused.
fn token_is_unavailable(error: &Error) -> bool {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        match error.downcast_ref::<Error>().map(Error::kind) {
            Some(ErrorKind::Connection | ErrorKind::Io) => return true,
            Some(ErrorKind::HttpResponse { status, .. }) => {
                return matches!(u16::from(*status), 408 | 429 | 500..=599);
            }
            _ => next = error.source(),
        }
    }
    false
}

/// The text of the first `<name>` in Azure's XML, which does not nest them.
fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(text, _)| text)
}

/// Some details repeat the signature; this one says when it is valid.
fn harmless(detail: &str) -> Option<String> {
    detail.starts_with("Signature not valid in the specified time frame").then(|| first_line(detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, code: &str) -> AzureRefusal {
        AzureRefusal { status, code: code.to_owned(), ..AzureRefusal::default() }
    }

    #[test]
    fn every_answer_has_a_meaning() {
        use StoreErrorKind as Kind;
        use StoreRequest::{Create, Read, Replace};
        for (request, status, code, kind) in [
            (Create, 409, "BlobAlreadyExists", Kind::Conflict),
            (Create, 412, "ConditionNotMet", Kind::Conflict),
            (Replace, 412, "ConditionNotMet", Kind::Conflict),
            (Replace, 412, "", Kind::Conflict),
            (Replace, 404, "BlobNotFound", Kind::Conflict),
            (Replace, 404, "ContainerNotFound", Kind::NoSuchContainer),
            (Read, 404, "ContainerNotFound", Kind::NoSuchContainer),
            (Create, 404, "ContainerNotFound", Kind::NoSuchContainer),
            (Read, 404, "", Kind::Misconfigured),
            (Replace, 412, "LeaseIdMissing", Kind::Misconfigured),
            (Replace, 409, "BlobImmutableDueToPolicy", Kind::Misconfigured),
            (Replace, 409, "InvalidBlobType", Kind::Misconfigured),
            (Create, 409, "ContainerBeingDeleted", Kind::Unavailable),
            (Read, 403, "AuthenticationFailed", Kind::Denied),
            (Read, 401, "InvalidAuthenticationInfo", Kind::Denied),
            (Read, 403, "AuthorizationFailure", Kind::Denied),
            (Read, 400, "InvalidHeaderValue", Kind::Misconfigured),
            (Read, 302, "", Kind::Misconfigured),
            (Create, 503, "ServerBusy", Kind::Unavailable),
            (Create, 500, "OperationTimedOut", Kind::Unavailable),
            (Read, 429, "", Kind::Unavailable),
        ] {
            let failure = answer(status, code).into_failure(request);
            assert_eq!(failure.kind, kind, "{request:?} {status} {code}");
            assert!(failure.cause.to_string().contains(code) && !failure.remedy.is_empty());
        }
    }

    #[test]
    fn the_missing_right_is_named() {
        for (request, right) in [
            (StoreRequest::Read, "blobs/read"),
            (StoreRequest::Create, "blobs/write"),
            (StoreRequest::Replace, "blobs/write"),
        ] {
            let failure = answer(403, "AuthorizationPermissionMismatch").into_failure(request);
            assert!(failure.remedy.contains(right), "{}", failure.remedy);
        }
    }

    #[test]
    fn the_same_problem_has_the_same_text_and_another_request() {
        let failure = |id: &str| {
            let answer = AzureRefusal { request_id: id.to_owned(), ..answer(503, "ServerBusy") };
            let (place, operation) = ("container c".to_owned(), crate::store::Operation::Read);
            answer.into_failure(StoreRequest::Read).at(place, operation, "k")
        };
        let (first, second) = (failure("06c4ca52-f01e-0036"), failure("another"));
        assert_eq!(first.to_string(), second.to_string());
        assert_eq!(first.request_id.as_deref(), Some("06c4ca52-f01e-0036"));
        assert_eq!(failure("").request_id, None);
    }

    #[test]
    fn only_a_missing_blob_is_absence() {
        assert!(answer(404, "BlobNotFound").is_absence());
        assert!(!answer(404, "ContainerNotFound").is_absence());
        assert!(!answer(404, "").is_absence(), "any web server answers so");
        assert!(!answer(403, "AuthorizationPermissionMismatch").is_absence());
    }

    #[test]
    fn a_detail_that_repeats_a_signature_is_not_repeated() {
        assert_eq!(harmless("The MAC signature found in the HTTP request 'hunter2' is not the same"), None);
        let frame = "Signature not valid in the specified time frame: Start [x] - Expiry [y]\nmore";
        assert!(harmless(frame).is_some_and(|text| text.ends_with("Expiry [y]")));
    }
}

//! What S3 servers answer, as kinds of ours.
//!
//! Sources: <https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html>,
//! <https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html> (412, 409 and 404 of conditional
//! writes), <https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html> (403 for an absent object when the
//! reader may not list).

use std::error::Error;
use std::fmt;

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::operation::RequestId;
use chancery_wire::error_chain;

use crate::store::limits::timed_out;
use crate::store::{Failure, StoreErrorKind, StoreRequest};

/// A refusal as the server worded it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct S3Refusal {
    pub(super) status: u16,
    pub(super) code: String,
    pub(super) message: String,
    pub(super) request_id: String,
}

/// How sure a refused reading makes us that there is no object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absence {
    Certain,
    /// It may also be there and hidden from us.
    Possible,
}

impl S3Refusal {
    /// The server's answer, or the failure if there was none.
    pub(super) fn of<E>(error: &SdkError<E, HttpResponse>) -> Result<Self, Failure>
    where
        E: ProvideErrorMetadata + RequestId + Error + 'static,
    {
        match error {
            SdkError::ServiceError(context) => Ok(Self {
                status: context.raw().status().as_u16(),
                code: context.err().code().unwrap_or_default().to_owned(),
                message: context.err().message().unwrap_or_default().to_owned(),
                request_id: context.err().request_id().unwrap_or_default().to_owned(),
            }),
            SdkError::ResponseError(context) => Ok(Self {
                status: context.raw().status().as_u16(),
                message: "an answer that is not S3's".to_owned(),
                ..Self::default()
            }),
            SdkError::TimeoutError(_) => Err(timed_out(words(error))),
            SdkError::DispatchFailure(failure) if failure.is_timeout() => Err(timed_out(words(error))),
            _ => Err(no_answer(error)),
        }
    }

    /// Whether a refused reading means that there is no object; `None` when it means something else.
    pub(super) fn absence(&self) -> Option<Absence> {
        let names = |action| self.message.contains(action);
        match (self.code.as_str(), self.status) {
            // Any other code of a 404 speaks of something else: a bucket, or a user that versitygw does not know.
            ("NoSuchKey" | "NotFound" | "", 404) => Some(Absence::Certain),
            // AWS names the action that was missing, though not to every caller.
            ("AccessDenied", 403) if names("s3:ListBucket") => Some(Absence::Certain),
            ("AccessDenied", 403) if names("s3:GetObject") => None,
            ("AccessDenied", 403) => Some(Absence::Possible),
            _ => None,
        }
    }

    /// Whether a refused HEAD must be asked again as a GET: a status that has several meanings, told apart by a code.
    pub(super) fn needs_its_body(&self) -> bool {
        (400..500).contains(&self.status) && !matches!(self.status, 408 | 425 | 429)
    }

    /// The failure where the object is known to be there.
    pub(super) fn into_hidden(self) -> Failure {
        let remedy = "grant s3:GetObject on it; an object that was removed is told from a hidden one by s3:ListBucket, otherwise it is written anew two minutes after the first refusal";
        Failure { remedy, ..self.into_failure(StoreRequest::Read) }
    }

    /// What helps against a refusal of rights. A write on the condition of a version takes the right to read it, too
    /// (the page on conditional writes above); AWS names the action that is missing, other servers do not.
    fn missing_right(&self, request: StoreRequest) -> &'static str {
        match request {
            StoreRequest::Read => "grant s3:GetObject on it",
            _ if self.message.contains("s3:GetObject") => "grant s3:GetObject on it",
            StoreRequest::Create | StoreRequest::Replace => "grant s3:PutObject on it",
        }
    }

    pub(super) fn into_failure(self, request: StoreRequest) -> Failure {
        self.failure(request).of_request(self.request_id)
    }

    fn failure(&self, request: StoreRequest) -> Failure {
        use StoreErrorKind as Kind;
        let (kind, remedy) = match (self.code.as_str(), self.status) {
            ("PreconditionFailed" | "ConditionalRequestConflict", _) | (_, 412) => {
                return Failure::conflict(self.to_string());
            }
            (
                "InvalidAccessKeyId"
                | "SignatureDoesNotMatch"
                | "ExpiredToken"
                | "InvalidToken"
                | "TokenRefreshRequired"
                | "InvalidSecurity"
                // versitygw's word for an access key id that it does not know.
                | "XAdminUserNotFound",
                _,
            ) => (Kind::Denied, "correct or renew the credentials"),
            ("NoSuchBucket", _) => {
                (Kind::NoSuchContainer, "make the bucket, or correct its name or the endpoint")
            }
            // The object whose version was named is gone.
            (_, 404) if request == StoreRequest::Replace => return Failure::conflict(self.to_string()),
            (_, 404) => (Kind::NoSuchContainer, "correct the endpoint or the bucket's name"),
            ("NotImplemented", _) | (_, 501) => (
                Kind::Misconfigured,
                "the server does not know conditional writes, without which two writers may lose keys: upgrade it or use another",
            ),
            ("RequestTimeTooSkewed", _) => (Kind::Denied, "set this machine's clock, or the server's"),
            ("AccessDenied" | "AllAccessDisabled" | "AccountProblem", _) | (_, 401 | 403) => {
                (Kind::Denied, self.missing_right(request))
            }
            (
                "PermanentRedirect"
                | "TemporaryRedirect"
                | "AuthorizationHeaderMalformed"
                | "IllegalLocationConstraintException",
                _,
            )
            | (_, 300..=399) => (Kind::Misconfigured, "the bucket is in another region: correct `region`"),
            // `OperationAborted` and the like: somebody else is at work on the bucket.
            (_, 408 | 409 | 425 | 429 | 500..=599) => (Kind::Unavailable, "try again"),
            _ => (
                Kind::Misconfigured,
                "compare `endpoint`, `pathStyle` and `region` with what the server expects",
            ),
        };
        Failure::new(kind, self.to_string(), remedy)
    }
}

/// Without the request's id, which differs each time.
impl fmt::Display for S3Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status)?;
        let parts = [&self.code, &self.message];
        parts.iter().filter(|text| !text.is_empty()).try_for_each(|text| write!(f, " {text}"))
    }
}

/// The request did not get there, or its answer did not come back.
fn no_answer<E: Error + 'static>(error: &SdkError<E, HttpResponse>) -> Failure {
    use StoreErrorKind as Kind;
    let cause = words(error);
    // The client's type for this is out of reach; its words decide between two kinds that are both tried again.
    let unconnected = cause.contains("client error (Connect)");
    let (kind, remedy) = match (error_chain::find::<CredentialsError>(error), error) {
        (Some(CredentialsError::CredentialsNotLoaded(_) | CredentialsError::InvalidConfiguration(_)), _) => (
            Kind::Misconfigured,
            "give credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, a role or `credentialsFile`",
        ),
        (Some(_), _) => {
            (Kind::Unavailable, "give credentials, or look at the service that was asked for them")
        }
        (None, SdkError::ConstructionFailure(_)) => {
            (Kind::Misconfigured, "correct the target's `bucket`, `endpoint` and `region`")
        }
        (None, SdkError::DispatchFailure(failure)) if !failure.is_user() && !unconnected => {
            (Kind::TimedOut, "try again; if it stays, look at the network and the server")
        }
        _ => (
            Kind::Unavailable,
            "see that the endpoint's name resolves, its port answers and its certificate is known here; a server without names for buckets needs `pathStyle`",
        ),
    };
    Failure::new(kind, cause, remedy)
}

/// What lies behind an error of the SDK. Its own word names a stage of the client.
fn words(error: &(dyn Error + 'static)) -> String {
    error_chain::describe(error.source().unwrap_or(error), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, code: &str, message: &str) -> S3Refusal {
        S3Refusal { status, code: code.to_owned(), message: message.to_owned(), request_id: String::new() }
    }

    #[test]
    fn every_answer_has_a_meaning() {
        use StoreErrorKind as Kind;
        use StoreRequest::{Create, Read, Replace};
        for (request, status, code, kind) in [
            (Create, 412, "PreconditionFailed", Kind::Conflict),
            (Replace, 412, "PreconditionFailed", Kind::Conflict),
            (Replace, 412, "", Kind::Conflict),
            (Create, 409, "ConditionalRequestConflict", Kind::Conflict),
            (Replace, 404, "NoSuchKey", Kind::Conflict),
            (Replace, 404, "NoSuchBucket", Kind::NoSuchContainer),
            (Create, 404, "NoSuchBucket", Kind::NoSuchContainer),
            (Read, 404, "NoSuchBucket", Kind::NoSuchContainer),
            (Create, 404, "", Kind::NoSuchContainer),
            (Create, 501, "NotImplemented", Kind::Misconfigured),
            (Create, 400, "NotImplemented", Kind::Misconfigured),
            (Read, 403, "AccessDenied", Kind::Denied),
            (Create, 403, "", Kind::Denied),
            (Read, 400, "ExpiredToken", Kind::Denied),
            (Read, 403, "SignatureDoesNotMatch", Kind::Denied),
            (Read, 404, "XAdminUserNotFound", Kind::Denied),
            (Replace, 404, "XAdminUserNotFound", Kind::Denied),
            (Read, 403, "RequestTimeTooSkewed", Kind::Denied),
            (Read, 301, "PermanentRedirect", Kind::Misconfigured),
            (Read, 400, "AuthorizationHeaderMalformed", Kind::Misconfigured),
            (Create, 409, "OperationAborted", Kind::Unavailable),
            (Create, 500, "InternalError", Kind::Unavailable),
            (Create, 503, "SlowDown", Kind::Unavailable),
            (Read, 429, "", Kind::Unavailable),
            (Create, 400, "InvalidRequest", Kind::Misconfigured),
        ] {
            let failure = answer(status, code, "").into_failure(request);
            assert_eq!(failure.kind, kind, "{request:?} {status} {code}");
            assert!(failure.cause.to_string().contains(code) && !failure.remedy.is_empty());
        }
    }

    #[test]
    fn the_same_problem_has_the_same_text_and_another_request() {
        let failure = |id: &str| {
            let answer = S3Refusal { request_id: id.to_owned(), ..answer(503, "SlowDown", "Slow down") };
            answer.into_failure(StoreRequest::Read).at(
                "s3://b".to_owned(),
                crate::store::Operation::Read,
                "k",
            )
        };
        let (first, second) = (failure("4442587FB7D0A2F9"), failure("EXAMPLE"));
        assert_eq!(first.to_string(), second.to_string());
        assert_eq!(first.request_id.as_deref(), Some("4442587FB7D0A2F9"));
        assert_eq!(failure("").request_id, None);
    }

    #[test]
    fn a_denial_names_the_right_that_is_missing() {
        use StoreRequest::{Create, Read, Replace};
        let reads =
            "User: arn:aws:iam::1:user/a is not authorized to perform: s3:GetObject on resource: \"b/k\"";
        for (request, message, right) in [
            (Read, "Access Denied", "s3:GetObject"),
            (Create, "Access Denied", "s3:PutObject"),
            (Replace, "Access Denied", "s3:PutObject"),
            (Replace, reads, "s3:GetObject"),
        ] {
            let remedy = answer(403, "AccessDenied", message).into_failure(request).remedy;
            assert!(remedy.contains(right), "{request:?}: {remedy}");
        }
    }

    #[test]
    fn a_refused_reading_may_mean_that_there_is_nothing() {
        let lists =
            "User: arn:aws:iam::1:user/a is not authorized to perform: s3:ListBucket on resource: \"b\"";
        let reads =
            "User: arn:aws:iam::1:user/a is not authorized to perform: s3:GetObject on resource: \"b/k\"";
        for (status, code, message, absence) in [
            (404, "NoSuchKey", "", Some(Absence::Certain)),
            (404, "", "", Some(Absence::Certain)),
            (404, "NoSuchBucket", "", None),
            (404, "XAdminUserNotFound", "", None),
            (403, "AccessDenied", lists, Some(Absence::Certain)),
            (403, "AccessDenied", reads, None),
            (403, "AccessDenied", "Access Denied", Some(Absence::Possible)),
            (403, "SignatureDoesNotMatch", "", None),
            (403, "InvalidAccessKeyId", "", None),
            (503, "SlowDown", "", None),
        ] {
            assert_eq!(answer(status, code, message).absence(), absence, "{status} {code} {message}");
        }
    }
}

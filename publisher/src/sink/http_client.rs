//! One request of a sink: over verified TLS, without redirects and proxies, bounded in time and size.

use std::path::Path;
use std::time::Duration;

use chancery_core::quoted::one_line;
use chancery_files::Bounds;
use chancery_wire::limits::EXCERPT;
use chancery_wire::{
    CertificateTrust, ClientOptions, HttpClient, HttpRequest, HttpResponse, Secret, TransportError, retry,
};
use http::{HeaderName, HeaderValue, StatusCode, header};
use zeroize::Zeroizing;

use super::config::SinkConfigError;
use crate::limits::{CA_FILE, FILE_READ};
use crate::store::{Failure, LARGEST_OBJECT, StoreErrorKind};

/// Makes requests to one server.
#[derive(Clone, Debug)]
pub(super) struct SinkClient(HttpClient);

impl SinkClient {
    /// A client that believes the certificates of `ca`, or the roots of this machine.
    pub fn new(ca: Option<&Path>, timeout_seconds: u32) -> Result<Self, SinkConfigError> {
        let certificates = match ca {
            None => CertificateTrust::Platform,
            Some(path) => {
                let read = chancery_files::read(path, Bounds::regular(CA_FILE, FILE_READ));
                CertificateTrust::Only(read.map_err(|error| refuse(ca, &error))?)
            }
        };
        let timeout = Duration::from_secs(timeout_seconds.into());
        let options = ClientOptions { certificates, ..ClientOptions::new(timeout, LARGEST_OBJECT) };
        HttpClient::new(&options).map(Self).map_err(|error| refuse(ca, &error))
    }

    /// The answer, of whatever status.
    pub async fn send(&self, request: HttpRequest) -> Result<SinkAnswer, Failure> {
        let answer = self.0.send(request).await;
        answer.map(SinkAnswer).map_err(|error| no_answer(&error))
    }
}

fn refuse(ca: Option<&Path>, problem: &dyn std::error::Error) -> SinkConfigError {
    let path = ca.unwrap_or(Path::new("(the roots of this machine)")).to_owned();
    SinkConfigError::File {
        field: "ca",
        path,
        problem: problem.to_string(),
        expected: "a PEM file of certificates",
    }
}

/// A header's value that nobody prints.
pub(super) fn secret_header(field: &str, prefix: &str, secret: &Secret) -> Result<HeaderValue, Failure> {
    secret.header_value(prefix).map_err(|_| {
        let cause = format!("{field} holds characters that no header can carry");
        Failure::new(StoreErrorKind::Misconfigured, cause, "give a file with nothing but the token in it")
    })
}

/// A request that was not answered, told apart by whether it may have taken effect.
fn no_answer(error: &TransportError) -> Failure {
    let cause = error.to_string();
    match error {
        TransportError::TooLarge(limit) => Failure::new(
            StoreErrorKind::Misconfigured,
            format!("the answer has more than {limit} bytes"),
            "give the address of the set alone",
        ),
        TransportError::Certificate(_) => Failure::new(
            StoreErrorKind::Misconfigured,
            cause,
            "give its certificate authority in `ca`, or renew its certificate",
        ),
        error if error.is_before_request() => {
            Failure::new(StoreErrorKind::Unavailable, cause, "check its address; it is tried again")
        }
        _ => Failure::new(
            StoreErrorKind::TimedOut,
            cause,
            "it is read again, since a write may have taken effect",
        ),
    }
}

/// An answer of a sink, of whatever status.
#[derive(Debug)]
pub(super) struct SinkAnswer(HttpResponse);

impl SinkAnswer {
    /// The status.
    pub fn status(&self) -> StatusCode {
        self.0.status
    }

    /// The whole body.
    pub fn body(&self) -> &[u8] {
        &self.0.body
    }

    /// A header that is text.
    pub fn header(&self, name: HeaderName) -> Option<&str> {
        self.0.header(name)
    }

    /// What an answer of this status means to any sink; `None` where the sink knows better.
    pub fn common_failure(&self, said: &str) -> Option<Failure> {
        let status = self.status();
        let cause = format!("status {status}{said}");
        Some(match status.as_u16() {
            300..400 => {
                let place = one_line(self.header(header::LOCATION).unwrap_or("nowhere"), EXCERPT);
                let cause = format!("status {status}, which sends us to {place}");
                Failure::new(
                    StoreErrorKind::Misconfigured,
                    cause,
                    "redirects are not followed: give the address of the server itself",
                )
            }
            412 => Failure::conflict(cause),
            transient if retry::is_transient_status(transient) => {
                Failure::new(StoreErrorKind::Unavailable, cause, "it is tried again")
            }
            _ => return None,
        })
    }

    /// Takes a secret out of the body that the server may have echoed, before anything of it is repeated.
    pub fn forget(&mut self, secret: &Secret) {
        let redacted = secret.redact(&String::from_utf8_lossy(&self.0.body)).into_owned();
        if redacted.as_bytes() != self.body() {
            self.0.body = Zeroizing::new(redacted.into_bytes());
        }
    }
}

/// `: TEXT` as an error repeats it, short and on one line; nothing when the text is empty.
pub(super) fn excerpt(text: &str) -> String {
    match one_line(text, EXCERPT) {
        line if line.is_empty() => String::new(),
        line => format!(": {line}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: StatusCode, body: &[u8]) -> SinkAnswer {
        SinkAnswer(HttpResponse {
            status,
            version: http::Version::HTTP_11,
            peer: None,
            headers: http::HeaderMap::new(),
            body: Zeroizing::new(body.to_vec()),
        })
    }

    #[test]
    fn an_excerpt_is_one_short_line() {
        assert_eq!(excerpt(" \n"), "");
        assert_eq!(excerpt("denied\nfor you"), ": denied for you");
        assert_eq!(excerpt("denied\u{1b}[2J"), ": denied\\u{1b}[2J");
        assert_eq!(excerpt(&"é".repeat(400)), format!(": {}...", "é".repeat(EXCERPT)));
    }

    #[test]
    fn an_echoed_secret_is_taken_out() {
        let mut answer = answer(StatusCode::FORBIDDEN, b"denied for s3cr3t");
        answer.forget(&Secret::new("s3cr3t".to_owned()));
        answer.forget(&Secret::new(String::new()));
        assert_eq!(answer.body(), b"denied for [secret]");
    }

    #[test]
    fn what_a_status_means_is_the_same_for_every_sink() {
        use StoreErrorKind as Kind;
        for (status, kind) in [
            (301, Some(Kind::Misconfigured)),
            (408, Some(Kind::Unavailable)),
            (412, Some(Kind::Conflict)),
            (425, Some(Kind::Unavailable)),
            (429, Some(Kind::Unavailable)),
            (500, Some(Kind::Unavailable)),
            (503, Some(Kind::Unavailable)),
            (200, None),
            (403, None),
        ] {
            let answer = answer(StatusCode::from_u16(status).unwrap(), b"");
            assert_eq!(answer.common_failure("").map(|failure| failure.kind), kind, "{status}");
        }
    }
}

//! Why a GET brought no answer, told apart so that the remedy can be named.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use serde::Serialize;

use super::resolve::NameNotFound;

/// A GET without a complete answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize)]
#[error("{url}: {kind}")]
pub struct FetchError {
    /// What was asked for.
    pub url: String,
    /// Why it was not got.
    pub kind: FailureKind,
    /// From the start to the failure.
    #[serde(serialize_with = "super::report::seconds", rename = "seconds")]
    pub elapsed: Duration,
}

/// The ways in which a GET fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FailureKind {
    /// The host name has no address.
    NameNotFound(String),
    /// Nobody listens there.
    Refused,
    /// The network knows no way there.
    NoRoute,
    /// The connection was closed before an answer came.
    ConnectionClosed,
    /// The time was up.
    Timeout,
    /// The certificate is not to be trusted.
    Certificate(CertificateFault),
    /// No TLS connection came about, for another reason than the certificate.
    Handshake(String),
    /// The body ended too early.
    CutOff,
    /// The body is longer than this many bytes.
    TooLarge(usize),
    /// Anything else.
    Other(String),
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NameNotFound(reason) => write!(f, "the host name has no address ({reason})"),
            Self::Refused => f.write_str("connection refused"),
            Self::NoRoute => f.write_str("no route to the host"),
            Self::ConnectionClosed => f.write_str("the connection was closed before an answer came"),
            Self::Timeout => f.write_str("no complete answer in time"),
            Self::Certificate(fault) => fault.fmt(f),
            Self::Handshake(reason) => write!(f, "no TLS connection: {reason}"),
            Self::CutOff => f.write_str("the body ended before its announced length"),
            Self::TooLarge(limit) => write!(f, "the body is longer than {limit} bytes"),
            Self::Other(reason) => f.write_str(reason),
        }
    }
}

/// What is wrong with a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum CertificateFault {
    /// Signed by nobody we trust, or the intermediate certificates are not served.
    UnknownIssuer,
    /// Signed by the name of an authority we trust, but with another key, as after a CA was made anew.
    OtherAuthorityKey,
    /// Its time is over.
    Expired,
    /// Its time has not come.
    NotYetValid,
    /// For other names; those it is for.
    NameMismatch(Vec<String>),
    /// Revoked.
    Revoked,
    /// Anything else.
    Other(String),
}

impl fmt::Display for CertificateFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownIssuer => f.write_str("the certificate is signed by an unknown authority"),
            Self::OtherAuthorityKey => f.write_str(
                "the certificate is signed in the name of a trusted authority, but with another key than that authority's",
            ),
            Self::Expired => f.write_str("the certificate has expired"),
            Self::NotYetValid => f.write_str("the certificate is not valid yet"),
            Self::NameMismatch(names) if names.is_empty() => {
                f.write_str("the certificate is for another name")
            }
            Self::NameMismatch(names) => {
                write!(f, "the certificate is for another name: it names {}", names.join(", "))
            }
            Self::Revoked => f.write_str("the certificate is revoked"),
            Self::Other(reason) => write!(f, "the certificate cannot be used: {reason}"),
        }
    }
}

/// Finds the cause of a failed request in its chain of errors.
pub(crate) fn of_request(error: &reqwest::Error) -> FailureKind {
    if error.is_timeout() {
        return FailureKind::Timeout;
    }
    let mut innermost = None;
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(kind) = of_cause(error) {
            return kind;
        }
        innermost = Some(error.to_string());
        cause = next_cause(error);
    }
    FailureKind::Other(innermost.unwrap_or_default())
}

/// `io::Error::source` skips the very error it wraps, and TLS errors arrive wrapped that way.
fn next_cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}

fn of_cause(error: &(dyn Error + 'static)) -> Option<FailureKind> {
    if let Some(NameNotFound(reason)) = error.downcast_ref() {
        return Some(FailureKind::NameNotFound(reason.clone()));
    }
    if let Some(error) = error.downcast_ref::<rustls::Error>() {
        return Some(of_tls(error));
    }
    let error = error.downcast_ref::<io::Error>()?;
    if error.get_ref().is_some_and(<dyn Error + Send + Sync>::is::<rustls::Error>) {
        return None;
    }
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Some(FailureKind::Refused),
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Some(FailureKind::NoRoute),
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::UnexpectedEof => Some(FailureKind::ConnectionClosed),
        io::ErrorKind::TimedOut => Some(FailureKind::Timeout),
        _ => None,
    }
}

fn of_tls(error: &rustls::Error) -> FailureKind {
    use rustls::Error as Tls;
    match error {
        Tls::InvalidCertificate(error) => FailureKind::Certificate(of_certificate(error)),
        Tls::InvalidMessage(_) => {
            FailureKind::Handshake("the server does not speak TLS, perhaps plain HTTP".to_owned())
        }
        Tls::AlertReceived(alert) => {
            FailureKind::Handshake(format!("the server refused the handshake with the alert {alert:?}"))
        }
        other => FailureKind::Handshake(other.to_string()),
    }
}

fn of_certificate(error: &rustls::CertificateError) -> CertificateFault {
    use rustls::CertificateError as Fault;
    match error {
        Fault::UnknownIssuer => CertificateFault::UnknownIssuer,
        Fault::BadSignature => CertificateFault::OtherAuthorityKey,
        Fault::Expired | Fault::ExpiredContext { .. } => CertificateFault::Expired,
        Fault::NotValidYet | Fault::NotValidYetContext { .. } => CertificateFault::NotYetValid,
        Fault::NotValidForName => CertificateFault::NameMismatch(Vec::new()),
        Fault::NotValidForNameContext { presented, .. } => CertificateFault::NameMismatch(presented.clone()),
        Fault::Revoked => CertificateFault::Revoked,
        other => CertificateFault::Other(other.to_string()),
    }
}

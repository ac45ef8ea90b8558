//! Why no answer came, told apart so that the remedy can be named.

use std::error::Error;
use std::fmt;
use std::io;

use chancery_core::quoted::one_line;
use serde::Serialize;

use crate::limits::{CERTIFICATE_NAMES, EXCERPT};
use crate::resolve::NameNotFound;

/// The ways in which a request gets no whole answer. What a server wrote is safe to print.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransportError {
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

impl fmt::Display for TransportError {
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

impl Error for TransportError {}

impl TransportError {
    /// Whether the request cannot have reached the server, so that making it again changes nothing twice.
    pub fn is_before_request(&self) -> bool {
        match self {
            Self::NameNotFound(_)
            | Self::Refused
            | Self::NoRoute
            | Self::Certificate(_)
            | Self::Handshake(_) => true,
            Self::ConnectionClosed | Self::Timeout | Self::CutOff | Self::TooLarge(_) | Self::Other(_) => {
                false
            }
        }
    }
}

/// What is wrong with a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
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

/// The cause of a failed request, from its chain of errors. A URL, which may hold a signature, is in none of them.
impl From<&reqwest::Error> for TransportError {
    fn from(error: &reqwest::Error) -> Self {
        if error.is_timeout() {
            return Self::Timeout;
        }
        let mut innermost = None;
        let mut cause: Option<&(dyn Error + 'static)> = error.source();
        while let Some(error) = cause {
            if let Some(kind) = of_cause(error) {
                return kind;
            }
            innermost = Some(error.to_string());
            cause = next_cause(error);
        }
        // Without a cause it is the request itself that cannot be made, and only its kind may be told.
        Self::Other(shown(&innermost.unwrap_or_else(|| "the request cannot be made".to_owned())))
    }
}

/// `io::Error::source` skips the very error it wraps, and TLS errors arrive wrapped that way.
fn next_cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}

fn of_cause(error: &(dyn Error + 'static)) -> Option<TransportError> {
    if let Some(NameNotFound(reason)) = error.downcast_ref() {
        return Some(TransportError::NameNotFound(reason.clone()));
    }
    if let Some(error) = error.downcast_ref::<rustls::Error>() {
        return Some(of_tls(error));
    }
    let error = error.downcast_ref::<io::Error>()?;
    if error.get_ref().is_some_and(<dyn Error + Send + Sync>::is::<rustls::Error>) {
        return None;
    }
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Some(TransportError::Refused),
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Some(TransportError::NoRoute),
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::UnexpectedEof => Some(TransportError::ConnectionClosed),
        io::ErrorKind::TimedOut => Some(TransportError::Timeout),
        _ => None,
    }
}

fn of_tls(error: &rustls::Error) -> TransportError {
    use rustls::Error as Tls;
    match error {
        Tls::InvalidCertificate(error) => TransportError::Certificate(of_certificate(error)),
        Tls::InvalidMessage(_) => {
            TransportError::Handshake("the server does not speak TLS, perhaps plain HTTP".to_owned())
        }
        Tls::AlertReceived(alert) => {
            TransportError::Handshake(format!("the server refused the handshake with the alert {alert:?}"))
        }
        other => TransportError::Handshake(shown(&other.to_string())),
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
        Fault::NotValidForNameContext { presented, .. } => {
            let names = presented.iter().take(CERTIFICATE_NAMES).map(|name| shown(name));
            CertificateFault::NameMismatch(names.collect())
        }
        Fault::Revoked => CertificateFault::Revoked,
        other => CertificateFault::Other(shown(&other.to_string())),
    }
}

fn shown(text: &str) -> String {
    one_line(text, EXCERPT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_a_certificate_cannot_steer_a_terminal() {
        let presented = vec!["evil\u{1b}[2J\nexample".to_owned(); 50];
        let expected = rustls::pki_types::ServerName::try_from("id.example.com").unwrap();
        let fault = of_certificate(&rustls::CertificateError::NotValidForNameContext { expected, presented });
        let CertificateFault::NameMismatch(names) = &fault else { panic!("{fault:?}") };
        assert_eq!((names.len(), names[0].as_str()), (CERTIFICATE_NAMES, "evil\\u{1b}[2J example"));
        assert!(!fault.to_string().contains(['\u{1b}', '\n']));
    }
}

//! One request of a sink: over verified TLS, without redirects and proxies, bounded in time and size.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, Request, Response, Url};

use super::config::SinkConfigError;
use crate::store::{Failure, LARGEST_OBJECT, StoreErrorKind};
use crate::verify::Trust;
use crate::verify::failure::{self, FailureKind};
use crate::verify::tls;

/// The longest piece of an answer that an error repeats.
const EXCERPT: usize = 300;

/// Makes requests to one server.
#[derive(Clone, Debug)]
pub(super) struct HttpClient(Client);

impl HttpClient {
    /// A client that believes the certificates of `ca`, or the roots of this machine.
    pub fn new(ca: Option<&Path>, timeout_seconds: u32) -> Result<Self, SinkConfigError> {
        let trust = match ca {
            None => Trust::Platform,
            Some(path) => Trust::Only(std::fs::read(path).map_err(|error| refuse(ca, &error))?),
        };
        let client = Client::builder()
            .tls_backend_preconfigured(tls::config(&trust).map_err(|error| refuse(ca, &error))?)
            .redirect(Policy::none())
            .referer(false)
            .user_agent("chancery")
            .timeout(Duration::from_secs(timeout_seconds.into()))
            .no_proxy();
        Ok(Self(client.build().map_err(|error| refuse(ca, &error))?))
    }

    /// The answer, of whatever status.
    pub async fn send(&self, request: Request) -> Result<Answer, Failure> {
        let mut response =
            self.0.execute(request).await.map_err(|error| no_answer(failure::of_request(&error)))?;
        let body = read_body(&mut response).await?;
        Ok(Answer { status: response.status(), headers: response.headers().clone(), body })
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

/// A request with headers that hold secrets. They are marked, so that nobody prints them.
pub(super) fn request(method: Method, url: &Url, headers: HeaderMap) -> Request {
    let mut request = Request::new(method, url.clone());
    *request.headers_mut() = headers;
    request
}

/// A header's value that nobody prints.
pub(super) fn secret(field: &str, text: &str) -> Result<HeaderValue, Failure> {
    let mut value = HeaderValue::from_str(text).map_err(|_| {
        let cause = format!("{field} holds characters that no header can carry");
        Failure::new(StoreErrorKind::Misconfigured, cause, "give a file with nothing but the token in it")
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// The content of a file that holds a token, without the space around it.
pub(super) async fn read_secret(path: &Path) -> Result<String, Failure> {
    let refuse = |problem: String| {
        let cause = format!("{}: {problem}", path.display());
        Failure::new(StoreErrorKind::Misconfigured, cause, "give the path of a file with the token in it")
    };
    let text = tokio::fs::read_to_string(path).await.map_err(|error| refuse(error.to_string()))?;
    match text.trim() {
        "" => Err(refuse("it is empty".to_owned())),
        token => Ok(token.to_owned()),
    }
}

async fn read_body(response: &mut Response) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| no_answer(failure::of_request(&error)))? {
        body.extend_from_slice(&chunk);
        if body.len() > LARGEST_OBJECT {
            let cause = format!("the answer has more than {LARGEST_OBJECT} bytes");
            return Err(Failure::new(
                StoreErrorKind::Misconfigured,
                cause,
                "give the address of the set alone",
            ));
        }
    }
    Ok(body)
}

/// A request that was not answered, told apart by whether it may have taken effect.
fn no_answer(kind: FailureKind) -> Failure {
    let cause = kind.to_string();
    match kind {
        FailureKind::NameNotFound(_)
        | FailureKind::Refused
        | FailureKind::NoRoute
        | FailureKind::Handshake(_) => {
            Failure::new(StoreErrorKind::Unavailable, cause, "check its address; it is tried again")
        }
        FailureKind::Certificate(_) => Failure::new(
            StoreErrorKind::Misconfigured,
            cause,
            "give its certificate authority in `ca`, or renew its certificate",
        ),
        _ => Failure::new(
            StoreErrorKind::TimedOut,
            cause,
            "it is read again, since a write may have taken effect",
        ),
    }
}

/// An answer, of whatever status.
#[derive(Debug)]
pub(super) struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Answer {
    /// A header that is text.
    pub fn header(&self, name: HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// What an answer of this status means to any sink; `None` where the sink knows better.
    pub fn common_failure(&self, said: &str) -> Option<Failure> {
        let status = self.status;
        let cause = format!("status {status}{said}");
        Some(match status.as_u16() {
            300..400 => {
                let place = self.header(header::LOCATION).unwrap_or("nowhere");
                let cause = format!("status {status}, which sends us to {place}");
                Failure::new(
                    StoreErrorKind::Misconfigured,
                    cause,
                    "redirects are not followed: give the address of the server itself",
                )
            }
            408 | 425 | 429 | 500..600 => {
                Failure::new(StoreErrorKind::Unavailable, cause, "it is tried again")
            }
            412 => Failure::conflict(cause),
            _ => return None,
        })
    }

    /// Takes a secret out of the body that the server may have echoed, before anything of it is repeated.
    pub fn forget(&mut self, secret: &str) {
        let text = String::from_utf8_lossy(&self.body);
        if !secret.is_empty() && text.contains(secret) {
            self.body = text.replace(secret, "[secret]").into_bytes();
        }
    }
}

/// `: TEXT` as an error repeats it, short and on one line; nothing when the text is empty.
pub(super) fn excerpt(text: &str) -> String {
    let line: String = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match line.char_indices().nth(EXCERPT) {
        _ if line.is_empty() => String::new(),
        None => format!(": {line}"),
        Some((end, _)) => format!(": {}...", line.get(..end).unwrap_or_default()),
    }
}

/// The URL of a server that may be sent secrets: `https`, or this very machine, without user information.
pub(super) fn server_url(field: &'static str, text: &str) -> Result<Url, SinkConfigError> {
    let remedy = "expected https://HOST[:PORT][/PATH], or http:// to this machine's own 127.0.0.1";
    let Ok(url) = Url::parse(text) else { return Err(SinkConfigError::illegal(field, text, remedy)) };
    if !url.username().is_empty() || url.password().is_some() {
        // The value may hold a password: it is not repeated.
        return Err(SinkConfigError::IllegalValue {
            field,
            came: "a URL with user information".to_owned(),
            remedy: "give credentials by a file".to_owned(),
        });
    }
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_local = host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    match url.scheme() {
        _ if host.is_empty() || url.fragment().is_some() => {
            Err(SinkConfigError::illegal(field, text, remedy))
        }
        "https" => Ok(url),
        "http" if is_local => Ok(url),
        _ => Err(SinkConfigError::illegal(field, text, remedy)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_one_short_line() {
        assert_eq!(excerpt(" \n"), "");
        assert_eq!(excerpt("denied\nfor you"), ": denied for you");
        assert_eq!(excerpt(&"é".repeat(400)), format!(": {}...", "é".repeat(EXCERPT)));
    }

    #[test]
    fn an_echoed_secret_is_taken_out() {
        let body = b"denied for s3cr3t".to_vec();
        let mut answer = Answer { status: StatusCode::FORBIDDEN, headers: HeaderMap::new(), body };
        answer.forget("s3cr3t");
        answer.forget("");
        assert_eq!(answer.body, b"denied for [secret]");
    }

    #[test]
    fn secrets_go_to_verified_servers_or_stay_on_this_machine() {
        for good in [
            "https://vault.example.com:8200/x?y=z",
            "http://127.0.0.1:1",
            "http://[::1]:1",
            "http://localhost",
        ] {
            assert!(server_url("url", good).is_ok(), "{good}");
        }
        for bad in [
            "http://vault.example.com",
            "http://localhost.example.com",
            "ftp://h",
            "vault",
            "https://h/#x",
            "https://",
        ] {
            let error = server_url("url", bad).unwrap_err().to_string();
            assert!(error.contains("expected https://") && error.contains(bad), "{error}");
        }
        let error = server_url("url", "https://me:hunter2@h").unwrap_err().to_string();
        assert!(error.contains("by a file") && !error.contains("hunter2"), "{error}");
    }
}

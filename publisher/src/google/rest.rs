//! Calls of Google's REST APIs, with a bearer token, bounded in time, size and number.
//!
//! Errors have the shape of <https://docs.cloud.google.com/apis/design/errors>; changes of IAM are long-running
//! operations (<https://docs.cloud.google.com/iam/docs/reference/rest/Shared.Types/Operation>).

use std::path::Path;
use std::time::Duration;

use google_cloud_auth::credentials::{CacheableResource, Credentials};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{Extensions, HeaderMap, Method};
use reqwest::redirect::Policy;
use serde_json::Value;

use crate::cause;
use crate::google;
use crate::store::LARGEST_OBJECT;
use crate::target::is_loopback;

/// How long one call may take.
const CALL: Duration = Duration::from_secs(30);
/// How long an operation may take. Google's take seconds.
const OPERATION: Duration = Duration::from_secs(60);
/// How often a call is made when Google asks for patience.
const TRIES: u32 = 4;
/// The first pause; each further one is twice as long, unless the answer says how long it is.
const PAUSE: Duration = Duration::from_millis(500);
/// The longest pause that an answer can ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(20);
/// How much of an answer's text is told.
const LONGEST_MESSAGE: usize = 400;

/// A client of one API.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    client: reqwest::Client,
    credentials: Credentials,
    endpoint: String,
}

/// Why a call brought nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RestError {
    /// The API's answer.
    #[error("{status} {message}")]
    Refused { status: u16, message: String },
    /// No credentials, and no answer.
    #[error("no access token: {0}")]
    NoToken(String),
    /// Nothing can be said of whether it took effect.
    #[error("{0}")]
    NoAnswer(String),
}

impl Rest {
    /// A client for `endpoint`, `https://HOST[:PORT]`. Nothing is asked of the network yet.
    ///
    /// # Errors
    /// What cannot be used, in words.
    pub(crate) fn new(file: Option<&Path>, scope: &str, endpoint: &str) -> Result<Self, String> {
        check_endpoint(endpoint)?;
        let credentials = google::load(file, scope).map_err(|error| error.to_string())?;
        let client = reqwest::Client::builder().redirect(Policy::none()).timeout(CALL).build();
        let client = client.map_err(|error| format!("no HTTP client: {error}"))?;
        Ok(Self { client, credentials, endpoint: endpoint.trim_end_matches('/').to_owned() })
    }

    /// The address that calls begin with.
    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The answer to one call, made again where Google asks for patience.
    pub(crate) async fn call(
        &self,
        method: &Method,
        url: &str,
        body: Option<&Value>,
    ) -> Result<Value, RestError> {
        let mut tries = 0;
        loop {
            let (result, patience) = self.attempt(method, url, body).await?;
            tries += 1;
            match patience {
                Some(pause) if tries < TRIES => {
                    tokio::time::sleep(pause.unwrap_or(PAUSE * (1 << (tries - 1))).min(LONGEST_PAUSE)).await;
                }
                _ => return result,
            }
        }
    }

    /// The result of an operation that was begun, once it is done.
    pub(crate) async fn finished(&self, operation: Value) -> Result<Value, RestError> {
        let waiting = self.wait_for(operation);
        tokio::time::timeout(OPERATION, waiting).await.unwrap_or_else(|_| {
            Err(RestError::NoAnswer(format!("the operation was not done after {} s", OPERATION.as_secs())))
        })
    }

    async fn wait_for(&self, mut operation: Value) -> Result<Value, RestError> {
        let name = operation.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut pause = PAUSE;
        while operation.get("done").and_then(Value::as_bool) != Some(true) {
            if name.is_empty() {
                return Err(RestError::NoAnswer("the answer names no operation".to_owned()));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
            operation = self.call(&Method::GET, &format!("{}/v1/{name}", self.endpoint), None).await?;
        }
        match operation.get("error") {
            Some(error) => {
                let code = error.get("code").and_then(Value::as_u64).unwrap_or_default();
                Err(RestError::Refused { status: status_of(code), message: message_of(error) })
            }
            None => Ok(operation.get("response").cloned().unwrap_or_default()),
        }
    }

    /// One attempt, and how long to wait before another one if that could help.
    async fn attempt(
        &self,
        method: &Method,
        url: &str,
        body: Option<&Value>,
    ) -> Result<(Result<Value, RestError>, Option<Option<Duration>>), RestError> {
        let mut request = self.client.request(method.clone(), url).headers(self.token().await?);
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, "application/json").body(body.to_string());
        }
        let no_answer = |error: reqwest::Error| RestError::NoAnswer(words(&error.without_url()));
        let mut answer = request.send().await.map_err(no_answer)?;
        let status = answer.status().as_u16();
        let pause = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let mut bytes = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(no_answer)? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > LARGEST_OBJECT {
                return Err(RestError::NoAnswer(format!("the answer has more than {LARGEST_OBJECT} bytes")));
            }
        }
        let json = serde_json::from_slice::<Value>(&bytes);
        if (200..300).contains(&status) {
            let json = json.map_err(|_| RestError::NoAnswer("the answer is not JSON".to_owned()))?;
            return Ok((Ok(json), None));
        }
        let error = json.ok().and_then(|json| json.get("error").cloned()).unwrap_or_default();
        let patience = matches!(status, 429 | 503).then(|| pause.map(Duration::from_secs));
        Ok((Err(RestError::Refused { status, message: message_of(&error) }), patience))
    }

    async fn token(&self) -> Result<HeaderMap, RestError> {
        let headers = tokio::time::timeout(CALL, self.credentials.headers(Extensions::new())).await;
        let headers =
            headers.map_err(|_| RestError::NoToken(format!("none came in {} s", CALL.as_secs())))?;
        match headers.map_err(|error| RestError::NoToken(words(&error)))? {
            CacheableResource::New { data, .. } => Ok(data),
            CacheableResource::NotModified => Err(RestError::NoToken("none is kept".to_owned())),
        }
    }
}

/// A bearer token is as good as a password: it does not cross a network in the clear.
fn check_endpoint(endpoint: &str) -> Result<(), String> {
    let uri = endpoint.parse::<http::Uri>().ok();
    let host = uri.as_ref().and_then(http::Uri::host).unwrap_or_default();
    let user = uri.as_ref().and_then(http::Uri::authority).is_some_and(|whole| whole.as_str().contains('@'));
    let fits = match uri.as_ref().and_then(http::Uri::scheme_str) {
        Some("https") => !host.is_empty(),
        Some("http") => is_loopback(host),
        _ => false,
    };
    // The value may hold a password: it is not repeated.
    if fits && !user { Ok(()) } else { Err("the endpoint is not https://HOST[:PORT]".to_owned()) }
}

/// The HTTP status for a code of gRPC (<https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto>),
/// which is what the errors of operations have.
fn status_of(code: u64) -> u16 {
    match code {
        3 | 9 | 11 => 400,
        5 => 404,
        6 | 10 => 409,
        7 => 403,
        8 => 429,
        14 => 503,
        16 => 401,
        _ => 500,
    }
}

/// `STATUS: message` of an error object.
fn message_of(error: &Value) -> String {
    let text = |name| error.get(name).and_then(Value::as_str);
    let message = text("message").unwrap_or("without words");
    let message: String = message.trim().chars().take(LONGEST_MESSAGE).collect();
    match text("status") {
        Some(status) => format!("{status}: {message}"),
        None => message,
    }
}

/// An error and what lies behind it.
fn words(error: &(dyn std::error::Error + 'static)) -> String {
    cause::in_words(error, |error| error.to_string().chars().take(LONGEST_MESSAGE).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_crosses_no_network_in_the_clear() {
        for endpoint in ["https://iam.googleapis.com", "https://iam.example.com:8443", "http://127.0.0.1:1"] {
            assert_eq!(check_endpoint(endpoint), Ok(()), "{endpoint}");
        }
        for endpoint in ["http://iam.googleapis.com", "iam.googleapis.com", "https://u:p@h", "ftp://h", ""] {
            assert!(check_endpoint(endpoint).is_err(), "{endpoint}");
        }
    }

    #[test]
    fn an_error_is_told_in_one_line() {
        let error =
            serde_json::json!({ "code": 403, "message": "Permission denied", "status": "PERMISSION_DENIED" });
        assert_eq!(message_of(&error), "PERMISSION_DENIED: Permission denied");
        assert_eq!(message_of(&Value::Null), "without words");
    }
}

//! Calls of Google's REST APIs, with a bearer token, bounded in time, size and number.
//!
//! Errors have the shape of <https://docs.cloud.google.com/apis/design/errors>; changes of IAM are long-running
//! operations (<https://docs.cloud.google.com/iam/docs/reference/rest/Shared.Types/Operation>).

use std::path::Path;
use std::time::Duration;

use chancery_core::quoted::one_line;
use chancery_wire::{
    CallError, ClientOptions, Endpoint, EndpointRule, HttpClient, HttpRequest, Proxies, RetryBudget,
    error_chain,
};
use google_cloud_auth::credentials::{CacheableResource, Credentials};
use http::{Extensions, HeaderMap, HeaderValue, Method};
use serde_json::Value;

use crate::google;
use crate::limits::{EXCERPT, GOOGLE_CALL, GOOGLE_OPERATION};
use crate::store::LARGEST_OBJECT;

/// For calls that Google asks to be patient with, and the pauses between looks at an operation.
const BUDGET: RetryBudget = RetryBudget::of_attempts(4, Duration::from_millis(500), Duration::from_secs(20));

/// A client of one API.
#[derive(Clone, Debug)]
pub(crate) struct GoogleClient {
    client: HttpClient,
    credentials: Credentials,
    endpoint: Endpoint,
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

impl GoogleClient {
    /// A client for `endpoint`, `https://HOST[:PORT]`. Nothing is asked of the network yet.
    ///
    /// # Errors
    /// What cannot be used, in words.
    pub(crate) fn new(file: Option<&Path>, scope: &str, endpoint: &str) -> Result<Self, String> {
        let endpoint = parse_endpoint(endpoint)?;
        let credentials = google::load(file, scope).map_err(|error| error.to_string())?;
        let options = ClientOptions {
            proxies: Proxies::Environment,
            ..ClientOptions::new(GOOGLE_CALL, LARGEST_OBJECT)
        };
        let client = HttpClient::new(&options).map_err(|error| format!("no HTTP client: {error}"))?;
        Ok(Self { client, credentials, endpoint })
    }

    /// The same client and credentials for another API.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(crate) fn at(&self, endpoint: &str) -> Result<Self, String> {
        Ok(Self { endpoint: parse_endpoint(endpoint)?, ..self.clone() })
    }

    /// The address that calls begin with.
    pub(crate) fn endpoint(&self) -> &str {
        self.endpoint.base()
    }

    /// The answer to one call, made again where Google asks for patience.
    pub(crate) async fn call(
        &self,
        method: &Method,
        url: &str,
        body: Option<&Value>,
    ) -> Result<Value, RestError> {
        BUDGET.run(|| self.attempt(method, url, body)).await
    }

    /// The result of an operation that was begun, once it is done.
    pub(crate) async fn finished(&self, operation: Value) -> Result<Value, RestError> {
        let waiting = self.wait_for(operation);
        tokio::time::timeout(GOOGLE_OPERATION, waiting).await.unwrap_or_else(|_| {
            Err(RestError::NoAnswer(format!(
                "the operation was not done after {} s",
                GOOGLE_OPERATION.as_secs()
            )))
        })
    }

    async fn wait_for(&self, mut operation: Value) -> Result<Value, RestError> {
        let name = operation.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut pause = BUDGET.first_pause;
        while operation.get("done").and_then(Value::as_bool) != Some(true) {
            if name.is_empty() {
                return Err(RestError::NoAnswer("the answer names no operation".to_owned()));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(BUDGET.longest_pause);
            operation = self.call(&Method::GET, &format!("{}/v1/{name}", self.endpoint()), None).await?;
        }
        match operation.get("error") {
            Some(error) => {
                let code = error.get("code").and_then(Value::as_u64).unwrap_or_default();
                Err(RestError::Refused { status: status_of(code), message: message_of(error) })
            }
            None => Ok(operation.get("response").cloned().unwrap_or_default()),
        }
    }

    async fn attempt(
        &self,
        method: &Method,
        url: &str,
        body: Option<&Value>,
    ) -> Result<Value, CallError<RestError>> {
        let no_answer = |what: String| CallError::Permanent(RestError::NoAnswer(what));
        let url = self.endpoint.admit(url).map_err(|error| no_answer(format!("the URL {error}")))?;
        let mut request = HttpRequest::new(method.clone(), &url).headers(self.token().await?);
        if let Some(body) = body {
            request = request.body(HeaderValue::from_static("application/json"), body.to_string());
        }
        let answer = self.client.send(request).await.map_err(|error| no_answer(error.to_string()))?;
        let json = serde_json::from_slice::<Value>(&answer.body);
        if answer.status.is_success() {
            return json.map_err(|_| no_answer("the answer is not JSON".to_owned()));
        }
        let error = json.ok().and_then(|json| json.get("error").cloned()).unwrap_or_default();
        let status = answer.status.as_u16();
        let error = RestError::Refused { status, message: message_of(&error) };
        match status {
            429 | 503 => Err(CallError::Transient { error, retry_after: answer.retry_after() }),
            _ => Err(CallError::Permanent(error)),
        }
    }

    async fn token(&self) -> Result<HeaderMap, RestError> {
        let headers = tokio::time::timeout(GOOGLE_CALL, self.credentials.headers(Extensions::new())).await;
        let headers =
            headers.map_err(|_| RestError::NoToken(format!("none came in {} s", GOOGLE_CALL.as_secs())))?;
        match headers
            .map_err(|error| RestError::NoToken(error_chain::describe(&error, ToString::to_string)))?
        {
            CacheableResource::New { data, .. } => Ok(data),
            CacheableResource::NotModified => Err(RestError::NoToken("none is kept".to_owned())),
        }
    }
}

/// A bearer token is as good as a password: it does not cross a network in the clear.
fn parse_endpoint(endpoint: &str) -> Result<Endpoint, String> {
    Endpoint::parse(endpoint, &EndpointRule::any_host()).map_err(|error| format!("the endpoint {error}"))
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
    let message = one_line(text("message").unwrap_or("without words"), EXCERPT);
    match text("status") {
        Some(status) => format!("{}: {message}", one_line(status, EXCERPT)),
        None => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_crosses_no_network_in_the_clear() {
        for endpoint in ["https://iam.googleapis.com", "https://iam.example.com:8443", "http://127.0.0.1:1"] {
            assert!(parse_endpoint(endpoint).is_ok(), "{endpoint}");
        }
        for endpoint in ["http://iam.googleapis.com", "iam.googleapis.com", "https://u:p@h", "ftp://h", ""] {
            assert!(parse_endpoint(endpoint).is_err(), "{endpoint}");
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

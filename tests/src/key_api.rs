//! A strict stand-in for any HTTP API that holds a key set: one object with an ETag, behind a bearer token.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, ETAG, HeaderValue, IF_MATCH};
use hyper::{Method, Request};
use serde_json::{Value, json};

use crate::stand_in::{self, Answer, Api, StandIn, bearer};

/// Where the object is.
pub const PATH: &str = "/v1/issuers/a";

/// A running API. Its object is `{"issuer": TEXT, "jwks": TEXT, "pems": [TEXT], "set": OBJECT}`, each field optional.
#[derive(Debug)]
pub struct KeyApi {
    server: StandIn,
    object: Arc<Object>,
}

#[derive(Debug)]
struct Object {
    token: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    value: Option<Value>,
    version: u32,
    requests: Vec<String>,
    redirects_to: Option<String>,
}

impl KeyApi {
    /// An API without an object, for the bearer of `token`.
    pub async fn start(token: &str) -> Result<Self> {
        let object = Arc::new(Object { token: token.to_owned(), state: Mutex::default() });
        Ok(Self { server: StandIn::start(object.clone()).await?, object })
    }

    /// The address of the object.
    pub fn url(&self) -> String {
        format!("{}{PATH}", self.server.url())
    }

    /// `http://127.0.0.1:PORT`
    pub fn origin(&self) -> &str {
        self.server.url()
    }

    /// The object, null when there is none.
    pub fn value(&self) -> Value {
        self.object.lock().value.clone().unwrap_or_default()
    }

    /// Replaces the object behind everybody's back.
    pub fn set(&self, value: Value) {
        self.object.lock().set(value);
    }

    /// Sends every request elsewhere from now on.
    pub fn redirect_to(&self, url: &str) {
        self.object.lock().redirects_to = Some(url.to_owned());
    }

    /// Every request that came: method, and `If-Match` or nothing.
    pub fn requests(&self) -> Vec<String> {
        self.object.lock().requests.clone()
    }
}

impl Object {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Api for Object {
    async fn answer(&self, request: Request<Bytes>) -> Answer {
        let mut state = self.lock();
        let header = |name| request.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let condition = header(IF_MATCH);
        state
            .requests
            .push(format!("{} {}", request.method(), condition.unwrap_or_default()).trim().to_owned());
        if let Some(place) = &state.redirects_to {
            let mut answer = refuse(307, "moved");
            answer
                .headers_mut()
                .extend(HeaderValue::from_str(place).map(|place| (hyper::header::LOCATION, place)));
            return answer;
        }
        match bearer(&request) {
            Some(token) if token == self.token => {}
            // As a proxy that repeats too much.
            other => return refuse(403, &format!("not the bearer of {}", other.unwrap_or_default())),
        }
        match (request.method(), request.uri().path()) {
            (&Method::GET, PATH) => state.read(),
            (&Method::PUT | &Method::POST, PATH) if header(CONTENT_TYPE) != Some("application/json") => {
                refuse(415, "expected application/json")
            }
            (&Method::PUT | &Method::POST, PATH) if condition.is_some_and(|tag| tag != state.tag()) => {
                refuse(412, "the object has changed")
            }
            (&Method::PUT | &Method::POST, PATH) => state.write(request.body()),
            (_, PATH) => refuse(405, "GET, PUT and POST"),
            _ => refuse(404, "no such object"),
        }
    }
}

impl State {
    fn tag(&self) -> String {
        format!("\"{}\"", self.version)
    }

    fn set(&mut self, value: Value) {
        self.version += 1;
        self.value = Some(value);
    }

    fn read(&self) -> Answer {
        let Some(value) = &self.value else { return refuse(404, "no such object") };
        let mut answer = stand_in::json(200, value);
        answer.headers_mut().extend(HeaderValue::from_str(&self.tag()).map(|tag| (ETAG, tag)));
        answer
    }

    fn write(&mut self, body: &[u8]) -> Answer {
        let value: Value = match serde_json::from_slice(body) {
            Ok(value) => value,
            Err(error) => return refuse(400, &error.to_string()),
        };
        match check(&value) {
            Err(problem) => refuse(422, &problem),
            Ok(()) => {
                self.set(value);
                stand_in::json(200, &json!({}))
            }
        }
    }
}

/// Every field is one that it knows, of its kind, and holds keys.
fn check(value: &Value) -> Result<(), String> {
    let fields = value.as_object().ok_or("expected an object")?;
    for (name, value) in fields {
        let is_set =
            |value: &Value| value.get("keys").and_then(Value::as_array).is_some_and(|keys| !keys.is_empty());
        let fits = match name.as_str() {
            "issuer" => value.as_str().is_some_and(|text| text.starts_with("https://")),
            "jwks" => value
                .as_str()
                .and_then(|text| serde_json::from_str(text).ok())
                .is_some_and(|set| is_set(&set)),
            "pems" => value.as_array().is_some_and(|pems| {
                !pems.is_empty()
                    && pems.iter().all(|entry| entry.as_str().is_some_and(|text| pem::parse(text).is_ok()))
            }),
            "set" => is_set(value),
            _ => false,
        };
        if !fits {
            return Err(format!("{name} is unknown or not what it should be"));
        }
    }
    Ok(())
}

fn refuse(status: u16, error: &str) -> Answer {
    stand_in::json(status, &json!({ "error": error }))
}

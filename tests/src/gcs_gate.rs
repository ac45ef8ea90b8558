//! What Google Cloud Storage checks and fake-gcs-server does not, as a gate in front of one: who asks, what he may do
//! to which objects, what keeps anonymous readers out, which parameters and attributes there are, conditions on reads, and metagenerations. It also puts
//! the media type where fake-gcs-server looks for it: the real one takes it from the attributes, which come first.
//!
//! The rights are those of the two calls that we make
//! (<https://docs.cloud.google.com/storage/docs/access-control/iam-json>): `objects.get` needs `storage.objects.get`;
//! `objects.insert` needs `storage.objects.create`, and `storage.objects.delete` when it overwrites.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Collected, Full};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use hyper::{Method, Request, Response};
use serde_json::{Value, json};

pub use self::controls::Controls;
use crate::fake_gcs::FakeGcs;
use crate::http;
use crate::stand_in::{Answer, Api, StandIn, bearer, decoded, json, parameters};

mod controls;

/// The rights that a publisher is documented to need.
pub const LEAST_ROLE: [&str; 3] = ["storage.objects.get", "storage.objects.create", "storage.objects.delete"];

const ANONYMOUS: &str = "Anonymous caller does not have storage.objects.get access to the Google Cloud Storage object. Permission 'storage.objects.get' denied on resource (or it may not exist).";

/// A running gate.
#[derive(Debug)]
pub struct GcsGate {
    server: StandIn,
    gate: Arc<Gate>,
}

#[derive(Debug)]
struct Gate {
    upstream: String,
    client: reqwest::Client,
    bucket: String,
    prefix: String,
    token: String,
    granted: Mutex<BTreeSet<&'static str>>,
    controls: Mutex<Controls>,
    calls: Mutex<Vec<String>>,
}

/// A call that is understood.
enum Call {
    Get { key: String, unless: Option<String> },
    Insert { key: String, generation: i64, metageneration: Option<i64>, body: Bytes },
}

impl GcsGate {
    /// Stands before `server`. The bearer of `token` has [`LEAST_ROLE`] on the objects of `bucket` below `prefix`.
    pub async fn start(server: &FakeGcs, bucket: &str, prefix: &str, token: &str) -> Result<Self> {
        let gate = Arc::new(Gate {
            upstream: server.endpoint().to_owned(),
            client: http::client(None)?,
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
            token: token.to_owned(),
            granted: Mutex::new(LEAST_ROLE.into()),
            controls: Mutex::default(),
            calls: Mutex::default(),
        });
        Ok(Self { server: StandIn::start(gate.clone()).await?, gate })
    }

    /// `http://127.0.0.1:PORT`
    pub fn url(&self) -> &str {
        self.server.url()
    }

    /// Grants exactly these rights from now on.
    pub fn grant(&self, rights: &[&'static str]) {
        *lock(&self.gate.granted) = rights.iter().copied().collect();
    }

    /// Sets what decides over anonymous readers; at first, nobody is granted anything.
    pub fn control(&self, controls: Controls) {
        *lock(&self.gate.controls) = controls;
    }

    /// The calls since it was asked last, as `RIGHTS KEY: CONDITION -> STATUS`, sorted.
    pub fn take_calls(&self) -> Vec<String> {
        let mut calls = std::mem::take(&mut *lock(&self.gate.calls));
        calls.sort();
        calls
    }
}

impl Api for Gate {
    async fn answer(&self, request: Request<Bytes>) -> Answer {
        let public = format!("/{}/", self.bucket);
        let key = request.uri().path().strip_prefix(&public).map(str::to_owned);
        if let (&Method::GET, Some(_), None) = (request.method(), &key, bearer(&request)) {
            return if lock(&self.controls).lets_everybody_read() {
                self.forward(request).await
            } else {
                refusal(401, ANONYMOUS)
            };
        }
        if bearer(&request) != Some(&self.token) {
            lock(&self.calls).push(format!("unauthenticated {} {}", request.method(), request.uri()));
            return refusal(401, "Invalid Credentials");
        }
        if request.method() == Method::GET
            && let Some((right, body)) = lock(&self.controls).shown(&self.bucket, request.uri().path())
        {
            return if lock(&self.granted).contains(right) {
                json(200, &body)
            } else {
                refusal(403, &format!("Permission '{right}' denied"))
            };
        }
        match self.understand(&request) {
            Ok(call) => self.decide(call, request).await,
            Err(reason) => {
                lock(&self.calls).push(format!("unknown {} {}: {reason}", request.method(), request.uri()));
                refusal(400, &reason)
            }
        }
    }
}

impl Gate {
    fn understand(&self, request: &Request<Bytes>) -> Result<Call, String> {
        let query = parameters(request.uri().query().unwrap_or_default());
        let value =
            |name: &str| query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let known = |names: &[&str]| match query.iter().find(|(name, _)| !names.contains(&name.as_str())) {
            Some((name, _)) => Err(format!("Unknown name {name:?}")),
            None => Ok(()),
        };
        let objects = format!("/storage/v1/b/{}/o", self.bucket);
        let path = request.uri().path();
        if let (&Method::GET, Some(key)) = (request.method(), path.strip_prefix(&format!("{objects}/"))) {
            known(&["alt"])?;
            if value("alt") != Some("media") {
                return Err("expected alt=media".to_owned());
            }
            let unless = request.headers().get(IF_NONE_MATCH).and_then(|etag| etag.to_str().ok());
            return Ok(Call::Get { key: decoded(key), unless: unless.map(str::to_owned) });
        }
        if (request.method(), path) != (&Method::POST, &format!("/upload{objects}")) {
            return Err("no such method".to_owned());
        }
        known(&["uploadType", "name", "ifGenerationMatch", "ifMetagenerationMatch"])?;
        let kind =
            request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if value("uploadType") != Some("multipart") || !kind.starts_with("multipart/related; boundary=") {
            return Err("expected a multipart upload".to_owned());
        }
        let number = |name| value(name).and_then(|text| text.parse().ok());
        Ok(Call::Insert {
            key: value("name").ok_or("Required parameter: name")?.to_owned(),
            generation: number("ifGenerationMatch").ok_or("an unconditional write")?,
            metageneration: number("ifMetagenerationMatch"),
            body: with_media_type(request.body())?,
        })
    }

    async fn decide(&self, call: Call, request: Request<Bytes>) -> Answer {
        let (what, key, answer) = match call {
            Call::Get { key, unless } => {
                let answer = self.get(&key, unless.as_deref(), request).await;
                (if unless.is_some() { "get unless" } else { "get" }, key, answer)
            }
            Call::Insert { key, generation, metageneration, body } => {
                let what = if generation == 0 { "create" } else { "replace" };
                let answer = match self
                    .lacks(&key, if generation == 0 { &["create"] } else { &["create", "delete"] })
                {
                    Some(refused) => refused,
                    // Nothing changes an attribute in place here.
                    None if metageneration.is_some_and(|number| number != 1) => {
                        refusal(412, "conditionNotMet")
                    }
                    None => with_own_etag(self.forward(request.map(|_| body)).await).await,
                };
                (what, key, answer)
            }
        };
        lock(&self.calls).push(format!("{what} {key} -> {}", answer.status().as_u16()));
        answer
    }

    async fn get(&self, key: &str, unless: Option<&str>, request: Request<Bytes>) -> Answer {
        if let Some(refused) = self.lacks(key, &["get"]) {
            return refused;
        }
        let mut answer = self.forward(request).await;
        let generation = answer.headers().get("x-goog-generation").and_then(|number| number.to_str().ok());
        let etag = etag_of(generation.unwrap_or_default());
        if answer.status() == 404 {
            return match self.lacks(key, &["list"]) {
                Some(refused) => refused,
                None => refusal(404, &format!("No such object: {}/{key}", self.bucket)),
            };
        }
        if unless == Some(&etag) {
            return Response::builder().status(304).body(Full::default()).unwrap_or_default();
        }
        if let Ok(etag) = etag.parse() {
            answer.headers_mut().insert(ETAG, etag);
        }
        answer.headers_mut().insert("x-goog-metageneration", hyper::header::HeaderValue::from_static("1"));
        answer
    }

    /// The refusal of the first of these actions that is not granted on an object.
    fn lacks(&self, key: &str, actions: &[&str]) -> Option<Answer> {
        let granted = lock(&self.granted);
        let may = |right: &str| granted.contains(right) && key.starts_with(&self.prefix);
        let missing =
            actions.iter().map(|action| format!("storage.objects.{action}")).find(|right| !may(right))?;
        let words = format!(
            "publisher@p.iam.gserviceaccount.com does not have {missing} access to the Google Cloud Storage object. Permission '{missing}' denied on resource (or it may not exist)."
        );
        Some(refusal(403, &words))
    }

    async fn forward(&self, request: Request<Bytes>) -> Answer {
        let (head, body) = request.into_parts();
        let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
        let mut sent = self.client.request(head.method, format!("{}{target}", self.upstream)).body(body);
        for name in [CONTENT_TYPE] {
            if let Some(value) = head.headers.get(&name) {
                sent = sent.header(name, value);
            }
        }
        let Ok(answer) = sent.send().await else { return refusal(502, "Bad Gateway") };
        let mut copy = Response::builder().status(answer.status());
        if let Some(headers) = copy.headers_mut() {
            headers.extend(answer.headers().clone());
        }
        let bytes = answer.bytes().await.unwrap_or_default();
        copy.body(Full::new(bytes)).unwrap_or_default()
    }
}

/// An ETag is of the generation and metageneration, not of the bytes as the server's is.
fn etag_of(generation: &str) -> String {
    format!("C{generation}EAE=")
}

/// The answer to an upload, with the ETag that a download will show.
async fn with_own_etag(answer: Answer) -> Answer {
    let (mut head, body) = answer.into_parts();
    let bytes = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
    let mut object: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let generation = object.get("generation").and_then(Value::as_str).map(etag_of);
    let Some((etag, object)) = generation.zip(object.as_object_mut()) else {
        return Response::from_parts(head, Full::new(bytes));
    };
    object.insert("etag".to_owned(), etag.into());
    head.headers.remove(CONTENT_LENGTH);
    Response::from_parts(head, Full::new(Value::Object(object.clone()).to_string().into()))
}

/// The attributes that an upload may set, of those that there are
/// (<https://docs.cloud.google.com/storage/docs/json_api/v1/objects>).
const ATTRIBUTES: [&str; 6] = ["cacheControl", "contentType", "crc32c", "md5Hash", "metadata", "name"];

/// The two parts of an upload, with the media type of the attributes at the media too.
fn with_media_type(body: &Bytes) -> Result<Bytes, String> {
    const MEDIA: &str = "name=\"media\"\r\n";
    // What comes after the attributes may be any bytes; only their positions matter.
    let text: String =
        body.iter().map(|byte| if byte.is_ascii() { char::from(*byte) } else { '?' }).collect();
    let (_, rest) = text.split_once("\r\n\r\n").ok_or("no attributes")?;
    let (attributes, _) = rest.split_once("\r\n--").ok_or("no media")?;
    let attributes: serde_json::Map<String, Value> =
        serde_json::from_str(attributes).map_err(|error| error.to_string())?;
    if let Some(unknown) = attributes.keys().find(|name| !ATTRIBUTES.contains(&name.as_str())) {
        return Err(format!("Unknown name {unknown:?}"));
    }
    let kind = attributes.get("contentType").and_then(Value::as_str).ok_or("no contentType")?;
    let place = text.find(MEDIA).ok_or("no media")? + MEDIA.len();
    let (before, after) = body.split_at(place);
    Ok([before, format!("Content-Type: {kind}\r\n").as_bytes(), after].concat().into())
}

fn refusal(status: u16, message: &str) -> Answer {
    json(
        status,
        &json!({ "error": { "code": status, "message": message, "errors": [{ "message": message }] } }),
    )
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

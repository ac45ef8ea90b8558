//! A server on a loopback port that answers as a function says, after what a test has scripted, and records every call.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub mod clouds;
pub mod issuer;

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Call {
    pub method: String,
    pub uri: String,
    pub headers: http::HeaderMap,
    pub body: Vec<u8>,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into() }
    }

    pub fn json(status: u16, body: &serde_json::Value) -> Self {
        Self::new(status, body.to_string())
    }

    /// The connection ends in place of an answer.
    pub fn gone() -> Self {
        Self::new(GONE, "")
    }

    /// Nothing comes, and the connection stays.
    pub fn never() -> Self {
        Self::new(NEVER, "")
    }

    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }
}

/// What stands in place of a status where no answer comes.
const GONE: u16 = 0;
const NEVER: u16 = 1;

/// A running stand-in.
pub struct Fake {
    pub url: String,
    calls: Arc<Mutex<Vec<Call>>>,
    script: Arc<Mutex<VecDeque<Reply>>>,
    task: JoinHandle<()>,
}

impl Fake {
    pub async fn start(answer: impl Fn(&Call) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (calls, script) = (Arc::<Mutex<Vec<Call>>>::default(), Arc::<Mutex<VecDeque<Reply>>>::default());
        let answer: Arc<dyn Fn(&Call) -> Reply + Send + Sync> = Arc::new(answer);
        let (recorded, scripted) = (calls.clone(), script.clone());
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (answer, calls, script) = (answer.clone(), recorded.clone(), scripted.clone());
                let service = service_fn(move |request: Request<Incoming>| {
                    let (answer, calls, script) = (answer.clone(), calls.clone(), script.clone());
                    async move {
                        let call = read(request).await;
                        calls.lock().unwrap().push(call.clone());
                        let next = script.lock().unwrap().pop_front();
                        let reply = next.unwrap_or_else(|| answer(&call));
                        match reply.status {
                            GONE => Err(io::Error::other("gone")),
                            NEVER => std::future::pending().await,
                            _ => Ok(write(reply)),
                        }
                    }
                });
                // A client would keep a connection of each stand-in open until the process has no file left.
                let server =
                    http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), service);
                tokio::spawn(server);
            }
        });
        Self { url, calls, script, task }
    }

    /// Answers that come before those of the function.
    pub fn script(&self, replies: impl IntoIterator<Item = Reply>) {
        self.script.lock().unwrap().extend(replies);
    }

    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    pub fn count(&self) -> usize {
        self.calls().len()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn read(request: Request<Incoming>) -> Call {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes().to_vec();
    Call { method: parts.method.to_string(), uri: parts.uri.to_string(), headers: parts.headers, body }
}

fn write(reply: Reply) -> Response<Full<Bytes>> {
    let mut response = Response::builder().status(reply.status);
    for (name, value) in reply.headers {
        response = response.header(name, value);
    }
    response.body(Full::new(reply.body.into())).unwrap()
}

impl Call {
    /// The fields of a form, or what is wrong with the request: each field once, those of `known` alone, nothing in the
    /// URL.
    pub fn form(&self, known: &[&str]) -> Result<BTreeMap<String, String>, String> {
        if self.method != "POST" || self.uri.contains('?') {
            return Err(format!("{} with a query or without POST", self.method));
        }
        let media_type = self.headers.get("content-type").and_then(|value| value.to_str().ok());
        if media_type != Some("application/x-www-form-urlencoded") {
            return Err(format!("content-type {media_type:?}"));
        }
        let mut fields = BTreeMap::new();
        for (name, value) in url::form_urlencoded::parse(&self.body) {
            if !known.contains(&name.as_ref()) {
                return Err(format!("unknown field {name}"));
            }
            if fields.insert(name.to_string(), value.into_owned()).is_some() {
                return Err(format!("{name} twice"));
            }
        }
        Ok(fields)
    }

    /// The path alone.
    pub fn path(&self) -> &str {
        self.uri.split('?').next().unwrap()
    }
}

//! Servers of ours that stand for a cloud's API where there is none to run: the bare HTTP of them.

use std::convert::Infallible;
use std::sync::Arc;

use anyhow::Result;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE};
use hyper::{Request, Response};
use serde_json::Value;
use tokio::net::TcpListener;

use crate::listening::{Listening, serve_http};

/// What is answered.
pub type Answer = Response<Full<Bytes>>;

/// What decides over the requests.
pub trait Api: Send + Sync + 'static {
    /// The answer to one request, whose body has come whole.
    fn answer(&self, request: Request<Bytes>) -> impl Future<Output = Answer> + Send;
}

/// A running server. Its connections end when it is dropped.
#[derive(Debug)]
pub struct StandIn {
    url: String,
    _listening: Listening,
}

impl StandIn {
    /// Serves `api` on a free loopback port.
    pub async fn start(api: Arc<impl Api>) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let listening = Listening::on(listener, move |stream| {
            let api = api.clone();
            async move { serve_http(stream, |request| handle(api.as_ref(), request)).await }
        });
        Ok(Self { url, _listening: listening })
    }

    /// `http://127.0.0.1:PORT`
    pub fn url(&self) -> &str {
        &self.url
    }
}

async fn handle(api: &impl Api, request: Request<Incoming>) -> Result<Answer, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    Ok(api.answer(Request::from_parts(head, body)).await)
}

/// An answer of this status with a JSON body.
pub fn json(status: u16, body: &Value) -> Answer {
    let answer = Response::builder().status(status).header(CONTENT_TYPE, "application/json");
    // A status of three digits is legal.
    answer.body(Full::new(Bytes::from(body.to_string()))).unwrap_or_default()
}

/// The token after `Bearer `.
pub fn bearer<B>(request: &Request<B>) -> Option<&str> {
    request.headers().get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")
}

/// The parameters of a query or a form, decoded, in their order.
pub fn parameters(text: &str) -> Vec<(String, String)> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(n, v)| (decoded(n), decoded(v)))
        .collect()
}

/// Undoes percent-encoding, and `+` for a space.
pub fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = (*first == b'%').then(|| tail.get(..2)).flatten();
        let hex = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        rest = match hex {
            Some(byte) => {
                bytes.push(byte);
                tail.get(2..).unwrap_or_default()
            }
            None => {
                bytes.push(if *first == b'+' { b' ' } else { *first });
                tail
            }
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

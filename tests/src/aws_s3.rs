//! A bucket of Amazon's with the controls that other S3 servers lack: *Block Public Access* of bucket and account, and
//! object ownership. A strict stand-in: it computes every signature by itself and answers what a test has set.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::{Request, Response};
use tokio::net::TcpListener;

use crate::listening::{Listening, serve_http};
use crate::request_log::RequestLog;
use crate::sigv4::verify::{WrongSignature, verify};

/// The account that owns the bucket.
const ACCOUNT: &str = "123456789012";

/// What one thing answers: status, headers, body.
#[derive(Clone, Debug)]
pub struct Reply(pub u16, pub &'static [(&'static str, &'static str)], pub &'static str);

/// A running bucket on a path, its account's side and STS on one port. Ends when it is dropped.
#[derive(Debug)]
pub struct AwsS3 {
    address: String,
    replies: Arc<Mutex<BTreeMap<String, Reply>>>,
    log: RequestLog,
    _listening: Listening,
}

impl AwsS3 {
    /// Nothing is there yet: whatever is not set answers 404.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let (replies, log) = (Arc::new(Mutex::new(BTreeMap::new())), RequestLog::default());
        let shared = (replies.clone(), log.clone());
        let listening = Listening::on(listener, move |stream| {
            let (replies, log) = shared.clone();
            async move { serve_http(stream, |request| answer(&replies, &log, request)).await }
        });
        Ok(Self { address, replies, log, _listening: listening })
    }

    /// `http://127.0.0.1:PORT`
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sets what `METHOD /PATH[?QUERY]` answers, when it is signed.
    pub fn signed(&self, request: &str, reply: Reply) {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner).insert(request.to_owned(), reply);
    }

    /// Sets what `METHOD /PATH` answers everybody.
    pub fn anonymous(&self, request: &str, reply: Reply) {
        self.signed(&format!("anonymous {request}"), reply);
    }

    /// What was asked.
    pub fn log(&self) -> &RequestLog {
        &self.log
    }
}

async fn answer(
    replies: &Mutex<BTreeMap<String, Reply>>,
    log: &RequestLog,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>> {
    let number = log.asked(&request);
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let signed = head.headers.contains_key("authorization");
    let sts = head.method == "POST" && head.uri.path() == "/";
    let checked = match signed {
        true => verify(&head, &body, if sts { "sts" } else { "s3" }),
        false => Ok(()),
    };
    // The SDK names the operation in the query, for its own logs.
    let query = head.uri.query().unwrap_or_default().split('&').filter(|pair| !pair.starts_with("x-id="));
    let query = query.map(|pair| pair.trim_end_matches('=')).collect::<Vec<_>>().join("&");
    let query = if query.is_empty() { query } else { format!("?{query}") };
    let who = if signed { "" } else { "anonymous " };
    let asked = format!("{who}{} {}{query}", head.method, head.uri.path());
    let reply = replies.lock().unwrap_or_else(PoisonError::into_inner).get(&asked).cloned();
    let account = head.headers.get("x-amz-account-id").is_some_and(|id| id == ACCOUNT);
    let (status, headers, body) = match (checked, reply) {
        (Err(WrongSignature(status, code, message)), _) => (status, &[][..], error(code, &message)),
        (Ok(()), _) if sts && body.as_ref() == b"Action=GetCallerIdentity&Version=2011-06-15" => {
            (200, &[][..], format!("<R><Account>{ACCOUNT}</Account></R>"))
        }
        (Ok(()), Some(_)) if asked.contains("/v20180820/") && !account => {
            (400, &[][..], error("InvalidRequest", "x-amz-account-id"))
        }
        (Ok(()), Some(Reply(status, headers, body))) => (status, headers, body.to_owned()),
        (Ok(()), None) => (404, &[][..], error("NoSuchKey", &asked)),
    };
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    let response = response.body(Full::new(body.into()))?;
    log.answered(number, response.status());
    Ok(response)
}

fn error(code: &str, message: &str) -> String {
    format!("<Error><Code>{code}</Code><Message>{message}</Message></Error>")
}

//! What a server or proxy of the suites was asked, and what it answered: for statements about the wire.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::{Method, Request, StatusCode};

/// Headers that would show a secret; of these only the name is kept.
const SECRET: [&str; 5] =
    ["authorization", "cookie", "proxy-authorization", "x-amz-security-token", "x-vault-token"];

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The method.
    pub method: Method,
    /// The path, without the query.
    pub path: String,
    /// The query as it came, without the question mark; empty where there is none.
    pub query: String,
    /// Every header by its lower-case name; those with secrets have no value.
    pub headers: BTreeMap<String, String>,
    /// What was answered, by the server or by a fault; none if nothing was (yet).
    pub status: Option<u16>,
}

impl Record {
    /// The value of a header, by its lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Whether the answer was a 2xx.
    pub fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| (200..300).contains(&status))
    }

    /// Whether it makes its effect depend on a version.
    pub fn is_conditional(&self) -> bool {
        let by_header = ["if-match", "if-none-match"].iter().any(|name| self.headers.contains_key(*name));
        by_header || self.query.contains("ifGenerationMatch=") || self.query.contains("ifGenerationNotMatch=")
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)?;
        if !self.query.is_empty() {
            write!(f, "?{}", self.query)?;
        }
        for name in ["if-match", "if-none-match"] {
            if let Some(value) = self.header(name) {
                write!(f, " {name}: {value}")?;
            }
        }
        match self.status {
            Some(status) => write!(f, " -> {status}"),
            None => f.write_str(" -> nothing"),
        }
    }
}

/// The requests so far, shared by whoever writes and reads them.
#[derive(Clone, Debug, Default)]
pub struct RequestLog(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    records: Vec<Record>,
    forgotten: usize,
}

impl RequestLog {
    /// Notes a request, and returns its number for [`Self::answered`].
    pub fn asked<B>(&self, request: &Request<B>) -> usize {
        let headers = request.headers().iter().map(|(name, value)| {
            let name = name.as_str().to_owned();
            let secret = SECRET.contains(&name.as_str());
            let value =
                if secret { String::new() } else { String::from_utf8_lossy(value.as_bytes()).into_owned() };
            (name, value)
        });
        let record = Record {
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            query: request.uri().query().unwrap_or_default().to_owned(),
            headers: headers.collect(),
            status: None,
        };
        let mut log = self.lock();
        log.records.push(record);
        log.forgotten + log.records.len() - 1
    }

    /// Notes the answer to a request.
    pub fn answered(&self, number: usize, status: StatusCode) {
        let mut log = self.lock();
        let position = number.checked_sub(log.forgotten);
        if let Some(record) = position.and_then(|position| log.records.get_mut(position)) {
            record.status = Some(status.as_u16());
        }
    }

    /// All requests so far, in the order in which they came.
    pub fn records(&self) -> Vec<Record> {
        self.lock().records.clone()
    }

    /// Forgets them.
    pub fn forget(&self) {
        let mut log = self.lock();
        log.forgotten += log.records.len();
        log.records.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! An HTTP PUT or POST, as configuration names it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use http::{HeaderName, HeaderValue, header};
use serde::Deserialize;

use super::error::SinkConfigError;
use super::request::{check_timeout, default_timeout_seconds, server_url};
use crate::sink::http_put::template::Template;

/// A request that uploads the whole set.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct HttpPutPlace {
    /// `https://HOST[:PORT]/PATH[?QUERY]`. Plain HTTP to this machine alone. No secret may be in it: it is logged.
    pub url: String,
    /// `PUT` or `POST`.
    #[serde(default)]
    pub method: HttpMethod,
    /// `Content-Type` of the body. Where it is JSON, the body must be.
    #[serde(default = "default_content_type")]
    pub content_type: String,
    /// Further headers, also of the reading.
    #[serde(default)]
    pub headers: BTreeMap<String, HeaderSource>,
    /// The body, with `{{jwks}}`, `{{jwks_string}}`, `{{pems}}` and `{{issuer}}` in it.
    pub body: String,
    /// How what is held is read back. Without it nobody sees what is there, so `adopt: true` must be set.
    #[serde(default)]
    pub read: Option<HttpRead>,
    /// PEM certificates of a private CA, instead of the roots of this machine.
    #[serde(default)]
    pub ca: Option<PathBuf>,
    /// Seconds that one request may take.
    #[serde(default = "default_timeout_seconds")]
    pub timeout_seconds: u32,
}

/// How the set is uploaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum HttpMethod {
    /// PUT.
    #[default]
    Put,
    /// POST.
    Post,
}

/// Where the value of a header comes from. Exactly one of `value` and `file` is given.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct HeaderSource {
    /// The value itself, which is no secret.
    #[serde(default)]
    pub value: Option<String>,
    /// A file that holds it, such as a token. Read again for every request; space around it is dropped.
    #[serde(default)]
    pub file: Option<PathBuf>,
    /// What comes before the file's content: `Bearer `.
    #[serde(default)]
    pub prefix: String,
}

/// How what is held is read back.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct HttpRead {
    /// What is read with GET, on the same server; `url` when missing.
    #[serde(default)]
    pub url: Option<String>,
    /// Where in the JSON of the answer the set is (RFC 6901): a JWKS, a string that holds one, or an array of PEM
    /// strings. Empty for the whole answer.
    pub pointer: String,
}

fn default_content_type() -> String {
    "application/json".to_owned()
}

impl HttpPutPlace {
    /// Where the set is read from, if it is.
    pub fn read_url(&self) -> Option<&str> {
        self.read.as_ref().map(|read| read.url.as_deref().unwrap_or(&self.url))
    }

    pub(super) fn check(&self, adopt: bool) -> Result<(), SinkConfigError> {
        let url = server_url("httpPut.url", &self.url)?;
        check_timeout("httpPut.timeoutSeconds", self.timeout_seconds)?;
        check_value("httpPut.contentType", &self.content_type)?;
        self.headers.iter().try_for_each(|(name, source)| check_header(name, source))?;
        let refuse = |problem: &dyn fmt::Display| SinkConfigError::IllegalValue {
            field: "httpPut.body",
            came: "not a template that can be used".to_owned(),
            remedy: problem.to_string(),
        };
        let template = Template::parse(&self.body).map_err(|problem| refuse(&problem))?;
        template.check(&self.content_type).map_err(|problem| refuse(&problem))?;
        let Some(read) = &self.read else {
            return match adopt {
                true => Ok(()),
                false => Err(SinkConfigError::IllegalValue {
                    field: "httpPut.read",
                    came:
                        "missing, so that nobody sees the keys that are there and every upload replaces them"
                            .to_owned(),
                    remedy: "say how to read them, or set `adopt: true` on the sink if they are all ours"
                        .to_owned(),
                }),
            };
        };
        if !read.pointer.is_empty() && !read.pointer.starts_with('/') {
            let remedy = "expected a JSON pointer such as `/oidc/jwksJson`, or nothing for the whole answer";
            return Err(SinkConfigError::illegal("httpPut.read.pointer", &read.pointer, remedy));
        }
        let read_url = server_url("httpPut.read.url", read.url.as_deref().unwrap_or(&self.url))?;
        url.admit(read_url.url().as_str()).map(|_| ()).map_err(|_| {
            let remedy = "expected the server of `url`: the headers are sent to one server alone";
            SinkConfigError::illegal("httpPut.read.url", read_url.url().as_str(), remedy)
        })
    }

    pub(super) fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        self.ca.iter_mut().chain(self.headers.values_mut().filter_map(|source| source.file.as_mut()))
    }
}

impl fmt::Display for HttpPutPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

/// What the sink itself says about a request.
const OURS: [HeaderName; 5] =
    [header::CONTENT_TYPE, header::CONTENT_LENGTH, header::HOST, header::IF_MATCH, header::IF_NONE_MATCH];
/// What only secrets are sent in.
const SECRET: [HeaderName; 3] = [header::AUTHORIZATION, header::PROXY_AUTHORIZATION, header::COOKIE];

fn check_header(name: &str, source: &HeaderSource) -> Result<(), SinkConfigError> {
    let refuse = |came: String, remedy: &str| {
        Err(SinkConfigError::IllegalValue { field: "httpPut.headers", came, remedy: remedy.to_owned() })
    };
    let Ok(header) = name.parse::<HeaderName>() else {
        return refuse(format!("given a header {name:?}"), "expected the name of one (RFC 9110 section 5.1)");
    };
    if OURS.contains(&header) {
        return refuse(format!("given `{name}`"), "leave it out: it follows from the other fields");
    }
    match (&source.value, &source.file) {
        (Some(_), None) if SECRET.contains(&header) => refuse(
            format!("given a `value` for `{name}`"),
            "put the secret into a file, and name it in `file`",
        ),
        (Some(_), None) if !source.prefix.is_empty() => {
            refuse(format!("given a `prefix` beside a `value` for `{name}`"), "expected it beside a `file`")
        }
        (Some(value), None) => check_value("httpPut.headers", value),
        (None, Some(_)) => check_value("httpPut.headers", &source.prefix),
        _ => refuse(format!("unclear about `{name}`"), "expected exactly one of `value` and `file`"),
    }
}

fn check_value(field: &'static str, value: &str) -> Result<(), SinkConfigError> {
    match HeaderValue::from_str(value) {
        Ok(_) => Ok(()),
        Err(_) => Err(SinkConfigError::illegal(field, value, "expected visible ASCII characters and spaces")),
    }
}

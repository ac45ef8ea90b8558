//! A strict stand-in for Google's Security Token Service: it gives an access token for one subject token, asked for as
//! a workload identity federation client asks (RFC 8693; <https://docs.cloud.google.com/iam/docs/reference/sts/rest/v1/TopLevel/token>).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use bytes::Bytes;
use hyper::Request;
use hyper::header::CONTENT_TYPE;
use serde_json::json;

use crate::scratch::Scratch;
use crate::stand_in::{Answer, Api, StandIn, json, parameters};

/// The provider whose tokens it takes.
const AUDIENCE: &str =
    "//iam.googleapis.com/projects/123456789012/locations/global/workloadIdentityPools/clusters/providers/a";
/// The token of the workload.
const SUBJECT_TOKEN: &str = "header.of-the-subject-token.signature";

/// A running stand-in.
#[derive(Debug)]
pub struct GoogleSts {
    server: StandIn,
    sts: Arc<Sts>,
    dir: Scratch,
}

#[derive(Debug)]
struct Sts {
    access_token: String,
    scopes: Vec<String>,
    given: AtomicUsize,
}

impl GoogleSts {
    /// Gives `access_token` to the bearer of the subject token who asks for exactly one of `scopes`.
    pub async fn start(access_token: &str, scopes: &[&str]) -> Result<Self> {
        let sts = Sts {
            access_token: access_token.to_owned(),
            scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
            given: AtomicUsize::new(0),
        };
        let sts = Arc::new(sts);
        Ok(Self { server: StandIn::start(sts.clone()).await?, sts, dir: Scratch::new("google-sts")? })
    }

    /// How often an access token was given.
    pub fn given(&self) -> usize {
        self.sts.given.load(Ordering::Relaxed)
    }

    /// A credentials file of the type `external_account`, whose subject token is the right one.
    pub fn credentials_file(&self) -> Result<PathBuf> {
        let token = self.dir.write("token", SUBJECT_TOKEN)?;
        self.credentials_file_of("credentials.json", &token)
    }

    /// The same with the subject token in another file.
    pub fn credentials_file_of(&self, name: &str, token: &Path) -> Result<PathBuf> {
        let credentials = json!({
            "type": "external_account",
            "audience": AUDIENCE,
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
            "token_url": format!("{}/v1/token", self.server.url()),
            "credential_source": { "file": token },
        });
        self.dir.write(name, credentials.to_string())
    }
}

impl Api for Sts {
    async fn answer(&self, request: Request<Bytes>) -> Answer {
        let refused =
            |error: &str, words: &str| json(400, &json!({ "error": error, "error_description": words }));
        if (request.method().as_str(), request.uri().path()) != ("POST", "/v1/token") {
            return json(
                404,
                &json!({ "error": { "code": 404, "message": "Not Found", "status": "NOT_FOUND" } }),
            );
        }
        let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if kind != Some("application/x-www-form-urlencoded") {
            return refused("invalid_request", "the body is not a form");
        }
        let form = parameters(&String::from_utf8_lossy(request.body()));
        let asked = form.iter().find(|(name, _)| name == "scope").map(|(_, scope)| scope);
        let scope = asked.and_then(|asked| self.scopes.iter().find(|scope| *scope == asked));
        let Some(scope) = scope else {
            return refused("invalid_scope", &format!("{asked:?} is not expected"));
        };
        let expected = [
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("audience", AUDIENCE),
            ("scope", scope),
            ("requested_token_type", "urn:ietf:params:oauth:token-type:access_token"),
            ("subject_token_type", "urn:ietf:params:oauth:token-type:jwt"),
            ("subject_token", SUBJECT_TOKEN),
        ];
        for (name, value) in &form {
            // The client may send options of its own; nothing here depends on them.
            if name != "options" && !expected.iter().any(|(known, _)| known == name) {
                return refused("invalid_request", &format!("{name}={value} is not known"));
            }
        }
        for (name, value) in expected {
            let values: Vec<&str> =
                form.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect();
            if values != [value] {
                let error = if name == "subject_token" { "invalid_grant" } else { "invalid_request" };
                return refused(error, &format!("{name} is not what is expected"));
            }
        }
        self.given.fetch_add(1, Ordering::Relaxed);
        json(
            200,
            &json!({
                "access_token": self.access_token,
                "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
                "token_type": "Bearer",
                "expires_in": 3600,
            }),
        )
    }
}

//! JFrog's exchange of a role of AWS for an access token. The role proves itself by a signed request to STS that JFrog
//! makes in its place, as clusters of EKS do
//! (<https://github.com/jfrog/jfrog-secret-rotator-lambda>, <https://github.com/jfrog/jfrog-credentials-provider>).

use std::time::SystemTime;

use chancery_wire::sigv4::{self, AwsKeys, SigningScope};
use chancery_wire::{Endpoint, HttpRequest, HttpResponse, Secret};
use http::{HeaderName, HeaderValue, Method};
use jiff::Timestamp;
use serde::Deserialize;

use super::{RegistryHost, reason, refused};
use crate::credential::{Credential, CredentialKind, RegistryLogin};
use crate::error::{Class, ExchangeError, Stage};
use crate::oauth::{read_json, unreadable};
use crate::provider::aws::Region;
use crate::provider::aws::partition::EndpointVariant;

/// How long the token is asked to live, in seconds: no credential is handed out for longer.
const LIFETIME: u32 = 3600;
/// Where it is asked for. With a slash at the end some versions answer somebody who proves nothing (CVE-2026-42018).
const PATH: &str = "access/api/v1/aws/token";
/// The region, where JFrog looks for it beside the query.
const REGION: HeaderName = HeaderName::from_static("x-amz-region-set");
/// What to do where the role is given nothing.
const REMEDY: &str = "bind the ARN of the role to a user of JFrog (`PUT /access/api/v1/aws/iam_role`), and name the region that the role is used in";

#[derive(Deserialize)]
struct AccessTokenAnswer {
    access_token: String,
    username: String,
    expires_in: Option<u64>,
}

/// The request: the head of one to STS, for JFrog to make. Neither the keys nor the body of that go along.
///
/// # Errors
/// When it cannot be signed.
pub fn request(
    endpoint: &Endpoint,
    region: &Region,
    keys: &AwsKeys,
    time: SystemTime,
) -> Result<HttpRequest, ExchangeError> {
    let unmade = |error| ExchangeError::endpoint("the registry's endpoint", &error);
    let sts = region.sts(EndpointVariant::default())?;
    let identity = format!("{}/?Action=GetCallerIdentity&Version=2011-06-15", sts.base());
    let mut proof = HttpRequest::new(Method::GET, &sts.admit(&identity).map_err(unmade)?);
    let scope = SigningScope { service: "sts", region: region.as_str() };
    let unsigned = |error: &dyn std::fmt::Display| {
        ExchangeError::new(Class::Permanent, Stage::Registry, "request-unsigned").came(&error.to_string())
    };
    sigv4::sign(&mut proof, keys, scope, time).map_err(|error| unsigned(&error))?;
    let url = format!("{}/{PATH}?region={}", endpoint.base().trim_end_matches('/'), region.as_str());
    let region = HeaderValue::from_str(region.as_str()).map_err(|error| unsigned(&error))?;
    let body = serde_json::json!({ "expires_in": LIFETIME }).to_string();
    Ok(HttpRequest::new(Method::POST, &endpoint.admit(&url).map_err(unmade)?)
        .headers(proof.header_map().clone())
        .header(REGION, region)
        .body(HeaderValue::from_static("application/json"), body))
}

/// The login in an answer.
///
/// # Errors
/// When it is a refusal, or has no token of a user.
pub fn read(answer: &HttpResponse, host: &RegistryHost, now: Timestamp) -> Result<Credential, ExchangeError> {
    if !answer.status.is_success() {
        let reason = reason(answer).map(|reason| reason.message);
        return Err(refused(answer, reason.as_deref(), REMEDY));
    }
    let expected = "a JSON object with `access_token` and `username`";
    let given: AccessTokenAnswer = read_json(answer, Stage::Registry, expected)?;
    if given.access_token.is_empty() || matches!(given.username.as_str(), "" | "anonymous") {
        return Err(unreadable(answer, Stage::Registry).came("a token of nobody").expected(expected));
    }
    let lives = given.expires_in.map_or(u64::from(LIFETIME), |seconds| seconds.min(u64::from(LIFETIME)));
    let ends = now.checked_add(std::time::Duration::from_secs(lives)).ok();
    let login = RegistryLogin {
        host: host.as_str().to_owned(),
        username: given.username,
        password: Secret::new(given.access_token),
    };
    Ok(Credential::new(CredentialKind::Registry(login), now, ends))
}

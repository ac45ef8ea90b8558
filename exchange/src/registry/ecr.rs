//! `GetAuthorizationToken` of Amazon ECR and ECR Public
//! (<https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_GetAuthorizationToken.html>).

use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chancery_wire::sigv4::{self, AwsKeys, SigningScope};
use chancery_wire::{Endpoint, HttpRequest, HttpResponse, Secret};
use http::{HeaderName, HeaderValue, Method};
use jiff::Timestamp;
use serde::Deserialize;
use zeroize::Zeroizing;

use super::{RegistryHost, RegistryKind};
use crate::credential::{Credential, CredentialKind, RegistryLogin};
use crate::error::{Class, ExchangeError, Stage};
use crate::oauth::{read_json, unreadable};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Authorization {
    authorization_token: String,
    expires_at: Option<f64>,
    proxy_endpoint: Option<String>,
}

/// ECR answers with a list, ECR Public with the one.
#[derive(Deserialize)]
#[serde(untagged)]
enum Data {
    Several(Vec<Authorization>),
    One(Authorization),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuthorizationAnswer {
    authorization_data: Data,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Refused {
    #[serde(rename = "__type")]
    kind: String,
    #[serde(alias = "Message")]
    message: String,
}

/// The signed request.
///
/// # Errors
/// When it cannot be signed.
pub fn request(
    endpoint: &Endpoint,
    kind: &RegistryKind,
    keys: &AwsKeys,
    time: SystemTime,
) -> Result<HttpRequest, ExchangeError> {
    let (service, region, target) = match kind {
        RegistryKind::Ecr { region, .. } => {
            ("ecr", region.as_str(), "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken")
        }
        _ => ("ecr-public", "us-east-1", "SpencerFrontendService.GetAuthorizationToken"),
    };
    let mut request = HttpRequest::new(Method::POST, endpoint)
        .header(HeaderName::from_static("x-amz-target"), HeaderValue::from_static(target))
        .body(HeaderValue::from_static("application/x-amz-json-1.1"), "{}");
    sigv4::sign(&mut request, keys, SigningScope { service, region }, time).map_err(|error| {
        ExchangeError::new(Class::Permanent, Stage::Registry, "request-unsigned").came(&error.to_string())
    })?;
    Ok(request)
}

/// The login in an answer.
///
/// # Errors
/// When it is a refusal, or for another registry.
pub fn read(answer: &HttpResponse, host: &RegistryHost, now: Timestamp) -> Result<Credential, ExchangeError> {
    if !answer.status.is_success() {
        return Err(refused(answer));
    }
    let expected = "a JSON object with `authorizationData`";
    let AuthorizationAnswer { authorization_data } = read_json(answer, Stage::Registry, expected)?;
    let given = match authorization_data {
        Data::One(one) => Some(one),
        Data::Several(several) => several.into_iter().next(),
    };
    let given =
        given.ok_or_else(|| unreadable(answer, Stage::Registry).came("no login in `authorizationData`"))?;
    is_for(&given, host)?;
    let decoded = STANDARD.decode(given.authorization_token).map(Zeroizing::new).ok();
    let text = decoded.as_ref().and_then(|bytes| std::str::from_utf8(bytes).ok());
    let (username, password) = text.and_then(|text| text.split_once(':')).ok_or_else(|| {
        unreadable(answer, Stage::Registry)
            .came("an `authorizationToken` of another form")
            .expected("base64 of USER:PASSWORD")
    })?;
    let login = RegistryLogin {
        host: host.as_str().to_owned(),
        username: username.to_owned(),
        password: Secret::new(password.to_owned()),
    };
    #[expect(clippy::cast_possible_truncation, reason = "a time out of range is refused by jiff")]
    let expires_at = given.expires_at.and_then(|at| Timestamp::from_second(at as i64).ok());
    Ok(Credential::new(CredentialKind::Registry(login), now, expires_at))
}

/// A login is good for one account's registry in one region. It is handed out for no other (S0-07).
fn is_for(given: &Authorization, host: &RegistryHost) -> Result<(), ExchangeError> {
    let RegistryKind::Ecr { .. } = host.kind() else { return Ok(()) };
    let proxy = given.proxy_endpoint.as_deref().unwrap_or_default();
    let same = proxy.parse::<RegistryHost>().is_ok_and(|proxy| proxy.kind() == host.kind());
    if same {
        return Ok(());
    }
    Err(ExchangeError::new(Class::Permanent, Stage::Registry, "registry-login-for-another-host")
        .came(&format!("a login for {proxy:?}"))
        .expected(format!("one for {}", host.as_str()))
        .remedy("assume a role of the account that the registry is in; ECR logs in the caller's own account"))
}

fn refused(answer: &HttpResponse) -> ExchangeError {
    let refused: Refused = serde_json::from_slice(&answer.body).unwrap_or_default();
    let kind = refused.kind.rsplit('#').next().unwrap_or_default();
    let (class, code, remedy) = match (Class::of_status(answer.status.as_u16()), kind) {
        (_, "ExpiredTokenException") => (Class::Expired, "aws-keys-expired", "have the keys renewed"),
        (_, "ThrottlingException") => {
            (Class::Throttled, "throttled", "ask less often: ECR takes 20 a second")
        }
        (_, "UnrecognizedClientException") => (
            Class::Permanent,
            "aws-keys-refused",
            "check that the keys are of the registry's partition, and the clock of this machine",
        ),
        (_, "AccessDeniedException") => (
            Class::Permanent,
            "registry-access-denied",
            "allow the role ecr:GetAuthorizationToken, or for ECR Public ecr-public:GetAuthorizationToken and sts:GetServiceBearerToken",
        ),
        (Class::Permanent, _) => {
            (Class::Permanent, "registry-refused", "check the role's rights on the registry")
        }
        (class, _) => (class, "server-failed", "try again a little later"),
    };
    ExchangeError::new(class, Stage::Registry, code)
        .status(answer.status.as_u16())
        .came(&format!("{kind}: {}", refused.message))
        .provider_code(Some(kind))
        .correlation_id(answer.header("x-amzn-requestid"))
        .retry_after(answer.retry_after())
        .remedy(remedy)
}

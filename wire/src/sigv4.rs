//! Requests signed as AWS wants them
//! (Signature Version 4, <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv.html>).

use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SignatureLocation,
    SigningSettings, UriPathNormalizationMode, sign as sign_request,
};
use aws_sigv4::sign::v4::{self, calculate_signature, generate_signing_key};
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};

use crate::client::HttpRequest;
use crate::secret::Secret;

/// What a request is signed with.
#[derive(Clone, Debug)]
pub struct AwsKeys {
    /// The id of the access key, which is no secret.
    pub access_key_id: String,
    /// The secret access key.
    pub secret_access_key: Secret,
    /// The token of temporary credentials.
    pub session_token: Option<Secret>,
}

/// For which API a request is signed.
#[derive(Clone, Copy, Debug)]
pub struct SigningScope<'a> {
    /// `iam`, `sts`, `s3`, `ecr`.
    pub service: &'a str,
    /// `eu-central-1`.
    pub region: &'a str,
}

/// Adds the headers that sign a request at a time, which AWS takes for five minutes around its own.
///
/// # Errors
/// When the request has headers or a URL that cannot be signed.
pub fn sign(
    request: &mut HttpRequest,
    keys: &AwsKeys,
    scope: SigningScope<'_>,
    time: SystemTime,
) -> Result<(), SigningError> {
    let identity = credentials(keys).into();
    let parameters = v4::SigningParams::builder()
        .identity(&identity)
        .region(scope.region)
        .name(scope.service)
        .time(time)
        .settings(settings(scope.service))
        .build()
        .map_err(|error| SigningError(error.to_string()))?
        .into();
    let (method, url) = (request.method().to_string(), request.url().to_string());
    let headers = texts(request.header_map());
    let headers = headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let (unsigned, body) = request.parts_mut();
    let signable = SignableRequest::new(&method, url, headers, SignableBody::Bytes(body)).map_err(refused)?;
    let (instructions, _) = sign_request(signable, &parameters).map_err(refused)?.into_parts();
    let (signed, _) = instructions.into_parts();
    for header in signed {
        let name = header.name().parse::<HeaderName>().map_err(refused)?;
        let mut value = HeaderValue::from_str(header.value()).map_err(refused)?;
        value.set_sensitive(true);
        unsigned.insert(name, value);
    }
    Ok(())
}

/// When a URL is signed, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Presigning {
    /// When.
    pub time: SystemTime,
    /// How long the URL says that it is good for.
    pub lasts: Duration,
}

/// The URL of a request, signed in its query: whoever has it can make the request in the place of the keys' owner, with
/// the same headers. It is a secret for that.
///
/// # Errors
/// When the request has headers or a URL that cannot be signed.
pub fn presigned_url(
    request: &HttpRequest,
    keys: &AwsKeys,
    scope: SigningScope<'_>,
    presigning: Presigning,
) -> Result<Secret, SigningError> {
    let mut settings = settings(scope.service);
    settings.signature_location = SignatureLocation::QueryParams;
    settings.expires_in = Some(presigning.lasts);
    let identity = credentials(keys).into();
    let parameters = v4::SigningParams::builder()
        .identity(&identity)
        .region(scope.region)
        .name(scope.service)
        .time(presigning.time)
        .settings(settings)
        .build()
        .map_err(|error| SigningError(error.to_string()))?
        .into();
    let headers = texts(request.header_map());
    let headers = headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let method = request.method().to_string();
    let body = SignableBody::Bytes(request.body_bytes());
    let signable = SignableRequest::new(&method, request.url().as_str(), headers, body).map_err(refused)?;
    let (instructions, _) = sign_request(signable, &parameters).map_err(refused)?.into_parts();
    let (_, signed) = instructions.into_parts();
    let mut url = request.url().clone();
    url.query_pairs_mut().extend_pairs(signed.iter().map(|(name, value)| (*name, value.as_ref())));
    Ok(Secret::new(url.into()))
}

/// A signature over a text of somebody else's form, in hexadecimal digits, as CodeCommit wants it.
pub fn signature(text: &str, keys: &AwsKeys, scope: SigningScope<'_>, time: SystemTime) -> String {
    let secret = keys.secret_access_key.expose();
    let key = generate_signing_key(secret, time, scope.region, scope.service);
    calculate_signature(key, text.as_bytes())
}

fn credentials(keys: &AwsKeys) -> Credentials {
    let session_token = keys.session_token.as_ref().map(|token| token.expose().to_owned());
    let (id, secret) = (keys.access_key_id.clone(), keys.secret_access_key.expose().to_owned());
    Credentials::new(id, secret, session_token, None, "chancery")
}

/// The headers that are text.
fn texts(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |(name, value): (&HeaderName, &HeaderValue)| {
        Some((name.to_string(), value.to_str().ok()?.to_owned()))
    };
    headers.iter().filter_map(text).collect()
}

/// S3 refuses a request whose body's digest is not in a header, and signs paths as they are sent.
fn settings(service: &str) -> SigningSettings {
    let mut settings = SigningSettings::default();
    if service == "s3" {
        settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
        settings.percent_encoding_mode = PercentEncodingMode::Single;
        settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    }
    settings
}

fn refused(error: impl std::error::Error) -> SigningError {
    SigningError(error.to_string())
}

/// A request that cannot be signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request cannot be signed: {0}")]
pub struct SigningError(String);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::Method;
    use http::header::AUTHORIZATION;

    use super::*;
    use crate::endpoint::{Endpoint, EndpointRule};
    use crate::form;

    /// The keys of AWS's own examples.
    fn keys(session_token: Option<&str>) -> AwsKeys {
        AwsKeys {
            access_key_id: "AKIDEXAMPLE".to_owned(),
            secret_access_key: Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned()),
            session_token: session_token.map(|token| Secret::new(token.to_owned())),
        }
    }

    /// 2015-08-30T12:36:00Z
    fn then() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_440_938_160)
    }

    /// The example of AWS's page on signing: `GET ListUsers` of IAM.
    #[test]
    fn the_documented_example_gives_the_documented_signature() {
        let url = "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08";
        let endpoint = Endpoint::parse(url, &EndpointRule::any_host()).unwrap();
        let media_type = HeaderValue::from_static("application/x-www-form-urlencoded; charset=utf-8");
        let mut request =
            HttpRequest::new(Method::GET, &endpoint).header(http::header::CONTENT_TYPE, media_type);
        let scope = SigningScope { service: "iam", region: "us-east-1" };
        sign(&mut request, &keys(None), scope, then()).unwrap();
        let signed = request.header_map().get(AUTHORIZATION).unwrap().to_str().unwrap();
        let expected = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, SignedHeaders=content-type;host;x-amz-date, Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7";
        assert_eq!(signed, expected);
    }

    #[test]
    fn a_session_token_and_the_digest_s3_wants_are_signed_too() {
        let endpoint = Endpoint::parse("https://b.example/a", &EndpointRule::any_host()).unwrap();
        let media_type = HeaderValue::from_static(form::MEDIA_TYPE);
        let mut request =
            HttpRequest::new(Method::POST, &endpoint).body(media_type, form::encode([("a", "b")]));
        let scope = SigningScope { service: "s3", region: "eu-central-1" };
        sign(&mut request, &keys(Some("hunter2")), scope, then()).unwrap();
        let headers = request.header_map();
        assert_eq!(headers.get("x-amz-security-token").unwrap(), "hunter2");
        assert!(headers.contains_key("x-amz-content-sha256"));
        assert!(!format!("{request:?} {headers:?}").contains("hunter2"));
    }
}

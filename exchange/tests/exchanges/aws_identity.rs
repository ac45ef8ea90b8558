//! What AWS gives its own workloads, as the subject elsewhere: keys from each place that has them, and STS, which takes a
//! signature by them alone.

use std::time::{Duration, SystemTime};

use chancery_exchange::provider::aws::Region;
use chancery_exchange::subject::{AwsIdentity, Environment};
use chancery_exchange::transport::{Transport, TransportOptions};
use chancery_exchange::{Class, ExchangeError, SubjectTokenSource};
use chancery_wire::sigv4::{AwsKeys, SigningScope, sign};
use chancery_wire::{Endpoint, EndpointRule, HttpRequest, Secret};
use http::HeaderValue;
use serde_json::json;

use crate::fake::issuer::{claims, token, verify};
use crate::fake::{Call, Fake, Reply};

const AUDIENCE: &str = "api://AzureADTokenExchange";
const REGION: &str = "eu-central-1";
/// How far the time of a request may be from AWS's own.
const SKEW: Duration = Duration::from_secs(15 * 60);

fn keys() -> AwsKeys {
    AwsKeys {
        access_key_id: "ASIAEXAMPLE".to_owned(),
        secret_access_key: Secret::new("SECRET".to_owned()),
        session_token: Some(Secret::new("SESSION".to_owned())),
    }
}

/// The agent of a container, the metadata service of a machine, and STS.
pub fn answer(call: &Call, mint: &dyn Fn(&str) -> String) -> Reply {
    let header = |name: &str| call.headers.get(name).map_or("", |value| value.to_str().unwrap());
    let keys = json!({
        "AccessKeyId": "ASIAEXAMPLE", "SecretAccessKey": "SECRET", "Token": "SESSION",
        "Expiration": "2036-01-01T00:00:00Z", "Code": "Success",
    });
    let is_session = header("x-aws-ec2-metadata-token") == "session-1";
    match (call.method.as_str(), call.path()) {
        ("GET", "/v1/credentials") if header("authorization") == "pod-token" => Reply::json(200, &keys),
        ("PUT", "/latest/api/token") if !header("x-aws-ec2-metadata-token-ttl-seconds").is_empty() => {
            Reply::new(200, "session-1")
        }
        ("GET", "/latest/meta-data/iam/security-credentials/") if is_session => Reply::new(200, "role-1\n"),
        ("GET", "/latest/meta-data/iam/security-credentials/role-1") if is_session => Reply::json(200, &keys),
        ("POST", "/") => sts(call, mint),
        _ => Reply::new(401, ""),
    }
}

fn sts(call: &Call, mint: &dyn Fn(&str) -> String) -> Reply {
    let refused = |code: &str, message: &str| {
        let error =
            format!("<Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error>");
        Reply::new(400, format!("<ErrorResponse>{error}<RequestId>r-1</RequestId></ErrorResponse>"))
    };
    if call.headers["authorization"] != signed_again(call) {
        return refused("SignatureDoesNotMatch", "The request signature we calculated does not match");
    }
    let fields: Vec<(String, String)> = url::form_urlencoded::parse(&call.body).into_owned().collect();
    let field = |name: &str| fields.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value);
    let is_known = field("Action") == "GetWebIdentityToken" && field("Version") == "2011-06-15";
    if !is_known || fields.len() != 5 || !matches!(field("SigningAlgorithm"), "RS256" | "ES384") {
        return refused("ValidationError", "1 validation error detected");
    }
    let token = mint(field("Audience.member.1"));
    Reply::new(
        200,
        format!(
            r#"<GetWebIdentityTokenResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetWebIdentityTokenResult><WebIdentityToken>{token}</WebIdentityToken><Expiration>2036-01-01T00:00:00Z</Expiration></GetWebIdentityTokenResult><ResponseMetadata><RequestId>r-1</RequestId></ResponseMetadata></GetWebIdentityTokenResponse>"#
        ),
    )
}

/// The signature that whoever has the keys makes of what came, at the time that it names.
fn signed_again(call: &Call) -> HeaderValue {
    let date = call.headers["x-amz-date"].to_str().unwrap();
    let date = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", date).unwrap();
    let signed = date.to_zoned(jiff::tz::TimeZone::UTC).unwrap().timestamp();
    assert!(jiff::Timestamp::now().duration_since(signed).unsigned_abs() < SKEW, "signed for now");
    let host = call.headers["host"].to_str().unwrap();
    let endpoint = Endpoint::parse(&format!("http://{host}{}", call.uri), &EndpointRule::any_host()).unwrap();
    let mut request = HttpRequest::new(http::Method::POST, &endpoint)
        .body(call.headers["content-type"].clone(), call.body.clone());
    sign(&mut request, &keys(), SigningScope { service: "sts", region: REGION }, signed.into()).unwrap();
    request.header_map()["authorization"].clone()
}

/// The source of a pod that has EKS's Pod Identity.
pub fn source(fake: &Fake) -> AwsIdentity {
    let credentials = format!("{}/v1/credentials", fake.url);
    opened(&[
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", credentials.as_str()),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "pod-token"),
        ("AWS_ENDPOINT_URL_STS", fake.url.as_str()),
        ("AWS_REGION", REGION),
    ])
    .unwrap()
}

fn opened(variables: &[(&str, &str)]) -> Result<AwsIdentity, ExchangeError> {
    let mut eight = [("", ""); 8];
    eight[..variables.len()].copy_from_slice(variables);
    AwsIdentity::new(None, &Environment::given(eight), Transport::new(TransportOptions::default()).unwrap())
}

#[tokio::test]
async fn w_20_a_workload_of_aws_has_a_token_for_another_cloud_by_whatever_keys_it_has() {
    let fake = Fake::start(|call| answer(call, &|audience| token(&claims(audience)))).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "pod-token\n").unwrap();
    let (file, credentials) = (file.to_str().unwrap(), format!("{}/v1/credentials", fake.url));
    let places: [&[(&str, &str)]; 4] = [
        &[
            ("AWS_ACCESS_KEY_ID", "ASIAEXAMPLE"),
            ("AWS_SECRET_ACCESS_KEY", "SECRET"),
            ("AWS_SESSION_TOKEN", "SESSION"),
        ],
        &[
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &credentials),
            ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "pod-token"),
        ],
        // EKS sets both; the file is replaced while the pod runs.
        &[
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &credentials),
            ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", file),
            ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "outdated"),
        ],
        &[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &fake.url)],
    ];
    for place in places {
        let sts = [("AWS_REGION", REGION), ("AWS_ENDPOINT_URL_STS", fake.url.as_str())];
        let given = opened(&[place, &sts].concat()).unwrap().token(AUDIENCE).await;
        assert!(verify(given.unwrap().secret().expose(), AUDIENCE).is_ok(), "{place:?}");
    }
}

#[tokio::test]
async fn w_20_what_aws_refuses_its_workloads_says_what_to_do() {
    let fake = Fake::start(|call| answer(call, &|audience| token(&claims(audience)))).await;
    let source = source(&fake);
    let refusal = |code: &str| {
        Reply::new(
            400,
            format!(
                "<ErrorResponse><Error><Code>{code}</Code><Message>no, SECRET</Message></Error><RequestId>r-7</RequestId></ErrorResponse>"
            ),
        )
    };
    let keys = || answer(&fake.calls()[0], &|_| String::new());
    assert!(source.token(AUDIENCE).await.is_ok());
    for (code, class, words) in [
        ("OutboundWebIdentityFederationDisabled", Class::Source, "enable-outbound-web-identity-federation"),
        ("AccessDenied", Class::Source, "sts:GetWebIdentityToken"),
        ("ExpiredToken", Class::Expired, "renew the keys"),
        ("Throttling", Class::Throttled, ""),
    ] {
        fake.script([keys(), refusal(code)]);
        let error = source.token(AUDIENCE).await.unwrap_err();
        assert_eq!((error.class(), error.code()), (class, "aws-token-refused"), "{error}");
        let text = error.to_string();
        assert!(text.contains(words) && text.contains(code) && !text.contains("SECRET"), "{text}");
    }
    fake.script([Reply::new(403, "")]);
    let error = source.token(AUDIENCE).await.unwrap_err();
    assert!(error.class() == Class::Source && error.to_string().contains("Pod Identity"), "{error}");
    let error = source.token(&"a".repeat(1001)).await.unwrap_err();
    assert!(error.to_string().contains("1 to 1000 characters"), "{error}");
}

#[test]
fn w_20_keys_of_aws_are_asked_for_where_nobody_else_answers() {
    for (variables, words) in [
        (vec![], "AWS_REGION"),
        (vec![("AWS_REGION", "mars")], "no region"),
        (vec![("AWS_REGION", REGION), ("AWS_EC2_METADATA_DISABLED", "true")], "metadata service"),
        (
            vec![("AWS_REGION", REGION), ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://10.0.0.1/keys")],
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        ),
        (
            vec![("AWS_REGION", REGION), ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "@evil.example/keys")],
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        ),
        (
            vec![("AWS_REGION", REGION), ("AWS_EC2_METADATA_SERVICE_ENDPOINT", "https://evil.example")],
            "169.254.169.254",
        ),
    ] {
        let error = opened(&variables).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(words), "{variables:?}: {error}");
    }
    for url in [
        "http://169.254.170.23/v1/credentials",
        "http://[fd00:ec2::23]/v1/credentials",
        "https://keys.example/",
    ] {
        let variables = [("AWS_REGION", REGION), ("AWS_CONTAINER_CREDENTIALS_FULL_URI", url)];
        assert!(opened(&variables).is_ok(), "{url}");
    }
    let region: Region = "eu-west-1".parse().unwrap();
    let transport = Transport::new(TransportOptions::default()).unwrap();
    let source = AwsIdentity::new(Some(region), &Environment::given([]), transport).unwrap();
    let request = source.request(AUDIENCE, &keys(), SystemTime::now()).unwrap();
    assert_eq!(request.url().host_str(), Some("sts.eu-west-1.amazonaws.com"), "never the global one");
    assert!(!request.url().as_str().contains("Audience"));
}

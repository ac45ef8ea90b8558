//! The identity of a workload of AWS, as the subject at another cloud: a token that STS signs for whoever has keys of AWS
//! (`GetWebIdentityToken`, <https://docs.aws.amazon.com/STS/latest/APIReference/API_GetWebIdentityToken.html>).
//!
//! Its issuer is the account's own, `https://UUID.tokens.sts.global.api.aws`, once outbound web identity federation is
//! enabled for the account. STS of a region alone gives such tokens, the global endpoint does not.

use std::time::SystemTime;

use async_trait::async_trait;
use chancery_wire::sigv4::{AwsKeys, SigningScope, sign};
use chancery_wire::xml::Element;
use chancery_wire::{Endpoint, EndpointRule, HttpRequest, HttpResponse, Secret, form};
use http::{HeaderValue, Method};

use super::{Environment, SubjectTokenSource, missing, refused};
use crate::error::{Class, ExchangeError, Stage};
use crate::key::KeyBuilder;
use crate::provider::aws::Region;
use crate::provider::aws::partition::EndpointVariant;
use crate::token::UnverifiedToken;
use crate::transport::Transport;

mod keys;

pub use keys::OwnKeys;

/// Another STS than the region's, as AWS's SDKs read it.
const ENDPOINT: &str = "AWS_ENDPOINT_URL_STS";
/// The longest audience, in characters.
const LONGEST_AUDIENCE: usize = 1000;
/// How long a token is asked for, in seconds: one exchange has no need of more. AWS gives 60 to 3600.
const LIFETIME_SECONDS: &str = "300";
/// What every relying party takes. AWS offers ES384 as well.
const ALGORITHM: &str = "RS256";

/// Tokens of the role whose keys this workload has.
pub struct AwsIdentity {
    region: Region,
    sts: Endpoint,
    keys: OwnKeys,
    transport: Transport,
}

impl AwsIdentity {
    /// The identity of this workload, by the keys that it has, at STS of a region; otherwise of that in `AWS_REGION` or
    /// `AWS_DEFAULT_REGION`. Nobody is asked yet.
    ///
    /// # Errors
    /// When no region is named, or nothing says where the keys are.
    pub fn new(
        region: Option<Region>,
        environment: &Environment,
        transport: Transport,
    ) -> Result<Self, ExchangeError> {
        let named = || {
            let text =
                ["AWS_REGION", "AWS_DEFAULT_REGION"].into_iter().find_map(|name| environment.text(name));
            let text = text.ok_or_else(|| {
                ExchangeError::configuration("aws-region")
                    .came("no region of AWS is named")
                    .expected("aws-sts:REGION as the source, or AWS_REGION")
                    .remedy(
                        "name the region that the workload runs in: the global endpoint gives no such tokens",
                    )
            })?;
            text.parse()
        };
        let region = region.map_or_else(named, Ok)?;
        let sts = match environment.text(ENDPOINT) {
            Some(url) => Endpoint::parse(&url, &EndpointRule::any_host())
                .map_err(|error| ExchangeError::endpoint(ENDPOINT, &error))?,
            None => region.sts(EndpointVariant::default())?,
        };
        Ok(Self { region, sts, keys: OwnKeys::of(environment)?, transport })
    }

    /// The request for a token, signed.
    ///
    /// # Errors
    /// When the audience is longer than AWS takes, or the request cannot be signed.
    pub fn request(
        &self,
        audience: &str,
        keys: &AwsKeys,
        time: SystemTime,
    ) -> Result<HttpRequest, ExchangeError> {
        let length = audience.chars().count();
        if !(1..=LONGEST_AUDIENCE).contains(&length) {
            return Err(ExchangeError::configuration("aws-audience-length")
                .came(&format!("an audience of {length} characters"))
                .expected("1 to 1000 characters"));
        }
        let fields = [
            ("Action", "GetWebIdentityToken"),
            ("Version", "2011-06-15"),
            ("Audience.member.1", audience),
            ("DurationSeconds", LIFETIME_SECONDS),
            ("SigningAlgorithm", ALGORITHM),
        ];
        let mut request = HttpRequest::new(Method::POST, &self.sts)
            .body(HeaderValue::from_static(form::MEDIA_TYPE), form::encode(fields));
        let scope = SigningScope { service: "sts", region: self.region.as_str() };
        sign(&mut request, keys, scope, time)
            .map_err(|error| missing("request-unsigned").came(&error.to_string()))?;
        Ok(request)
    }

    /// The token in an answer.
    ///
    /// # Errors
    /// When there is none.
    pub fn read(&self, answer: &HttpResponse) -> Result<UnverifiedToken, ExchangeError> {
        let document = std::str::from_utf8(&answer.body).ok().and_then(|text| Element::parse(text).ok());
        let text =
            |name: &str| document.as_ref().and_then(|document| document.text_of(name)).unwrap_or_default();
        if !answer.status.is_success() {
            let code = text("Code");
            let error = refused(answer, "aws-token-refused")
                .came(&format!("STS gave no token: {code}: {}", text("Message")))
                .provider_code(Some(code))
                .correlation_id(Some(text("RequestId")))
                .remedy(remedy(code));
            return Err(match class(code) {
                Some(class) => error.in_class(class),
                None => error,
            });
        }
        let token = Secret::new(text("WebIdentityToken").to_owned());
        if token.is_empty() {
            return Err(refused(answer, "aws-token-refused").came("an answer of STS without a token"));
        }
        UnverifiedToken::parse(token.expose()).map_err(|error| error.at(&self.origin()))
    }
}

/// What a refusal means where its status does not say so: AWS answers 400 to all of these.
fn class(code: &str) -> Option<Class> {
    match code {
        "Throttling" | "ThrottlingException" | "RequestLimitExceeded" => Some(Class::Throttled),
        "ExpiredToken" | "ExpiredTokenException" | "RequestExpired" => Some(Class::Expired),
        _ => None,
    }
}

fn remedy(code: &str) -> &'static str {
    match code {
        "OutboundWebIdentityFederationDisabled" | "OutboundWebIdentityFederationDisabledException" => {
            "enable it for the account: `aws iam enable-outbound-web-identity-federation`"
        }
        "AccessDenied" | "AccessDeniedException" => {
            "allow the role sts:GetWebIdentityToken; conditions on sts:IdentityTokenAudience and sts:DurationSeconds count"
        }
        "SessionDurationEscalation" | "SessionDurationEscalationException" => {
            "the session that asks ends before such a token would: renew its keys"
        }
        "ExpiredToken" | "ExpiredTokenException" | "RequestExpired" => {
            "renew the keys of AWS, and compare the clocks"
        }
        "InvalidClientTokenId" | "SignatureDoesNotMatch" | "UnrecognizedClientException" => {
            "check the keys of AWS that this process has"
        }
        "InvalidAction" => "ask STS of a region: the global endpoint gives no such tokens",
        _ => "compare the audience and the role's rights with what AWS answers",
    }
}

#[async_trait]
impl SubjectTokenSource for AwsIdentity {
    fn origin(&self) -> String {
        format!("STS of {}, by the keys of {}", self.region, self.keys.origin())
    }

    fn can_renew(&self) -> bool {
        true
    }

    fn describe(&self, key: &mut KeyBuilder) {
        key.text("source", "GetWebIdentityToken").text("sts", self.sts.url().as_str());
        key.text("keys", &self.keys.origin());
    }

    async fn token(&self, audience: &str) -> Result<UnverifiedToken, ExchangeError> {
        let keys = self.keys.current(&self.transport).await?;
        let request = self.request(audience, &keys, SystemTime::now())?;
        let answer = self.transport.send(Stage::Source, request).await?;
        self.read(&answer).map_err(|error| error.without(&keys.secret_access_key))
    }
}

//! AWS STS `AssumeRoleWithWebIdentity`
//! (<https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRoleWithWebIdentity.html>).
//!
//! The request is not signed, and the token is in its body: a URL stands in the logs of every proxy on the way.

use chancery_wire::{Endpoint, HttpRequest, form};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Method};

use crate::error::ExchangeError;
use crate::key::KeyBuilder;
use crate::preflight::Expectation;
use crate::token::UnverifiedToken;

pub mod answer;
pub mod partition;
pub mod role;

pub use partition::Region;
pub use role::{RoleArn, SessionName};

/// The audience that EKS's webhook and every tool after it ask for.
pub const AUDIENCE: &str = "sts.amazonaws.com";

/// The longest `WebIdentityToken`.
const LONGEST_TOKEN: usize = 20_000;
/// The longest inline session policy.
const LONGEST_POLICY: usize = 2048;
/// How many session policies may be named.
const MOST_POLICIES: usize = 10;

/// A role of AWS, and how it is assumed.
#[derive(Clone, Debug)]
pub struct AwsProvider {
    /// Where STS is asked. [`Region::sts`] has the right place.
    pub endpoint: Endpoint,
    /// The region, which what uses the keys needs too.
    pub region: Region,
    /// Which role. Without one, a server that is not AWS's own chooses by the claims of the token, as MinIO does
    /// (<https://github.com/minio/minio/blob/master/docs/sts/web-identity.md>).
    pub role: Option<RoleArn>,
    /// What CloudTrail calls the session.
    pub session_name: SessionName,
    /// What narrows the session further.
    pub session: SessionLimits,
    /// The audience that the role's trust policy names.
    pub audience: String,
}

/// What narrows a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionLimits {
    /// How long the keys live, 900 to 43 200 seconds and at most what the role allows; an hour when missing.
    pub duration_seconds: Option<u32>,
    /// An inline policy: the session may do no more than this.
    pub policy: Option<String>,
    /// Managed policies that do the same.
    pub policy_arns: Vec<String>,
}

impl SessionLimits {
    /// The same, if AWS takes it.
    ///
    /// # Errors
    /// Which limit of AWS it exceeds.
    pub fn checked(self) -> Result<Self, ExchangeError> {
        let refuse = |came: String, expected: &str| {
            ExchangeError::configuration("aws-session-limits").came(&came).expected(expected)
        };
        if let Some(seconds) = self.duration_seconds.filter(|seconds| !(900..=43_200).contains(seconds)) {
            return Err(refuse(format!("a session of {seconds} s"), "900 to 43200 s")
                .remedy("choose a duration that AWS takes, at most the role's maximum"));
        }
        let policy = self.policy.as_ref().map_or(1, String::len);
        if !(1..=LONGEST_POLICY).contains(&policy) {
            return Err(refuse(format!("a session policy of {policy} characters"), "1 to 2048 characters")
                .remedy("shorten it, or name a managed policy"));
        }
        if self.policy_arns.len() > MOST_POLICIES {
            return Err(refuse(format!("{} session policies", self.policy_arns.len()), "at most 10")
                .remedy("put several into one"));
        }
        Ok(self)
    }
}

impl AwsProvider {
    /// What STS expects of a token.
    pub fn expectation(&self) -> Expectation {
        Expectation {
            audiences: vec![self.audience.clone()],
            algorithms: vec!["RS256", "RS384", "RS512", "ES256", "ES384", "ES512"],
            longest: Some(LONGEST_TOKEN),
            ..Expectation::default()
        }
    }

    /// Adds everything that the keys depend on.
    pub fn describe(&self, key: &mut KeyBuilder) {
        key.text("sts_endpoint", self.endpoint.url().as_str())
            .text("sts_region", self.region.as_str())
            .optional("role", self.role.as_ref().map(RoleArn::as_str))
            .text("session_name", self.session_name.as_str())
            .number("duration_seconds", self.session.duration_seconds.map(u64::from))
            .optional("session_policy", self.session.policy.as_deref())
            .list("session_policy_arns", &self.session.policy_arns);
    }

    /// The request.
    pub fn request(&self, subject: &UnverifiedToken) -> HttpRequest {
        let duration = self.session.duration_seconds.map(|seconds| seconds.to_string());
        let mut fields = vec![
            ("Action", "AssumeRoleWithWebIdentity"),
            ("Version", "2011-06-15"),
            ("RoleSessionName", self.session_name.as_str()),
            ("WebIdentityToken", subject.secret().expose()),
        ];
        fields.extend(self.role.as_ref().map(|role| ("RoleArn", role.as_str())));
        fields.extend(duration.as_deref().map(|seconds| ("DurationSeconds", seconds)));
        fields.extend(self.session.policy.as_deref().map(|policy| ("Policy", policy)));
        let numbered: Vec<String> =
            (1..=self.session.policy_arns.len()).map(|n| format!("PolicyArns.member.{n}.arn")).collect();
        let arns =
            numbered.iter().map(String::as_str).zip(self.session.policy_arns.iter().map(String::as_str));
        fields.extend(arns);
        HttpRequest::new(Method::POST, &self.endpoint)
            .header(ACCEPT, HeaderValue::from_static("text/xml"))
            .body(HeaderValue::from_static(form::MEDIA_TYPE), form::encode(fields))
            .header(CONTENT_TYPE, HeaderValue::from_static(form::MEDIA_TYPE))
    }
}

//! Signed requests to APIs of AWS for which one call is not worth another SDK: IAM, STS, the account side of S3.

use std::time::SystemTime;

use aws_config::{BehaviorVersion, SdkConfig};
use aws_credential_types::provider::{ProvideCredentials as _, SharedCredentialsProvider};
use aws_sdk_s3::config::Region;
use chancery_core::quoted::one_line;
use chancery_wire::sigv4::{self, AwsKeys, SigningScope};
use chancery_wire::xml::Element;
use chancery_wire::{
    ClientOptions, Endpoint, EndpointRule, HttpClient, HttpRequest, HttpResponse, Proxies, Secret,
    error_chain,
};

use crate::limits;

/// Who asks, and from where.
#[derive(Clone, Debug)]
pub(crate) struct AwsCaller {
    http: HttpClient,
    credentials: SharedCredentialsProvider,
    /// The region of this machine's configuration, if it has one.
    pub(crate) region: Option<String>,
}

/// What an API of AWS answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AwsAnswer {
    pub(crate) status: u16,
    /// Empty where the answer was not XML, as one of a proxy.
    pub(crate) xml: Element,
}

/// A request that was not made, or not answered: what failed and what helps.
#[derive(Debug)]
pub(crate) struct AwsUnreachable {
    pub(crate) what: String,
    pub(crate) remedy: &'static str,
}

impl AwsCaller {
    /// Whoever this machine's AWS configuration says, by the chain that every AWS tool uses. Nothing is asked yet.
    pub(crate) async fn from_chain(
        region: Option<&str>,
        profile: Option<&str>,
    ) -> Result<Self, AwsUnreachable> {
        let mut loader = aws_config::defaults(BehaviorVersion::v2026_01_12());
        if let Some(region) = region {
            loader = loader.region(Region::new(region.to_owned()));
        }
        if let Some(profile) = profile {
            loader = loader.profile_name(profile);
        }
        Self::of(&loader.load().await)
    }

    /// Whoever `shared` says.
    pub(crate) fn of(shared: &SdkConfig) -> Result<Self, AwsUnreachable> {
        let credentials = shared.credentials_provider().ok_or_else(|| no_credentials("there are none"))?;
        let options = ClientOptions {
            proxies: Proxies::Environment,
            ..ClientOptions::new(limits::AWS_CALL, limits::API_ANSWER)
        };
        let http = HttpClient::new(&options).map_err(|error| AwsUnreachable {
            what: format!("no HTTP client can be made: {error}"),
            remedy: "look at this machine's certificates and proxies",
        })?;
        Ok(Self { http, credentials, region: shared.region().map(ToString::to_string) })
    }

    /// Makes one request, signed for now.
    pub(crate) async fn send(
        &self,
        scope: SigningScope<'_>,
        mut request: HttpRequest,
    ) -> Result<AwsAnswer, AwsUnreachable> {
        sigv4::sign(&mut request, &self.keys().await?, scope, SystemTime::now())
            .map_err(|error| AwsUnreachable { what: error.to_string(), remedy: "correct the endpoint" })?;
        let url = request.url().clone();
        let answer = self.http.send(request).await.map_err(|error| AwsUnreachable {
            what: format!("{url} did not answer: {error}"),
            remedy: "see that its name resolves, its port answers and its certificate is known here",
        })?;
        Ok(AwsAnswer::of(&answer))
    }

    async fn keys(&self) -> Result<AwsKeys, AwsUnreachable> {
        let provided = self.credentials.provide_credentials();
        let provided = tokio::time::timeout(limits::AWS_CREDENTIALS, provided).await;
        let provided = provided.map_err(|_| no_credentials("none came in time"))?;
        let credentials =
            provided.map_err(|error| no_credentials(&error_chain::describe(&error, ToString::to_string)))?;
        Ok(AwsKeys {
            access_key_id: credentials.access_key_id().to_owned(),
            secret_access_key: Secret::new(credentials.secret_access_key().to_owned()),
            session_token: credentials.session_token().map(|token| Secret::new(token.to_owned())),
        })
    }
}

/// An address of an API. Requests to it are signed, and temporary credentials bring a token along.
pub(crate) fn endpoint(address: &str) -> Result<Endpoint, AwsUnreachable> {
    Endpoint::parse(address, &EndpointRule::any_host()).map_err(|error| AwsUnreachable {
        what: format!("the endpoint {error}"),
        remedy: "expected https://HOST[:PORT]/",
    })
}

impl AwsAnswer {
    fn of(answer: &HttpResponse) -> Self {
        Self::new(answer.status.as_u16(), &String::from_utf8_lossy(&answer.body))
    }

    pub(crate) fn new(status: u16, body: &str) -> Self {
        Self { status, xml: Element::parse(body).unwrap_or_default() }
    }

    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The text of an element, wherever it stands.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.xml.text_of(name)
    }

    /// `Code` of an error.
    pub(crate) fn code(&self) -> &str {
        self.text("Code").unwrap_or_default()
    }
}

impl std::fmt::Display for AwsAnswer {
    /// Status, code and message of an error.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.status)?;
        let parts = [self.code(), self.text("Message").unwrap_or_default()];
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        parts.map(|part| one_line(part, limits::EXCERPT)).try_for_each(|part| write!(f, " {part}"))
    }
}

fn no_credentials(why: &str) -> AwsUnreachable {
    AwsUnreachable {
        what: format!("no AWS credentials are to be had: {why}"),
        remedy: "give AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or a role",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_cannot_steer_a_terminal() {
        let body = "<E><Error><Code>Odd</Code><Message>a&#10;2026 ERROR forged&#27;[2J</Message></Error></E>";
        assert!(!AwsAnswer::new(400, body).to_string().contains(['\n', '\u{1b}']));
        let body = "<E><Error><Code>Odd</Code><Message>a&#10;b</Message></Error></E>";
        assert_eq!(AwsAnswer::new(400, body).to_string(), "400 Odd a b");
        assert_eq!(AwsAnswer::new(502, "<html><br></html>").to_string(), "502");
    }

    #[test]
    fn a_signed_request_crosses_no_network_in_the_clear() {
        assert!(endpoint("https://iam.amazonaws.com/").is_ok() && endpoint("http://127.0.0.1:1").is_ok());
        let error = endpoint("http://iam.amazonaws.com/").unwrap_err();
        assert!(error.what.contains("in the clear"), "{}", error.what);
    }
}

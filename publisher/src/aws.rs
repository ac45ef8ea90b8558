//! Signed requests to APIs of AWS for which one call is not worth another SDK: IAM, STS, the account side of S3.

use std::time::{Duration, SystemTime};

use aws_config::{BehaviorVersion, SdkConfig};
use aws_credential_types::provider::{ProvideCredentials as _, SharedCredentialsProvider};
use aws_sdk_s3::config::Region;
use aws_sigv4::http_request::{PayloadChecksumKind, SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;

/// How long one request may take.
const LIMIT: Duration = Duration::from_secs(20);

/// Who asks, and from where.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    http: reqwest::Client,
    credentials: SharedCredentialsProvider,
    /// The region of this machine's configuration, if it has one.
    pub(crate) region: Option<String>,
}

/// For which API a request is signed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signing<'a> {
    pub(crate) service: &'a str,
    pub(crate) region: &'a str,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// A request that was not made, or not answered: what failed and what helps.
#[derive(Debug)]
pub(crate) struct NoAnswer {
    pub(crate) what: String,
    pub(crate) remedy: &'static str,
}

impl Caller {
    /// Whoever this machine's AWS configuration says, by the chain that every AWS tool uses. Nothing is asked yet.
    pub(crate) async fn from_chain(region: Option<&str>, profile: Option<&str>) -> Result<Self, NoAnswer> {
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
    pub(crate) fn of(shared: &SdkConfig) -> Result<Self, NoAnswer> {
        let credentials = shared.credentials_provider().ok_or_else(|| no_credentials("there are none"))?;
        // A redirected request would carry a signature for another host.
        let http = reqwest::Client::builder().timeout(LIMIT).redirect(reqwest::redirect::Policy::none());
        let http = http.build().map_err(|error| NoAnswer {
            what: format!("no HTTP client can be made: {}", chain(&error)),
            remedy: "look at this machine's certificates",
        })?;
        Ok(Self { http, credentials, region: shared.region().map(ToString::to_string) })
    }

    /// Makes one request, signed for now.
    pub(crate) async fn send(
        &self,
        signing: Signing<'_>,
        mut request: http::Request<Vec<u8>>,
    ) -> Result<Answer, NoAnswer> {
        self.sign(signing, &mut request).await?;
        let url = request.uri().to_string();
        let no_answer = |error: reqwest::Error| NoAnswer {
            what: format!("{url} did not answer: {}", chain(&error.without_url())),
            remedy: "see that its name resolves, its port answers and its certificate is known here",
        };
        let request = reqwest::Request::try_from(request).map_err(no_answer)?;
        let answer = self.http.execute(request).await.map_err(no_answer)?;
        let status = answer.status().as_u16();
        Ok(Answer { status, body: answer.text().await.map_err(no_answer)? })
    }

    async fn sign(&self, signing: Signing<'_>, request: &mut http::Request<Vec<u8>>) -> Result<(), NoAnswer> {
        let credentials =
            self.credentials.provide_credentials().await.map_err(|error| no_credentials(&chain(&error)))?;
        let identity = credentials.into();
        let unsignable = |error: &dyn std::error::Error| NoAnswer {
            what: format!("the request cannot be signed: {}", chain(error)),
            remedy: "correct the endpoint",
        };
        let mut settings = SigningSettings::default();
        // S3 refuses a request whose body's digest is not in a header.
        if signing.service == "s3" {
            settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
        }
        let parameters = v4::SigningParams::builder()
            .identity(&identity)
            .region(signing.region)
            .name(signing.service)
            .time(SystemTime::now())
            .settings(settings)
            .build()
            .map_err(|error| unsignable(&error))?
            .into();
        let uri = request.uri().to_string();
        let headers = request.headers().iter();
        let headers = headers.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        let signable = SignableRequest::new(
            request.method().as_str(),
            uri,
            headers,
            SignableBody::Bytes(request.body()),
        )
        .map_err(|error| unsignable(&error))?;
        let (instructions, _) = sign(signable, &parameters).map_err(|error| unsignable(&error))?.into_parts();
        instructions.apply_to_request_http1x(request);
        Ok(())
    }
}

impl Answer {
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// `Code` of an error.
    pub(crate) fn code(&self) -> String {
        text(&self.body, "Code").unwrap_or_default()
    }
}

/// The text of the first `<name>`, unescaped. AWS writes no attributes and no comments there.
pub(crate) fn text(xml: &str, name: &str) -> Option<String> {
    texts(xml, name).into_iter().next()
}

/// The texts of all `<name>`, which must not be nested in each other.
pub(crate) fn texts(xml: &str, name: &str) -> Vec<String> {
    let (start, end) = (format!("<{name}>"), format!("</{name}>"));
    let inner = xml.split(&start).skip(1).filter_map(|rest| rest.split_once(&end));
    inner.map(|(text, _)| unescape(text)).collect()
}

/// What lies within the first `<name>`, with its markup.
pub(crate) fn section<'a>(xml: &'a str, name: &str) -> &'a str {
    let after = xml.split_once(&format!("<{name}>")).map_or("", |(_, rest)| rest);
    after.split_once(&format!("</{name}>")).map_or("", |(section, _)| section)
}

fn unescape(text: &str) -> String {
    let named =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#34;", "\""), ("&apos;", "'"), ("&#39;", "'")];
    // The ampersand last, so that nothing is unescaped twice.
    let text =
        named.iter().fold(text.to_owned(), |text, (entity, character)| text.replace(entity, character));
    text.replace("&amp;", "&")
}

fn no_credentials(why: &str) -> NoAnswer {
    NoAnswer {
        what: format!("no AWS credentials are to be had: {why}"),
        remedy: "give AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or a role",
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_with_their_entities() {
        let xml =
            "<A><L><member>a&amp;lt;</member><member>b&lt;</member></L><M><member>c</member></M><E/></A>";
        assert_eq!(texts(section(xml, "L"), "member"), ["a&lt;", "b<"]);
        assert_eq!(text(xml, "member").as_deref(), Some("a&lt;"));
        assert_eq!((section(xml, "E"), text(xml, "E")), ("", None));
    }
}

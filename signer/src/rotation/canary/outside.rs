//! Relying parties outside, asked over HTTP. A token is shown to an endpoint that the policy names, by `https` or on this
//! machine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use chancery_core::rotation::CanaryAnswer;
use chancery_files::{Bounds, FileError};
use chancery_wire::{
    CertificateTrust, ClientError, ClientOptions, Endpoint, EndpointError, EndpointRule, HttpClient,
    HttpRequest, HttpResponse, Proxies, Secret, form,
};
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderValue, Method, StatusCode};

use super::Asker;
use super::config::{OidcConfig, StsConfig};
use super::token::CanaryToken;

/// For one request. AWS's STS answers within a second.
const TIME: Duration = Duration::from_secs(10);

/// The longest answer that is read: STS answers with a few KiB.
const LONGEST: usize = 64 << 10;

/// Certificates of authorities.
const CA: Bounds = Bounds::regular(1 << 20, Duration::from_secs(5));

/// A Security Token Service.
#[derive(Debug)]
pub(super) struct Sts {
    server: Server,
    role: Option<String>,
}

/// Any verifier.
#[derive(Debug)]
pub(super) struct Oidc(Server);

#[derive(Debug)]
struct Server {
    endpoint: Endpoint,
    client: HttpClient,
}

impl Server {
    fn open(url: &str, ca: Option<&PathBuf>, base: &Path) -> Result<Self, OutsideError> {
        let endpoint = Endpoint::parse(url, &EndpointRule::any_host())?;
        let mut options = ClientOptions::new(TIME, LONGEST);
        options.proxies = Proxies::Environment;
        if let Some(ca) = ca {
            options.certificates = CertificateTrust::Only(chancery_files::read(&base.join(ca), CA)?);
        }
        Ok(Self { endpoint, client: HttpClient::new(&options)? })
    }

    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, CanaryAnswer> {
        self.client.send(request).await.map_err(|error| CanaryAnswer::Silent(error.to_string()))
    }
}

impl Sts {
    pub fn open(config: &StsConfig, base: &Path) -> Result<Self, OutsideError> {
        let server = Server::open(&config.url, config.ca.as_ref(), base)?;
        Ok(Self { server, role: config.role_arn.clone() })
    }
}

#[async_trait]
impl Asker for Sts {
    /// Exchanges the token for credentials, which are dropped unread.
    async fn ask(&self, token: &CanaryToken) -> CanaryAnswer {
        let mut fields = vec![("Action", "AssumeRoleWithWebIdentity"), ("Version", "2011-06-15")];
        if let Some(role) = &self.role {
            fields.extend([("RoleArn", role.as_str()), ("RoleSessionName", "chancery-canary")]);
        }
        // The shortest that there is.
        fields.extend([("DurationSeconds", "900"), ("WebIdentityToken", token.expose())]);
        let request = HttpRequest::new(Method::POST, &self.server.endpoint)
            .body(HeaderValue::from_static(form::MEDIA_TYPE), form::encode(fields));
        let answer = match self.server.send(request).await {
            Ok(answer) => answer,
            Err(silent) => return silent,
        };
        let text = String::from_utf8_lossy(&answer.body);
        match answer.status {
            status if status.is_success() && text.contains("<AccessKeyId>") => CanaryAnswer::Accepted,
            status if status.is_success() => {
                CanaryAnswer::Silent(format!("{status} without credentials; expected the endpoint of an STS"))
            }
            status => {
                let message = between(&text, "Message").unwrap_or_default();
                let said = between(&text, "Code").map(|code| format!("{code}: {message}"));
                of_refusal(status, &token.quoted(said.as_deref().unwrap_or("not in the words of an STS")))
            }
        }
    }
}

/// The text of the first element of this name.
fn between<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(text, _)| text)
}

impl Oidc {
    pub fn open(config: &OidcConfig, base: &Path) -> Result<Self, OutsideError> {
        Server::open(&config.url, config.ca.as_ref(), base).map(Self)
    }

    async fn read(&self, token: &CanaryToken) -> CanaryAnswer {
        let Ok(bearer) = Secret::new(token.expose().to_owned()).bearer() else {
            return CanaryAnswer::Silent("the token fits into no header".to_owned());
        };
        let request = HttpRequest::new(Method::GET, &self.0.endpoint).header(AUTHORIZATION, bearer);
        let answer = match self.0.send(request).await {
            Ok(answer) => answer,
            Err(silent) => return silent,
        };
        match answer.status {
            status if status.is_success() => CanaryAnswer::Accepted,
            status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                let text = String::from_utf8_lossy(&answer.body);
                let said =
                    answer.header(WWW_AUTHENTICATE).filter(|said| said.contains("error")).unwrap_or(&text);
                of_refusal(status, &token.quoted(said))
            }
            status => CanaryAnswer::Silent(format!("{status}; expected 2xx, 401 or 403 there")),
        }
    }
}

#[async_trait]
impl Asker for Oidc {
    /// Reads what the token is good for. Whoever takes a spoiled one as well was asked nothing.
    async fn ask(&self, token: &CanaryToken) -> CanaryAnswer {
        let said = self.read(token).await;
        if said != CanaryAnswer::Accepted {
            return said;
        }
        match self.read(&token.spoiled()).await {
            CanaryAnswer::Accepted => CanaryAnswer::Silent(
                "it takes a token with a broken signature too; expected a URL for which a good one is needed"
                    .to_owned(),
            ),
            CanaryAnswer::Refused(_) => CanaryAnswer::Accepted,
            silent => silent,
        }
    }
}

/// What a status that is none of success says of the key: nothing, where the server could not look.
fn of_refusal(status: StatusCode, said: &str) -> CanaryAnswer {
    let passes = matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS);
    let said = format!("{status} {said}");
    match status.is_client_error() && !passes {
        true => CanaryAnswer::Refused(said),
        false => CanaryAnswer::Silent(said),
    }
}

/// Why one cannot be asked at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutsideError {
    /// The URL may not be given a token.
    #[error("its `url` {0}")]
    Endpoint(#[from] EndpointError),
    /// The authority's file cannot be read.
    #[error(transparent)]
    Ca(#[from] FileError),
    /// No client can be made.
    #[error(transparent)]
    Client(#[from] ClientError),
}

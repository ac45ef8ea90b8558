//! Who gives something for a subject token.
//!
//! Each provider is a value with two pure functions: what is asked, and what an answer means. [`Provider::exchange`] is
//! the only place that lets them meet the network.

use chancery_wire::HttpResponse;
use jiff::Timestamp;

use crate::credential::{Credential, CredentialKind};
use crate::error::{ExchangeError, Stage};
use crate::key::KeyBuilder;
use crate::preflight::Expectation;
use crate::token::UnverifiedToken;
use crate::transport::Transport;

pub mod aws;
pub mod azure;
pub mod client;
pub mod google;
pub mod jwt_bearer;
pub mod template;
pub mod token_exchange;

pub use aws::AwsProvider;
pub use azure::AzureProvider;
pub use google::GoogleProvider;
pub use jwt_bearer::JwtBearer;
pub use template::HttpTemplate;
pub use token_exchange::TokenExchange;

/// Who gives something for a subject token, and what is asked of them.
#[derive(Clone, Debug)]
pub enum Provider {
    /// AWS STS.
    Aws(Box<AwsProvider>),
    /// Microsoft Entra.
    Azure(Box<AzureProvider>),
    /// Google's Security Token Service.
    Google(Box<GoogleProvider>),
    /// A server that speaks RFC 8693.
    TokenExchange(Box<TokenExchange>),
    /// A server that speaks RFC 7523.
    JwtBearer(Box<JwtBearer>),
    /// A server whose requests the operator describes.
    Template(Box<HttpTemplate>),
    /// Nobody: the resource takes the subject token itself.
    Direct(Direct),
}

/// A resource that takes the token of the platform as it is
/// (draft-ietf-wimse-workload-identity-practices, appendix A.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Direct {
    /// The audience by which the resource knows itself.
    pub audience: String,
    /// Whether the resource is an API server.
    pub is_api_server: bool,
}

impl Provider {
    /// Its name, in logs and in the cache's key.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Aws(_) => "aws",
            Self::Azure(_) => "azure",
            Self::Google(_) => "gcp",
            Self::TokenExchange(_) => "token-exchange",
            Self::JwtBearer(_) => "jwt-bearer",
            Self::Template(_) => "template",
            Self::Direct(_) => "direct",
        }
    }

    /// Where it is asked.
    pub fn host(&self) -> Option<&str> {
        match self {
            Self::Aws(aws) => Some(aws.endpoint.host()),
            Self::Azure(azure) => Some(azure.authority.host()),
            Self::Google(google) => Some(google.endpoint.host()),
            Self::TokenExchange(server) => Some(server.endpoint.host()),
            Self::JwtBearer(server) => Some(server.endpoint.host()),
            Self::Template(template) => Some(template.server.host()),
            Self::Direct(_) => None,
        }
    }

    /// What it expects of a subject token.
    pub fn expectation(&self) -> Expectation {
        match self {
            Self::Aws(aws) => aws.expectation(),
            Self::Azure(azure) => azure.expectation(),
            Self::Google(google) => google.expectation(),
            Self::TokenExchange(server) => server.expectation(),
            Self::JwtBearer(server) => server.expectation(),
            Self::Template(template) => template.expectation(),
            Self::Direct(direct) => Expectation {
                audiences: vec![direct.audience.clone()],
                is_api_server: direct.is_api_server,
                ..Expectation::default()
            },
        }
    }

    /// The audience that a subject token for it is asked with.
    pub fn audience(&self) -> String {
        self.expectation().audiences.into_iter().next().unwrap_or_default()
    }

    /// Takes subject tokens of this audience in place of its usual one.
    pub fn expect_audience(&mut self, audience: &str) {
        match self {
            Self::Aws(aws) => audience.clone_into(&mut aws.audience),
            Self::Azure(azure) => audience.clone_into(&mut azure.audience),
            Self::Google(google) => google.audience = Some(audience.to_owned()),
            Self::TokenExchange(server) => audience.clone_into(&mut server.subject_audience),
            Self::JwtBearer(server) => audience.clone_into(&mut server.subject_audience),
            Self::Template(template) => audience.clone_into(&mut template.audience),
            Self::Direct(direct) => audience.clone_into(&mut direct.audience),
        }
    }

    /// Has its credential made for these scopes, where it has any.
    pub fn ask_for(&mut self, scopes: &[String]) {
        match self {
            Self::Azure(azure) => azure.scopes = scopes.to_vec(),
            Self::Google(google) => {
                if let Some(impersonation) = &mut google.impersonation {
                    impersonation.scopes = scopes.to_vec();
                }
                google.scopes = scopes.to_vec();
            }
            Self::TokenExchange(server) => server.wanted.scopes = scopes.to_vec(),
            Self::JwtBearer(server) => server.scopes = scopes.to_vec(),
            Self::Aws(_) | Self::Template(_) | Self::Direct(_) => {}
        }
    }

    /// Adds everything that its credential depends on.
    pub fn describe(&self, key: &mut KeyBuilder) {
        key.text("provider", self.name());
        match self {
            Self::Aws(aws) => aws.describe(key),
            Self::Azure(azure) => azure.describe(key),
            Self::Google(google) => google.describe(key),
            Self::TokenExchange(server) => server.describe(key),
            Self::JwtBearer(server) => server.describe(key),
            Self::Template(template) => template.describe(key),
            Self::Direct(direct) => {
                key.text("direct", &direct.audience);
            }
        }
    }

    /// The credential for a subject token: one call, or two where a service account is impersonated.
    ///
    /// # Errors
    /// What was refused, and what was sent.
    pub async fn exchange(
        &self,
        transport: &Transport,
        subject: &UnverifiedToken,
    ) -> Result<Credential, ExchangeError> {
        let given = match self {
            Self::Direct(_) => {
                let token = subject.secret().clone();
                return Ok(Credential::bearer(token, Timestamp::now(), subject.expires_at()));
            }
            Self::Google(google) => return impersonate(google, transport, subject).await,
            _ => self.ask(transport, subject).await,
        };
        given.map_err(|error| self.about(error, subject))
    }

    async fn ask(
        &self,
        transport: &Transport,
        subject: &UnverifiedToken,
    ) -> Result<Credential, ExchangeError> {
        let request = match self {
            Self::Aws(aws) => aws.request(subject),
            Self::Azure(azure) => azure.request(subject),
            Self::Google(google) => google.request(subject),
            Self::TokenExchange(server) => server.request(subject)?,
            Self::JwtBearer(server) => server.request(subject)?,
            Self::Template(template) => template.request(subject)?,
            Self::Direct(_) => return Err(ExchangeError::configuration("nothing-to-ask")),
        };
        let answer = transport.send(Stage::Exchange, request).await?;
        self.read(&answer, Timestamp::now())
    }

    /// The credential in an answer.
    ///
    /// # Errors
    /// When it is a refusal, or not this provider's.
    pub fn read(&self, answer: &HttpResponse, now: Timestamp) -> Result<Credential, ExchangeError> {
        match self {
            Self::Aws(_) => aws::answer::read(answer, now),
            Self::Azure(_) => AzureProvider::read(answer, now),
            Self::TokenExchange(_) => TokenExchange::read(answer, now),
            Self::Template(template) => template.read(answer, now),
            Self::Google(_) | Self::JwtBearer(_) | Self::Direct(_) => crate::oauth::read_token(answer, now),
        }
    }

    /// The error with what was sent to whom, and without the token that was.
    fn about(&self, error: ExchangeError, subject: &UnverifiedToken) -> ExchangeError {
        let error = error.without(subject.secret()).sent(subject.sent());
        let error = match (&error.failure().expected, self) {
            (None, Self::Aws(aws)) => {
                let role = aws.role.as_ref().map_or("of the server's choice", |role| role.as_str());
                let wish = format!("a role {role} whose trust policy allows this `sub` and `aud`");
                error.expected(wish)
            }
            (None, Self::Azure(azure)) => {
                let wish = format!(
                    "a federated identity credential of client {} in tenant {} with exactly this `iss` and `sub`, and the audience {:?}",
                    azure.client, azure.tenant, azure.audience
                );
                error.expected(wish)
            }
            (None, Self::Google(google)) => error.expected(format!(
                "a provider {} whose issuer is this `iss` and whose condition holds for the token",
                google.provider
            )),
            _ => error,
        };
        match self.host() {
            Some(host) => error.target(host),
            None => error,
        }
    }
}

async fn impersonate(
    google: &GoogleProvider,
    transport: &Transport,
    subject: &UnverifiedToken,
) -> Result<Credential, ExchangeError> {
    let provider = Provider::Google(Box::new(google.clone()));
    let federated = provider.ask(transport, subject).await.map_err(|error| provider.about(error, subject))?;
    let (Some(impersonation), CredentialKind::Bearer(bearer)) = (&google.impersonation, &federated.kind)
    else {
        return Ok(federated);
    };
    let answer = transport.send(Stage::Impersonation, impersonation.request(&bearer.token)?).await?;
    impersonation.read_asked(&answer, Timestamp::now()).map_err(|error| {
        let error = error.without(&bearer.token).target(impersonation.endpoint.host()).sent(subject.sent());
        error.expected(format!(
            "roles/iam.workloadIdentityUser on {} for principal://iam.googleapis.com/{}/subject/{}",
            impersonation.email.as_str(),
            google.provider.pool(),
            subject.claims().sub.as_deref().unwrap_or("SUBJECT"),
        ))
    })
}

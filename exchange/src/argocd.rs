//! Logins for Argo CD's repositories, by the identity of their project (argo-cd#26174).
//!
//! | room | what is in it |
//! |---|---|
//! | [`fields`] | what the Secret of a repository says |
//! | [`resolver`] | the same over HTTP on a unix socket (feature `agent`) |
//!
//! Two phases: a provider gives something for the token of the project's ServiceAccount, and an authenticator makes a user
//! and a password of it. Each provider has its usual authenticator, which the Secret may override. A repository without
//! a provider is as Argo CD has it, and nobody is asked anything for it.

use chancery_wire::{Endpoint, HostPattern};
use http::Method;

use self::fields::{Identity, Repository, refused};
use crate::error::ExchangeError;
use crate::provider::aws::Region;
use crate::provider::aws::partition::tenant_sts;
use crate::provider::azure::{self, TenantId, tenant_authority};
use crate::provider::google::impersonation::iam_credentials;
use crate::provider::google::{self, WorkloadProvider, tenant_sts as google_sts};
use crate::provider::template::body::Body;
use crate::provider::template::text::{PathText, Values};
use crate::provider::template::{AnswerFields, Authentication, server};
use crate::provider::{Direct, HttpTemplate, Provider};
use crate::registry::{RegistryHost, acr};
use crate::service_account::{ServiceAccount, ServiceAccountName};
use crate::tenancy::Cloud;

pub mod fields;
#[cfg(feature = "agent")]
pub mod resolver;

/// The ServiceAccount of repositories that belong to no project.
const GLOBAL: &str = "argocd-global";
/// What those of projects begin with.
const PROJECT: &str = "argocd-project-";
/// The universe of Google's endpoints that a Secret may name.
const UNIVERSE: &str = "googleapis.com";

/// What the operator says for all repositories.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The namespace of Argo CD, in which the Secrets and ServiceAccounts are.
    pub namespace: String,
    /// The region of AWS, where a registry names none.
    pub region: Option<Region>,
    /// The tenant of ServiceAccounts that name none.
    pub tenant: Option<TenantId>,
    /// The provider of Google's workload identity federation, where the ServiceAccount names none.
    pub workload_provider: Option<WorkloadProvider>,
    /// The trust domain of the projects' SPIFFE ids; without one there is no provider `spiffe`.
    pub trust_domain: Option<String>,
    /// Hosts beside the repository's own that a Secret may name in `workloadIdentityAuthHost`.
    pub auth_hosts: Vec<HostPattern>,
    /// Where the clouds are asked, where that is not where they say.
    pub endpoints: Endpoints,
}

/// Places that the operator names, such as an endpoint of a VPC.
#[derive(Clone, Debug, Default)]
pub struct Endpoints {
    /// AWS STS.
    pub sts: Option<Endpoint>,
    /// Entra.
    pub authority: Option<Endpoint>,
    /// Google's STS.
    pub google: Option<Endpoint>,
    /// The repositories' own servers, for templates.
    pub server: Option<Endpoint>,
    /// Where logins of registries are made.
    pub registry: Option<Endpoint>,
}

/// Whose token the first phase takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The ServiceAccount's.
    ServiceAccount,
    /// A JWT-SVID of this SPIFFE id.
    Spiffe(String),
}

/// What makes a user and a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authenticator {
    /// ECR's login.
    Ecr,
    /// ACR's login.
    Acr,
    /// What the provider gave is the password.
    Passthrough,
    /// A request that the Secret describes.
    Http,
}

/// How a repository is logged in to.
#[derive(Clone, Debug)]
pub struct Login {
    /// Whose token.
    pub subject: Subject,
    /// Who gives something for it.
    pub provider: Provider,
    /// What makes a login of it.
    pub authenticator: Authenticator,
    /// The host of the repository, with its port.
    pub host: String,
    /// The registry of a cloud, where the authenticator is that cloud's.
    pub registry: Option<RegistryHost>,
    /// The user, where neither the registry nor an answer says who that is.
    pub username: String,
}

/// The ServiceAccount of a project. Two projects never have the same.
///
/// # Errors
/// When the project's name makes none of Kubernetes'.
pub fn service_account(namespace: &str, project: &str) -> Result<ServiceAccountName, ExchangeError> {
    match project {
        "" => ServiceAccountName::new(namespace, GLOBAL),
        project => ServiceAccountName::new(namespace, &format!("{PROJECT}{project}")),
    }
}

impl Repository {
    /// The host of the URL, with its port.
    ///
    /// # Errors
    /// When the URL has none, or another scheme than `oci` and `https`.
    pub fn host(&self) -> Result<&str, ExchangeError> {
        let url = self.url.as_str();
        let rest = url.strip_prefix("oci://").or_else(|| url.strip_prefix("https://")).unwrap_or(url);
        let host = rest.split('/').next().unwrap_or_default();
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
        if host.is_empty() || !host.bytes().all(legal) || rest.contains("://") {
            return Err(refused(&format!("{url:?} as `url`"), "oci://HOST/PATH or https://HOST/PATH"));
        }
        Ok(host)
    }

    fn path(&self) -> &str {
        let rest = self.url.split_once("://").map_or(self.url.as_str(), |(_, rest)| rest);
        rest.split_once('/').map_or("", |(_, path)| path.trim_end_matches('/'))
    }

    /// How it is logged in to, by the identity in the annotations of its project's ServiceAccount.
    ///
    /// # Errors
    /// Which field or annotation is missing or does not fit.
    pub fn login(
        &self,
        identity: &Identity,
        account: &ServiceAccount,
        settings: &Settings,
    ) -> Result<Login, ExchangeError> {
        let host = self.host()?;
        let authenticator = authenticator(identity)?;
        let registry: Option<RegistryHost> = match authenticator {
            Authenticator::Ecr | Authenticator::Acr => Some(host.parse()?),
            Authenticator::Passthrough | Authenticator::Http => None,
        };
        let subject = match (identity.provider.as_str(), &settings.trust_domain) {
            ("spiffe", Some(domain)) if self.project.is_empty() => {
                Subject::Spiffe(format!("spiffe://{domain}/argocd/global"))
            }
            ("spiffe", Some(domain)) => {
                Subject::Spiffe(format!("spiffe://{domain}/argocd/project/{}", self.project))
            }
            ("spiffe", None) => {
                return Err(ExchangeError::configuration("argocd-trust-domain")
                    .came("the provider spiffe, and no trust domain")
                    .expected("--trust-domain, of which the projects' SPIFFE ids are made"));
            }
            _ => Subject::ServiceAccount,
        };
        let mut provider = match cloud(identity, settings)? {
            Some(cloud) => cloud.resolve(account, registry.as_ref())?,
            None => self.server(identity, authenticator, settings)?,
        };
        if let Some(audience) = &identity.audience {
            provider.expect_audience(audience);
        }
        let username = match (&identity.username, identity.provider.as_str()) {
            (Some(username), _) => username.clone(),
            (None, "gcp") => "oauth2accesstoken".to_owned(),
            // Whoever takes a token as a password takes it of any user.
            (None, _) => "token".to_owned(),
        };
        Ok(Login { subject, provider, authenticator, host: host.to_owned(), registry, username })
    }

    /// The repository's own server: it takes the token itself, or is asked as the Secret describes.
    fn server(
        &self,
        identity: &Identity,
        authenticator: Authenticator,
        settings: &Settings,
    ) -> Result<Provider, ExchangeError> {
        let host = self.host()?;
        let own = settings.endpoints.server.as_ref().map_or(host, |server| server.url().as_str());
        let server = server(own, identity.auth_host.as_deref(), &settings.auth_hosts)?;
        let audience = identity.audience.clone().unwrap_or_else(|| server.base().to_owned());
        if authenticator == Authenticator::Passthrough {
            return Ok(Provider::Direct(Direct { audience, is_api_server: false }));
        }
        let path = identity.path.as_deref();
        let path =
            path.ok_or_else(|| refused("no `workloadIdentityPathTemplate`", "the path of a request"))?;
        let body = Body::parse(identity.body.as_deref().unwrap_or_default())?;
        let method = match (identity.method.as_deref().map(str::to_ascii_uppercase).as_deref(), &body) {
            (Some("GET"), _) | (None, Body::None) => Method::GET,
            (Some("POST"), _) | (None, _) => Method::POST,
            (Some(method), _) => return Err(refused(&format!("the method {method:?}"), "GET or POST")),
        };
        let authentication = match identity.auth_type.as_deref() {
            None | Some("bearer") => Authentication::Bearer,
            Some("basic") => Authentication::Basic,
            Some("none") => Authentication::None,
            Some(other) => {
                return Err(refused(
                    &format!("{other:?} as `workloadIdentityAuthType`"),
                    "bearer, basic or none",
                ));
            }
        };
        let values = Values {
            username: identity.username.clone().unwrap_or_default(),
            registry: host.to_owned(),
            repository: self.path().to_owned(),
            params: identity.params.clone(),
        };
        let mut answer = AnswerFields::default();
        if let Some(field) = &identity.token_field {
            answer.token.clone_from(field);
        }
        let template = HttpTemplate {
            server,
            audience,
            method,
            path: PathText::parse(path)?,
            body,
            authentication,
            values,
            answer,
            login_for: Some(host.to_owned()),
            preset: None,
        };
        Ok(Provider::Template(Box::new(template.checked()?)))
    }
}

/// The usual authenticator of a provider, or the one that the Secret names where the two go together.
fn authenticator(identity: &Identity) -> Result<Authenticator, ExchangeError> {
    use Authenticator::{Acr, Ecr, Http, Passthrough};
    let fitting: &[(&str, Authenticator)] = match identity.provider.as_str() {
        "aws" => &[("ecr", Ecr)],
        "gcp" => &[("passthrough", Passthrough)],
        "azure" => &[("acr", Acr), ("passthrough", Passthrough)],
        "spiffe" | "k8s" => &[("http", Http), ("passthrough", Passthrough)],
        other => {
            return Err(refused(&format!("{other:?} as the provider"), "aws, gcp, azure, spiffe or k8s"));
        }
    };
    let wanted = identity.authenticator.as_deref();
    let found = fitting.iter().find(|(name, _)| wanted.is_none_or(|wanted| wanted == *name));
    found.map(|(_, authenticator)| *authenticator).ok_or_else(|| {
        let names: Vec<&str> = fitting.iter().map(|(name, _)| *name).collect();
        let came = format!("the authenticator {:?} with {}", wanted.unwrap_or_default(), identity.provider);
        refused(&came, &names.join(" or "))
    })
}

/// The cloud of a provider. A URL in the Secret is somebody's who must not choose where tokens go: it is that cloud's own, or
/// refused (A-10, S0-04).
fn cloud(identity: &Identity, settings: &Settings) -> Result<Option<Cloud>, ExchangeError> {
    let url = identity.token_url.as_deref();
    let places = &settings.endpoints;
    Ok(match identity.provider.as_str() {
        "aws" => Some(Cloud::Aws {
            region: settings.region.clone(),
            endpoint: url.map(tenant_sts).transpose()?.or_else(|| places.sts.clone()),
        }),
        "azure" => {
            let authority = match (url, &places.authority) {
                (Some(url), _) => tenant_authority(url)?,
                (None, Some(authority)) => authority.clone(),
                (None, None) => azure::operator_authority(azure::PUBLIC_AUTHORITY)?,
            };
            let scope = match authenticator(identity)? {
                Authenticator::Acr => acr::SCOPE,
                _ => crate::git::AZURE_DEVOPS,
            };
            let tenant = settings.tenant.clone();
            Some(Cloud::Azure { authority, tenant, scopes: vec![scope.to_owned()] })
        }
        "gcp" => {
            let sts = match (url, &places.google) {
                (Some(url), _) => google_sts(url, UNIVERSE)?,
                (None, Some(google)) => google.clone(),
                (None, None) => google::sts(UNIVERSE)?,
            };
            let iam_credentials = match &places.google {
                Some(google) => google.clone(),
                None => iam_credentials(UNIVERSE)?,
            };
            let (provider, scopes) =
                (settings.workload_provider.clone(), vec![google::CLOUD_PLATFORM.to_owned()]);
            Some(Cloud::Google { sts, iam_credentials, provider, scopes })
        }
        _ if url.is_some() => {
            return Err(refused(
                &format!("`workloadIdentityTokenURL` with {}", identity.provider),
                "`workloadIdentityAuthHost`, a host that the operator allows",
            ));
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests;

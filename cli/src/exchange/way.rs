//! From which token to which credential, as flags and variables say it.

use std::sync::Arc;

use anyhow::Context as _;
use chancery_exchange::chain::Identity;
use chancery_exchange::git::AZURE_DEVOPS;
use chancery_exchange::kubelet;
use chancery_exchange::limits::SUBJECT_LIFETIME_SECONDS;
use chancery_exchange::oauth::{JWT_ASSERTION, JWT_SPIFFE};
use chancery_exchange::preflight::Strictness;
use chancery_exchange::provider::aws::partition::{EndpointVariant, operator_sts};
use chancery_exchange::provider::aws::{self, AwsProvider, RoleArn, SessionLimits, SessionName};
use chancery_exchange::provider::azure::{self, AzureProvider};
use chancery_exchange::provider::client::{ClientAuthentication, ClientSecret};
use chancery_exchange::provider::google::impersonation::{USUAL_LIFETIME, iam_credentials};
use chancery_exchange::provider::google::{self, GoogleProvider, Impersonation, WorkloadProvider};
use chancery_exchange::provider::jwt_bearer::{ClientAssertion, JwtBearer, JwtRole};
use chancery_exchange::provider::token_exchange::{TokenExchange, Wanted, operator_endpoint};
use chancery_exchange::provider::{Direct, Provider};
use chancery_exchange::registry::{Registry, RegistryHost, acr};
use chancery_exchange::service_account::{BoundKind, BoundObject};
use chancery_exchange::subject::Environment;
use chancery_exchange::tenancy::annotations::identity_of;
use chancery_exchange::{Chain, ExchangeError, Runner};

use self::flags::{AwsArgs, AzureArgs, GoogleArgs, ServerArgs, Target};
use self::template::TemplateArgs;
use super::reach::ReachArgs;
use super::source::{BrokerArgs, SourceChoice, Surroundings, unchosen};
use crate::given;

mod annotated;
mod flags;
mod registry;
mod template;

#[derive(clap::Args)]
pub struct Way {
    /// Who exchanges the token
    #[arg(long, value_enum)]
    to: Target,
    /// Where the token is: file:PATH, service-account:NAMESPACE/NAME, spiffe, spiffe:ID,
    /// spiffe-broker:NAMESPACE/NAME, github, gitlab, azure-pipelines,
    /// buildkite, circleci, bitbucket, azure-metadata or azure-metadata:CLIENT, google-metadata, aws-sts or aws-sts:REGION, env:VARIABLE. Otherwise what the environment says
    #[arg(long)]
    source: Option<SourceChoice>,
    /// Take a token from a variable outside of a pipeline, where every child and debugger sees it
    #[arg(long)]
    allow_env_token: bool,
    /// The audience of the token, where it is not the target's usual one
    #[arg(long)]
    audience: Option<String>,
    /// The issuer that the token must have
    #[arg(long, value_name = "URL")]
    expect_issuer: Option<String>,
    /// The subject that the token must have
    #[arg(long, value_name = "SUBJECT")]
    expect_subject: Option<String>,
    /// Refuse what is otherwise a warning: several audiences, a missing type
    #[arg(long)]
    strict: bool,
    /// What the credential is for. May be repeated
    #[arg(long)]
    scope: Vec<String>,
    /// Exchange further, for a login of this registry
    #[arg(long, value_name = "HOST")]
    pub registry: Option<String>,
    /// For how long a ServiceAccount's token is asked for
    #[arg(long, value_name = "SECONDS", default_value_t = SUBJECT_LIFETIME_SECONDS)]
    token_lifetime: u64,
    /// Bind a ServiceAccount's token to this pod, which runs as it: the token ends with the pod. NAME or NAME:UID
    #[arg(long, value_name = "NAME[:UID]")]
    bind_pod: Option<String>,
    #[command(flatten)]
    reach: ReachArgs,
    #[command(flatten)]
    aws: AwsArgs,
    #[command(flatten)]
    azure: AzureArgs,
    #[command(flatten)]
    google: GoogleArgs,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    template: TemplateArgs,
    #[command(flatten)]
    broker: BrokerArgs,
}

impl Way {
    /// The same for an agent, whose clients say for which resource or scopes they want a token, and of which of them
    /// they may: those that are given here, or any.
    pub fn of_an_agent(mut self) -> (Self, Vec<String>) {
        let allowed = self.scope.clone();
        if self.to == Target::Azure && allowed.is_empty() {
            self.scope.push(azure::MANAGEMENT.to_owned());
        }
        (self, allowed)
    }

    /// Whether docker may be given a login for a host. A cloud's registries are known by their hosts; a template is for
    /// the host of its server, and sends its token to no other that docker names.
    pub fn gives_logins_for(&self, host: &str) -> bool {
        self.to != Target::Template || self.template.is_for(host)
    }

    /// Asks for a token of Azure DevOps, where Azure is asked and nobody said for what.
    pub fn opens_azure_devops(&mut self) {
        if self.to == Target::Azure && self.scope.is_empty() {
            self.scope.push(AZURE_DEVOPS.to_owned());
        }
    }

    /// The chain, and what runs it.
    pub async fn open(&self, environment: &Environment) -> anyhow::Result<Opened> {
        let transport = self.reach.transport()?;
        let registry = self.registry_host(self.registry.as_deref(), environment)?;
        let provider = self.provider(environment, registry.as_ref())?;
        let source = self
            .source
            .clone()
            .or_else(|| SourceChoice::usual(environment))
            .ok_or_else(|| unchosen(environment))?;
        let audience = provider.audience();
        let around = Surroundings {
            cluster: self.reach.cluster(),
            environment,
            transport: &transport,
            audience: &audience,
            token_seconds: self.token_lifetime,
            allow_variable: self.allow_env_token,
            bound: self.bind_pod.as_deref().map(bound_pod),
            broker: &self.broker,
        };
        let source = source.open(&around).await?;
        let identity = Identity { name: identity_of(&provider), service_account: None };
        let mut chain = Chain::new(source, provider, identity);
        chain.registry = registry.map(Registry::new).transpose()?;
        self.set_expectation(&mut chain);
        Ok(Opened { chain, runner: Runner::new(transport) })
    }

    /// The chain for what kubelet asks: its token, the registry of its image, and the identity of the flags, or else of
    /// the annotations that came with it.
    pub fn open_for_kubelet(
        &self,
        request: &kubelet::Request,
        environment: &Environment,
    ) -> anyhow::Result<Opened> {
        let transport = self.reach.transport()?;
        let (registry, provider) = match self.to {
            Target::Aws | Target::Azure | Target::Gcp => {
                let host = match self.aws.jfrog {
                    true => self.registry_host(Some(request.host()), environment)?,
                    false => Some(chancery_exchange::registry::of_image(&request.image)?),
                };
                let Some(host) = host else { return Err(needed("--registry", "a host").into()) };
                self.to.suits(&host)?;
                let provider = match self.cloud(environment)? {
                    Some(cloud) => cloud.resolve(&request.account, Some(&host))?,
                    None => self.provider(environment, Some(&host))?,
                };
                (Some(Registry::new(host)?), provider)
            }
            Target::Template => (None, Provider::Template(Box::new(self.template(Some(request.host()))?))),
            _ => (None, self.provider(environment, None)?),
        };
        let name = request.account.name.clone();
        let identity = Identity { name: identity_of(&provider), service_account: Some(name) };
        let mut chain = Chain::new(Arc::new(request.source()), provider, identity);
        chain.registry = registry;
        self.set_expectation(&mut chain);
        Ok(Opened { chain, runner: Runner::new(transport) })
    }

    /// What the subject token must be.
    fn set_expectation(&self, chain: &mut Chain) {
        chain.expectation.issuer.clone_from(&self.expect_issuer);
        chain.expectation.subject.clone_from(&self.expect_subject);
        chain.expectation.by_trust_domain |= self.server.by_trust_domain;
        if self.strict {
            chain.expectation.strictness = Strictness::Strict;
        }
    }

    fn provider(
        &self,
        environment: &Environment,
        registry: Option<&RegistryHost>,
    ) -> anyhow::Result<Provider> {
        if self.server.by_trust_domain && !matches!(self.to, Target::Direct | Target::ClientAssertion) {
            return Err(ExchangeError::configuration("by-trust-domain")
                .came("--by-trust-domain with a target that finds the keys by `iss`")
                .expected("--to direct or client-assertion")
                .into());
        }
        Ok(match self.to {
            Target::Aws => Provider::Aws(Box::new(self.aws_provider(environment, registry)?)),
            Target::Azure => Provider::Azure(Box::new(self.azure_provider(environment, registry)?)),
            Target::Gcp => Provider::Google(Box::new(self.google_provider()?)),
            Target::TokenExchange => Provider::TokenExchange(Box::new(self.token_exchange()?)),
            Target::JwtGrant => self.jwt_bearer(JwtRole::Grant(self.client()?))?,
            Target::ClientAssertion => {
                let kind = if self.server.by_trust_domain { JWT_SPIFFE } else { JWT_ASSERTION };
                let client_id = self.azure.client_id.clone();
                self.jwt_bearer(JwtRole::Client(ClientAssertion {
                    assertion_type: kind.to_owned(),
                    client_id,
                }))?
            }
            Target::Template => Provider::Template(Box::new(self.template(self.registry.as_deref())?)),
            Target::Direct => {
                let google = environment.text("GOOGLE_EXTERNAL_ACCOUNT_AUDIENCE");
                let audience = self.audience.clone().or(google);
                let audience = audience.ok_or_else(|| needed("--audience", "the name of the resource"))?;
                Provider::Direct(Direct { audience, is_api_server: self.server.api_server })
            }
        })
    }

    fn aws_provider(
        &self,
        environment: &Environment,
        registry: Option<&RegistryHost>,
    ) -> anyhow::Result<AwsProvider> {
        let variable = |flag: &Option<String>, name| flag.clone().or_else(|| environment.text(name));
        let region = self.aws_region(environment, registry)?;
        let role = variable(&self.aws.role_arn, "AWS_ROLE_ARN");
        let role = match (role, &self.aws.sts_endpoint) {
            (Some(role), Some(_)) => Some(RoleArn::of_server(&role)?),
            (Some(role), None) => Some(role.parse()?),
            // A server of somebody's own may choose by the claims of the token.
            (None, Some(_)) => None,
            (None, None) => return Err(needed("--role-arn", "the ARN of a role").into()),
        };
        let session_name = match variable(&self.aws.session_name, "AWS_ROLE_SESSION_NAME") {
            Some(name) => name.parse()?,
            None => SessionName::of("chancery"),
        };
        let policy = match &self.aws.session_policy {
            Some(path) => Some(String::from_utf8(given::read(path)?.to_vec()).context("--session-policy")?),
            None => None,
        };
        let session = SessionLimits { duration_seconds: self.aws.duration, policy, policy_arns: Vec::new() };
        let endpoint = match &self.aws.sts_endpoint {
            Some(url) => operator_sts(url)?,
            None => region.sts(EndpointVariant::default())?,
        };
        let audience = self.audience.clone().unwrap_or_else(|| aws::AUDIENCE.to_owned());
        Ok(AwsProvider { endpoint, region, role, session_name, session: session.checked()?, audience })
    }

    fn azure_provider(
        &self,
        environment: &Environment,
        registry: Option<&RegistryHost>,
    ) -> anyhow::Result<AzureProvider> {
        let variable = |flag: &Option<String>, name| flag.clone().or_else(|| environment.text(name));
        let tenant = variable(&self.azure.tenant, "AZURE_TENANT_ID");
        let client = variable(&self.azure.client_id, "AZURE_CLIENT_ID");
        let authority = variable(&self.azure.authority, "AZURE_AUTHORITY_HOST");
        let scopes = match (self.scope.as_slice(), registry) {
            ([], Some(_)) => vec![acr::SCOPE.to_owned()],
            ([], None) => return Err(needed("--scope", "as https://management.azure.com/.default").into()),
            (scopes, _) => scopes.to_vec(),
        };
        Ok(AzureProvider {
            authority: azure::operator_authority(authority.as_deref().unwrap_or(azure::PUBLIC_AUTHORITY))?,
            tenant: tenant.ok_or_else(|| needed("--tenant", "the tenant of the identity"))?.parse()?,
            client: client.ok_or_else(|| needed("--client-id", "the client id of the identity"))?.parse()?,
            scopes,
            audience: self.audience.clone().unwrap_or_else(|| azure::AUDIENCE.to_owned()),
        })
    }

    fn google_provider(&self) -> anyhow::Result<GoogleProvider> {
        let args = &self.google;
        let provider = args.workload_provider.as_deref();
        let provider: WorkloadProvider =
            provider.ok_or_else(|| needed("--workload-provider", "the provider's full name"))?.parse()?;
        let scopes = match self.scope.as_slice() {
            [] => vec![google::CLOUD_PLATFORM.to_owned()],
            scopes => scopes.to_vec(),
        };
        let endpoint = match &self.server.token_endpoint {
            Some(url) => google::operator_url(url)?,
            None => google::sts(&args.universe)?,
        };
        let impersonation = match &args.impersonate {
            Some(email) => Some(Impersonation {
                endpoint: iam_credentials(&args.universe)?,
                email: email.parse()?,
                scopes: scopes.clone(),
                lifetime_seconds: USUAL_LIFETIME,
                id_token_for: None,
            }),
            None => None,
        };
        let subject_token_type = self.server.subject_token_type.clone();
        let audience = self.audience.clone();
        Ok(GoogleProvider { endpoint, provider, scopes, subject_token_type, audience, impersonation })
    }

    fn token_exchange(&self) -> anyhow::Result<TokenExchange> {
        let args = &self.server;
        let endpoint = args.token_endpoint.as_deref().ok_or_else(|| needed("--token-endpoint", "a URL"))?;
        let audience = self.audience.clone().ok_or_else(|| needed("--audience", "the server's issuer"))?;
        let wanted = Wanted {
            resources: args.resource.clone(),
            audiences: args.target_audience.clone(),
            scopes: self.scope.clone(),
            token_type: args.requested_token_type.clone(),
        };
        let mut exchange = TokenExchange::new(operator_endpoint(endpoint)?, audience);
        exchange.subject_token_type.clone_from(&args.subject_token_type);
        exchange.wanted = wanted.checked()?;
        exchange.client = self.client()?;
        Ok(exchange)
    }

    fn jwt_bearer(&self, role: JwtRole) -> anyhow::Result<Provider> {
        let endpoint = self.server.token_endpoint.as_deref();
        let endpoint = endpoint.ok_or_else(|| needed("--token-endpoint", "a URL"))?;
        Ok(Provider::JwtBearer(Box::new(JwtBearer {
            endpoint: operator_endpoint(endpoint)?,
            subject_audience: self
                .audience
                .clone()
                .ok_or_else(|| needed("--audience", "the server's issuer"))?,
            role,
            scopes: self.scope.clone(),
        })))
    }

    fn client(&self) -> anyhow::Result<ClientAuthentication> {
        let Some(id) = self.azure.client_id.clone() else { return Ok(ClientAuthentication::None) };
        let Some(path) = &self.server.client_secret_file else { return Ok(ClientAuthentication::Named(id)) };
        let bytes = given::read(path).context("--client-secret-file")?;
        let text = std::str::from_utf8(&bytes).context("--client-secret-file is no text")?;
        let secret = text.trim().to_owned().into();
        Ok(ClientAuthentication::Basic(ClientSecret { id, secret }))
    }
}

fn bound_pod(text: &str) -> BoundObject {
    let (name, uid) = text.split_once(':').map_or((text, None), |(name, uid)| (name, Some(uid.to_owned())));
    BoundObject { kind: BoundKind::Pod, name: name.to_owned(), uid }
}

/// A chain, and what runs it.
pub struct Opened {
    pub chain: Chain,
    pub runner: Runner,
}

fn needed(setting: &str, what: &str) -> ExchangeError {
    ExchangeError::configuration("setting-missing")
        .came(&format!("{setting} is not given"))
        .expected(what.to_owned())
        .remedy(format!("give {setting}; docs/exchange.md has a recipe for each target"))
}

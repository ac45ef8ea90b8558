//! Which subject token, as a person names it.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use chancery_exchange::cluster::{Cluster, ClusterChoice};
use chancery_exchange::error::{Class, Stage};
use chancery_exchange::provider::aws::Region;
use chancery_exchange::service_account::{BoundObject, ServiceAccountName, ServiceAccounts as _};
use chancery_exchange::subject::ci::{JobToken, Pipeline};
use chancery_exchange::subject::{
    AwsIdentity, BrokerApi, BrokerIdentity, CloudMetadata, Environment, Machine, ServiceAccountSource,
    SpiffeId, TokenFile, TokenVariable, WorkloadApi,
};
use chancery_exchange::transport::Transport;
use chancery_exchange::{ExchangeError, SubjectTokenSource};

/// Where the subject token comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceChoice {
    File(PathBuf),
    ServiceAccount(ServiceAccountName),
    Pipeline(Pipeline),
    Variable(String),
    GitLab,
    Spiffe(Option<SpiffeId>),
    Metadata(Machine),
    AwsSts(Option<Region>),
    Broker(ServiceAccountName),
}

/// What opening a source needs beside its choice.
pub struct Surroundings<'a> {
    pub cluster: ClusterChoice<'a>,
    pub environment: &'a Environment,
    pub transport: &'a Transport,
    pub audience: &'a str,
    pub token_seconds: u64,
    pub allow_variable: bool,
    pub bound: Option<BoundObject>,
    pub broker: &'a BrokerArgs,
}

#[derive(clap::Args)]
#[command(next_help_heading = "SPIFFE's Broker API (--source spiffe-broker)")]
pub struct BrokerArgs {
    /// This broker's X.509-SVID, PEM
    #[arg(long, value_name = "FILE")]
    broker_svid: Option<PathBuf>,
    /// Its private key, PEM
    #[arg(long, value_name = "FILE")]
    broker_key: Option<PathBuf>,
    /// The authorities of the trust domain, PEM
    #[arg(long, value_name = "FILE")]
    broker_bundle: Option<PathBuf>,
    /// The SPIFFE id of the agent that answers at SPIFFE_BROKER_SOCKET
    #[arg(long, value_name = "ID")]
    broker_agent: Option<String>,
}

impl BrokerArgs {
    fn identity(&self) -> Result<BrokerIdentity, ExchangeError> {
        let all = (&self.broker_svid, &self.broker_key, &self.broker_bundle, &self.broker_agent);
        let (Some(certificate), Some(key), Some(bundle), Some(agent)) = all else {
            return Err(ExchangeError::configuration("broker-identity")
                .came("a broker that proves nothing")
                .expected("--broker-svid, --broker-key, --broker-bundle and --broker-agent"));
        };
        Ok(BrokerIdentity {
            certificate: certificate.clone(),
            key: key.clone(),
            bundle: bundle.clone(),
            agent: agent.parse()?,
        })
    }
}

impl FromStr for SourceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        match (kind, rest) {
            ("file", path) if !path.is_empty() => Ok(Self::File(path.into())),
            ("service-account", name) => {
                name.parse().map(Self::ServiceAccount).map_err(|error: ExchangeError| error.to_string())
            }
            ("env", name) if !name.is_empty() => Ok(Self::Variable(name.to_owned())),
            ("github", "") => Ok(Self::Pipeline(Pipeline::GitHub)),
            ("azure-pipelines", "") => Ok(Self::Pipeline(Pipeline::Azure)),
            ("buildkite", "") => Ok(Self::Pipeline(Pipeline::Buildkite)),
            ("spiffe-broker", name) => {
                name.parse().map(Self::Broker).map_err(|error: ExchangeError| error.to_string())
            }
            ("spiffe", "") => Ok(Self::Spiffe(None)),
            ("spiffe", id) => {
                let id = id.parse().map_err(|error: ExchangeError| error.to_string())?;
                Ok(Self::Spiffe(Some(id)))
            }
            ("azure-metadata", client) => {
                let client = Some(client).filter(|client| !client.is_empty()).map(str::to_owned);
                Ok(Self::Metadata(Machine::Azure { client }))
            }
            ("aws-sts", "") => Ok(Self::AwsSts(None)),
            ("aws-sts", region) => {
                let region = region.parse().map_err(|error: ExchangeError| error.to_string())?;
                Ok(Self::AwsSts(Some(region)))
            }
            ("google-metadata", "") => Ok(Self::Metadata(Machine::Google)),
            ("gitlab", "") => Ok(Self::GitLab),
            ("circleci", "") => Ok(Self::Variable("CIRCLE_OIDC_TOKEN_V2".to_owned())),
            ("bitbucket", "") => Ok(Self::Variable("BITBUCKET_STEP_OIDC_TOKEN".to_owned())),
            _ => Err(format!(
                "{text:?} came; expected file:PATH, service-account:NAMESPACE/NAME, spiffe, spiffe:ID, spiffe-broker:NAMESPACE/NAME, github, gitlab, azure-pipelines, buildkite, circleci, bitbucket, azure-metadata, google-metadata, aws-sts, aws-sts:REGION or env:VARIABLE"
            )),
        }
    }
}

impl SourceChoice {
    /// What the environment says where nobody chose: the file that a cloud's webhook has mounted, the pipeline that this
    /// is, or the agent of SPIFFE beside it.
    pub fn usual(environment: &Environment) -> Option<Self> {
        let file = ["AWS_WEB_IDENTITY_TOKEN_FILE", "AZURE_FEDERATED_TOKEN_FILE"];
        if let Some(path) = file.into_iter().find_map(|name| environment.text(name)) {
            return Some(Self::File(path.into()));
        }
        let is_set = |name| environment.text(name).is_some();
        if is_set("GITHUB_ACTIONS") {
            return Some(Self::Pipeline(Pipeline::GitHub));
        }
        if is_set("GITLAB_CI") {
            return Some(Self::GitLab);
        }
        if is_set("CIRCLECI") {
            return Some(Self::Variable("CIRCLE_OIDC_TOKEN_V2".to_owned()));
        }
        if is_set("SYSTEM_OIDCREQUESTURI") {
            return Some(Self::Pipeline(Pipeline::Azure));
        }
        if is_set("BUILDKITE") {
            return Some(Self::Pipeline(Pipeline::Buildkite));
        }
        is_set("SPIFFE_ENDPOINT_SOCKET").then_some(Self::Spiffe(None))
    }

    /// The source.
    ///
    /// # Errors
    /// Why it can have no token.
    pub async fn open(self, around: &Surroundings<'_>) -> Result<Arc<dyn SubjectTokenSource>, ExchangeError> {
        let variable =
            |name: &str| TokenVariable::new(name, around.environment.clone(), around.allow_variable);
        Ok(match self {
            Self::File(path) => Arc::new(TokenFile::new(path)?),
            Self::Variable(name) => Arc::new(variable(&name)?),
            Self::GitLab => Arc::new(variable(&TokenVariable::of_gitlab(around.audience))?),
            Self::Pipeline(pipeline) => {
                Arc::new(JobToken::new(pipeline, around.environment, around.transport.clone())?)
            }
            Self::Metadata(machine) => {
                Arc::new(CloudMetadata::new(machine, around.environment, around.transport.clone())?)
            }
            Self::AwsSts(region) => {
                Arc::new(AwsIdentity::new(region, around.environment, around.transport.clone())?)
            }
            Self::Broker(name) => {
                let account = Cluster::open(around.cluster).await?.read(&name).await?;
                let identity = around.broker.identity()?;
                Arc::new(BrokerApi::new(around.environment, identity, account, None)?)
            }
            Self::Spiffe(wanted) => Arc::new(WorkloadApi::new(around.environment, wanted)?),
            Self::ServiceAccount(name) => {
                let cluster = Cluster::open(around.cluster).await?;
                let account = cluster.read(&name).await?;
                let (cluster, seconds) = (Arc::new(cluster), around.token_seconds);
                Arc::new(ServiceAccountSource { cluster, account, seconds, bound: around.bound.clone() })
            }
        })
    }
}

/// That nobody said where the token is, and the environment does not either.
pub fn unchosen(environment: &Environment) -> ExchangeError {
    let remedy = match environment.text("AWS_CONTAINER_CREDENTIALS_FULL_URI") {
        Some(_) => {
            "what gives keys to this pod alone, as EKS Pod Identity does, gives no token to exchange: project one with the target's audience, and name it"
        }
        None => "name it, as --source file:/var/run/secrets/tokens/sts",
    };
    ExchangeError::new(Class::Source, Stage::Source, "no-source")
        .came("nothing says where the subject token is")
        .expected("--source, AWS_WEB_IDENTITY_TOKEN_FILE, AZURE_FEDERATED_TOKEN_FILE, a pipeline, or SPIFFE_ENDPOINT_SOCKET")
        .remedy(remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_read_as_they_are_written() {
        assert_eq!("file:/a:b".parse(), Ok(SourceChoice::File("/a:b".into())));
        assert_eq!("github".parse(), Ok(SourceChoice::Pipeline(Pipeline::GitHub)));
        assert_eq!("buildkite".parse(), Ok(SourceChoice::Pipeline(Pipeline::Buildkite)));
        assert_eq!("spiffe".parse(), Ok(SourceChoice::Spiffe(None)));
        assert_eq!("google-metadata".parse(), Ok(SourceChoice::Metadata(Machine::Google)));
        assert_eq!("aws-sts".parse(), Ok(SourceChoice::AwsSts(None)));
        assert_eq!("aws-sts:eu-west-1".parse(), Ok(SourceChoice::AwsSts("eu-west-1".parse().ok())));
        assert!("aws-sts:mars".parse::<SourceChoice>().is_err());
        let client = Some("c-1".to_owned());
        assert_eq!("azure-metadata:c-1".parse(), Ok(SourceChoice::Metadata(Machine::Azure { client })));
        let id = "spiffe://example.org/app";
        assert_eq!(format!("spiffe:{id}").parse(), Ok(SourceChoice::Spiffe(id.parse().ok())));
        assert_eq!("env:TOKEN".parse(), Ok(SourceChoice::Variable("TOKEN".to_owned())));
        for text in ["", "file:", "env:", "github:x", "spiffe:app", "service-account:app", "https://x"] {
            assert!(text.parse::<SourceChoice>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_environment_chooses_where_nobody_does() {
        let file = Environment::given([("AWS_WEB_IDENTITY_TOKEN_FILE", "/t"), ("GITHUB_ACTIONS", "true")]);
        assert_eq!(SourceChoice::usual(&file), Some(SourceChoice::File("/t".into())));
        let gitlab = Environment::given([("GITLAB_CI", "true")]);
        assert_eq!(SourceChoice::usual(&gitlab), Some(SourceChoice::GitLab));
        let buildkite = Environment::given([("BUILDKITE", "true"), ("SPIFFE_ENDPOINT_SOCKET", "unix:///s")]);
        assert_eq!(SourceChoice::usual(&buildkite), Some(SourceChoice::Pipeline(Pipeline::Buildkite)));
        let agent = Environment::given([("SPIFFE_ENDPOINT_SOCKET", "unix:///s")]);
        assert_eq!(SourceChoice::usual(&agent), Some(SourceChoice::Spiffe(None)));
        assert_eq!(SourceChoice::usual(&Environment::given([])), None);
    }
}

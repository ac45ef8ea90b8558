//! Platforms that make tokens, good ones or not.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use async_trait::async_trait;
use chancery_exchange::service_account::{
    ServiceAccount, ServiceAccountName, ServiceAccounts, TokenRequest, refused,
};
use chancery_exchange::subject::ci::Pipeline;
use chancery_exchange::subject::{Environment, Machine, ServiceAccountSource, TokenFile, TokenVariable};
use chancery_exchange::{ExchangeError, SubjectTokenSource, UnverifiedToken};
use serde_json::{Value, json};

use super::Condition;
use super::targets::Target;
use crate::fake::Fake;
use crate::fake::issuer::{SUBJECT, claims, forged, now, token};
use crate::{aws_identity, metadata, pipelines};

/// Where a token comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    File,
    TokenRequest,
    #[cfg(feature = "spiffe")]
    Spiffe,
    GitHub,
    Buildkite,
    AzurePipelines,
    GitLab,
    Metadata,
    AwsSts,
}

impl Source {
    pub const ALL: &'static [Self] = &[
        Self::File,
        Self::TokenRequest,
        #[cfg(feature = "spiffe")]
        Self::Spiffe,
        Self::GitHub,
        Self::Buildkite,
        Self::AzurePipelines,
        Self::GitLab,
        Self::Metadata,
        Self::AwsSts,
    ];

    /// Whether its tokens can be for a target.
    pub fn suits(self, target: Target) -> bool {
        self != Self::AzurePipelines || matches!(target, Target::Entra | Target::Acr)
    }
}

/// A token as a platform makes it.
fn minted(condition: Condition, audience: &str, subject: &str) -> String {
    let mut claims = claims(audience);
    claims["sub"] = json!(subject);
    let mut at = |iat: i64, exp: i64| {
        for (name, seconds) in [("iat", iat), ("nbf", iat), ("exp", exp)] {
            claims[name] = json!(now() + seconds);
        }
    };
    match condition {
        Condition::Expired => at(-610, -10),
        Condition::ClockAhead => at(120, 720),
        Condition::ClockBehind => at(-120, 480),
        Condition::OtherAudience => claims["aud"] = json!(["https://somebody-else.example/"]),
        Condition::UnknownKey => return forged(&claims),
        _ => {}
    }
    token(&claims)
}

/// A platform that runs.
pub struct Platform {
    source: Arc<dyn SubjectTokenSource>,
    _kept: Vec<Box<dyn std::any::Any + Send>>,
}

impl Platform {
    pub async fn start(source: Source, condition: Condition) -> Self {
        let mint = move |audience: &str| minted(condition, audience, SUBJECT);
        match source {
            Source::File => {
                let source = Projected { folder: tempfile::tempdir().unwrap(), condition };
                Self { source: Arc::new(source), _kept: Vec::new() }
            }
            Source::TokenRequest => {
                let name: ServiceAccountName = "team-a/app".parse().unwrap();
                let account = ServiceAccount { name, uid: "u-1".to_owned(), annotations: Default::default() };
                let source = ServiceAccountSource {
                    cluster: Arc::new(Cluster(condition)),
                    account,
                    seconds: 600,
                    bound: None,
                };
                Self { source: Arc::new(source), _kept: Vec::new() }
            }
            #[cfg(feature = "spiffe")]
            Source::Spiffe => {
                let minting = move |id: &str, audience: &str| minted(condition, audience, id);
                let agent = crate::workload_api::Running::start(minting);
                Self { source: Arc::new(agent.source(None)), _kept: vec![Box::new(agent)] }
            }
            Source::GitHub | Source::Buildkite | Source::AzurePipelines => {
                let fake = Fake::start(move |call| pipelines::answer(call, &mint)).await;
                let pipeline = match source {
                    Source::GitHub => Pipeline::GitHub,
                    Source::Buildkite => Pipeline::Buildkite,
                    _ => Pipeline::Azure,
                };
                let source = pipelines::job(pipeline, &pipelines::environment(&fake, "permission"));
                Self { source: Arc::new(source), _kept: vec![Box::new(fake)] }
            }
            Source::Metadata => {
                let fake = Fake::start(move |call| metadata::answer(call, &mint)).await;
                let machine = Machine::Azure { client: Some("client-1".to_owned()) };
                Self { source: Arc::new(metadata::source(machine, &fake)), _kept: vec![Box::new(fake)] }
            }
            Source::AwsSts => {
                let fake = Fake::start(move |call| aws_identity::answer(call, &mint)).await;
                Self { source: Arc::new(aws_identity::source(&fake)), _kept: vec![Box::new(fake)] }
            }
            Source::GitLab => Self { source: Arc::new(Job(condition)), _kept: Vec::new() },
        }
    }

    pub fn source(&self) -> Arc<dyn SubjectTokenSource> {
        self.source.clone()
    }
}

/// A cluster with one ServiceAccount.
struct Cluster(Condition);

#[async_trait]
impl ServiceAccounts for Cluster {
    fn cluster(&self) -> &str {
        "https://cluster.example"
    }

    async fn read(&self, name: &ServiceAccountName) -> Result<ServiceAccount, ExchangeError> {
        Err(refused(404, "not found", name))
    }

    async fn token(&self, request: &TokenRequest) -> Result<UnverifiedToken, ExchangeError> {
        let audiences: Value = request.body()?["spec"]["audiences"].clone();
        let [audience] = audiences.as_array().unwrap().as_slice() else { panic!("{audiences}") };
        let token = minted(self.0, audience.as_str().unwrap(), SUBJECT);
        UnverifiedToken::parse(&token).map_err(|error| error.at("the cluster"))
    }
}

/// A volume in which kubelet keeps a token for whatever audience the pod has asked for.
struct Projected {
    folder: tempfile::TempDir,
    condition: Condition,
}

#[async_trait]
impl SubjectTokenSource for Projected {
    fn origin(&self) -> String {
        "the volume".to_owned()
    }

    fn can_renew(&self) -> bool {
        true
    }

    fn describe(&self, key: &mut chancery_exchange::key::KeyBuilder) {
        key.text("source", "volume");
    }

    async fn token(&self, audience: &str) -> Result<UnverifiedToken, ExchangeError> {
        let path = self.folder.path().join("token");
        std::fs::write(&path, format!("{}\n", minted(self.condition, audience, SUBJECT))).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        TokenFile::new(path)?.token(audience).await
    }
}

/// A job whose variables hold a token for each audience.
struct Job(Condition);

#[async_trait]
impl SubjectTokenSource for Job {
    fn origin(&self) -> String {
        "the job".to_owned()
    }

    fn can_renew(&self) -> bool {
        false
    }

    fn describe(&self, key: &mut chancery_exchange::key::KeyBuilder) {
        key.text("source", "job");
    }

    async fn token(&self, audience: &str) -> Result<UnverifiedToken, ExchangeError> {
        let (name, token) = (TokenVariable::of_gitlab(audience), minted(self.0, audience, SUBJECT));
        let environment = Environment::given([("CI", "true"), (name.as_str(), token.as_str())]);
        TokenVariable::new(&name, environment, false)?.token(audience).await
    }
}

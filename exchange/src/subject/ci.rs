//! Pipelines that make a token for each request: GitHub Actions (and Forgejo, Gitea), Azure Pipelines, Buildkite.

use async_trait::async_trait;
use chancery_wire::{Endpoint, EndpointRule, HttpRequest, HttpResponse, Secret};
use http::header::{ACCEPT, AUTHORIZATION};
use http::{HeaderValue, Method};
use serde::Deserialize;
use url::form_urlencoded::byte_serialize;

use super::{Environment, SubjectTokenSource, missing, refused};
use crate::error::{ExchangeError, Stage};
use crate::key::KeyBuilder;
use crate::token::UnverifiedToken;
use crate::transport::Transport;

/// Which pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pipeline {
    /// GitHub Actions
    /// (<https://docs.github.com/actions/reference/security/oidc#methods-for-requesting-the-oidc-token>).
    GitHub,
    /// Azure Pipelines
    /// (<https://learn.microsoft.com/rest/api/azure/devops/distributedtask/oidctoken/create>).
    Azure,
    /// Buildkite, whose agent asks its API for the same
    /// (<https://buildkite.com/docs/agent/v3/cli-oidc>, `api/oidc.go` of the agent). No process is started for it.
    Buildkite,
}

/// The API of Buildkite's agents, where the job names no other.
const BUILDKITE: &str = "https://agent.buildkite.com/v3";

/// The token of a job.
pub struct JobToken {
    pipeline: Pipeline,
    url: String,
    permission: Secret,
    transport: Transport,
}

#[derive(Deserialize)]
struct Given {
    #[serde(alias = "oidcToken", alias = "token")]
    value: String,
}

impl Pipeline {
    fn variables(self) -> (&'static str, &'static str) {
        match self {
            Self::GitHub => ("ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN"),
            Self::Azure => ("SYSTEM_OIDCREQUESTURI", "SYSTEM_ACCESSTOKEN"),
            Self::Buildkite => ("BUILDKITE_JOB_ID", "BUILDKITE_AGENT_ACCESS_TOKEN"),
        }
    }

    /// The URL that gives tokens, of what its variable says.
    fn url(self, variable: String, environment: &Environment) -> Option<String> {
        match self {
            Self::GitHub | Self::Azure => Some(variable),
            Self::Buildkite => {
                let is_id = variable.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
                let api =
                    environment.text("BUILDKITE_AGENT_ENDPOINT").unwrap_or_else(|| BUILDKITE.to_owned());
                is_id.then(|| format!("{}/jobs/{variable}/oidc/tokens", api.trim_end_matches('/')))
            }
        }
    }

    fn remedy(self) -> &'static str {
        match self {
            Self::GitHub => {
                "add `permissions: id-token: write` to the job; pull requests from forks get none"
            }
            Self::Azure => "map SYSTEM_ACCESSTOKEN: $(System.AccessToken) into the step's `env`",
            Self::Buildkite => {
                "run it in a step of a job; in a container pass BUILDKITE_JOB_ID and BUILDKITE_AGENT_ACCESS_TOKEN on"
            }
        }
    }
}

impl JobToken {
    /// The token of the job that this process runs in.
    ///
    /// # Errors
    /// When the job may not have one.
    pub fn new(
        pipeline: Pipeline,
        environment: &Environment,
        transport: Transport,
    ) -> Result<Self, ExchangeError> {
        let (url, permission) = pipeline.variables();
        let address = environment.text(url).and_then(|variable| pipeline.url(variable, environment));
        let (Some(address), Some(token)) = (address, environment.secret(permission)) else {
            return Err(missing("job-may-not-have-a-token")
                .came(&format!("{url} and {permission} are not both set"))
                .expected("a job that may ask for a token")
                .remedy(pipeline.remedy()));
        };
        Ok(Self { pipeline, url: address, permission: token, transport })
    }

    /// The request for a token.
    ///
    /// # Errors
    /// When the URL may not be given the job's permission.
    pub fn request(&self, audience: &str) -> Result<HttpRequest, ExchangeError> {
        let separator = if self.url.contains('?') { '&' } else { '?' };
        let (method, query) = match self.pipeline {
            Pipeline::GitHub => {
                let audience: String = byte_serialize(audience.as_bytes()).collect();
                (Method::GET, format!("{separator}audience={audience}"))
            }
            Pipeline::Azure => (Method::POST, format!("{separator}api-version=7.1")),
            Pipeline::Buildkite => (Method::POST, String::new()),
        };
        let name = self.pipeline.variables().0;
        let endpoint = Endpoint::parse(&format!("{}{query}", self.url), &EndpointRule::any_host())
            .map_err(|error| ExchangeError::endpoint(name, &error))?;
        let bearer = match self.pipeline {
            Pipeline::GitHub | Pipeline::Azure => self.permission.bearer(),
            Pipeline::Buildkite => self.permission.header_value("Token "),
        };
        let bearer = bearer.map_err(|error| {
            missing("job-may-not-have-a-token").came(&error.to_string()).remedy(self.pipeline.remedy())
        })?;
        let request = HttpRequest::new(method, &endpoint)
            .header(ACCEPT, HeaderValue::from_static("application/json"))
            .header(AUTHORIZATION, bearer);
        let json = HeaderValue::from_static("application/json");
        Ok(match self.pipeline {
            Pipeline::GitHub => request,
            Pipeline::Azure => request.body(json, ""),
            // Without a lifetime it lives five minutes, which one exchange has no need of.
            Pipeline::Buildkite => {
                request.body(json, serde_json::json!({ "audience": audience }).to_string())
            }
        })
    }

    /// The token in an answer.
    ///
    /// # Errors
    /// When there is none.
    pub fn read(&self, answer: &HttpResponse) -> Result<UnverifiedToken, ExchangeError> {
        if !answer.status.is_success() {
            return Err(refused(answer, "job-token-refused")
                .came("the pipeline refused a token")
                .remedy(self.pipeline.remedy()));
        }
        let given: Given = serde_json::from_slice(&answer.body).map_err(|_| {
            missing("job-token-refused")
                .status(answer.status.as_u16())
                .came("an answer without a token")
                .remedy(self.pipeline.remedy())
        })?;
        let value = Secret::new(given.value);
        UnverifiedToken::parse(value.expose()).map_err(|error| error.at(&self.origin()))
    }
}

#[async_trait]
impl SubjectTokenSource for JobToken {
    fn origin(&self) -> String {
        match self.pipeline {
            Pipeline::GitHub => "GitHub Actions".to_owned(),
            Pipeline::Azure => "Azure Pipelines".to_owned(),
            Pipeline::Buildkite => "Buildkite".to_owned(),
        }
    }

    fn can_renew(&self) -> bool {
        true
    }

    fn describe(&self, key: &mut KeyBuilder) {
        key.text("source", self.pipeline.variables().0).text("url", &self.url);
    }

    async fn token(&self, audience: &str) -> Result<UnverifiedToken, ExchangeError> {
        let answer = self.transport.send(Stage::Source, self.request(audience)?).await?;
        self.read(&answer).map_err(|error| error.without(&self.permission))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::TransportOptions;

    #[tokio::test]
    async fn w07_a_job_asks_for_its_token_with_the_audience() {
        let environment = Environment::given([
            ("ACTIONS_ID_TOKEN_REQUEST_URL", "https://vstoken.actions.example/x?api-version=2"),
            ("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "permission"),
        ]);
        let transport = Transport::new(TransportOptions::default()).unwrap();
        let job = JobToken::new(Pipeline::GitHub, &environment, transport.clone()).unwrap();
        let request = job.request("api://A B").unwrap();
        assert_eq!(request.url().query(), Some("api-version=2&audience=api%3A%2F%2FA+B"));
        assert_eq!(request.header_map()[AUTHORIZATION], "Bearer permission");
        assert!(request.header_map()[AUTHORIZATION].is_sensitive());
        let error = JobToken::new(Pipeline::GitHub, &Environment::given([]), transport).err().unwrap();
        assert!(error.to_string().contains("id-token: write"), "{error}");
    }
}

//! Pipelines that make a token for each request, as they answer.

use chancery_exchange::subject::Environment;
use chancery_exchange::subject::ci::{JobToken, Pipeline};
use chancery_exchange::transport::{Transport, TransportOptions};
use chancery_exchange::{Class, SubjectTokenSource};
use serde_json::{Value, json};

use crate::fake::issuer::{claims, token, verify};
use crate::fake::{Call, Fake, Reply};

const AUDIENCE: &str = "api://AzureADTokenExchange";

fn pipelines(call: &Call) -> Reply {
    answer(call, &|audience| token(&claims(audience)))
}

/// The three, by what their agents and documents say of the request: a token, or why not. Azure's are for Azure alone.
pub fn answer(call: &Call, mint: &dyn Fn(&str) -> String) -> Reply {
    let authorization = call.headers.get("authorization").map_or("", |value| value.to_str().unwrap());
    let refused = |status| Reply::json(status, &json!({ "message": "no" }));
    let query = call.uri.split_once('?').map_or("", |(_, query)| query);
    let asked: Option<(&str, String)> = match (call.method.as_str(), call.path(), authorization) {
        ("GET", "/github", "Bearer permission") => {
            let fields = url::form_urlencoded::parse(query.as_bytes());
            let audience = fields.filter(|(name, _)| name == "audience").map(|(_, value)| value.into_owned());
            audience.last().map(|audience| ("value", audience))
        }
        ("POST", "/azure", "Bearer permission") if query == "x=1&api-version=7.1" => {
            Some(("oidcToken", AUDIENCE.to_owned()))
        }
        ("POST", "/v3/jobs/0189-abc/oidc/tokens", "Token permission") if query.is_empty() => {
            let body: Value = serde_json::from_slice(&call.body).unwrap();
            assert_eq!(body.as_object().unwrap().len(), 1, "{body}");
            Some(("token", body["audience"].as_str().unwrap().to_owned()))
        }
        (_, _, "Bearer permission" | "Token permission") => return refused(404),
        _ => return refused(401),
    };
    let Some((name, audience)) = asked else { return refused(400) };
    Reply::json(200, &json!({ name: mint(&audience) }))
}

pub fn job(pipeline: Pipeline, environment: &Environment) -> JobToken {
    JobToken::new(pipeline, environment, Transport::new(TransportOptions::default()).unwrap()).unwrap()
}

pub fn environment(fake: &Fake, permission: &str) -> Environment {
    let (github, azure) = (format!("{}/github?v=2", fake.url), format!("{}/azure?x=1", fake.url));
    let buildkite = format!("{}/v3/", fake.url);
    Environment::given([
        ("ACTIONS_ID_TOKEN_REQUEST_URL", github.as_str()),
        ("ACTIONS_ID_TOKEN_REQUEST_TOKEN", permission),
        ("SYSTEM_OIDCREQUESTURI", azure.as_str()),
        ("SYSTEM_ACCESSTOKEN", permission),
        ("BUILDKITE_AGENT_ENDPOINT", buildkite.as_str()),
        ("BUILDKITE_JOB_ID", "0189-abc"),
        ("BUILDKITE_AGENT_ACCESS_TOKEN", permission),
    ])
}

#[tokio::test]
async fn w07_every_pipeline_gives_a_token_for_the_audience() {
    let fake = Fake::start(pipelines).await;
    for pipeline in [Pipeline::GitHub, Pipeline::Azure, Pipeline::Buildkite] {
        let job = job(pipeline, &environment(&fake, "permission"));
        let given = job.token(AUDIENCE).await.unwrap();
        assert!(verify(given.secret().expose(), AUDIENCE).is_ok(), "{pipeline:?}");
        fake.script([Reply::new(503, "")]);
        assert_eq!(job.token(AUDIENCE).await.unwrap_err().class(), Class::Transient, "{pipeline:?}");
    }
}

#[tokio::test]
async fn a_job_that_may_not_have_a_token_is_told_how_it_may() {
    let fake = Fake::start(pipelines).await;
    for (pipeline, remedy) in [
        (Pipeline::GitHub, "id-token: write"),
        (Pipeline::Azure, "System.AccessToken"),
        (Pipeline::Buildkite, "BUILDKITE_AGENT_ACCESS_TOKEN"),
    ] {
        let error = job(pipeline, &environment(&fake, "canary")).token(AUDIENCE).await.unwrap_err();
        assert_eq!((error.class(), error.code()), (Class::Source, "job-token-refused"));
        assert!(error.to_string().contains(remedy) && !error.to_string().contains("canary"), "{error}");
    }
    let odd =
        Environment::given([("BUILDKITE_JOB_ID", "../x"), ("BUILDKITE_AGENT_ACCESS_TOKEN", "permission")]);
    let transport = Transport::new(TransportOptions::default()).unwrap();
    let error = JobToken::new(Pipeline::Buildkite, &odd, transport).err().unwrap();
    assert_eq!(error.code(), "job-may-not-have-a-token");
}

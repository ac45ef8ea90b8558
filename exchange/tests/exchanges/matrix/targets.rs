//! Whoever takes tokens: the strict stand-ins of the suite, one set of them for each cell.

use std::sync::Arc;

use chancery_exchange::chain::Identity;
use chancery_exchange::oauth::JWT_BEARER;
use chancery_exchange::provider::aws::partition::operator_sts;
use chancery_exchange::provider::azure::operator_authority;
use chancery_exchange::provider::client::ClientAuthentication;
use chancery_exchange::provider::jwt_bearer::{ClientAssertion, JwtBearer, JwtRole};
use chancery_exchange::provider::template::preset::Preset;
use chancery_exchange::provider::token_exchange::{TokenExchange, operator_endpoint};
use chancery_exchange::provider::{Direct, Provider};
use chancery_exchange::registry::Registry;
use chancery_exchange::{Chain, SubjectTokenSource};
use serde_json::{Value, json};

use crate::fake::clouds::{entra, google, sts};
use crate::fake::issuer::{now, token, verify};
use crate::fake::{Call, Fake, Reply};
use crate::servers::{self, given};
use crate::templates::{authorization, is_right, quay, template, values};
use crate::{aws, azure};

/// Who takes a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Sts,
    Ecr,
    Entra,
    Acr,
    Google,
    Impersonation,
    ArtifactRegistry,
    Quay,
    JFrog,
    JFrogOfAws,
    OctoSts,
    Vault,
    TokenExchange,
    JwtGrant,
    ClientAssertion,
    Direct,
}

impl Target {
    pub const ALL: [Self; 16] = [
        Self::Sts,
        Self::Ecr,
        Self::Entra,
        Self::Acr,
        Self::Google,
        Self::Impersonation,
        Self::ArtifactRegistry,
        Self::Quay,
        Self::JFrog,
        Self::JFrogOfAws,
        Self::OctoSts,
        Self::Vault,
        Self::TokenExchange,
        Self::JwtGrant,
        Self::ClientAssertion,
        Self::Direct,
    ];
}

/// A way to it, and the servers on the way, the one that is given the token first.
pub struct Opened {
    pub chain: Chain,
    pub servers: Vec<Fake>,
}

pub async fn open(target: Target, source: Arc<dyn SubjectTokenSource>) -> Opened {
    match target {
        Target::Sts => of(Fake::start(sts).await, |url| aws::chain(url, source)),
        Target::Entra => of(Fake::start(entra).await, |url| azure::chain(url, source)),
        Target::Google => of(Fake::start(google).await, |url| crate::google::chain(url, source, None)),
        Target::Impersonation | Target::ArtifactRegistry => {
            let account = Some("app@p.iam.gserviceaccount.com");
            let mut opened = of(Fake::start(google).await, |url| crate::google::chain(url, source, account));
            if target == Target::ArtifactRegistry {
                let host = "europe-west1-docker.pkg.dev".parse().unwrap();
                opened.chain.registry = Some(Registry::new(host).unwrap());
            }
            opened
        }
        Target::Ecr => {
            let mut opened = of(Fake::start(sts).await, |url| aws::chain(url, source));
            let ecr = Fake::start(|_| aws::ecr_answer(&format!("https://{}", aws::HOST))).await;
            let registry = Registry::new(aws::HOST.parse().unwrap()).unwrap();
            opened.chain.registry = Some(registry.at(operator_sts(&ecr.url).unwrap()));
            opened.servers.push(ecr);
            opened
        }
        Target::JFrogOfAws => {
            let mut opened = of(Fake::start(sts).await, |url| aws::chain(url, source));
            let jfrog = Fake::start(aws::jfrog).await;
            opened.chain.registry = Some(aws::jfrog_registry(&jfrog));
            opened.servers.push(jfrog);
            opened
        }
        Target::Acr => {
            let mut opened = of(Fake::start(entra).await, |url| azure::chain(url, source));
            let acr = Fake::start(acr).await;
            let registry = Registry::new("myregistry.azurecr.io".parse().unwrap()).unwrap();
            opened.chain.registry = Some(registry.at(operator_authority(&acr.url).unwrap()));
            opened.servers.push(acr);
            opened
        }
        Target::Quay => by_template(Preset::Quay, Fake::start(quay).await, source),
        Target::JFrog => by_template(Preset::JFrog, Fake::start(jfrog).await, source),
        Target::OctoSts => by_template(Preset::OctoSts, Fake::start(octo_sts).await, source),
        Target::Vault => by_template(Preset::Vault, Fake::start(vault).await, source),
        Target::TokenExchange => of(Fake::start(servers::server).await, |url| {
            let endpoint = operator_endpoint(&format!("{url}/token")).unwrap();
            let exchange = TokenExchange::new(endpoint, servers::AUDIENCE.to_owned());
            chain(source, Provider::TokenExchange(Box::new(exchange)))
        }),
        Target::JwtGrant => jwt_bearer(source, JwtRole::Grant(ClientAuthentication::None)).await,
        Target::ClientAssertion => jwt_bearer(source, JwtRole::Client(ClientAssertion::default())).await,
        Target::Direct => {
            let direct = Direct { audience: servers::AUDIENCE.to_owned(), is_api_server: false };
            Opened { chain: chain(source, Provider::Direct(direct)), servers: Vec::new() }
        }
    }
}

fn of(fake: Fake, chain: impl FnOnce(&str) -> Chain) -> Opened {
    Opened { chain: chain(&fake.url), servers: vec![fake] }
}

fn chain(source: Arc<dyn SubjectTokenSource>, provider: Provider) -> Chain {
    Chain::new(source, provider, Identity { name: "server".to_owned(), service_account: None })
}

fn by_template(preset: Preset, fake: Fake, source: Arc<dyn SubjectTokenSource>) -> Opened {
    let params = [("provider", "cluster"), ("scope", "my-org/repo"), ("identity", "deploy"), ("role", "app")];
    let username = if preset == Preset::Quay { "myorg+argocd" } else { "" };
    let template = template(preset, &fake, values(username, &params));
    Opened { chain: chain(source, Provider::Template(Box::new(template))), servers: vec![fake] }
}

async fn jwt_bearer(source: Arc<dyn SubjectTokenSource>, role: JwtRole) -> Opened {
    of(Fake::start(rfc_7523).await, |url| {
        let bearer = JwtBearer {
            endpoint: operator_endpoint(url).unwrap(),
            subject_audience: servers::AUDIENCE.to_owned(),
            role,
            scopes: Vec::new(),
        };
        chain(source, Provider::JwtBearer(Box::new(bearer)))
    })
}

fn rfc_7523(call: &Call) -> Reply {
    let fields = ["grant_type", "assertion", "client_assertion_type", "client_assertion"];
    let form = match call.form(&fields) {
        Ok(form) => form,
        Err(problem) => {
            return Reply::json(400, &json!({ "error": "invalid_request", "error_description": problem }));
        }
    };
    let (assertion, error) = match form["grant_type"].as_str() {
        JWT_BEARER => (&form["assertion"], "invalid_grant"),
        _ => (&form["client_assertion"], "invalid_client"),
    };
    match verify(assertion, servers::AUDIENCE) {
        Ok(_) => given(&json!({ "expires_in": 300 })),
        Err(problem) => Reply::json(400, &json!({ "error": error, "error_description": problem })),
    }
}

fn acr(call: &Call) -> Reply {
    let form = call.form(&["grant_type", "service", "access_token"]).unwrap();
    match form["access_token"].as_str() {
        "entra-token" => {
            Reply::json(200, &json!({ "refresh_token": token(&json!({ "exp": now() + 10_800 })) }))
        }
        _ => Reply::json(401, &json!({ "errors": [{ "code": "UNAUTHORIZED", "message": "no" }] })),
    }
}

fn jfrog(call: &Call) -> Reply {
    let asked: Value = serde_json::from_slice(&call.body).unwrap();
    match call.uri == "/access/api/v1/oidc/token" && is_right(asked["subject_token"].as_str().unwrap()) {
        true => Reply::json(200, &json!({ "access_token": "jf", "username": "svc", "expires_in": 600 })),
        false => {
            Reply::json(401, &json!({ "errors": [{ "status": 401, "message": "Failed to verify token" }] }))
        }
    }
}

fn octo_sts(call: &Call) -> Reply {
    let (_, token) = authorization(call).unwrap();
    match call.uri == "/sts/exchange?scope=my-org%2Frepo&identity=deploy" && is_right(&token) {
        true => Reply::json(200, &json!({ "token": "ghs_x" })),
        false => Reply::json(403, &json!({ "message": "unable to validate token" })),
    }
}

fn vault(call: &Call) -> Reply {
    let asked: Value = serde_json::from_slice(&call.body).unwrap();
    match call.uri == "/v1/auth/jwt/login" && is_right(asked["jwt"].as_str().unwrap()) {
        true => Reply::json(200, &json!({ "auth": { "client_token": "hvs.x", "lease_duration": 1200 } })),
        false => Reply::json(400, &json!({ "errors": ["error verifying token signature"] })),
    }
}

//! Servers with an endpoint of their own: Quay, JFrog, octo-sts and Vault, as their documentation says they answer.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chancery_exchange::chain::Identity;
use chancery_exchange::provider::HttpTemplate;
use chancery_exchange::provider::template::operator_server;
use chancery_exchange::provider::template::preset::Preset;
use chancery_exchange::provider::template::text::Values;
use chancery_exchange::{Chain, Class, CredentialKind, Provider};
use serde_json::{Value, json};

use crate::aws::runner;
use crate::fake::issuer::{Given, claims, forged, token, verify};
use crate::fake::{Call, Fake, Reply};

pub fn values(username: &str, params: &[(&str, &str)]) -> Values {
    let params: BTreeMap<String, String> =
        params.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Values { username: username.to_owned(), params, ..Values::default() }
}

pub fn template(preset: Preset, fake: &Fake, values: Values) -> HttpTemplate {
    preset.template(operator_server(&fake.url).unwrap(), values).unwrap()
}

fn chain(template: HttpTemplate, subject: String) -> Chain {
    let identity = Identity { name: "server".to_owned(), service_account: None };
    Chain::new(Given::new([subject]), Provider::Template(Box::new(template)), identity)
}

/// The token in `Authorization`, and the user where there is one.
pub fn authorization(call: &Call) -> Option<(String, String)> {
    let value = call.headers.get("authorization")?.to_str().ok()?;
    if let Some(bearer) = value.strip_prefix("Bearer ") {
        return Some((String::new(), bearer.to_owned()));
    }
    let pair = String::from_utf8(STANDARD.decode(value.strip_prefix("Basic ")?).ok()?).ok()?;
    pair.split_once(':').map(|(user, password)| (user.to_owned(), password.to_owned()))
}

/// What the server was asked for is what it expects, and the token is the issuer's.
pub fn is_right(token: &str) -> bool {
    // The audience is the server's URL, which the fake does not know before it runs.
    let audience =
        chancery_exchange::UnverifiedToken::parse(token).map(|token| token.claims().aud.0[0].clone());
    audience.is_ok_and(|audience| verify(token, &audience).is_ok())
}

pub fn quay(call: &Call) -> Reply {
    let Some((user, token)) = authorization(call) else {
        return Reply::json(401, &json!({ "error": "no user" }));
    };
    if (call.method.as_str(), call.uri.as_str()) != ("GET", "/oauth2/federation/robot/token")
        || !call.body.is_empty()
    {
        return Reply::json(404, &json!({ "error": "not found" }));
    }
    if user != "myorg+argocd" || !is_right(&token) {
        return Reply::json(401, &json!({ "error": "Could not validate robot federation" }));
    }
    Reply::json(200, &json!({ "token": "registry-jwt" }))
}

#[tokio::test]
async fn a_11_a_robot_of_quay_logs_in_by_its_federation() {
    let fake = Fake::start(quay).await;
    let mut template = template(Preset::Quay, &fake, values("myorg+argocd", &[]));
    template.login_for = Some("quay.example".to_owned());
    let subject = token(&claims(&template.audience));
    let credential = runner().run(&chain(template.clone(), subject.clone())).await.unwrap();
    let CredentialKind::Registry(login) = &credential.kind else { panic!() };
    assert_eq!(
        (login.host.as_str(), login.username.as_str(), login.password.expose()),
        ("quay.example", "myorg+argocd", "registry-jwt")
    );
    assert_eq!(credential.lifetime().as_secs(), 300, "nobody says how long it lives");
    assert!(fake.calls().iter().all(|call| !call.uri.contains(&subject[..40])));
    let stranger = forged(&claims(&template.audience));
    let error = runner().run(&chain(template, stranger)).await.unwrap_err();
    assert_eq!((error.code(), error.class()), ("template-refused", Class::Permanent));
    assert!(error.to_string().contains("Could not validate robot federation"), "{error}");
}

#[tokio::test]
async fn jfrog_is_asked_in_its_own_way() {
    let jfrog = Fake::start(|call| {
        let asked: Value = serde_json::from_slice(&call.body).unwrap();
        let mut names: Vec<&String> = asked.as_object().unwrap().keys().collect();
        names.sort();
        assert_eq!(
            names,
            ["grant_type", "provider_name", "provider_type", "subject_token", "subject_token_type"]
        );
        assert_eq!((call.method.as_str(), call.uri.as_str()), ("POST", "/access/api/v1/oidc/token"));
        assert_eq!((asked["provider_name"].as_str(), authorization(call)), (Some("cluster"), None));
        assert!(is_right(asked["subject_token"].as_str().unwrap()));
        Reply::json(
            200,
            &json!({ "access_token": "jf", "username": "svc", "token_type": "Bearer", "expires_in": 600 }),
        )
    })
    .await;
    let mut of_jfrog = template(Preset::JFrog, &jfrog, values("", &[("provider", "cluster")]));
    of_jfrog.login_for = Some("jfrog.example".to_owned());
    let subject = token(&claims(&of_jfrog.audience));
    let credential = runner().run(&chain(of_jfrog, subject)).await.unwrap();
    let CredentialKind::Registry(login) = &credential.kind else { panic!() };
    assert_eq!((login.username.as_str(), login.password.expose()), ("svc", "jf"));
    assert_eq!(credential.lifetime().as_secs(), 600);
}

#[tokio::test]
async fn octo_sts_is_asked_in_its_own_way() {
    let octo = Fake::start(|call| {
        let (_, token) = authorization(call).unwrap();
        let expected = "/sts/exchange?scope=my-org%2Frepo&identity=deploy";
        match call.uri == expected && is_right(&token) {
            true => Reply::json(200, &json!({ "token": "ghs_x" })),
            false => Reply::json(403, &json!({ "message": call.uri })),
        }
    })
    .await;
    let of_octo =
        template(Preset::OctoSts, &octo, values("", &[("scope", "my-org/repo"), ("identity", "deploy")]));
    let subject = token(&claims(&of_octo.audience));
    let credential = runner().run(&chain(of_octo, subject)).await.unwrap();
    let CredentialKind::Bearer(bearer) = &credential.kind else { panic!() };
    assert_eq!(bearer.token.expose(), "ghs_x");
}

#[tokio::test]
async fn vault_is_asked_in_its_own_way() {
    let vault = Fake::start(|call| {
        let asked: Value = serde_json::from_slice(&call.body).unwrap();
        match call.uri == "/v1/auth/jwt/login"
            && asked["role"] == "app"
            && is_right(asked["jwt"].as_str().unwrap())
        {
            true => Reply::json(200, &json!({ "auth": { "client_token": "hvs.x", "lease_duration": 1200 } })),
            false => Reply::json(400, &json!({ "errors": ["error validating claims: aud claim"] })),
        }
    })
    .await;
    let of_vault = template(Preset::Vault, &vault, values("", &[("role", "app")]));
    let subject = token(&claims(&of_vault.audience));
    assert!(vault.calls().iter().all(|call| !call.headers.contains_key("x-vault-namespace")));
    // Sealed, and then not any more.
    vault.script([Reply::json(503, &json!({ "errors": ["Vault is sealed"] }))]);
    let credential = runner().run(&chain(of_vault.clone(), subject)).await.unwrap();
    assert_eq!(credential.lifetime().as_secs(), 1200);
    let stranger = forged(&claims(&of_vault.audience));
    let error = runner().run(&chain(of_vault, stranger)).await.unwrap_err();
    assert!(error.to_string().contains("error validating claims"), "{error}");
}

#[tokio::test]
async fn vault_is_told_the_namespace_and_nobody_else_is() {
    let vault = Fake::start(|call| {
        let namespace = call.headers.get("x-vault-namespace").map(|value| value.to_str().unwrap().to_owned());
        match namespace.as_deref() {
            Some("team-a/prod") => {
                Reply::json(200, &json!({ "auth": { "client_token": "hvs.x", "lease_duration": 1200 } }))
            }
            other => Reply::json(404, &json!({ "errors": [format!("no handler for route in {other:?}")] })),
        }
    })
    .await;
    let of = |namespace: &str| {
        let values = values("", &[("role", "app"), ("namespace", namespace)]);
        Preset::Vault.template(operator_server(&vault.url).unwrap(), values)
    };
    let right = of("team-a/prod").unwrap();
    let subject = token(&claims(&right.audience));
    runner().run(&chain(right.clone(), subject.clone())).await.unwrap();
    let error = runner().run(&chain(of("team-b").unwrap(), subject.clone())).await.unwrap_err();
    assert!(error.to_string().contains("team-b"), "{error}");
    assert_eq!(of("a\nb").unwrap_err().code(), "template-parameter");
    let without_preset = HttpTemplate { preset: None, ..right.clone() };
    let (one, other) = (chain(right, subject.clone()), chain(without_preset.clone(), subject.clone()));
    assert_ne!(one.key(runner().transport()), other.key(runner().transport()), "they are given other tokens");
    runner().run(&chain(without_preset, subject)).await.unwrap_err();
}

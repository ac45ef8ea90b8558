//! Servers of RFC 8693 and RFC 7523.

use std::sync::Arc;

use chancery_exchange::chain::Identity;
use chancery_exchange::oauth::{JWT_ASSERTION, JWT_BEARER, TOKEN_EXCHANGE};
use chancery_exchange::provider::client::{ClientAuthentication, ClientSecret};
use chancery_exchange::provider::jwt_bearer::{ClientAssertion, JwtBearer, JwtRole};
use chancery_exchange::provider::token_exchange::{Actor, TokenExchange, Wanted, operator_endpoint};
use chancery_exchange::provider::{Direct, Provider};
use chancery_exchange::{Chain, Class, CredentialKind};
use chancery_wire::Secret;
use serde_json::{Value, json};

use crate::aws::runner;
use crate::fake::issuer::{Given, claims, token, verify};
use crate::fake::{Call, Fake, Reply};

pub const AUDIENCE: &str = "https://as.example/";

fn chain(provider: Provider) -> Chain {
    let source: Arc<Given> = Given::new([token(&claims(AUDIENCE))]);
    Chain::new(source, provider, Identity { name: "server".to_owned(), service_account: None })
}

fn exchange(url: &str) -> TokenExchange {
    TokenExchange::new(operator_endpoint(&format!("{url}/token")).unwrap(), AUDIENCE.to_owned())
}

fn of(exchange: TokenExchange) -> Chain {
    chain(Provider::TokenExchange(Box::new(exchange)))
}

pub fn given(extra: &Value) -> Reply {
    let mut answer = json!({ "access_token": "opaque", "issued_token_type": "urn:ietf:params:oauth:token-type:access_token", "token_type": "Bearer" });
    for (name, value) in extra.as_object().unwrap() {
        answer[name] = value.clone();
    }
    Reply::json(200, &answer)
}

/// RFC 8693: what may stand once stands once, and an actor's type not alone.
pub fn server(call: &Call) -> Reply {
    let fields: Vec<(String, String)> =
        url::form_urlencoded::parse(&call.body).map(|(name, value)| (name.into(), value.into())).collect();
    let all = |name: &str| {
        fields.iter().filter(|(it, _)| it == name).map(|(_, value)| value.as_str()).collect::<Vec<_>>()
    };
    let refused = |error: &str| Reply::json(400, &json!({ "error": error, "error_description": "no" }));
    for single in
        ["grant_type", "subject_token", "subject_token_type", "scope", "requested_token_type", "actor_token"]
    {
        if all(single).len() > 1 {
            return refused("invalid_request");
        }
    }
    if all("grant_type") != [TOKEN_EXCHANGE] || all("actor_token").len() != all("actor_token_type").len() {
        return refused("invalid_request");
    }
    if all("subject_token_type") != ["urn:ietf:params:oauth:token-type:jwt"]
        || verify(all("subject_token")[0], AUDIENCE).is_err()
    {
        return refused("invalid_request");
    }
    if all("resource").contains(&"https://unknown.example/") {
        return refused("invalid_target");
    }
    given(&json!({ "expires_in": 60, "scope": all("scope").join(" ") }))
}

#[tokio::test]
async fn w10_a_token_is_exchanged_as_rfc_8693_says() {
    let fake = Fake::start(server).await;
    let mut exchange = exchange(&fake.url);
    exchange.wanted = Wanted {
        resources: vec!["https://api.example/a".to_owned(), "https://api.example/b".to_owned()],
        audiences: vec!["api".to_owned()],
        scopes: vec!["read".to_owned(), "write".to_owned()],
        token_type: Some("urn:ietf:params:oauth:token-type:access_token".to_owned()),
    };
    exchange.actor = Some(Actor { token: Secret::new("actor".to_owned()), token_type: "urn:x".to_owned() });
    let secret = Secret::new("s".to_owned());
    exchange.client = ClientAuthentication::Basic(ClientSecret { id: "client".to_owned(), secret });
    let credential = runner().run(&of(exchange.clone())).await.unwrap();
    let CredentialKind::Bearer(bearer) = &credential.kind else { panic!() };
    assert_eq!((bearer.token.expose(), bearer.scope.as_deref()), ("opaque", Some("read write")));
    assert_eq!(credential.lifetime().as_secs(), 60);
    let call = &fake.calls()[0];
    assert!(call.headers.get("authorization").unwrap().to_str().unwrap().starts_with("Basic "));
    assert!(!String::from_utf8_lossy(&call.body).contains("client_"), "one authentication, and no second");
    exchange.wanted.resources = vec!["https://unknown.example/".to_owned()];
    assert_eq!(runner().run(&of(exchange)).await.unwrap_err().code(), "oauth-invalid-target");
    let fragment = Wanted { resources: vec!["https://a.example/#b".to_owned()], ..Wanted::default() };
    assert_eq!(fragment.checked().unwrap_err().code(), "resource-unusable");
}

#[tokio::test]
async fn answers_are_read_as_rfc_8693_and_rfc_6749_allow() {
    for (extra, seconds) in [
        (json!({ "expires_in": 60 }), 60),
        (json!({ "expires_in": "60" }), 60),
        (json!({ "token_type": "bEaReR", "expires_in": 60 }), 60),
        (json!({ "token_type": "N_A", "expires_in": 60 }), 60),
        (json!({ "refresh_token": "kept by nobody" }), 300),
        (json!({ "access_token": token(&json!({ "exp": crate::fake::issuer::now() + 100 })) }), 100),
    ] {
        let fake = Fake::start({
            let extra = extra.clone();
            move |_| given(&extra)
        })
        .await;
        let credential = runner().run(&of(exchange(&fake.url))).await.unwrap();
        let lifetime = credential.lifetime().as_secs();
        assert!((seconds - 2..=seconds).contains(&lifetime), "{extra}: {lifetime}");
    }
    for extra in
        [json!({ "token_type": "DPoP" }), json!({ "token_type": null }), json!({ "access_token": "" })]
    {
        let fake = Fake::start(move |_| given(&extra)).await;
        let error = runner().run(&of(exchange(&fake.url))).await.unwrap_err();
        assert_eq!(error.code(), "answer-unreadable");
        assert!(!error.to_string().contains("opaque"), "{error}");
    }
}

#[tokio::test]
async fn w08_w09_a_token_is_a_grant_or_the_authentication_of_a_client() {
    let fake = Fake::start(|call| {
        let fields =
            ["grant_type", "assertion", "scope", "client_id", "client_assertion_type", "client_assertion"];
        let form = call.form(&fields).unwrap();
        let names: Vec<&str> = form.keys().map(String::as_str).collect();
        let assertion = match form["grant_type"].as_str() {
            JWT_BEARER => {
                assert_eq!(names, ["assertion", "client_id", "grant_type", "scope"]);
                &form["assertion"]
            }
            "client_credentials" => {
                assert_eq!(names, ["client_assertion", "client_assertion_type", "grant_type", "scope"]);
                assert_eq!(form["client_assertion_type"], JWT_ASSERTION);
                &form["client_assertion"]
            }
            other => panic!("{other}"),
        };
        match verify(assertion, AUDIENCE) {
            Ok(_) => given(&json!({ "expires_in": 60 })),
            Err(_) => Reply::json(400, &json!({ "error": "invalid_grant" })),
        }
    })
    .await;
    let bearer = |role| JwtBearer {
        endpoint: operator_endpoint(&fake.url).unwrap(),
        subject_audience: AUDIENCE.to_owned(),
        role,
        scopes: vec!["read".to_owned()],
    };
    let grant = JwtRole::Grant(ClientAuthentication::Named("client".to_owned()));
    runner().run(&chain(Provider::JwtBearer(Box::new(bearer(grant))))).await.unwrap();
    let client = JwtRole::Client(ClientAssertion::default());
    runner().run(&chain(Provider::JwtBearer(Box::new(bearer(client))))).await.unwrap();
}

#[tokio::test]
async fn a_token_that_was_used_before_is_replaced_once() {
    let fake = Fake::start(server).await;
    let used = json!({ "error": "invalid_grant", "error_description": "jti has already been used" });
    fake.script([Reply::json(400, &used)]);
    runner().run(&of(exchange(&fake.url))).await.unwrap();
    fake.script([Reply::json(400, &used), Reply::json(400, &used)]);
    let error = runner().run(&of(exchange(&fake.url))).await.unwrap_err();
    assert_eq!((error.class(), error.code()), (Class::Expired, "subject-token-used-before"));
}

#[tokio::test]
async fn w19_a_12_a_resource_that_takes_the_token_itself_is_given_it_without_an_exchange() {
    let direct = Direct { audience: AUDIENCE.to_owned(), is_api_server: false };
    let credential = runner().run(&chain(Provider::Direct(direct))).await.unwrap();
    let CredentialKind::Bearer(bearer) = &credential.kind else { panic!() };
    assert!(verify(bearer.token.expose(), AUDIENCE).is_ok());
    assert!((300..=600).contains(&credential.lifetime().as_secs()));
}

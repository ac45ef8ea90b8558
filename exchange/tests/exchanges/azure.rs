//! Microsoft Entra and Azure Container Registry.

use std::sync::Arc;

use chancery_exchange::chain::Identity;
use chancery_exchange::provider::AzureProvider;
use chancery_exchange::provider::azure::{AUDIENCE, operator_authority};
use chancery_exchange::registry::{Registry, acr};
use chancery_exchange::{Chain, Class, CredentialKind, Provider, SubjectTokenSource};
use serde_json::json;

use crate::aws::runner;
use crate::fake::clouds::{CLIENT, TENANT, aadsts, entra};
use crate::fake::issuer::{Given, claims, token};
use crate::fake::{Fake, Reply};

pub fn chain(url: &str, source: Arc<dyn SubjectTokenSource>) -> Chain {
    let provider = AzureProvider {
        authority: operator_authority(url).unwrap(),
        tenant: TENANT.parse().unwrap(),
        client: CLIENT.parse().unwrap(),
        scopes: vec![acr::SCOPE.to_owned()],
        audience: AUDIENCE.to_owned(),
    };
    let identity = Identity { name: CLIENT.to_owned(), service_account: None };
    Chain::new(source, Provider::Azure(Box::new(provider)), identity)
}

fn source(name: &str, value: serde_json::Value) -> Arc<Given> {
    let mut claims = claims(AUDIENCE);
    claims[name] = value;
    Given::new([token(&claims)])
}

pub fn good() -> Arc<Given> {
    Given::new([token(&claims(AUDIENCE))])
}

#[tokio::test]
async fn a_07_a_token_becomes_an_access_token_of_entra() {
    let fake = Fake::start(entra).await;
    let credential = runner().run(&chain(&fake.url, good())).await.unwrap();
    let CredentialKind::Bearer(bearer) = &credential.kind else { panic!() };
    assert_eq!(bearer.token.expose(), "entra-token");
    assert_eq!(credential.lifetime().as_secs(), 3599, "expires_in counts, and there is no expires_on");
}

#[tokio::test]
async fn n02_entras_numbers_become_causes_with_the_id_of_the_request() {
    let fake = Fake::start(entra).await;
    for (source, code, number) in [
        (
            source("sub", json!("system:serviceaccount:team-a:other")),
            "azure-no-matching-credential",
            "AADSTS700213",
        ),
        (
            source("iss", json!("https://id.example/cluster-a/")),
            "azure-no-matching-credential",
            "AADSTS700211",
        ),
    ] {
        let error = runner().run(&chain(&fake.url, source)).await.unwrap_err();
        assert_eq!((error.code(), error.class()), (code, Class::Permanent));
        let failure = error.failure();
        assert_eq!(failure.provider_code.as_deref(), Some(number));
        assert_eq!(failure.correlation_id.as_deref(), Some("c-1"));
        assert!(error.to_string().contains("byte for byte"), "{error}");
        assert!(!failure.came.contains("Trace ID"), "{error}");
    }
    for (status, number, class, code) in [
        (400, 700_024, Class::Expired, "subject-token-expired"),
        (400, 700_016, Class::Permanent, "azure-unknown-client-or-tenant"),
        (400, 90_061, Class::Transient, "azure-issuer-unreachable"),
        (400, 53_003, Class::Permanent, "azure-conditional-access"),
        (401, 7_002_381, Class::Permanent, "azure-claim-policy"),
        (400, 999_999, Class::Permanent, "oauth-invalid-client"),
        (429, 700_213, Class::Throttled, "throttled"),
        (500, 700_213, Class::Transient, "server-failed"),
    ] {
        let fake = Fake::start(move |_| aadsts(status, number, "no")).await;
        let error = runner().run(&chain(&fake.url, good())).await.unwrap_err();
        assert_eq!((error.class(), error.code()), (class, code), "{number}: {error}");
    }
}

/// kedacore/keda#8152: about two of a hundred requests of a stable credential are refused, and pass when they are made
/// again.
#[tokio::test]
async fn a_refusal_that_comes_sporadically_is_tried_again_where_the_identity_has_worked() {
    let fake = Fake::start(entra).await;
    let runner = runner();
    let sporadic = || aadsts(401, 700_213, "No matching federated identity record found");
    fake.script([sporadic()]);
    assert!(runner.run(&chain(&fake.url, good())).await.is_err(), "nobody knows yet that it ever works");
    runner.run(&chain(&fake.url, good())).await.unwrap();
    fake.script([sporadic(), sporadic()]);
    runner.run(&chain(&fake.url, good())).await.unwrap();
    assert_eq!(fake.count(), 5);
    fake.script([sporadic(), sporadic(), sporadic()]);
    assert!(runner.run(&chain(&fake.url, good())).await.is_err(), "three tries at most");
}

#[tokio::test]
async fn f19_a_registry_gives_a_refresh_token_to_its_own_host_alone() {
    let fake = Fake::start(entra).await;
    let registry = Fake::start(|call| {
        let form = call.form(&["grant_type", "service", "access_token"]).unwrap();
        assert_eq!(call.path(), "/oauth2/exchange");
        assert_eq!(
            (form["grant_type"].as_str(), form["service"].as_str()),
            ("access_token", "myregistry.azurecr.io")
        );
        match form["access_token"].as_str() {
            "entra-token" => Reply::json(
                200,
                &json!({ "refresh_token": token(&json!({ "exp": crate::fake::issuer::now() + 10_800 })) }),
            ),
            _ => Reply::json(401, &json!({ "errors": [{ "code": "UNAUTHORIZED", "message": "no" }] })),
        }
    })
    .await;
    let mut chain = chain(&fake.url, good());
    let endpoint = operator_authority(&registry.url).unwrap();
    chain.registry = Some(Registry::new("myregistry.azurecr.io".parse().unwrap()).unwrap().at(endpoint));
    let credential = runner().run(&chain).await.unwrap();
    let CredentialKind::Registry(login) = &credential.kind else { panic!() };
    assert_eq!(
        (login.host.as_str(), login.username.as_str()),
        ("myregistry.azurecr.io", "00000000-0000-0000-0000-000000000000")
    );
    assert!(
        (10_000..=10_800).contains(&credential.lifetime().as_secs()),
        "from the `exp` of the refresh token"
    );
    let body = json!({ "errors": [{ "code": "UNAUTHORIZED", "message": "denied for entra-token" }] });
    registry.script([Reply::json(401, &body)]);
    let error = runner().run(&chain).await.unwrap_err();
    assert_eq!(error.code(), "registry-access-denied");
    assert!(error.to_string().contains("AcrPull") && !error.to_string().contains("entra-token"), "{error}");
}

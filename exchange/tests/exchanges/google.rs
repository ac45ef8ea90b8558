//! Google's Security Token Service, impersonation, and Artifact Registry.

use std::sync::Arc;

use chancery_exchange::chain::Identity;
use chancery_exchange::oauth::JWT_TYPE;
use chancery_exchange::provider::GoogleProvider;
use chancery_exchange::provider::google::{CLOUD_PLATFORM, Impersonation, operator_url};
use chancery_exchange::registry::Registry;
use chancery_exchange::{Chain, Class, CredentialKind, Provider, Stage, SubjectTokenSource};
use serde_json::json;

use crate::aws::runner;
use crate::fake::Fake;
use crate::fake::clouds::{POOL, google};
use crate::fake::issuer::{Given, claims, forged, token};

pub fn audience() -> String {
    format!("https://iam.googleapis.com/{POOL}")
}

pub fn chain(url: &str, source: Arc<dyn SubjectTokenSource>, email: Option<&str>) -> Chain {
    let scopes = vec![CLOUD_PLATFORM.to_owned()];
    let impersonation = email.map(|email| Impersonation {
        endpoint: operator_url(url).unwrap(),
        email: email.parse().unwrap(),
        scopes: scopes.clone(),
        lifetime_seconds: 3600,
        id_token_for: None,
    });
    let provider = GoogleProvider {
        endpoint: operator_url(&format!("{url}/v1/token")).unwrap(),
        provider: POOL.parse().unwrap(),
        scopes,
        subject_token_type: JWT_TYPE.to_owned(),
        audience: None,
        impersonation,
    };
    let identity = Identity { name: POOL.to_owned(), service_account: None };
    Chain::new(source, Provider::Google(Box::new(provider)), identity)
}

pub fn good() -> Arc<Given> {
    Given::new([token(&claims(&audience()))])
}

#[tokio::test]
async fn r0_16_a_06_a_token_is_exchanged_and_a_service_account_impersonated() {
    let fake = Fake::start(google).await;
    let direct = runner().run(&chain(&fake.url, good(), None)).await.unwrap();
    let CredentialKind::Bearer(bearer) = &direct.kind else { panic!() };
    assert_eq!((bearer.token.expose(), fake.count()), ("sts-token", 1), "nobody is impersonated");
    let account = "app@p.iam.gserviceaccount.com";
    let credential = runner().run(&chain(&fake.url, good(), Some(account))).await.unwrap();
    let CredentialKind::Bearer(bearer) = &credential.kind else { panic!() };
    assert_eq!((bearer.token.expose(), fake.count()), ("impersonated", 3));
    let mut registry = chain(&fake.url, good(), Some(account));
    registry.registry = Some(Registry::new("europe-west1-docker.pkg.dev".parse().unwrap()).unwrap());
    let credential = runner().run(&registry).await.unwrap();
    let CredentialKind::Registry(login) = &credential.kind else { panic!() };
    assert_eq!((login.username.as_str(), login.password.expose()), ("oauth2accesstoken", "impersonated"));
}

#[tokio::test]
async fn n02_googles_refusals_name_the_leg_and_the_grant_that_is_missing() {
    let fake = Fake::start(google).await;
    let denied =
        runner().run(&chain(&fake.url, good(), Some("other@p.iam.gserviceaccount.com"))).await.unwrap_err();
    assert_eq!(
        (denied.code(), denied.failure().stage),
        ("google-impersonation-denied", Stage::Impersonation)
    );
    let text = denied.to_string();
    let principal = "principal://iam.googleapis.com/projects/123/locations/global/workloadIdentityPools/pool/subject/system:serviceaccount:team-a:app";
    assert!(text.contains("roles/iam.workloadIdentityUser") && text.contains(principal), "{text}");
    let forged = Given::new([forged(&claims(&audience()))]);
    let error = runner().run(&chain(&fake.url, forged, None)).await.unwrap_err();
    assert_eq!((error.code(), error.class()), ("oauth-invalid-grant", Class::Permanent));
    let mut other = chain(&fake.url, good(), None);
    let Provider::Google(google) = &mut other.provider else { panic!() };
    google.provider = POOL.replace("cluster-a", "cluster-b").parse().unwrap();
    assert_eq!(runner().run(&other).await.unwrap_err().code(), "oauth-invalid-target");
}

/// googleapis/google-cloud-go#12440
#[tokio::test]
async fn a_stale_token_is_told_from_a_wrong_one() {
    let fake = Fake::start(|_| {
        let words = "ID Token issued at 1700000000 is stale to sign-in.";
        crate::fake::Reply::json(400, &json!({ "error": "invalid_grant", "error_description": words }))
    })
    .await;
    let error = runner().run(&chain(&fake.url, good(), None)).await.unwrap_err();
    assert_eq!((error.class(), error.code()), (Class::Expired, "subject-token-expired"));
    assert_eq!(fake.count(), 2, "with a fresh token once more");
}

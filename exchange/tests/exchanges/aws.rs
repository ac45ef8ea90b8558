//! AWS STS, ECR and ECR Public.

use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chancery_exchange::chain::Identity;
use chancery_exchange::provider::AwsProvider;
use chancery_exchange::provider::aws::partition::operator_sts;
use chancery_exchange::provider::aws::{AUDIENCE, RoleArn, SessionLimits, SessionName};
use chancery_exchange::registry::Registry;
use chancery_exchange::transport::{Transport, TransportOptions};
use chancery_exchange::{
    Chain, Class, Credential, CredentialKind, ExchangeError, Provider, Runner, SubjectTokenSource,
};
use serde_json::json;

use crate::fake::clouds::{ROLE, sts, sts_error};
use crate::fake::issuer::{Given, claims, forged, now, token};
use crate::fake::{Fake, Reply};

pub fn runner() -> Runner {
    Runner::new(Transport::new(TransportOptions::default()).unwrap())
}

pub fn chain(url: &str, source: Arc<dyn SubjectTokenSource>) -> Chain {
    let provider = AwsProvider {
        endpoint: operator_sts(url).unwrap(),
        region: "eu-central-1".parse().unwrap(),
        role: ROLE.parse().ok(),
        session_name: SessionName::of_service_account("team-a", "app"),
        session: SessionLimits::default(),
        audience: AUDIENCE.to_owned(),
    };
    let identity = Identity { name: ROLE.to_owned(), service_account: None };
    Chain::new(source, Provider::Aws(Box::new(provider)), identity)
}

/// What becomes of a token at STS, also of one that the check before sending would refuse.
async fn sent(fake: &Fake, token: String) -> Result<Credential, ExchangeError> {
    let mut chain = chain(&fake.url, Given::new([token]));
    chain.expectation.audiences.clear();
    runner().run(&chain).await
}

#[tokio::test]
async fn w_15_a_token_becomes_keys_and_stands_in_no_url() {
    let fake = Fake::start(sts).await;
    let subject = token(&claims(AUDIENCE));
    let credential = sent(&fake, subject.clone()).await.unwrap();
    let CredentialKind::Aws(keys) = &credential.kind else { panic!() };
    assert_eq!((keys.access_key_id.as_str(), keys.secret_access_key.expose()), ("ASIAEXAMPLE", "SECRET&KEY"));
    assert!((3000..=3600).contains(&credential.lifetime().as_secs()));
    for call in fake.calls() {
        assert_eq!((call.method.as_str(), call.uri.as_str()), ("POST", "/"));
        assert!(!format!("{:?}", call.headers).contains(&subject));
    }
    let mut narrow = chain(&fake.url, Given::new([subject]));
    let Provider::Aws(aws) = &mut narrow.provider else { panic!() };
    let policy_arns = vec!["arn:aws:iam::aws:policy/ReadOnlyAccess".to_owned()];
    aws.session = SessionLimits { duration_seconds: Some(900), policy: Some("{}".to_owned()), policy_arns };
    assert!((600..=900).contains(&runner().run(&narrow).await.unwrap().lifetime().as_secs()));
}

/// MinIO and others that speak STS choose a policy by the claims, or have roles of their own.
#[tokio::test]
async fn a_server_that_is_not_awss_own_is_asked_without_a_role_or_for_one_of_its_own() {
    let roles = Arc::new(Mutex::new(Vec::new()));
    let asked = roles.clone();
    let fake = Fake::start(move |call| {
        let form =
            call.form(&["Action", "Version", "RoleArn", "RoleSessionName", "WebIdentityToken"]).unwrap();
        asked.lock().unwrap().push(form.get("RoleArn").cloned());
        let mut standard = call.clone();
        standard.body = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(form.iter().filter(|(name, _)| *name != "RoleArn"))
            .append_pair("RoleArn", ROLE)
            .finish()
            .into_bytes();
        sts(&standard)
    })
    .await;
    let of_minio = "arn:minio:iam:::role/dashboards";
    for role in [None, RoleArn::of_server(of_minio).ok()] {
        let mut chain = chain(&fake.url, Given::new([token(&claims(AUDIENCE))]));
        let Provider::Aws(aws) = &mut chain.provider else { panic!() };
        aws.role = role;
        runner().run(&chain).await.unwrap();
    }
    assert_eq!(*roles.lock().unwrap(), [None, Some(of_minio.to_owned())]);
}

#[tokio::test]
async fn n02_refusals_name_their_cause_what_was_sent_and_whose_request_it_was() {
    let fake = Fake::start(sts).await;
    let with = |name: &str, value: serde_json::Value| {
        let mut claims = claims(AUDIENCE);
        claims[name] = value;
        token(&claims)
    };
    for (subject, code, words) in [
        (with("aud", json!(["other"])), "aws-audience", "Incorrect token audience"),
        (with("iss", json!("https://id.example/cluster-a/")), "aws-no-oidc-provider", "chancery trust aws"),
        (with("sub", json!("system:serviceaccount:team-a:other")), "aws-access-denied", "team-a:other"),
        (forged(&claims(AUDIENCE)), "aws-signature", "chancery verify"),
    ] {
        let error = sent(&fake, subject.clone()).await.unwrap_err();
        assert_eq!((error.code(), error.class()), (code, Class::Permanent), "{error}");
        let text = error.to_string();
        assert!(text.contains(words) && text.contains("req-42") && text.contains("sent iss="), "{text}");
        assert!(!text.contains(&subject));
    }
    assert_eq!(fake.count(), 4, "what a wait does not mend is not tried again");
}

#[tokio::test]
async fn a_token_that_would_be_refused_is_not_sent() {
    let fake = Fake::start(sts).await;
    let chain = chain(&fake.url, Given::new([token(&claims("other"))]));
    let error = runner().run(&chain).await.unwrap_err();
    assert_eq!(error.code(), "subject-token-unsuitable");
    assert!(error.to_string().contains("expected \"sts.amazonaws.com\""), "{error}");
    assert_eq!(fake.count(), 0);
}

#[tokio::test]
async fn e06_what_a_wait_mends_is_tried_again_with_a_fresh_token() {
    let fake = Fake::start(sts).await;
    let unread =
        "Couldn't retrieve verification key from your identity provider, please reference documentation";
    fake.script([
        sts_error(400, "InvalidIdentityToken", unread),
        sts_error(400, "IDPCommunicationError", "no answer"),
        Reply::new(502, "<html>bad gateway</html>"),
    ]);
    let source = Given::new([token(&claims(AUDIENCE))]);
    runner().run(&chain(&fake.url, source.clone())).await.unwrap();
    assert_eq!((fake.count(), source.asked()), (4, 4), "each try has a subject token of its own");
    fake.script(vec![Reply::new(503, ""); 4]);
    let error = runner().run(&chain(&fake.url, source)).await.unwrap_err();
    assert_eq!((error.class(), error.failure().http_status), (Class::Transient, Some(503)));
    assert_eq!(fake.count(), 8, "four tries at most");
}

#[tokio::test]
async fn an_expired_token_is_read_anew_once() {
    let fake = Fake::start(sts).await;
    let expired = || sts_error(400, "ExpiredTokenException", "Token expired");
    fake.script([expired()]);
    let source = Given::new([token(&claims(AUDIENCE))]);
    runner().run(&chain(&fake.url, source.clone())).await.unwrap();
    assert_eq!(fake.count(), 2);
    fake.script([expired(), expired()]);
    let error = runner().run(&chain(&fake.url, source)).await.unwrap_err();
    assert_eq!((error.class(), fake.count()), (Class::Expired, 4));
    let mut stale = claims(AUDIENCE);
    stale["exp"] = json!(now() - 60);
    let source = Given::new([token(&stale), token(&claims(AUDIENCE))]);
    runner().run(&chain(&fake.url, source)).await.unwrap();
    assert_eq!(fake.count(), 5, "a stale file is not sent");
}

#[tokio::test]
async fn e06_throttling_is_waited_for_or_told() {
    let fake = Fake::start(sts).await;
    let source = Given::new([token(&claims(AUDIENCE))]);
    fake.script([sts_error(400, "Throttling", "Rate exceeded").with("retry-after", "1")]);
    let started = std::time::Instant::now();
    runner().run(&chain(&fake.url, source.clone())).await.unwrap();
    assert!(started.elapsed().as_millis() >= 1000);
    fake.script([Reply::new(429, "").with("retry-after", "60")]);
    let error = runner().run(&chain(&fake.url, source)).await.unwrap_err();
    assert_eq!((error.class(), fake.count()), (Class::Throttled, 3), "a long wait is the caller's");
    assert_eq!(error.failure().retry_after.unwrap().as_secs(), 60);
}

#[tokio::test]
async fn e12_e13_redirects_and_endless_answers_are_refused() {
    let elsewhere = Fake::start(sts).await;
    let fake = Fake::start(sts).await;
    fake.script([Reply::new(307, "").with("location", &elsewhere.url)]);
    let error = sent(&fake, token(&claims(AUDIENCE))).await.unwrap_err();
    assert_eq!((error.code(), elsewhere.count()), ("redirect-refused", 0));
    fake.script([Reply::new(200, vec![b'x'; (1 << 20) + 1])]);
    assert_eq!(sent(&fake, token(&claims(AUDIENCE))).await.unwrap_err().code(), "answer-too-large");
    for body in ["", "<html></html>", "<AssumeRoleWithWebIdentityResponse/>", "{}"] {
        fake.script([Reply::new(200, body)]);
        let error = sent(&fake, token(&claims(AUDIENCE))).await.unwrap_err();
        assert_eq!(error.code(), "answer-unreadable", "{body}");
    }
}

pub const HOST: &str = "123456789012.dkr.ecr.eu-central-1.amazonaws.com";

pub fn ecr_answer(proxy: &str) -> Reply {
    let login = STANDARD.encode("AWS:pass:word");
    let data = json!([{ "authorizationToken": login, "expiresAt": now() as f64 + 43_200.5, "proxyEndpoint": proxy }]);
    Reply::json(200, &json!({ "authorizationData": data }))
}

async fn login(url: &str, fake: &Fake, host: &str) -> Result<Credential, ExchangeError> {
    let registry = Registry::new(host.parse().unwrap()).unwrap().at(operator_sts(&fake.url).unwrap());
    let mut chain = chain(url, Given::new([token(&claims(AUDIENCE))]));
    chain.registry = Some(registry);
    runner().run(&chain).await
}

#[tokio::test]
async fn a_05_f17_ecr_logs_in_with_a_signed_request() {
    let sts = Fake::start(sts).await;
    let ecr = Fake::start(|call| {
        let header =
            |name: &str| call.headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
        let scope = "/eu-central-1/ecr/aws4_request";
        let signed = header("authorization");
        let target = "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken";
        if !signed.contains("Credential=ASIAEXAMPLE/")
            || !signed.contains(scope)
            || !signed.contains("x-amz-target")
        {
            return Reply::json(
                400,
                &json!({ "__type": "com.amazon#UnrecognizedClientException", "message": signed }),
            );
        }
        assert_eq!(
            (header("x-amz-target").as_str(), header("x-amz-security-token").as_str()),
            (target, "SESSION")
        );
        assert_eq!((call.method.as_str(), call.body.as_slice()), ("POST", b"{}".as_slice()));
        ecr_answer(&format!("https://{HOST}"))
    })
    .await;
    let credential = login(&sts.url, &ecr, HOST).await.unwrap();
    let CredentialKind::Registry(login_of) = &credential.kind else { panic!() };
    assert_eq!((login_of.username.as_str(), login_of.password.expose()), ("AWS", "pass:word"));
    assert!(credential.lifetime().as_secs() > 43_000);
    login(&sts.url, &ecr, "123456789012.dkr-ecr.eu-central-1.on.aws").await.unwrap();
    for (status, kind, class, tries) in [
        (400, "ThrottlingException", Class::Throttled, 4),
        (400, "ExpiredTokenException", Class::Expired, 1),
        (403, "AccessDeniedException", Class::Permanent, 1),
    ] {
        let body = json!({ "__type": kind, "message": "no" });
        ecr.script(vec![Reply::json(status, &body); tries]);
        let before = ecr.count();
        assert_eq!(login(&sts.url, &ecr, HOST).await.unwrap_err().class(), class);
        assert_eq!(ecr.count() - before, tries, "{kind}");
    }
}

#[tokio::test]
async fn s0_07_a_login_for_another_registry_is_not_handed_out() {
    let sts = Fake::start(sts).await;
    for proxy in [
        "https://999999999999.dkr.ecr.eu-central-1.amazonaws.com",
        "https://123456789012.dkr.ecr.us-east-1.amazonaws.com",
        "https://evil.example",
        "",
    ] {
        let ecr = Fake::start(move |_| ecr_answer(proxy)).await;
        let error = login(&sts.url, &ecr, HOST).await.unwrap_err();
        assert_eq!(error.code(), "registry-login-for-another-host", "{proxy}");
    }
}

#[tokio::test]
async fn f18_ecr_public_is_asked_in_its_own_way() {
    let sts = Fake::start(sts).await;
    let ecr = Fake::start(|call| {
        let signed = call.headers.get("authorization").unwrap().to_str().unwrap();
        assert!(signed.contains("/us-east-1/ecr-public/aws4_request"), "{signed}");
        assert_eq!(call.headers.get("x-amz-target").unwrap(), "SpencerFrontendService.GetAuthorizationToken");
        let login = STANDARD.encode("AWS:public");
        Reply::json(
            200,
            &json!({ "authorizationData": { "authorizationToken": login, "expiresAt": now() + 43_200 } }),
        )
    })
    .await;
    for host in ["public.ecr.aws", "ecr-public.aws.com"] {
        let credential = login(&sts.url, &ecr, host).await.unwrap();
        let CredentialKind::Registry(login) = &credential.kind else { panic!() };
        assert_eq!((login.host.as_str(), login.password.expose()), (host, "public"));
    }
}

/// JFrog, which makes the request that the head of this one is signed for.
pub fn jfrog(call: &crate::fake::Call) -> Reply {
    let header = |name: &str| call.headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
    let signed = header("authorization");
    let proven = signed.contains("Credential=ASIAEXAMPLE/")
        && signed.contains("/eu-central-1/sts/aws4_request")
        && signed.contains("SignedHeaders=host;x-amz-date;x-amz-security-token")
        && header("x-amz-security-token") == "SESSION"
        && header("x-amz-region-set") == "eu-central-1"
        && header("x-amz-date").len() == 16;
    let body: serde_json::Value = serde_json::from_slice(&call.body).unwrap();
    assert_eq!((&body, call.method.as_str()), (&json!({ "expires_in": 3600 }), "POST"));
    match proven && call.uri == "/access/api/v1/aws/token?region=eu-central-1" {
        true => {
            Reply::json(200, &json!({ "access_token": "jf-token", "username": "puller", "expires_in": 3600 }))
        }
        false => {
            Reply::json(401, &json!({ "errors": [{ "code": "UNAUTHORIZED", "message": "no identity" }] }))
        }
    }
}

pub fn jfrog_registry(fake: &Fake) -> Registry {
    use chancery_exchange::registry::RegistryHost;
    let host = RegistryHost::of_jfrog("example.jfrog.io", "eu-central-1".parse().unwrap()).unwrap();
    Registry::new(host).unwrap().at(operator_sts(&fake.url).unwrap())
}

#[tokio::test]
async fn a08_jfrog_takes_a_role_by_a_request_that_it_makes_itself() {
    let (sts, jfrog) = (Fake::start(sts).await, Fake::start(jfrog).await);
    let mut chain = chain(&sts.url, Given::new([token(&claims(AUDIENCE))]));
    chain.registry = Some(jfrog_registry(&jfrog));
    let credential = runner().run(&chain).await.unwrap();
    let CredentialKind::Registry(login) = &credential.kind else { panic!() };
    assert_eq!(
        (login.host.as_str(), login.username.as_str(), login.password.expose()),
        ("example.jfrog.io", "puller", "jf-token")
    );
    assert!((3000..=3600).contains(&credential.lifetime().as_secs()));
    let sent = format!("{:?}", jfrog.calls());
    assert!(!sent.contains("SECRET&KEY") && !sent.contains("eyJ"), "neither key nor token goes to JFrog");
    let nobody = json!({ "access_token": "x", "username": "anonymous", "expires_in": 60 });
    jfrog.script([Reply::json(200, &nobody)]);
    assert_eq!(runner().run(&chain).await.unwrap_err().code(), "answer-unreadable");
    jfrog.script([Reply::json(403, &json!({ "errors": [{ "message": "role is bound to nobody" }] }))]);
    let error = runner().run(&chain).await.unwrap_err();
    assert_eq!(error.code(), "registry-access-denied");
    assert!(error.to_string().contains("aws/iam_role"), "{error}");
}

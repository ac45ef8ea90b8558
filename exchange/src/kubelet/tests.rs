use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chancery_wire::Secret;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::credential::RegistryLogin;

fn token(claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.c2ln", part(&json!({ "alg": "RS256" })), part(claims))
}

fn claims() -> Value {
    json!({
        "sub": "system:serviceaccount:team-a:app",
        "aud": ["sts.amazonaws.com"],
        "kubernetes.io": { "namespace": "team-a", "serviceaccount": { "name": "app", "uid": "u-1" } },
    })
}

fn request(change: impl Fn(&mut Value)) -> Result<Request, ExchangeError> {
    let mut request = json!({
        "apiVersion": API_VERSION,
        "kind": "CredentialProviderRequest",
        "image": "123456789012.dkr.ecr.eu-central-1.amazonaws.com/app@sha256:00",
        "serviceAccountToken": token(&claims()),
        "serviceAccountAnnotations": { "eks.amazonaws.com/role-arn": "arn:aws:iam::123456789012:role/app" },
    });
    change(&mut request);
    Request::parse(&request.to_string())
}

#[test]
fn kep_4412_a_request_names_its_service_account_and_its_registry() {
    let request = request(|_| {}).unwrap();
    assert_eq!(request.host(), "123456789012.dkr.ecr.eu-central-1.amazonaws.com");
    assert_eq!(
        (request.account.name.to_string().as_str(), request.account.uid.as_str()),
        ("team-a/app", "u-1")
    );
    assert_eq!(request.account.annotations.len(), 1);
    assert!(!format!("{request:?}").contains("c2ln"));
}

#[test]
fn kep_4412_without_a_token_of_the_pod_nobody_acts() {
    type Change = fn(&mut Value);
    let changes: [(Change, &str); 7] = [
        (|asked| asked["serviceAccountToken"] = "".into(), "kubelet-without-token"),
        (|asked| _ = asked.as_object_mut().unwrap().remove("serviceAccountToken"), "kubelet-without-token"),
        (|asked| asked["serviceAccountToken"] = "x".into(), "subject-token-unreadable"),
        (
            |asked| asked["apiVersion"] = "credentialprovider.kubelet.k8s.io/v1alpha1".into(),
            "kubelet-request",
        ),
        (|asked| asked["kind"] = "Other".into(), "kubelet-request"),
        (|asked| asked["image"] = 1.into(), "kubelet-request"),
        (
            |asked| asked["serviceAccountToken"] = token(&json!({ "sub": "user" })).into(),
            "kubelet-token-foreign",
        ),
    ];
    for (change, code) in changes {
        assert_eq!(request(change).unwrap_err().code(), code);
    }
    let mut other = claims();
    other["sub"] = "system:serviceaccount:team-b:app".into();
    let text = token(&other);
    let error = request(move |asked| asked["serviceAccountToken"] = text.as_str().into()).unwrap_err();
    assert_eq!(error.code(), "kubelet-token-foreign");
    assert_eq!(Request::parse("{").unwrap_err().code(), "kubelet-request");
}

fn credential(seconds: i64) -> Credential {
    let at = |second| Timestamp::from_second(second).unwrap();
    let login = RegistryLogin {
        host: "registry.example".to_owned(),
        username: "AWS".to_owned(),
        password: Secret::new("pass\"word".to_owned()),
    };
    Credential::new(CredentialKind::Registry(login), at(0), Some(at(seconds)))
}

/// The harbor plugin kept a token for an hour that lived for ten minutes; another answered in microseconds.
#[test]
fn kep_4412_kubelet_keeps_a_login_no_longer_than_it_is_good_for() {
    let hour = Duration::from_secs(3600);
    for (lives, longest, kept) in [
        (600, hour, "540s"),
        (43_200, hour, "3600s"),
        (43_200, Duration::from_secs(300), "300s"),
        (20, hour, "0s"),
        (43_200, Duration::ZERO, "0s"),
    ] {
        let text = answer(&credential(lives), longest, Timestamp::UNIX_EPOCH).unwrap();
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(answer["cacheDuration"], kept, "{lives}");
        assert_eq!(
            (&answer["kind"], &answer["apiVersion"]),
            (&"CredentialProviderResponse".into(), &API_VERSION.into())
        );
        assert_eq!(answer["cacheKeyType"], "Registry");
        let login = json!({ "registry.example": { "username": "AWS", "password": "pass\"word" } });
        assert_eq!(answer["auth"], login);
    }
    let bearer = Credential::bearer(Secret::new("t".to_owned()), Timestamp::UNIX_EPOCH, None);
    assert_eq!(answer(&bearer, hour, Timestamp::UNIX_EPOCH).unwrap_err().code(), "output-unsuitable");
}

proptest! {
    #[test]
    fn no_request_makes_the_plugin_panic(text in any::<String>(), image in any::<String>(), claims in any::<String>()) {
        _ = Request::parse(&text);
        let token = format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims));
        _ = request(move |asked| {
            asked["image"] = image.as_str().into();
            asked["serviceAccountToken"] = token.as_str().into();
        }).map(|request| request.host().to_owned());
    }
}

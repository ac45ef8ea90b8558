//! ServiceAccounts over kube's client, against an API server's answers.

use chancery_exchange::Class;
use chancery_exchange::cluster::Cluster;
use chancery_exchange::service_account::{
    BoundKind, BoundObject, ServiceAccountName, ServiceAccounts as _, TokenRequest,
};
use chancery_exchange::tenancy::annotations::ROLE_ARN;
use kube::Config;
use serde_json::{Value, json};

use crate::fake::issuer::{claims, token};
use crate::fake::{Call, Fake, Reply};

fn cluster(fake: &Fake) -> Cluster {
    Cluster::new(Config::new(fake.url.parse().unwrap())).unwrap()
}

fn status(code: u16, message: &str) -> Reply {
    let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": "X", "code": code });
    Reply::json(code, &status).with("content-type", "application/json")
}

/// An API server as Kubernetes 1.34 answers: it wants an audience, ten minutes and the right UID.
fn api_server(call: &Call) -> Reply {
    let account = "/api/v1/namespaces/team-a/serviceaccounts/app";
    if (call.method.as_str(), call.path()) == ("GET", account) {
        return Reply::json(
            200,
            &json!({ "kind": "ServiceAccount", "apiVersion": "v1", "metadata": { "name": "app", "namespace": "team-a", "uid": "u-1", "annotations": { ROLE_ARN: "arn" } }, "unknown": [1] }),
        );
    }
    if call.method != "POST" || call.path() != format!("{account}/token") {
        return status(404, "serviceaccounts not found");
    }
    let asked: Value = serde_json::from_slice(&call.body).unwrap();
    if asked["metadata"]["uid"] != "u-1" {
        return status(409, "the UID in the token request does not match the UID of the service account");
    }
    if asked["spec"]["boundObjectRef"]["name"] == "other" {
        return status(
            400,
            "cannot bind token for serviceaccount \"app\" to pod running with different serviceaccount name",
        );
    }
    let audience = asked["spec"]["audiences"][0].as_str().unwrap();
    let mut answer = asked.clone();
    answer["status"] =
        json!({ "token": token(&claims(audience)), "expirationTimestamp": "2030-01-01T00:00:00Z" });
    answer["spec"]["of-a-newer-version"] = json!(true);
    Reply::json(201, &answer)
}

fn request(uid: &str, pod: Option<&str>) -> TokenRequest {
    let bound = pod.map(|name| BoundObject { kind: BoundKind::Pod, name: name.to_owned(), uid: None });
    TokenRequest {
        account: "team-a/app".parse().unwrap(),
        uid: uid.to_owned(),
        audiences: vec!["sts.amazonaws.com".to_owned()],
        seconds: 600,
        bound,
    }
}

#[tokio::test]
async fn w04_a_service_account_is_read_and_given_a_token_for_one_audience_and_one_pod() {
    let fake = Fake::start(api_server).await;
    let cluster = cluster(&fake);
    let name: ServiceAccountName = "team-a/app".parse().unwrap();
    let account = cluster.read(&name).await.unwrap();
    assert_eq!((account.uid.as_str(), account.annotations[ROLE_ARN].as_str()), ("u-1", "arn"));
    let given = cluster.token(&request("u-1", Some("app-1"))).await.unwrap();
    assert_eq!(given.claims().aud.0, ["sts.amazonaws.com"]);
    let asked: Value = serde_json::from_slice(&fake.calls()[1].body).unwrap();
    assert_eq!(
        asked["spec"]["boundObjectRef"],
        json!({ "kind": "Pod", "apiVersion": "v1", "name": "app-1" })
    );
}

#[tokio::test]
async fn what_an_api_server_refuses_is_told_with_what_to_do() {
    let fake = Fake::start(api_server).await;
    let cluster = cluster(&fake);
    let missing = cluster.read(&"team-a/missing".parse().unwrap()).await.unwrap_err();
    assert_eq!((missing.code(), missing.class()), ("service-account-missing", Class::Permanent));
    let replaced = cluster.token(&request("u-0", None)).await.unwrap_err();
    assert_eq!((replaced.code(), replaced.class()), ("service-account-replaced", Class::Permanent));
    let other = cluster.token(&request("u-1", Some("other"))).await.unwrap_err();
    assert_eq!(other.code(), "token-request-refused");
    assert!(other.to_string().contains("cannot bind token"), "{other}");
    for (code, class) in [(403, Class::Permanent), (500, Class::Transient), (429, Class::Throttled)] {
        let fake = Fake::start(move |_| status(code, "no")).await;
        let error = self::cluster(&fake).token(&request("u-1", None)).await.unwrap_err();
        assert_eq!((error.class(), fake.count()), (class, 1), "{error}");
        assert!(code != 403 || error.to_string().contains("serviceaccounts/token"), "{error}");
    }
}

//! Logins of Argo CD's repositories, over a unix socket as a repo-server asks for them: a cluster with Secrets and
//! ServiceAccounts, and the stand-ins behind them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use chancery_cluster::socket::SocketConfig;
use chancery_exchange::ExchangeError;
use chancery_exchange::agent::{Door, Place};
use chancery_exchange::argocd::fields::{LABEL, RepositorySecret};
use chancery_exchange::argocd::resolver::{MISSING, Places, Repositories, Resolver};
use chancery_exchange::argocd::{Endpoints, Settings};
use chancery_exchange::cache::{Cache, CacheOptions};
use chancery_exchange::error::{Class, Stage};
use chancery_exchange::metrics::Metrics;
use chancery_exchange::provider::aws::partition::operator_sts;
use chancery_exchange::provider::azure::operator_authority;
use chancery_exchange::provider::template::operator_server;
use chancery_exchange::subject::Environment;
use chancery_exchange::tenancy::annotations::{CLIENT_ID, ROLE_ARN, TENANT_ID};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::watch;

use crate::aws::{HOST, ecr_answer, runner};
use crate::fake::clouds::{CLIENT, ROLE, TENANT, entra, sts, sts_error};
use crate::fake::issuer::{now, token};
use crate::fake::{Call, Fake, Reply};
use crate::templates::{authorization, is_right};
use crate::tenants::{self, Cluster};

/// The Secrets of a namespace.
#[derive(Default)]
struct Secrets(Mutex<BTreeMap<String, RepositorySecret>>);

#[async_trait]
impl Repositories for Secrets {
    async fn read(&self, namespace: &str, name: &str) -> Result<RepositorySecret, ExchangeError> {
        assert_eq!(namespace, "argocd");
        self.0.lock().unwrap().get(name).cloned().ok_or_else(|| {
            ExchangeError::new(Class::Permanent, Stage::Identity, MISSING).came("no such Secret")
        })
    }
}

struct World {
    sts: Fake,
    ecr: Fake,
    server: Fake,
    entra: Fake,
    secrets: Arc<Secrets>,
    cluster: Arc<Cluster>,
    metrics: Arc<Metrics>,
    socket: PathBuf,
    stop: watch::Sender<bool>,
    _folder: tempfile::TempDir,
}

/// Quay, whose robots trust one project each, and Zot, which takes tokens itself and is never asked here.
fn quay(call: &Call) -> Reply {
    let (user, subject) = authorization(call).unwrap();
    let right =
        call.uri == "/oauth2/federation/robot/token" && call.method == "GET" && user == "myorg+argocd";
    match right && is_right(&subject) {
        true => Reply::json(200, &json!({ "token": token(&json!({ "exp": now() + 900 })) })),
        false => Reply::json(401, &json!({ "error": "Could not validate robot federation" })),
    }
}

fn acr(call: &Call) -> Reply {
    let form = call.form(&["grant_type", "service", "access_token"]).unwrap();
    assert_eq!(
        (form["access_token"].as_str(), form["service"].as_str()),
        ("entra-token", "myregistry.azurecr.io")
    );
    Reply::json(200, &json!({ "refresh_token": token(&json!({ "exp": now() + 10_800 })) }))
}

impl World {
    async fn start() -> Self {
        let (sts, server, entra) =
            (Fake::start(sts).await, Fake::start(quay).await, Fake::start(entra).await);
        let ecr = Fake::start(|call| match call.path() {
            "/oauth2/exchange" => acr(call),
            _ => ecr_answer(&format!("https://{HOST}")),
        })
        .await;
        let cluster = Arc::new(Cluster::of(
            ["argocd-project-production", "argocd-project-staging", "argocd-global"].map(|name| {
                tenants::annotated(
                    &format!("argocd/{name}"),
                    &[(ROLE_ARN, ROLE), (CLIENT_ID, CLIENT), (TENANT_ID, TENANT)],
                )
            }),
        ));
        let endpoints = Endpoints {
            sts: operator_sts(&sts.url).ok(),
            authority: operator_authority(&entra.url).ok(),
            server: operator_server(&server.url).ok(),
            registry: operator_sts(&ecr.url).ok(),
            google: None,
        };
        let settings = Settings { namespace: "argocd".to_owned(), endpoints, ..Settings::default() };
        let secrets = Arc::new(Secrets::default());
        let places = Places {
            repositories: secrets.clone(),
            accounts: cluster.clone(),
            environment: Environment::given([]),
        };
        let resolver = Resolver::new(settings, places, runner(), Cache::new(CacheOptions::default()));
        let metrics = resolver.metrics().clone();
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("resolver.sock");
        let config = SocketConfig { path: socket.clone(), group: None };
        let door = Door::open(&Place::Socket(config)).await.unwrap();
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(door.run(resolver, stopped));
        Self { sts, ecr, server, entra, secrets, cluster, metrics, socket, stop, _folder: folder }
    }

    fn secret(&self, name: &str, fields: &[(&str, &str)]) {
        let labels = BTreeMap::from([(LABEL.to_owned(), "repository".to_owned())]);
        let value = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned().into());
        let secret = RepositorySecret { labels, values: fields.iter().map(value).collect() };
        self.secrets.0.lock().unwrap().insert(name.to_owned(), secret);
    }

    /// The status and the body of the answer for a Secret.
    async fn ask(&self, name: &str) -> (u16, Value) {
        let mut stream = UnixStream::connect(&self.socket).await.unwrap();
        let head =
            format!("GET /v1/repositories/{name} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.to_ascii_lowercase().contains("cache-control: no-store"), "{head}");
        (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap())
    }

    fn subjects(&self) -> Vec<String> {
        self.cluster.trace().into_iter().filter(|asked| asked.starts_with("token")).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

#[tokio::test]
async fn a_01_a_repository_without_a_provider_is_as_it_was_and_nobody_is_asked() {
    let world = World::start().await;
    world.secret("plain", &[("url", "https://charts.example/x"), ("username", "u"), ("password", "hunter2")]);
    assert_eq!(world.ask("plain").await, (200, json!({ "credentials": "static" })));
    assert!(world.cluster.trace().is_empty());
    for (name, status) in [("nothing", 404), ("..%2fx", 422), ("a/b", 404), ("UPPER", 422)] {
        assert_eq!(world.ask(name).await.0, status, "{name}");
    }
    let page = world.metrics.render().unwrap();
    assert!(!page.contains("nothing"), "nobody is counted by asking for what does not exist: {page}");
}

#[tokio::test]
async fn a_02_a_05_a_14_each_project_logs_in_to_ecr_as_itself() {
    let world = World::start().await;
    let url = format!("oci://{HOST}/charts");
    for project in ["production", "staging", ""] {
        let name = if project.is_empty() { "global" } else { project };
        world.secret(name, &[("url", &url), ("project", project), ("workloadIdentityProvider", "aws")]);
        let (status, answer) = world.ask(name).await;
        assert_eq!(
            (status, &answer["username"], &answer["password"]),
            (200, &json!("AWS"), &json!("pass:word")),
            "{answer}"
        );
        let account =
            if project.is_empty() { "argocd-global".to_owned() } else { format!("argocd-project-{project}") };
        assert_eq!(answer["serviceAccount"], format!("argocd/{account}"));
        let ends: jiff::Timestamp = answer["expiresAt"].as_str().unwrap().parse().unwrap();
        assert!(ends.as_second() <= now() + 3600, "a_15: an hour at most, though ECR's live twelve");
        world.ask(name).await;
    }
    let asked = |account| format!(r#"token argocd/{account} ["sts.amazonaws.com"] 600"#);
    let accounts = ["argocd-project-production", "argocd-project-staging", "argocd-global"];
    assert_eq!(world.subjects(), accounts.map(asked), "one exchange for each, whose host is the same");
    assert_eq!((world.sts.count(), world.ecr.count()), (3, 3));
}

#[tokio::test]
async fn a_07_a_09_a_12_the_other_providers_log_in_by_their_authenticators() {
    let world = World::start().await;
    let azure = [("url", "oci://myregistry.azurecr.io/charts"), ("project", "production")];
    world.secret("acr", &[azure[0], azure[1], ("workloadIdentityProvider", "azure")]);
    let (status, answer) = world.ask("acr").await;
    assert_eq!(
        (status, &answer["username"]),
        (200, &json!("00000000-0000-0000-0000-000000000000")),
        "{answer}"
    );
    assert_eq!((world.entra.count(), world.ecr.count()), (1, 1));

    let quay = [
        ("url", "oci://quay.io/myorg/charts"),
        ("project", "production"),
        ("workloadIdentityProvider", "k8s"),
        ("workloadIdentityPathTemplate", "/oauth2/federation/robot/token"),
        ("workloadIdentityMethod", "GET"),
        ("workloadIdentityAuthType", "basic"),
        ("workloadIdentityUsername", "myorg+argocd"),
        ("workloadIdentityResponseTokenField", "token"),
    ];
    world.secret("quay", &quay);
    let (status, answer) = world.ask("quay").await;
    assert_eq!((status, &answer["username"]), (200, &json!("myorg+argocd")), "{answer}");
    let ends: jiff::Timestamp = answer["expiresAt"].as_str().unwrap().parse().unwrap();
    assert!((600..=900).contains(&(ends.as_second() - now())), "a_19: as the token says: {answer}");

    let before = (world.sts.count(), world.server.count(), world.entra.count());
    world.secret(
        "zot",
        &[
            ("url", "oci://zot.example:5000/charts"),
            ("project", "production"),
            ("workloadIdentityProvider", "k8s"),
            ("workloadIdentityAuthenticator", "passthrough"),
            ("workloadIdentityAudience", "zot.example"),
        ],
    );
    let (status, answer) = world.ask("zot").await;
    assert_eq!((status, &answer["username"]), (200, &json!("token")), "{answer}");
    let subject = answer["password"].as_str().unwrap();
    assert!(crate::fake::issuer::verify(subject, "zot.example").is_ok(), "a_12: the token itself");
    assert_eq!(
        before,
        (world.sts.count(), world.server.count(), world.entra.count()),
        "and nobody exchanges"
    );
}

#[tokio::test]
async fn a_13_a_failure_is_told_and_static_credentials_never_take_its_place() {
    let world = World::start().await;
    let url = format!("oci://{HOST}/charts");
    let fields = [
        ("url", url.as_str()),
        ("project", "production"),
        ("workloadIdentityProvider", "aws"),
        ("username", "AWS"),
        ("password", "hunter2"),
    ];
    world.secret("both", &fields);
    world.sts.script([sts_error(
        403,
        "AccessDenied",
        "Not authorized to perform sts:AssumeRoleWithWebIdentity",
    )]);
    let (status, answer) = world.ask("both").await;
    let message = answer["message"].as_str().unwrap();
    assert_eq!((status, &answer["code"]), (422, &json!("aws-access-denied")), "{answer}");
    assert!(message.contains("static credentials") && message.contains("403"), "{message}");
    assert!(!answer.to_string().contains("hunter2"));
    world.cluster.forget();
    let (status, answer) = world.ask("both").await;
    assert_eq!((status, &answer["code"]), (422, &json!("service-account-missing")), "{answer}");
    world
        .secret("bare", &[("url", &url), ("project", "../kube-system"), ("workloadIdentityProvider", "aws")]);
    assert_eq!(world.ask("bare").await.1["code"], "service-account-name");
}

//! The local agent, as its clients meet it: raw requests over a real socket, and the clouds' own SDKs.

use std::sync::Arc;
use std::time::Duration;

use chancery_cluster::socket::SocketConfig;
use chancery_exchange::Chain;
use chancery_exchange::agent::{Agent, AgentOptions, Door, Place};
use chancery_exchange::cache::Purge;
use chancery_exchange::provider::aws::AUDIENCE;
use chancery_wire::Secret;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::aws::runner;
use crate::fake::clouds::{CLIENT, entra, google, sts, sts_error};
use crate::fake::issuer::{Given, Held, claims, token, verify};
use crate::fake::{Fake, Reply};
use crate::{aws, azure, google as gcp};

mod sdks;

const SECRET: &str = "c2VjcmV0LW9mLTEyOC1iaXRz";

/// An agent on a free port.
struct Running {
    address: String,
    agent: Agent,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Running {
    async fn start(chain: Chain, options: AgentOptions) -> Self {
        let door = Door::open(&Place::Loopback("127.0.0.1:0".parse().unwrap())).await.unwrap();
        let address = door.address().unwrap().to_string();
        let agent = Agent::new(chain, runner(), AgentOptions { port: door.port(), ..options }).unwrap();
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(door.run(agent.clone(), stopped));
        Self { address, agent, stop, task }
    }

    async fn of_aws(fake: &Fake) -> Self {
        Self::start(aws::chain(&fake.url, subject(AUDIENCE)), with_secret()).await
    }

    async fn send(&self, head: &str) -> Answer {
        let stream = TcpStream::connect(&self.address).await.unwrap();
        sent(stream, head).await
    }

    /// A GET with the right host and these header lines.
    async fn get(&self, path: &str, headers: &[&str]) -> Answer {
        let lines: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: {}\r\n{lines}", self.address)).await
    }

    async fn credentials(&self) -> Answer {
        self.get("/credentials", &[&format!("authorization: {SECRET}")]).await
    }
}

#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Sends the head of a request, and reads to the end of the connection.
async fn sent(mut stream: impl AsyncRead + AsyncWrite + Unpin, head: &str) -> Answer {
    stream.write_all(format!("{head}connection: close\r\n\r\n").as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
}

fn with_secret() -> AgentOptions {
    AgentOptions { secret: Some(Secret::new(SECRET.to_owned())), ..AgentOptions::default() }
}

fn subject(audience: &str) -> Arc<Given> {
    Given::new([token(&claims(audience))])
}

#[tokio::test]
async fn w_04_what_a_browser_or_a_proxy_would_send_is_refused_by_every_shape() {
    let (sts, entra, google) = (Fake::start(sts).await, Fake::start(entra).await, Fake::start(google).await);
    let aws = Running::of_aws(&sts).await;
    let azure = || azure::chain(&entra.url, azure::good());
    let imds = Running::start(azure(), AgentOptions::default()).await;
    let app_service = Running::start(azure(), with_secret()).await;
    let google = Running::start(gcp::chain(&google.url, gcp::good(), None), AgentOptions::default()).await;
    let token = "/metadata/identity/oauth2/token?api-version=2018-02-01&resource=https://vault.azure.net";
    let shapes = [
        (&aws, "/credentials", format!("authorization: {SECRET}"), 401),
        (&imds, token, "metadata: true".to_owned(), 403),
        (
            &app_service,
            "/msi/token?api-version=2019-08-01&resource=https://vault.azure.net",
            format!("x-identity-header: {SECRET}"),
            401,
        ),
        (
            &google,
            "/computeMetadata/v1/instance/service-accounts/default/token",
            "metadata-flavor: Google".to_owned(),
            403,
        ),
    ];
    for (running, path, proof, without) in shapes {
        let host = format!("host: {}", running.address);
        let send = async |line: &str, headers: &[&str]| {
            let lines: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
            running.send(&format!("{line} HTTP/1.1\r\n{lines}")).await.status
        };
        let get = format!("GET {path}");
        assert_eq!(send(&get, &[&host, &proof]).await, 200, "{path}");
        assert_eq!(send(&get, &[&host]).await, without, "without its header: {path}");
        assert_eq!(send(&get, &[&host, &format!("{}x", &proof)]).await, without, "a wrong one: {path}");
        assert_eq!(send(&get, &["host: evil.example", &proof]).await, 403, "DNS rebinding: {path}");
        assert_eq!(send(&get, &[&host, &proof, "x-forwarded-for: 10.0.0.1"]).await, 403, "{path}");
        assert_eq!(send(&format!("PUT {path}"), &[&host, &proof]).await, 405, "{path}");
        assert_eq!(send(&get, &[&host, &proof, "content-length: 1"]).await, 413, "{path}");
        let long = format!("x-padding: {}", "x".repeat(20_000));
        assert_eq!(send(&get, &[&host, &proof, &long]).await, 431, "a large head: {path}");
        assert_eq!(send("GET /nothing", &[&host, &proof]).await, 404, "{path}");
        assert_eq!(send("GET /nothing", &[&host]).await, without, "no path is told to strangers");
        let twice = if path.contains('?') { "&a=1&a=2" } else { "?a=1&a=2" };
        assert_eq!(send(&format!("{get}{twice}"), &[&host, &proof]).await, 400, "{path}");
    }
}

#[tokio::test]
async fn w_04_nobody_listens_where_strangers_could_come() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let error = Door::open(&Place::Loopback(address.parse().unwrap())).await.unwrap_err();
        assert_eq!(error.code(), "agent-not-loopback", "{address}");
    }
    let fake = Fake::start(sts).await;
    let chain = || aws::chain(&fake.url, subject(AUDIENCE));
    let refused = |chain, options| Agent::new(chain, runner(), options).unwrap_err().code();
    assert_eq!(refused(chain(), AgentOptions::default()), "agent-without-secret");
    let google = gcp::chain(&fake.url, gcp::good(), None);
    assert_eq!(refused(google, with_secret()), "agent-secret-unused");
    let mut registry = chain();
    registry.registry = chancery_exchange::registry::Registry::new(aws::HOST.parse().unwrap()).ok();
    assert_eq!(refused(registry, with_secret()), "agent-without-shape");
}

#[tokio::test]
async fn a_socket_is_for_its_owner_and_answers_the_same() {
    let fake = Fake::start(sts).await;
    let folder = tempfile::tempdir().unwrap();
    let config = SocketConfig { path: folder.path().join("agent.sock"), group: None };
    let door = Door::open(&Place::Socket(config.clone())).await.unwrap();
    assert_eq!((door.port(), door.socket()), (None, Some(config.path.as_path())));
    let agent = Agent::new(aws::chain(&fake.url, subject(AUDIENCE)), runner(), with_secret()).unwrap();
    let (stop, stopped) = watch::channel(false);
    let task = tokio::spawn(door.run(agent, stopped));
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&config.path).unwrap());
    assert_eq!(mode & 0o777, 0o600);
    let stream = UnixStream::connect(&config.path).await.unwrap();
    let head = format!("GET /credentials HTTP/1.1\r\nhost: localhost\r\nauthorization: {SECRET}\r\n");
    assert_eq!(sent(stream, &head).await.json()["AccessKeyId"], "ASIAEXAMPLE");
    let stream = UnixStream::connect(&config.path).await.unwrap();
    assert_eq!(sent(stream, "GET /credentials HTTP/1.1\r\nhost: localhost\r\n").await.status, 401);
    stop.send_replace(true);
    task.await.unwrap();
    assert!(!config.path.exists(), "its name is gone with it");
}

#[tokio::test]
async fn c_13_c_14_many_clients_make_one_exchange_and_are_served_through_an_outage() {
    let fake = Fake::start(sts).await;
    let running = Arc::new(Running::of_aws(&fake).await);
    let clients: Vec<_> = (0..40)
        .map(|_| {
            let running = running.clone();
            tokio::spawn(async move { running.credentials().await })
        })
        .collect();
    for client in clients {
        let keys = client.await.unwrap().json();
        assert_eq!((&keys["SecretAccessKey"], &keys["Token"]), (&"SECRET&KEY".into(), &"SESSION".into()));
        assert!(keys["Expiration"].as_str().unwrap().ends_with('Z'), "{keys}");
    }
    assert_eq!(fake.count(), 1);
    fake.script(vec![Reply::new(503, ""); 10]);
    let answer = running.credentials().await;
    assert_eq!((answer.status, fake.count()), (200, 1), "{answer:?}");
    assert!(answer.head.contains("cache-control: no-store"), "{}", answer.head);
    assert_eq!(running.agent.cache().purge(&Purge::All), 1);
    let answer = running.credentials().await;
    assert_eq!((answer.status, answer.json()["code"].as_str()), (503, Some("server-failed")), "{answer:?}");
}

#[tokio::test]
async fn what_failed_is_told_with_the_status_by_which_an_sdk_knows_whether_to_ask_again() {
    let fake = Fake::start(sts).await;
    for (reply, times, status, code) in [
        (sts_error(403, "AccessDenied", "Not authorized"), 1, 400, "aws-access-denied"),
        (sts_error(400, "Throttling", "Rate exceeded").with("retry-after", "30"), 1, 429, "throttled"),
        (Reply::new(502, "<html>"), 4, 503, "server-failed"),
        (sts_error(400, "ExpiredTokenException", "Token expired"), 2, 503, "subject-token-expired"),
    ] {
        fake.script(vec![reply; times]);
        let answer = Running::of_aws(&fake).await.credentials().await;
        assert_eq!((answer.status, answer.json()["code"].as_str()), (status, Some(code)), "{answer:?}");
        assert_eq!(answer.head.contains("retry-after: 30"), status == 429, "{}", answer.head);
        assert!(!answer.body.contains(&token(&claims(AUDIENCE))[..40]), "{}", answer.body);
    }
}

#[tokio::test]
async fn imds_gives_a_token_for_each_resource_that_is_allowed() {
    let fake = Fake::start(entra).await;
    let options = AgentOptions {
        scopes: vec!["https://vault.azure.net/.default".to_owned()],
        ..AgentOptions::default()
    };
    let running = Running::start(azure::chain(&fake.url, azure::good()), options).await;
    let ask = async |query: &str| {
        running.get(&format!("/metadata/identity/oauth2/token?{query}"), &["metadata: true"]).await
    };
    let right = format!("api-version=2018-02-01&resource=https%3A%2F%2Fvault.azure.net&client_id={CLIENT}");
    let token = ask(&right).await.json();
    assert_eq!((&token["access_token"], &token["token_type"]), (&"entra-token".into(), &"Bearer".into()));
    assert_eq!(
        (&token["resource"], &token["client_id"]),
        (&"https://vault.azure.net".into(), &CLIENT.into())
    );
    let number = |name: &str| token[name].as_str().unwrap().parse::<i64>().unwrap();
    assert!((3500..=3600).contains(&number("expires_in")) && number("expires_on") > number("not_before"));
    let sent = String::from_utf8(fake.calls()[0].body.clone()).unwrap();
    assert!(sent.contains("scope=https%3A%2F%2Fvault.azure.net%2F.default"), "{sent}");
    for (query, status) in [
        ("resource=https://vault.azure.net", 400),
        ("api-version=2018-02-01", 400),
        ("api-version=2018-02-01&resource=https://vault.azure.net%20https://graph.microsoft.com", 400),
        ("api-version=2018-02-01&resource=https://graph.microsoft.com", 403),
        ("api-version=2018-02-01&resource=https://vault.azure.net&client_id=other", 400),
        ("api-version=2018-02-01&resource=https://vault.azure.net&msi_res_id=/subscriptions/x", 400),
    ] {
        let answer = ask(query).await;
        assert_eq!(answer.status, status, "{query}: {answer:?}");
        assert!(!answer.json()["error_description"].as_str().unwrap().is_empty());
    }
    assert_eq!(fake.count(), 1, "what is refused is exchanged for nothing");
}

#[tokio::test]
async fn googles_metadata_server_gives_tokens_and_what_its_clients_look_up() {
    let fake = Fake::start(google).await;
    let account = "app@p.iam.gserviceaccount.com";
    let running =
        Running::start(gcp::chain(&fake.url, gcp::good(), Some(account)), AgentOptions::default()).await;
    let ask = async |path: &str| running.get(path, &["metadata-flavor: Google"]).await;
    let below = "/computeMetadata/v1/instance/service-accounts";
    let answer = ask(&format!("{below}/default/token")).await;
    assert!(answer.head.contains("metadata-flavor: google"), "clients look for it: {}", answer.head);
    let token = answer.json();
    assert_eq!((&token["access_token"], &token["token_type"]), (&"impersonated".into(), &"Bearer".into()));
    assert!((3500..=3600).contains(&token["expires_in"].as_u64().unwrap()));
    for (path, text) in [
        ("/", "computeMetadata/\n"),
        (&format!("{below}/"), "default/\napp@p.iam.gserviceaccount.com/\n"),
        (&format!("{below}/default/email"), account),
        (&format!("{below}/{account}/scopes"), "https://www.googleapis.com/auth/cloud-platform\n"),
        ("/computeMetadata/v1/project/project-id", "p"),
        ("/computeMetadata/v1/project/numeric-project-id", "123"),
        ("/computeMetadata/v1/universe/universe-domain", "googleapis.com"),
    ] {
        let answer = ask(path).await;
        assert_eq!((answer.status, answer.body.as_str()), (200, text), "{path}");
    }
    let recursive = ask(&format!("{below}/default/?recursive=true")).await.json();
    assert_eq!((&recursive["email"], &recursive["aliases"][0]), (&account.into(), &"default".into()));
    let identity = ask(&format!("{below}/default/identity?audience=https://a.example&format=full")).await;
    assert_eq!(verify(&identity.body, "https://a.example").unwrap()["aud"][0], "https://a.example");
    assert_eq!(ask(&format!("{below}/default/identity")).await.status, 400);
    assert_eq!(ask(&format!("{below}/other@p.iam.gserviceaccount.com/token")).await.status, 404);
    let narrow =
        ask(&format!("{below}/default/token?scopes=https://www.googleapis.com/auth/devstorage.read_only"))
            .await;
    assert_eq!(narrow.status, 200);
    let last: Value = serde_json::from_slice(&fake.calls().last().unwrap().body).unwrap();
    assert_eq!(last["scope"][0], "https://www.googleapis.com/auth/devstorage.read_only");
}

#[tokio::test]
async fn google_without_a_service_account_has_no_id_tokens_and_keeps_to_its_scopes() {
    let fake = Fake::start(google).await;
    let scopes = vec!["https://www.googleapis.com/auth/pubsub".to_owned()];
    let options = AgentOptions { scopes, project: Some("mine".to_owned()), ..AgentOptions::default() };
    let running = Running::start(gcp::chain(&fake.url, gcp::good(), None), options).await;
    let ask = async |path: &str| {
        let path = format!("/computeMetadata/v1/{path}");
        running.get(&path, &["metadata-flavor: Google"]).await
    };
    let account = "instance/service-accounts/default";
    assert_eq!(ask(&format!("{account}/token")).await.json()["access_token"], "sts-token");
    assert_eq!(ask(&format!("{account}/email")).await.status, 404);
    assert_eq!(ask(&format!("{account}/identity?audience=a")).await.status, 404);
    let wide = ask(&format!("{account}/token?scopes=https://www.googleapis.com/auth/cloud-platform")).await;
    assert_eq!(wide.status, 403, "{wide:?}");
    assert_eq!(ask("project/project-id").await.body, "mine");
    assert_eq!(fake.count(), 1);
}

#[tokio::test]
async fn a_request_that_was_under_way_when_the_agent_was_stopped_is_answered() {
    let fake = Fake::start(sts).await;
    let held = Held::new();
    let mut chain = aws::chain(&fake.url, subject(AUDIENCE));
    chain.source = held.clone();
    let running = Arc::new(Running::start(chain, with_secret()).await);
    let under_way = running.clone();
    let client = tokio::spawn(async move { under_way.credentials().await });
    _ = held.asked.acquire().await.unwrap();
    running.stop.send_replace(true);
    // The door is closed before the drain begins, so a refused connection shows that it has begun.
    tokio::time::timeout(Duration::from_secs(60), async {
        while TcpStream::connect(&running.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    held.gate.add_permits(1);
    assert_eq!(client.await.unwrap().json()["AccessKeyId"], "ASIAEXAMPLE");
    let Ok(running) = Arc::try_unwrap(running) else { panic!("the client is done") };
    running.task.await.unwrap();
}

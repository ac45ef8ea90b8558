//! Issuers that come and go while the service runs, with real directories as sources and targets.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use chancery_core::PublicKey;
use chancery_issuer::config::Config;
use chancery_issuer::service::{ControlError, Service, ServiceControl, check};
use tempfile::TempDir;
use tokio::net::TcpSocket;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

const PATIENCE: Duration = Duration::from_secs(60);

fn public_key() -> String {
    let pair = rcgen::KeyPair::generate().unwrap();
    let key = PublicKey::from_spki_der(&rcgen::PublicKeyData::subject_public_key_info(&pair)).unwrap();
    key.to_pem()
}

/// A folder of configurations, keys and targets, and a port that nobody else is given.
struct Office {
    dir: TempDir,
    port: u16,
    /// It does not listen, so that whoever is told to may.
    _reserved: TcpSocket,
}

impl Office {
    fn new() -> Self {
        let reserved = TcpSocket::new_v4().unwrap();
        reserved.set_reuseaddr(true).unwrap();
        reserved.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let port = reserved.local_addr().unwrap().port();
        Self { dir: tempfile::tempdir().unwrap(), port, _reserved: reserved }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Makes what an issuer of this name reads and writes.
    fn furnish(&self, name: &str) {
        std::fs::write(self.path(&format!("{name}.pub")), public_key()).unwrap();
        std::fs::create_dir(self.path(&format!("{name}.www"))).unwrap();
    }

    /// A configuration of issuers of these names.
    fn config(&self, names: &[&str]) -> Config {
        let issuers: String = names
            .iter()
            .map(|name| {
                format!(
                    "  - url: https://id.example.com/{name}
    sources: [{{ files: {{ paths: [{name}.pub], pollSeconds: 1 }} }}]
    targets: [{{ to: {{ directory: {{ path: {name}.www }} }} }}]
    verify: {{ enabled: false, every: 1s }}
"
                )
            })
            .collect();
        let port = self.port;
        let text = format!(
            "issuers:\n{issuers}serve: [{{ listen: '127.0.0.1:{port}', extraHosts: ['127.0.0.1:{port}'] }}]\n"
        );
        Config::parse(&text, &self.path("chancery.yaml")).unwrap()
    }

    async fn start(&self, names: &[&str]) -> Running {
        let service = Service::open(self.config(names), &self.path("chancery.yaml")).await.unwrap();
        let (control, roster) = (service.control(), service.roster());
        let (stop, stopped) = oneshot::channel::<()>();
        let ended = tokio::spawn(service.run(async { _ = stopped.await }));
        Running { control, roster, stop, ended }
    }

    /// The status of an issuer's JWKS on the public port; 0 while nobody listens.
    async fn status(&self, name: &str) -> u16 {
        let url = format!("http://127.0.0.1:{}/{name}/openid/v1/jwks", self.port);
        reqwest::get(url).await.map_or(0, |answer| answer.status().as_u16())
    }

    fn is_published(&self, name: &str) -> bool {
        self.path(&format!("{name}.www/openid/v1/jwks")).exists()
    }
}

struct Running {
    control: ServiceControl,
    roster: chancery_issuer::roster::Roster,
    stop: oneshot::Sender<()>,
    ended: tokio::task::JoinHandle<Result<(), chancery_issuer::service::ServiceError>>,
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let limit = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < limit, "waited in vain for {what}");
        sleep(Duration::from_millis(20)).await;
    }
}

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

#[tokio::test]
async fn an_issuer_that_is_added_is_served_and_one_that_is_removed_leaves_no_task() {
    let office = Office::new();
    ["a", "b", "c"].iter().for_each(|name| office.furnish(name));
    let service = office.start(&["a", "b"]).await;
    until("both", async || office.status("a").await == 200 && office.status("b").await == 200).await;
    until("their targets", async || office.is_published("a") && office.is_published("b")).await;
    let two = tasks();

    let url = "https://id.example.com/b".parse().unwrap();
    service.control.remove(url).await.unwrap();
    assert_eq!((office.status("b").await, office.status("a").await), (404, 200));
    assert!(office.is_published("b"), "what was published stays");
    // Connections of our own requests are tasks too, so fewer by an issuer's is all that can be said at once.
    until("the tasks of one issuer to end", async || tasks() < two).await;
    std::fs::remove_dir_all(office.path("b.www")).unwrap();

    let add = |names: &[&str]| office.config(names).issuers.into_iter().next().unwrap();
    service.control.add(add(&["c"])).await.unwrap();
    until("the new one", async || office.status("c").await == 200 && office.is_published("c")).await;
    until("as many tasks as before", async || tasks() == two).await;
    assert!(matches!(service.control.add(add(&["c"])).await, Err(ControlError::Exists(_))));
    let unknown = service.control.remove("https://id.example.com/x".parse().unwrap()).await;
    assert!(matches!(unknown, Err(ControlError::Unknown(_))));
    assert!(!office.path("b.www").exists(), "an issuer that was removed writes nothing");

    let _ = service.stop.send(());
    service.ended.await.unwrap().unwrap();
    assert!(matches!(service.control.add(add(&["b"])).await, Err(ControlError::Stopped)));
}

#[tokio::test]
async fn an_issuer_that_cannot_be_opened_is_not_accepted_and_tried_again_while_the_others_run() {
    let office = Office::new();
    office.furnish("a");
    std::fs::create_dir(office.path("b.www")).unwrap();
    let service = office.start(&["a", "b"]).await;
    until("the good one", async || office.status("a").await == 200).await;
    assert_eq!(office.status("b").await, 503);
    let problem = || service.roster.progress()[1].problem.clone();
    until("the reason", async || problem().is_some()).await;
    let said = problem().unwrap();
    assert!(said.contains("b.pub; give the path of") && said.contains("line 7"), "{said}");

    std::fs::write(office.path("b.pub"), public_key()).unwrap();
    until("the other one", async || office.status("b").await == 200).await;
    assert_eq!(problem(), None);
    let _ = service.stop.send(());
    service.ended.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_new_configuration_adds_removes_and_opens_anew_what_differs_and_nothing_else() {
    let office = Office::new();
    ["a", "b", "c"].iter().for_each(|name| office.furnish(name));
    let service = office.start(&["a", "b"]).await;
    until("both", async || office.status("a").await == 200 && office.status("b").await == 200).await;

    let same = service.control.reload(office.config(&["b", "a"])).await.unwrap();
    assert_eq!(same, Default::default(), "the order of the entries changes nothing");
    let reloaded = service.control.reload(office.config(&["a", "c"])).await.unwrap();
    let url = |name: &str| format!("https://id.example.com/{name}").parse().unwrap();
    assert_eq!((reloaded.added, reloaded.removed), (vec![url("c")], vec![url("b")]));
    until("the new one", async || office.status("c").await == 200).await;
    assert_eq!((office.status("b").await, office.status("a").await), (404, 200));
    let _ = service.stop.send(());
    service.ended.await.unwrap().unwrap();
}

#[tokio::test]
async fn the_check_beside_a_running_service_takes_no_port_and_writes_nothing() {
    let office = Office::new();
    office.furnish("a");
    let service = office.start(&["a"]).await;
    until("it", async || office.status("a").await == 200).await;
    let files = |folder: &Path| std::fs::read_dir(folder).unwrap().count();
    let before = files(office.dir.path());
    check(&office.config(&["a"]), &office.path("chancery.yaml")).await.unwrap();
    assert_eq!(files(office.dir.path()), before);
    let missing = check(&office.config(&["b"]), &office.path("chancery.yaml")).await.unwrap_err();
    assert!(missing.to_string().contains("b.pub"), "{missing}");
    let _ = service.stop.send(());
    service.ended.await.unwrap().unwrap();
}

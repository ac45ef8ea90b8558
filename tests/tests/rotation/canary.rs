//! A key signs when everybody who is asked has accepted a token of it: MinIO's STS, other kube-apiservers, and the one
//! whose tokens are signed.

use std::fs::{Permissions, create_dir, set_permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use chancery_cluster::cell::{Cell, CellStore, Schema, StoreMode};
use chancery_core::KeyRing;
use chancery_core::ring::KeyState;
use e2e::chancery::{self, IssuerService};
use e2e::cluster::{API_AUDIENCE, Cluster};
use e2e::etcd::Etcd;
use e2e::key_file::KeyFile;
use e2e::kube_apiserver::KubeApiserver;
use e2e::minio::Minio;
use e2e::process::Process;
use e2e::relying_party::TrustedIssuer;
use e2e::scratch::Scratch;
use e2e::signer::SignerProcess;
use e2e::site::Site;
use e2e::stand_in::{self, Answer, StandIn};
use e2e::{binary, wait};
use serde_json::{Value, json};

use crate::stage::{PATH, in_folders, site, trial};

const AUDIENCE: &str = "sts";
/// Servers start, keys are made and seen, and whoever refuses is asked again after a pause, on a busy machine.
const LONG: Duration = Duration::from_secs(180);

/// A ring and its issuer; whoever rotates is started when the parties run.
struct Ring {
    rotating: Option<Process>,
    issuer: IssuerService,
    site: Site,
    cell: Cell<KeyRing>,
    dir: Scratch,
}

impl Ring {
    /// A ring with one key, which is published.
    async fn begin() -> Result<Self> {
        let dir = Scratch::new("canary")?;
        for name in ["ring", "keys", "state"] {
            create_dir(dir.join(name))?;
        }
        set_permissions(dir.join("keys"), Permissions::from_mode(0o700))?;
        let passphrase = dir.write("passphrase", "of the tests\n")?;
        set_permissions(&passphrase, Permissions::from_mode(0o600))?;
        let site = site(&dir)?;
        let store = CellStore::directory(&dir.join("ring"), StoreMode::ReadOnly).await?;
        let schema = Schema { name: KeyRing::DOCUMENT, version: KeyRing::DOCUMENT_VERSION };
        let cell = store.cell(&site.url(PATH), schema);
        write_policy(&site, &dir, &json!([]))?;
        let policy = dir.join("rotation.yaml").display().to_string();
        chancery::run(&["ring", "init", "--policy", &policy]).await?.success()?;
        let issuer = site.start_ready().await?;
        let ring = Self { rotating: None, issuer, site, cell, dir };
        let first = ring.now().await?.active().context("no key")?.kid().clone();
        ring.site.shows(&ring.site.url(PATH), &[first.as_str()]).await?;
        Ok(ring)
    }

    /// Rotates from now on, by a policy that has these canaries.
    fn rotate_with(&mut self, canaries: &Value) -> Result<()> {
        self.rotating = None;
        write_policy(&self.site, &self.dir, canaries)?;
        self.rotating = Some(chancery::rotate(self.dir.join("rotation.yaml"), &self.dir.join("log"))?);
        Ok(())
    }

    async fn command(&self, verb: &str) -> Result<chancery::Output> {
        chancery::run(&["ring", verb, "--policy", &self.dir.join("rotation.yaml").display().to_string()])
            .await
    }

    async fn now(&self) -> Result<KeyRing> {
        Ok(self.cell.load().await?.context("no ring")?.document)
    }

    /// Waits until the ring is so.
    async fn is(&self, what: &str, so: impl Fn(&KeyRing) -> bool) -> Result<KeyRing> {
        let seen = wait::value_within(LONG, what, async || Ok(Some(self.now().await?).filter(&so))).await;
        seen.with_context(|| self.logs())
    }

    /// Waits until the plan has lines with each of these words, and returns it.
    async fn plan_has(&self, words: &[&str]) -> Result<String> {
        let what = format!("{words:?} in the plan");
        let seen = wait::value_within(LONG, &what, async || {
            let plan = self.command("plan").await?;
            ensure!(words.iter().all(|word| plan.stdout.contains(word)), "{}\n{}", plan.stdout, plan.stderr);
            Ok(Some(plan.stdout))
        });
        seen.await.with_context(|| self.logs())
    }

    fn logs(&self) -> String {
        let rotating = self.rotating.as_ref().map(Process::log).unwrap_or_default();
        format!("rotating\n{rotating}\nissuer\n{}", self.issuer.log())
    }

    /// What whoever rotates has logged, in which no token may be.
    fn log(&self) -> Result<String> {
        let log = self.rotating.as_ref().map(Process::log).unwrap_or_default();
        ensure!(!log.contains("eyJ"), "a token in the log: {log}");
        Ok(log)
    }

    fn trusted(&self, audience: &str) -> TrustedIssuer {
        self.site.trusted(PATH, audience)
    }
}

/// Waits of seconds, which no workload could do with.
fn write_policy(site: &Site, dir: &Scratch, canaries: &Value) -> Result<PathBuf> {
    let parties = json!(["kubernetes", "minio", "vault"]);
    let own = json!({ "signers": [], "parties": parties, "canaries": canaries });
    let policy = trial(site, &[in_folders(dir), own]);
    dir.write("rotation.yaml", policy.to_string())
}

/// A copy of an issuer's documents, which is as old as whoever keeps it lets it become.
#[derive(Debug, Default)]
struct Mirror {
    jwks: Mutex<Value>,
    url: Mutex<String>,
}

impl Mirror {
    /// Copies what the issuer shows now.
    async fn copy(&self, site: &Site) -> Result<()> {
        let jwks = serde_json::from_slice(&site.read(&site.url(PATH), "openid/v1/jwks").await?)?;
        *self.jwks.lock().unwrap_or_else(PoisonError::into_inner) = jwks;
        Ok(())
    }
}

impl stand_in::Api for Mirror {
    async fn answer(&self, request: hyper::Request<Bytes>) -> Answer {
        let url = self.url.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match request.uri().path() {
            "/jwks" => stand_in::json(200, &self.jwks.lock().unwrap_or_else(PoisonError::into_inner)),
            _ => stand_in::json(200, &json!({ "issuer": url, "jwks_uri": format!("{url}/jwks") })),
        }
    }
}

/// A MinIO that reads the keys from a mirror, and a mirror that has those of now.
async fn behind_a_mirror(ring: &Ring) -> Result<(Minio, Arc<Mirror>, StandIn)> {
    let mirror = Arc::new(Mirror::default());
    mirror.copy(&ring.site).await?;
    let server = StandIn::start(mirror.clone()).await?;
    *mirror.url.lock().unwrap_or_else(PoisonError::into_inner) = server.url().to_owned();
    let trusted = TrustedIssuer { url: server.url().to_owned(), ..ring.trusted(AUDIENCE) };
    Ok((Minio::start_trusting(&trusted).await?, mirror, server))
}

#[tokio::test]
async fn who_does_not_take_the_next_key_holds_it_back_by_name() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver", "minio"]) {
        return Ok(());
    }
    let mut ring = Ring::begin().await?;
    let key = KeyFile::new(&ring.dir, "second-cluster")?;
    let second = Cluster::new(Etcd::shared().await?.url(), "https://second.example", &key.private)?;
    let second = KubeApiserver::start(&second.trusts(ring.trusted("second-cluster"))).await?;
    let kubeconfig = ring.dir.join("kubeconfig");
    second.kubeconfig(&kubeconfig)?;
    // Both are started before there is a second key.
    let minio = Minio::start_trusting(&ring.trusted(AUDIENCE)).await?;
    let (stale, mirror, server) = behind_a_mirror(&ring).await?;
    let canaries = |audience: &str| -> Result<Value> {
        let verifier = json!({ "url": format!("{}/api", second.url()), "ca": second.ca_path() });
        let sts =
            |minio: &Minio| anyhow::Ok(json!({ "url": minio.endpoint(), "roleArn": minio.role_arn()? }));
        Ok(json!([
            { "name": "second", "apiServer": { "kubeconfig": kubeconfig }, "audience": "second-cluster" },
            { "name": "minio", "party": "minio", "sts": sts(&minio)?, "audience": AUDIENCE },
            { "name": "mirrored", "party": "minio", "sts": sts(&stale)?, "audience": AUDIENCE },
            { "name": "verifier", "oidc": verifier, "audience": audience },
        ]))
    };
    let mut mistaken = canaries("someone-else")?;
    let anybody = json!({ "name": "anybody", "oidc": { "url": server.url() }, "audience": AUDIENCE });
    mistaken.as_array_mut().context("a list")?.push(anybody);
    ring.rotate_with(&mistaken)?;
    ring.is("a standby", |ring| ring.in_state(KeyState::Published).count() == 1).await?;
    ring.command("rotate").await?.success()?;

    let refused = "CanaryMissing: mirrored refused a token of it: 400 Bad Request \"InvalidParameterValue: ";
    let unauthorized = "CanaryMissing: verifier refused a token of it: 401 Unauthorized";
    let anybody = "CanaryMissing: anybody could not be asked: it takes a token with a broken signature too";
    let plan = ring.plan_has(&[refused, unauthorized, anybody]).await?;
    ensure!(plan.contains("note: no canary asks vault: "), "{plan}");
    // They have read the keys again for it.
    let status = accepted(&ring, &["second", "minio"]).await?;
    ensure!(status.contains("  mirrored  of ") && !status.contains("eyJ"), "{status}");
    ensure!(ring.now().await?.position().epoch == 0, "a key signs that somebody refuses");
    ensure!(ring.log()?.contains("no canary asks vault"), "{}", ring.logs());
    said(&ring, "canary mirrored, of key").await?;
    said(&ring, "canary verifier, of key").await?;

    mirror.copy(&ring.site).await?;
    let status = accepted(&ring, &["second", "minio", "mirrored"]).await?;
    ensure!(status.contains("verifier  of ") && ring.now().await?.position().epoch == 0, "{status}");

    ring.rotate_with(&canaries("second-cluster")?)?;
    let after = ring.is("an activation", |ring| ring.position().epoch == 1).await?;
    let signs = after.active().context("no key")?;
    ensure!(signs.signed.external_seconds == 300, "its canaries count: {signs:?}");
    ring.log().map(drop)
}

/// Waits until these have accepted, and returns the status.
async fn accepted(ring: &Ring, names: &[&str]) -> Result<String> {
    let what = format!("{names:?} to accept");
    let seen = wait::value_within(LONG, &what, async || {
        let status = ring.command("status").await?.success()?;
        let has_accepted = |name: &&str| {
            let mut lines = status.lines().filter(|line| line.starts_with(&format!("  {name}  of ")));
            lines.any(|line| line.ends_with("accepted a token of it"))
        };
        ensure!(names.iter().all(has_accepted), "{status}");
        Ok(Some(status.clone()))
    });
    seen.await.with_context(|| ring.logs())
}

/// Waits until whoever rotates has logged so.
async fn said(ring: &Ring, words: &str) -> Result<()> {
    let seen = wait::value_within(LONG, words, async || Ok(ring.log()?.contains(words).then_some(())));
    seen.await.with_context(|| ring.logs())
}

#[tokio::test]
async fn the_cluster_itself_is_asked_with_a_service_account_of_its_own() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let mut ring = Ring::begin().await?;
    let path = |name: &str| ring.dir.join(name).display().to_string();
    let (of_ring, keys, passphrase, state) = (path("ring"), path("keys"), path("passphrase"), path("state"));
    let arguments = [
        ["--name", "a"],
        ["--ring-dir", &of_ring],
        ["--vault-dir", &keys],
        ["--passphrase-file", &passphrase],
        ["--state-dir", &state],
        ["--api-audience", API_AUDIENCE],
    ];
    let issuer = ring.site.url(PATH);
    let signer = SignerProcess::start(&ring.dir, &issuer, &arguments.concat()).await?;
    let cluster = Cluster::signed_through(Etcd::shared().await?.url(), &issuer, signer.socket())?;
    let server = KubeApiserver::start(&cluster).await?;
    let kubeconfig = ring.dir.join("kubeconfig");
    server.kubeconfig(&kubeconfig)?;
    let account = json!({ "namespace": "chancery-system", "name": "canary" });
    let asked = json!({ "kubeconfig": kubeconfig, "serviceAccount": account });
    ring.rotate_with(&json!([{ "name": "own", "apiServer": asked, "audience": API_AUDIENCE }]))?;
    ring.command("rotate").await?.success()?;

    let missing =
        "CanaryMissing: own could not be asked: the ServiceAccount chancery-system/canary cannot be read";
    ring.plan_has(&[missing]).await?;
    ensure!(ring.now().await?.position().epoch == 0, "a key signs that nobody has tried");
    server.create_service_account("chancery-system", "canary").await?;
    ring.is("an activation", |ring| ring.position().epoch == 1).await.with_context(|| signer.log())?;
    ring.log().map(drop)
}

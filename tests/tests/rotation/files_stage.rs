//! A control plane of three whose kube-apiservers sign with key files, each restarted when its node says so; one ring, one
//! process that rotates it, one issuer.

use std::convert::Infallible;
use std::fs::{Permissions, copy, create_dir, remove_file, set_permissions, write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Error, Result};
use chancery_cluster::cell::{Cell, CellStore, Schema, StoreMode};
use chancery_core::KeyRing;
use chancery_core::ring::KeyState;
use e2e::chancery::{self, IssuerService};
use e2e::cluster::Cluster;
use e2e::etcd::Etcd;
use e2e::key_file::KeyFile;
use e2e::kube_apiserver::KubeApiserver;
use e2e::process::{Process, mortal};
use e2e::scratch::Scratch;
use e2e::site::Site;
use e2e::{binary, wait};
use futures_util::future::{select_all, try_join_all};
use serde_json::{Value, json};
use tokio::sync::RwLock;

use crate::load::Servers;
use crate::stage::{ACCOUNT, PATH, in_folders, site, trial};

pub const NAMES: [&str; 3] = ["a", "b", "c"];
/// The shortest that kube-apiserver can be told.
pub const LIFETIME: u64 = 3600;
/// Several starts of a kube-apiserver, one after another, on a busy machine.
pub const LONG: Duration = Duration::from_secs(400);

/// Everything that runs. What runs is dropped before what it uses.
pub struct FilesStage {
    pub servers: Servers,
    /// How often each kube-apiserver was started again.
    restarted: [AtomicUsize; 3],
    rotating: Process,
    _issuer: IssuerService,
    site: Site,
    ring: Cell<KeyRing>,
    nodes: Vec<Scratch>,
    _dir: Scratch,
    policy: PathBuf,
}

impl FilesStage {
    /// The ring has adopted the one key that every kube-apiserver has, and nobody looks after the nodes yet.
    pub async fn start() -> Result<Self> {
        let dir = Scratch::new("files")?;
        for name in ["ring", "keys"] {
            create_dir(dir.join(name))?;
        }
        set_permissions(dir.join("keys"), Permissions::from_mode(0o700))?;
        let passphrase = dir.write("passphrase", "of the tests\n")?;
        set_permissions(&passphrase, Permissions::from_mode(0o600))?;
        let key = KeyFile::new(&dir, "sa")?;
        let nodes = NAMES.map(|_| Scratch::new("node")).into_iter().collect::<Result<Vec<_>>>()?;
        for node in &nodes {
            copy(&key.private, node.join("sa.key"))?;
            copy(&key.public, node.join("sa.pub"))?;
        }
        let site = site(&dir)?;
        let policy = dir.write("rotation.yaml", policy(&site, &dir).to_string())?;
        let arguments =
            ["ring", "adopt", "--policy", text(&policy)?, "--signing-key-file", text(&key.private)?];
        chancery::run(&[&arguments[..], &["--key-file", text(&key.public)?]].concat()).await?.success()?;
        let schema = Schema { name: KeyRing::DOCUMENT, version: KeyRing::DOCUMENT_VERSION };
        let store = CellStore::directory(&dir.join("ring"), StoreMode::ReadOnly).await?;
        let ring = store.cell(&site.url(PATH), schema);
        let issuer = site.start_ready().await?;
        let rotating = chancery::rotate(&policy, &dir.join("run.log"))?;
        let servers = kube_apiservers(&site.url(PATH), &nodes).await?;
        let restarted = <[AtomicUsize; 3]>::default();
        Ok(Self { servers, restarted, rotating, _issuer: issuer, site, ring, nodes, _dir: dir, policy })
    }

    /// Starts kube-apiservers again when somebody wishes so, for as long as it is polled: until one of them does not start.
    pub async fn restarts_on_wish(&self) -> Error {
        let nodes = self.servers.iter().zip(&self.nodes).zip(&self.restarted);
        let each =
            nodes.map(|((server, node), restarted)| Box::pin(restarts(server, node.path(), restarted)));
        match select_all(each).await.0 {
            Err(error) => error.context(self.logs()),
            Ok(never) => match never {},
        }
    }

    pub fn issuer_url(&self) -> String {
        self.site.url(PATH)
    }

    pub fn ca(&self) -> &Path {
        self.site.authority().path()
    }

    pub fn node(&self, number: usize) -> &Scratch {
        &self.nodes[number]
    }

    /// `chancery ring files` for a node, with further arguments.
    pub fn command(&self, number: usize, more: &[&str]) -> Result<Command> {
        let node = &self.nodes[number];
        let mut command = mortal(&binary::chancery()?);
        command.args(["ring", "files", "--policy", text(&self.policy)?, "--name", NAMES[number]]);
        for (flag, file) in [
            ("signing-key-file", "sa.key"),
            ("key-file", "sa.pub"),
            ("kubeconfig", "kubeconfig"),
            ("server", "server"),
        ] {
            let value = node.join(file);
            let value =
                if flag == "server" { std::fs::read_to_string(value)? } else { text(&value)?.to_owned() };
            command.arg(format!("--{flag}={value}"));
        }
        command.arg(format!("--service-account={}/{}", ACCOUNT.0, ACCOUNT.1));
        command.args(["--no-extended-tokens", "--restart-timeout=120s"]);
        command.args(["--restart-command", &restart_command(node.path())]);
        command.args(more);
        Ok(command)
    }

    /// Starts the process that looks after a node.
    pub fn follow(&self, number: usize) -> Result<Process> {
        let log = self.nodes[number].join(&format!("files-{}.log", e2e::ports::free()?));
        Process::start("chancery ring files", self.command(number, &[])?, &log)
    }

    /// Runs `chancery ring VERB --policy FILE` with further arguments.
    pub async fn ring_command(&self, verb: &str, more: &[&str]) -> Result<chancery::Output> {
        chancery::run(&[&["ring", verb, "--policy", text(&self.policy)?], more].concat()).await
    }

    /// The ring as it stands.
    pub async fn ring(&self) -> Result<KeyRing> {
        Ok(self.ring.load().await?.context("no ring")?.document)
    }

    /// Waits for the ring to be so.
    pub async fn ring_is(&self, what: &str, so: impl Fn(&KeyRing) -> bool) -> Result<KeyRing> {
        let seen = wait::value_within(LONG, what, async || Ok(Some(self.ring().await?).filter(&so)));
        seen.await.with_context(|| self.logs())
    }

    /// Asks for a rotation, and waits until another key is to sign.
    pub async fn rotate(&self) -> Result<()> {
        let before = self.ring().await?.position().epoch;
        self.ring_command("rotate", &[]).await?.success()?;
        self.ring_is("an activation", |ring| ring.position().epoch > before).await.map(drop)
    }

    /// Waits until every kube-apiserver signs by the ring, has the next standby, and nobody has the turn.
    pub async fn everybody_follows(&self) -> Result<()> {
        self.ring_is("every node with the key and the next standby", is_followed).await?;
        wait::value_within(LONG, "the turn to be given back", async || {
            Ok((!self.status().await?.contains("it is the turn of")).then_some(()))
        })
        .await
        .with_context(|| self.logs())
    }

    pub async fn status(&self) -> Result<String> {
        self.ring_command("status", &[]).await?.success()
    }

    /// How often each kube-apiserver was started again.
    pub fn restarts(&self) -> [usize; 3] {
        [0, 1, 2].map(|number| self.restarted[number].load(Ordering::SeqCst))
    }

    /// What everybody has logged of the ring.
    pub fn logs(&self) -> String {
        let mut said = format!("rotating\n{}\n", self.rotating.log_tail());
        for (name, node) in NAMES.iter().zip(&self.nodes) {
            let mut logs: Vec<_> = std::fs::read_dir(node.path()).into_iter().flatten().flatten().collect();
            logs.retain(|entry| entry.path().extension().is_some_and(|end| end == "log"));
            for log in logs {
                let text = std::fs::read_to_string(log.path()).unwrap_or_default();
                said.push_str(&format!("node {name}\n{text}\n"));
            }
        }
        said
    }
}

/// Whether the ring is at rest: one key signs everywhere, and the one after it is everywhere.
pub fn is_followed(ring: &KeyRing) -> bool {
    let epoch = ring.position().epoch;
    let Some(active) = ring.active() else { return false };
    let mut standbys = ring.in_state(KeyState::Published).peekable();
    standbys.peek().is_some()
        && ring.signers().count() == NAMES.len()
        && ring.signers().all(|(_, said)| {
            said.position.epoch == epoch && said.signs.is_none() && said.loaded.contains(active.kid())
        })
        && standbys.all(|key| ring.signers().all(|(_, said)| said.loaded.contains(key.kid())))
}

/// What `systemctl restart` does: returns when the service runs again. The first line is for tests that kill whoever asks.
fn restart_command(node: &Path) -> String {
    let wish = node.join("restart");
    let (wish, hook) = (wish.display(), node.join("hook").display().to_string());
    format!("if [ -e {hook} ]; then . {hook}; fi; touch {wish}; while [ -e {wish} ]; do sleep 0.1; done")
}

/// Starts the kube-apiserver of a node again whenever somebody wishes so, for as long as it is polled.
async fn restarts(
    server: &RwLock<KubeApiserver>,
    node: &Path,
    restarted: &AtomicUsize,
) -> Result<Infallible> {
    let (wish, broken) = (node.join("restart"), node.join("broken"));
    loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        if !wish.exists() {
            continue;
        }
        let mut server = server.write().await;
        let (port, cluster) = (server.port(), server.cluster().clone());
        server.process().kill()?;
        restarted.fetch_add(1, Ordering::SeqCst);
        while broken.exists() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        *server = KubeApiserver::start_on(port, &cluster).await?;
        remove_file(&wish)?;
    }
}

async fn kube_apiservers(issuer: &str, nodes: &[Scratch]) -> Result<Servers> {
    let etcd = Etcd::shared().await?;
    let cluster = Cluster::new(etcd.url(), issuer, &nodes[0].join("sa.key"))?;
    let cluster = cluster.max_token_expiration(Duration::from_secs(LIFETIME));
    let of = |node: &Scratch| cluster.clone().signing_key(&node.join("sa.key")).keys(&[&node.join("sa.pub")]);
    let clusters: Vec<Cluster> = nodes.iter().map(of).collect();
    let servers = try_join_all(clusters.iter().map(KubeApiserver::start)).await?;
    servers[0].create_service_account(ACCOUNT.0, ACCOUNT.1).await?;
    for (server, node) in servers.iter().zip(nodes) {
        server.kubeconfig(&node.join("kubeconfig"))?;
        write(node.join("server"), server.url())?;
    }
    Ok(Arc::new(servers.into_iter().map(RwLock::new).collect()))
}

fn policy(site: &Site, dir: &Scratch) -> Value {
    let own = json!({
        "signers": NAMES.map(|name| json!({ "name": name })),
        "lifetimes": { "external": "3600s", "apiServer": "3600s" },
        "overlap": { "minimum": "0s", "maximum": "3700s" },
        "rollbackWindow": "24h",
    });
    trial(site, &[in_folders(dir), own])
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is no text")
}

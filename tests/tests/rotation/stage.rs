//! A control plane of three, each with a signer that also rotates; one ring, one issuer that looks at itself from outside.

use std::fs::{Permissions, create_dir, set_permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use chancery_cluster::cell::{Cell, CellStore, Schema, StoreMode};
use chancery_core::KeyRing;
use chancery_core::ring::KeyState;
use e2e::chancery::{self, IssuerService};
use e2e::cluster::{API_AUDIENCE, Cluster};
use e2e::etcd::Etcd;
use e2e::kube_apiserver::KubeApiserver;
use e2e::scratch::Scratch;
use e2e::signer::SignerProcess;
use e2e::site::Site;
use e2e::wait;
use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;
use serde_json::{Value, json};

/// The ServiceAccount whose tokens are asked for.
pub const ACCOUNT: (&str, &str) = ("demo", "app");
const NAMES: [&str; 3] = ["a", "b", "c"];
/// Where the issuer is, below its site.
pub const PATH: &str = "/a";
/// Keys are made, sealed, opened by three and seen from outside, on a busy machine.
const LONG: Duration = Duration::from_secs(180);

/// How the signers are run.
#[derive(Clone, Copy)]
pub struct Conduct {
    /// Whether they rotate as well.
    pub rotate: bool,
    /// After how long the kube-apiserver of each asks for keys again.
    pub refresh_hints: [&'static str; 3],
}

/// Everything that runs. The servers are dropped before what they use.
pub struct Stage {
    pub servers: Vec<KubeApiserver>,
    pub signers: Vec<SignerProcess>,
    pub issuer: IssuerService,
    pub site: Site,
    /// What every kube-apiserver was started from, but for its socket.
    pub cluster: Cluster,
    conduct: Conduct,
    ring: Cell<KeyRing>,
    nodes: Vec<Scratch>,
    dir: Scratch,
    policy: PathBuf,
}

impl Stage {
    /// A ring with one key, and everybody running.
    pub async fn start() -> Result<Self> {
        Self::conducted(Conduct { rotate: true, refresh_hints: ["5s"; 3] }).await
    }

    /// The same with signers that are run so.
    pub async fn conducted(conduct: Conduct) -> Result<Self> {
        Self::publishing(conduct, |_| Ok(())).await
    }

    /// The same with an issuer that `prepare` has added to.
    pub async fn publishing(conduct: Conduct, prepare: impl FnOnce(&mut Site) -> Result<()>) -> Result<Self> {
        let dir = Scratch::new("rotation")?;
        for name in ["ring", "keys"] {
            create_dir(dir.join(name))?;
        }
        set_permissions(dir.join("keys"), Permissions::from_mode(0o700))?;
        let passphrase = dir.write("passphrase", "of the tests\n")?;
        set_permissions(&passphrase, Permissions::from_mode(0o600))?;
        let nodes = NAMES.map(|_| Scratch::new("node")).into_iter().collect::<Result<Vec<_>>>()?;
        nodes.iter().try_for_each(|node| create_dir(node.join("state")))?;
        let mut site = site(&dir)?;
        prepare(&mut site)?;
        let policy = dir.write("rotation.yaml", policy(&site, &dir, &nodes).to_string())?;
        chancery::run(&["ring".as_ref(), "init".as_ref(), "--policy".as_ref(), policy.as_os_str()])
            .await?
            .success()?;
        let store = CellStore::directory(&dir.join("ring"), StoreMode::ReadOnly).await?;
        let schema = Schema { name: KeyRing::DOCUMENT, version: KeyRing::DOCUMENT_VERSION };
        let ring = store.cell(&site.url(PATH), schema);
        let issuer = site.start_ready().await?;
        let cluster = Cluster::new(Etcd::shared().await?.url(), &site.url(PATH), &dir.join("none"))?;
        let (servers, signers) = (Vec::new(), Vec::new());
        let mut stage = Self { servers, signers, issuer, site, cluster, conduct, ring, nodes, dir, policy };
        for number in 0..NAMES.len() {
            let signer = stage.signer(number).await?;
            stage.signers.push(signer);
        }
        let cluster = &stage.cluster;
        let clusters =
            stage.nodes.iter().map(|node| cluster.clone().signing_endpoint(&node.join("signer.sock")));
        let clusters: Vec<Cluster> = clusters.collect();
        let started = clusters.iter().map(KubeApiserver::start);
        stage.servers = futures_util::future::try_join_all(started).await?;
        stage.servers[0].create_service_account(ACCOUNT.0, ACCOUNT.1).await?;
        Ok(stage)
    }

    pub fn issuer_url(&self) -> String {
        self.site.url(PATH)
    }

    /// Starts the signer of a node, for the first time or again.
    pub async fn signer(&self, number: usize) -> Result<SignerProcess> {
        let path = |path: PathBuf| path.display().to_string();
        let node = &self.nodes[number];
        let (ring, keys) = (path(self.dir.join("ring")), path(self.dir.join("keys")));
        let (passphrase, state) = (path(self.dir.join("passphrase")), path(node.join("state")));
        let policy = path(self.policy.clone());
        let arguments = [
            ["--name", NAMES[number]],
            ["--ring-dir", &ring],
            ["--vault-dir", &keys],
            ["--passphrase-file", &passphrase],
            ["--state-dir", &state],
            ["--api-audience", API_AUDIENCE],
            ["--max-token-expiration", "600s"],
            ["--refresh-hint", self.conduct.refresh_hints[number]],
        ];
        let rotates: &[&str] = if self.conduct.rotate { &["--rotation-policy", &policy] } else { &[] };
        SignerProcess::start(node, &self.issuer_url(), &[&arguments.concat()[..], rotates].concat()).await
    }

    /// Freezes a signer, which does not happen to hold the lock of the shared ring: a rotation would only be delayed by that, but
    /// for as long as the signer is frozen.
    pub async fn freeze(&mut self, number: usize) -> Result<()> {
        let lock = self.dir.join("ring/.chancery.lock");
        let signer = self.signers[number].process();
        wait::until("a moment in which the signer holds no lock", async || {
            signer.freeze().await?;
            let file = std::fs::File::open(&lock)?;
            // Others may hold it for milliseconds.
            for _ in 0..20 {
                if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
                    return Ok(true);
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            signer.signal(Signal::CONT)?;
            Ok(false)
        })
        .await
    }

    /// The folder of everything, and the rotation policy, to be changed while nobody reads it.
    pub fn files(&self) -> (&Scratch, &Path) {
        (&self.dir, &self.policy)
    }

    /// Runs `chancery ring VERB --policy FILE` with further arguments.
    pub async fn ring_command(&self, verb: &str, more: &[&str]) -> Result<chancery::Output> {
        let policy = self.policy.display().to_string();
        chancery::run(&[&["ring", verb, "--policy", &policy], more].concat()).await
    }

    /// The ring as it stands.
    pub async fn ring(&self) -> Result<KeyRing> {
        Ok(self.ring.load().await?.context("no ring")?.document)
    }

    /// Waits for the ring to be so.
    pub async fn ring_is(&self, what: &str, so: impl Fn(&KeyRing) -> bool) -> Result<KeyRing> {
        let seen = wait::value_within(LONG, what, async || Ok(Some(self.ring().await?).filter(&so))).await;
        seen.with_context(|| self.logs())
    }

    /// Waits until a standby is seen by everybody and `loaded` signers have it.
    pub async fn standby(&self, loaded: usize) -> Result<()> {
        let has_one = |ring: &KeyRing| {
            let mut standbys = ring.in_state(KeyState::Published).filter(|key| key.may_sign());
            standbys.any(|key| {
                ring.signers().filter(|(_, said)| said.loaded.contains(key.kid())).count() >= loaded
            })
        };
        self.ring_is("a standby", has_one).await.map(drop)
    }

    /// Asks for a rotation, and waits for it.
    pub async fn rotate(&self) -> Result<()> {
        let before = self.ring().await?.position().epoch;
        self.ring_command("rotate", &[]).await?.success()?;
        self.ring_is("an activation", |ring| ring.position().epoch > before).await.map(drop)
    }

    /// Waits until every signer signs by the epoch of the ring.
    pub async fn everybody_follows(&self) -> Result<()> {
        let follows = |ring: &KeyRing| {
            let epoch = ring.position().epoch;
            ring.signers().count() == NAMES.len()
                && ring.signers().all(|(_, said)| said.position.epoch == epoch)
        };
        self.ring_is("every signer at the epoch", follows).await.map(drop)
    }

    /// Waits until one of the signers has logged so.
    pub async fn says(&self, words: &[&str]) -> Result<()> {
        let said = |log: &str| log.lines().any(|line| words.iter().all(|word| line.contains(word)));
        wait::until(&format!("{words:?} in a log"), async || {
            ensure!(self.signers.iter().any(|signer| said(&signer.log())));
            Ok(true)
        })
        .await
        .with_context(|| self.logs())
    }

    /// What everybody has logged of the ring.
    pub fn logs(&self) -> String {
        let mut text = format!("issuer\n{}\n", self.issuer.log());
        for (name, signer) in NAMES.iter().zip(&self.signers) {
            let log = signer.log();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines.iter().skip(lines.len().saturating_sub(40));
            text.push_str(&format!("signer {name}\n"));
            last.for_each(|line| text.push_str(&format!("  {line}\n")));
        }
        text
    }
}

/// Keys are looked for every second, and may be kept for one. The ring is in a folder.
pub fn site(dir: &Scratch) -> Result<Site> {
    site_of(&json!({ "directory": dir.join("ring") }))
}

/// The same with the ring at this place.
pub fn site_of(ring: &Value) -> Result<Site> {
    let mut site = Site::new()?;
    site.add_issuer(PATH, json!([{ "name": "ring", "ring": ring }]), json!([]))?;
    let issuer = site.config.pointer_mut("/issuers/0").context("no issuer")?;
    issuer["maxAgeSeconds"] = json!(1);
    issuer["verify"]["every"] = json!("1s");
    issuer["verify"]["for"] = json!(["kubernetes"]);
    Ok(site)
}

fn policy(site: &Site, dir: &Scratch, nodes: &[Scratch]) -> Value {
    let signer = |(name, node): (&&str, &Scratch)| json!({ "name": name, "acknowledgements": { "directory": node.join("state") } });
    let signers = NAMES.iter().zip(nodes).map(signer).collect::<Vec<_>>();
    let lifetimes = json!({ "external": "600s", "apiServer": "600s" });
    let own = json!({ "signers": signers, "lifetimes": lifetimes, "overlap": { "minimum": "0s", "maximum": "700s" } });
    trial(site, &[in_folders(dir), own])
}

/// A ring and sealed private halves in the folder of everything.
pub fn in_folders(dir: &Scratch) -> Value {
    json!({
        "ring": { "directory": dir.join("ring") },
        "keys": { "directory": dir.join("keys"), "passphraseFile": dir.join("passphrase") },
    })
}

/// A policy with waits of seconds, which no workload could do with, and what else is said of it.
pub fn trial(site: &Site, own: &[Value]) -> Value {
    let mut policy = json!({
        "issuer": site.url(PATH),
        "visibility": { "directory": site.dir().join("state") },
        "schedule": { "byHand": true },
        "trial": true,
        "wait": "1s",
        "skew": "5s",
        "overlap": { "minimum": "0s" },
        "rollbackWindow": "0s",
        "look": "500ms",
    });
    for (field, value) in own.iter().filter_map(Value::as_object).flatten() {
        policy[field] = value.clone();
    }
    policy
}

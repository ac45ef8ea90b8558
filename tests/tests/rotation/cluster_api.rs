//! Cluster API: a rotation changes the Secret and rolls the machines, and whichever of the two a machine is made from, no live
//! token is refused.

use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use chancery_cluster::cell::{Cell, CellStoreConfig, ConfigMapsConfig, Schema, StoreMode};
use chancery_core::KeyRing;
use chancery_core::ring::KeyState;
use e2e::chancery;
use e2e::key_file::KeyFile;
use e2e::process::{Process, mortal};
use e2e::scratch::Scratch;
use e2e::site::Site;
use e2e::token_verifier::TokenVerifier;
use e2e::{binary, wait};
use serde_json::json;

use crate::load::{AUDIENCE, Load, Rate};
use crate::machines::{CLUSTER, LIFETIME, Machines, Management, verified_with};
use crate::stage::{PATH, site_of, trial};

const SERVERS: [&str; 4] = ["etcd", "kube-apiserver", "go-oidc", "cluster-api"];
/// Several starts of a kube-apiserver, one after another, on a busy machine.
const LONG: Duration = Duration::from_secs(400);
const RATE: Rate = Rate { pause: Duration::from_millis(333), lifetime: LIFETIME };

struct Stage {
    machines: Machines,
    rotating: Process,
    ring: Cell<KeyRing>,
    site: Site,
    policy: String,
    dir: Scratch,
}

impl Stage {
    /// The ring has adopted the key that Cluster API has made, and nobody looks after the Secret yet. Ring and keys are in the
    /// management cluster.
    async fn start() -> Result<Self> {
        let dir = Scratch::new("cluster-api")?;
        let key = KeyFile::new(&dir, "sa")?;
        let management = Management::start(&dir, &key.private).await?;
        management.create_cluster((&key.private, &key.public)).await?;
        let place = ConfigMapsConfig {
            namespace: Some("default".to_owned()),
            name: "chancery".to_owned(),
            kubeconfig: Some(dir.join("management.conf")),
        };
        let objects =
            json!({ "namespace": place.namespace, "name": place.name, "kubeconfig": place.kubeconfig });
        let site = site_of(&json!({ "configMap": objects }))?;
        let own = json!({
            "ring": { "configMap": objects },
            "keys": { "secrets": objects },
            "signers": [{ "name": CLUSTER }],
            "lifetimes": { "external": "3600s", "apiServer": "3600s" },
            "overlap": { "minimum": "0s", "maximum": "3700s" },
        });
        let policy = trial(&site, &[own]);
        let policy = dir.write("rotation.yaml", policy.to_string())?.display().to_string();
        let (private, public) = (key.private.display().to_string(), key.public.display().to_string());
        let adopt =
            ["ring", "adopt", "--policy", &policy, "--signing-key-file", &private, "--key-file", &public];
        chancery::run(&adopt).await?.success()?;
        let store = CellStoreConfig { directory: None, config_map: Some(place) };
        let store = store.open(dir.path(), StoreMode::ReadOnly).await?;
        let schema = Schema { name: KeyRing::DOCUMENT, version: KeyRing::DOCUMENT_VERSION };
        let ring = store.cell(&site.url(PATH), schema);
        let rotating = chancery::rotate(&policy, &dir.join("run.log"))?;
        let machines = Machines::start(management, &site.url(PATH)).await?;
        Ok(Self { machines, rotating, ring, site, policy, dir })
    }

    fn command(&self, more: &[&str]) -> Result<Command> {
        let mut command = mortal(&binary::chancery()?);
        command.args([
            "ring",
            "cluster-api",
            "--policy",
            &self.policy,
            "--name",
            CLUSTER,
            "--cluster",
            CLUSTER,
        ]);
        command.args(["--control-plane", "prod-control-plane", "--namespace", "default", "--kubeconfig"]);
        command.arg(self.dir.join("management.conf"));
        command.args(more);
        Ok(command)
    }

    async fn ran(&self, more: &[&str]) -> Result<chancery::Output> {
        chancery::run_command(self.command(more)?).await
    }

    fn follow(&self) -> Result<Process> {
        Process::start("chancery ring cluster-api", self.command(&[])?, &self.dir.join("follow.log"))
    }

    async fn ring(&self) -> Result<KeyRing> {
        Ok(self.ring.load().await?.context("no ring")?.document)
    }

    async fn ring_is(&self, what: &str, so: impl Fn(&KeyRing) -> bool) -> Result<KeyRing> {
        wait::value_within(LONG, what, async || Ok(Some(self.ring().await?).filter(&so)))
            .await
            .with_context(|| self.logs())
    }

    /// Waits until every machine signs by the ring and has the next standby.
    async fn is_followed(&self) -> Result<KeyRing> {
        let is_followed = |ring: &KeyRing| {
            let mut standbys = ring.in_state(KeyState::Published).peekable();
            let epoch = ring.position().epoch;
            standbys.peek().is_some()
                && ring.signers().count() == 1
                && ring.signers().all(|(_, said)| said.position.epoch == epoch && said.signs.is_none())
                && standbys.all(|key| ring.signers().all(|(_, said)| said.loaded.contains(key.kid())))
        };
        self.ring_is("every machine with the key and the next standby", is_followed).await
    }

    fn made(&self) -> usize {
        self.machines.management.made.load(Ordering::SeqCst)
    }

    fn logs(&self) -> String {
        let followed = std::fs::read_to_string(self.dir.join("follow.log")).unwrap_or_default();
        format!("rotating\n{}\nfollowing\n{followed}", self.rotating.log_tail())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_of_cluster_api_are_rolled_under_load_and_no_live_token_is_refused() -> Result<()> {
    if binary::skipped(&SERVERS) {
        return Ok(());
    }
    let _alone = crate::STAGE.lock().await;
    let started = Instant::now();
    let stage = Stage::start().await?;
    let _issuer = stage.site.start_ready().await?;
    tokio::select! {
        outcome = under_load(&stage, started) => outcome,
        failed = stage.machines.reconcile() => Err(failed.context(stage.logs())),
    }
}

async fn under_load(stage: &Stage, started: Instant) -> Result<()> {
    let issuer = stage.site.url(PATH);
    let relying_party =
        TokenVerifier::start("go-oidc", &issuer, AUDIENCE, stage.site.authority().path()).await?;
    let load = Load::begin(stage.machines.servers.clone(), relying_party, RATE);
    planned(stage).await?;
    let mut following = stage.follow()?;
    let ring = stage.is_followed().await?;
    ensure!(stage.made() == 4, "the first standby: {} machines made", stage.made());
    say(&format!("the first standby is on every machine after {:.0?}", started.elapsed()));
    following.kill()?;
    let first = ring.active().context("nothing signs")?.kid().to_string();
    stopped_while_a_machine_is_not_ready(stage).await?;
    step_by_step(stage).await?;
    let ring = stage.is_followed().await?;
    ensure!(stage.made() == 7, "a rotation and a repair: {} machines made", stage.made());
    let window = verified_with(&stage.machines.management.secret().await?)?;
    let active = ring.active().context("nothing signs")?.kid().to_string();
    ensure!(window.len() == 3 && window[0] == active && window.contains(&first), "{window:?}");

    let (counts, tokens) = load.end().await;
    let (signed, verified) = (counts.signed.load(Ordering::Relaxed), counts.verified.load(Ordering::Relaxed));
    let refused = counts.refused();
    say(&format!(
        "a rotation, {} machines: {signed} tokens of {} keys, {verified} times verified, {} refused, after {:.0?}",
        stage.made(),
        counts.keys(),
        refused.len(),
        started.elapsed(),
    ));
    ensure!(refused.is_empty(), "{:#?}\n{}", &refused[..refused.len().min(5)], stage.logs());
    ensure!(signed == tokens.len() && counts.keys() == 2 && verified == signed * 6, "{signed} {verified}");
    Ok(())
}

/// Before anything is done, it is said what would be.
async fn planned(stage: &Stage) -> Result<()> {
    let before = stage.machines.management.secret().await?.metadata.resource_version;
    wait::value_within(LONG, "a plan to bring the first standby", async || {
        let plan = stage.ran(&["--plan"]).await?;
        ensure!(plan.code == Some(3), "{plan:?}");
        let lines: Vec<&str> = plan.stdout.lines().collect();
        let [write, roll, then] = lines[..] else { anyhow::bail!("{plan:?}") };
        ensure!(
            write.starts_with("then     write the Secret: ") && write.contains("2 keys to verify"),
            "{plan:?}"
        );
        ensure!(
            roll.starts_with("then     have every machine made anew") && then.starts_with("waits"),
            "{plan:?}"
        );
        Ok(Some(()))
    })
    .await
    .with_context(|| stage.logs())?;
    let after = stage.machines.management.secret().await?.metadata.resource_version;
    ensure!(before == after && stage.made() == 2, "a plan has done something");
    Ok(())
}

/// Somebody asks for a rotation while a machine is not ready: the Secret stays as it is.
async fn stopped_while_a_machine_is_not_ready(stage: &Stage) -> Result<()> {
    let management = &stage.machines.management;
    management.is_stuck.store(true, Ordering::SeqCst);
    wait::value_within(LONG, "a machine that is not ready", async || {
        Ok(stage.ran(&["--plan"]).await?.stdout.contains("a rollout is under way").then_some(()))
    })
    .await?;
    let before = management.secret().await?.metadata.resource_version;
    let epoch = stage.ring().await?.position().epoch;
    chancery::run(&["ring", "rotate", "--policy", &stage.policy]).await?.success()?;
    stage.ring_is("the activation", |ring| ring.position().epoch > epoch).await?;
    stage.ring_is("the next standby", |ring| ring.in_state(KeyState::Published).next().is_some()).await?;
    wait::value_within(LONG, "a step that waits", async || {
        let step = stage.ran(&["--once"]).await?;
        ensure!(step.code == Some(3), "{step:?}");
        Ok(step.stderr.contains("waits: a rollout is under way: of 2 machines").then_some(()))
    })
    .await?;
    ensure!(management.secret().await?.metadata.resource_version == before, "the Secret was written");
    management.is_stuck.store(false, Ordering::SeqCst);
    Ok(())
}

/// Each step is another process; between the Secret and the roll a machine fails and is made anew.
async fn step_by_step(stage: &Stage) -> Result<()> {
    let take = async |what: &str| {
        wait::value_within(LONG, what, async || {
            let step = stage.ran(&["--once"]).await?;
            ensure!(matches!(step.code, Some(0 | 3)), "{step:?}");
            Ok(step.stderr.contains(what).then_some(()))
        })
        .await
        .with_context(|| stage.logs())
    };
    take("cluster API: write the Secret: ").await?;
    stage.machines.repair().await?;
    take("cluster API: have every machine made anew: ").await?;
    wait::value_within(LONG, "the end of the roll", async || {
        Ok((stage.ran(&["--once"]).await?.code == Some(0)).then_some(()))
    })
    .await
    .with_context(|| stage.logs())
}

/// Where the test runner does not capture it.
fn say(what: &str) {
    use std::io::Write as _;
    _ = writeln!(std::io::stderr(), "cluster API: {what}");
}

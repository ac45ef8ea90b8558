//! The change of a cluster's issuer, phase by phase, on two replicas that are restarted with other flags: what the command
//! says next, and which tokens are accepted.

#![allow(clippy::indexing_slicing, reason = "a test fails by panicking")]

use anyhow::{Context as _, Result, ensure};
use e2e::chancery::{IssuerService, Output};
use e2e::cluster::{API_AUDIENCE, Cluster};
use e2e::etcd::Etcd;
use e2e::key_file::KeyFile;
use e2e::kube_apiserver::KubeApiserver;
use e2e::scratch::Scratch;
use e2e::site::Site;
use e2e::{binary, chancery, wait};
use serde_json::{Value, json};

const ACCOUNT: (&str, &str) = ("demo", "app");
const OLD: &str = "/old";
const NEW: &str = "/new";

/// A control plane of two, and whoever publishes for it.
struct Stage {
    site: Site,
    service: IssuerService,
    key: KeyFile,
    cluster: Cluster,
    servers: Vec<KubeApiserver>,
    dir: Scratch,
}

impl Stage {
    async fn start() -> Result<Self> {
        let (dir, mut site) = (Scratch::new("migration")?, Site::new()?);
        let key = KeyFile::new(&dir, "sa")?;
        site.add_issuer_of_files(OLD, &[&key.public], json!([]))?;
        let cluster = Cluster::new(Etcd::shared().await?.url(), &site.url(OLD), &key.private)?;
        let servers = vec![KubeApiserver::start(&cluster).await?, KubeApiserver::start(&cluster).await?];
        servers[0].create_service_account(ACCOUNT.0, ACCOUNT.1).await?;
        servers[0].kubeconfig(&dir.join("kubeconfig"))?;
        std::fs::create_dir(dir.join("state"))?;
        let service = site.start_ready().await?;
        let stage = Self { site, service, key, cluster, servers, dir };
        stage.relying_party_trusts("from")?;
        Ok(stage)
    }

    /// Writes the plan file.
    fn relying_party_trusts(&self, which: &str) -> Result<()> {
        let endpoints: Vec<&str> = self.servers.iter().map(KubeApiserver::url).collect();
        let plan = json!({
            "from": self.site.url(OLD),
            "to": self.site.url(NEW),
            "kubeApiserver": { "endpoints": endpoints, "kubeconfig": "kubeconfig" },
            "longestToken": "2s",
            "skew": "1s",
            "state": { "directory": "state" },
            "parties": [{ "name": "team-vault", "kind": "vault", "trusts": which }],
            "verify": { "ca": self.site.authority().path(), "for": ["kubernetes"] },
        });
        self.dir.write("migration.yaml", plan.to_string())?;
        Ok(())
    }

    /// Publishes for these issuers from now on.
    async fn publishes(&mut self, paths: &[&str]) -> Result<()> {
        self.service.terminate().await?;
        *self.site.config.pointer_mut("/issuers").context("no issuers")? = json!([]);
        for path in paths {
            self.site.add_issuer_of_files(path, &[&self.key.public], json!([]))?;
        }
        self.service = self.site.start_ready().await?;
        Ok(())
    }

    /// Restarts a replica with these issuers, in this order.
    async fn restart(&mut self, number: usize, paths: &[&str]) -> Result<()> {
        let issuers: Vec<String> = paths.iter().map(|path| self.site.url(path)).collect();
        let issuers: Vec<&str> = issuers.iter().map(String::as_str).collect();
        let cluster = self.cluster.clone().issuers(&issuers);
        let server = &mut self.servers[number];
        server.process().kill()?;
        *server = KubeApiserver::start_on(server.port(), &cluster).await?;
        Ok(())
    }

    async fn run(&self, more: &[&str]) -> Result<Output> {
        let plan = self.dir.join("migration.yaml").display().to_string();
        chancery::run(&[&["migrate", "issuer", "--plan", &plan], more].concat()).await
    }

    /// What is to be done next, as `phase` alone or `phase URL` of a replica; and what is out of order.
    async fn says(&self) -> Result<(Vec<String>, Vec<Value>)> {
        let output = self.run(&["--json"]).await?;
        let plan: Value = serde_json::from_str(&output.stdout).with_context(|| format!("{output:?}"))?;
        let list = |name: &str| plan.get(name).and_then(Value::as_array).cloned().context("no list");
        let is_open = |step: &Value| step["progress"] == "toDo" || step["progress"]["waiting"].is_object();
        let name = |step: &Value| {
            let what = step["what"].as_str().unwrap_or_default();
            let number = self.servers.iter().position(|server| what.contains(server.url()));
            let phase = step["phase"].as_str().unwrap_or_default();
            number.map_or(phase.to_owned(), |number| format!("{phase} {number}"))
        };
        let problems = list("problems")?;
        let open: Vec<String> = list("steps")?.iter().filter(|step| is_open(step)).map(name).collect();
        let expected = if open.is_empty() && problems.is_empty() { 0 } else { 3 };
        ensure!(output.code == Some(expected), "{:?}: {plan:#}", output.code);
        Ok((open, problems))
    }

    /// Whether this is what is to be done next, in any order, and nothing is out of order.
    async fn next_is(&self, phases: &[&str]) -> Result<()> {
        let (mut open, problems) = self.says().await?;
        let mut phases = phases.to_vec();
        open.sort();
        phases.sort_unstable();
        let is_so = problems.is_empty() && open == phases;
        ensure!(is_so, "{open:?}; expected {phases:?}\n{}", self.run(&[]).await?.stdout);
        Ok(())
    }

    /// Whether `migrate check` takes a phase for done.
    async fn is_done(&self, phase: &str) -> Result<bool> {
        let plan = self.dir.join("migration.yaml").display().to_string();
        let output = chancery::run(&["migrate", "check", phase, "--plan", &plan]).await?;
        ensure!(matches!(output.code, Some(0 | 3)), "{output:?}");
        Ok(output.code == Some(0))
    }

    async fn token(&self, number: usize) -> Result<String> {
        self.servers[number].token_request(ACCOUNT, API_AUDIENCE, 600).await
    }

    /// Which replicas accept a token.
    async fn accepted(&self, token: &str) -> Result<Vec<bool>> {
        let mut accepted = Vec::new();
        for server in &self.servers {
            accepted.push(server.token_review(token, &[]).await?.is_ok());
        }
        Ok(accepted)
    }
}

#[tokio::test]
async fn an_issuer_is_changed_phase_by_phase_and_no_live_token_is_refused() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let mut stage = Stage::start().await?;
    let old = stage.token(0).await?;
    stage.next_is(&["publish", "accept 0", "accept 1"]).await?;
    stage.publishes(&[OLD, NEW]).await?;
    stage.next_is(&["register", "accept 0", "accept 1"]).await?;
    stage.relying_party_trusts("both")?;
    stage.restart(0, &[OLD, NEW]).await?;
    stage.next_is(&["accept 1"]).await?;
    ensure!(stage.is_done("register").await? && !stage.is_done("accept").await?);

    // Too early: the other one does not accept what this one signs now.
    stage.restart(0, &[NEW, OLD]).await?;
    let new = stage.token(0).await?;
    ensure!(stage.accepted(&new).await? == [true, false]);
    let (_, problems) = stage.says().await?;
    let text = serde_json::to_string(&problems)?;
    let named = format!("{} refuses tokens of {}", stage.servers[1].url(), stage.site.url(NEW));
    ensure!(problems.len() == 1 && text.contains(&named) && text.contains("remedy"), "{text}");
    ensure!(stage.run(&[]).await?.stdout.contains("OUT OF ORDER"));

    // The remedy, then the rest.
    stage.restart(1, &[OLD, NEW]).await?;
    stage.next_is(&["switch 1"]).await?;
    ensure!(stage.accepted(&new).await? == [true, true] && stage.accepted(&old).await? == [true, true]);
    stage.restart(1, &[NEW, OLD]).await?;
    ensure!(stage.accepted(&old).await? == [true, true]);
    wait::until("the end of the wait", async || {
        stage.next_is(&["drop 0", "drop 1", "deregister"]).await?;
        Ok(true)
    })
    .await?;

    stage.restart(0, &[NEW]).await?;
    stage.restart(1, &[NEW]).await?;
    ensure!(stage.accepted(&old).await? == [false, false] && stage.accepted(&new).await? == [true, true]);
    stage.next_is(&["deregister"]).await?;
    ensure!(stage.is_done("drop").await? && !stage.is_done("deregister").await?);
    stage.relying_party_trusts("to")?;
    stage.next_is(&["unpublish"]).await?;
    stage.publishes(&[NEW]).await?;
    stage.next_is(&[]).await?;
    ensure!(stage.run(&[]).await?.stdout.ends_with("nothing is left to do\n"));
    Ok(())
}

#[tokio::test]
async fn a_replica_that_is_away_holds_the_change_back_and_is_named() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let mut stage = Stage::start().await?;
    let away = stage.servers[1].url().to_owned();
    stage.servers[1].process().kill()?;
    let output = stage.run(&[]).await?;
    ensure!(output.code == Some(3), "{output:?}");
    ensure!(
        output.stdout.contains(&format!("{away}  is not known: cannot reach the API server")),
        "{output:?}"
    );
    ensure!(!output.stdout.contains("switch      TO DO"), "{output:?}");
    Ok(())
}

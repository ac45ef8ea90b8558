//! `chancery bootstrap`: one file becomes a key, documents in a bucket, trust at a cloud, a control plane's files, tokens that
//! a second cluster accepts, and the add-on's values. Killed anywhere and run again, it comes to the same.

#![allow(clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use e2e::authority::{Authority, LOOPBACK};
use e2e::chancery::{Output, run_command};
use e2e::cluster::Cluster;
use e2e::etcd::Etcd;
use e2e::gcp_iam::GcpIam;
use e2e::google_sts::GoogleSts;
use e2e::key_file::KeyFile;
use e2e::kube_apiserver::KubeApiserver;
use e2e::minio::Minio;
use e2e::relying_party::TrustedIssuer;
use e2e::scratch::Scratch;
use e2e::tls_front::TlsFront;
use e2e::witness::kids;
use e2e::{binary, wait};
use serde_json::{Value, json};

const BUCKET: &str = "documents";
const AUDIENCE: &str = "second-cluster";
const TOKEN: &str = "ya29.an-access-token";
const SCOPE: &str = "https://www.googleapis.com/auth/iam";
const STEPS: [&str; 7] =
    ["keys", "writer key", "publish", "visible", "control plane", "first tokens", "add-on"];

/// A bucket that the world reads, a cloud, a second cluster that trusts the issuer, and a person's folder.
struct Stage {
    issuer: String,
    minio: Minio,
    _front: TlsFront,
    iam: GcpIam,
    sts: GoogleSts,
    _second: KubeApiserver,
    dir: Scratch,
}

impl Stage {
    async fn new() -> Result<Self> {
        let dir = Scratch::new("bootstrap")?;
        let authority = Authority::new(dir.path())?;
        let certificate = authority.issue(dir.path(), &LOOPBACK)?;
        let minio = Minio::start().await?;
        minio.create_public_bucket(BUCKET).await?;
        let front = TlsFront::start(minio.endpoint(), &certificate).await?;
        let issuer = format!("{}/{BUCKET}", front.url());
        let (iam, sts) = (GcpIam::start(TOKEN).await?, GoogleSts::start(TOKEN, &[SCOPE]).await?);
        let own = KeyFile::new(&dir, "second-cluster")?;
        let trusted = TrustedIssuer {
            url: issuer.clone(),
            audiences: vec![AUDIENCE.to_owned()],
            ca_pem: authority.pem().to_owned(),
        };
        let second = Cluster::new(Etcd::shared().await?.url(), "https://second.example", &own.private)?;
        let second = KubeApiserver::start(&second.trusts(trusted)).await?;
        second.kubeconfig(&dir.join("second.kubeconfig"))?;
        let stage = Self { issuer, minio, _front: front, iam, sts, _second: second, dir };
        stage.write(authority.path())?;
        Ok(stage)
    }

    fn folder(&self) -> PathBuf {
        self.dir.join("cluster")
    }

    fn write(&self, ca: &Path) -> Result<()> {
        std::fs::create_dir(self.folder())?;
        let registration = json!({ "gcp": {
            "project": "my-project", "pool": "clusters", "provider": "prod", "uploadKeys": true,
            "endpoint": self.iam.url(), "credentialsFile": self.sts.credentials_file()?,
        }});
        let target = json!({ "to": { "name": "bucket", "s3": {
            "bucket": BUCKET, "region": self.minio.region(), "endpoint": self.minio.endpoint(), "pathStyle": true,
        }}});
        let file = json!({
            "issuer": {
                "url": self.issuer,
                "targets": [target],
                "registrations": [registration],
                "verify": { "ca": ca, "for": ["kubernetes"] },
            },
            "keys": { "algorithm": "p-256" },
            "controlPlane": { "distribution": "kubeadm", "version": "1.36.3", "cluster": "prod" },
            "canaries": [{
                "name": "second", "audience": AUDIENCE,
                "apiServer": { "kubeconfig": self.dir.join("second.kubeconfig") },
            }],
            "addOn": { "issuer": { "verify": { "ca": "/etc/chancery/ca.crt" } } },
        });
        std::fs::write(self.folder().join("bootstrap.yaml"), serde_json::to_string_pretty(&file)?)?;
        Ok(())
    }

    fn command(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = Command::new(binary::chancery()?);
        let (id, secret) = self.minio.root_credentials();
        command.envs([("AWS_ACCESS_KEY_ID", id), ("AWS_SECRET_ACCESS_KEY", secret)]);
        command.env("AWS_EC2_METADATA_DISABLED", "true").env_remove("AWS_PROFILE");
        command.arg("bootstrap").args(arguments).current_dir(self.folder());
        Ok(command)
    }

    async fn run(&self, arguments: &[&str]) -> Result<Output> {
        run_command(self.command(arguments)?).await
    }

    /// Runs it and kills it when it has said that this step is over. The stand-ins answer meanwhile.
    async fn killed_after(&self, step: &'static str) -> Result<()> {
        let mut command = self.command(&["apply"])?;
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        tokio::task::spawn_blocking(move || {
            let mut running = command.spawn()?;
            let said = BufReader::new(running.stdout.take().context("no output")?).lines();
            for line in said {
                if line?.starts_with(step) {
                    break;
                }
            }
            running.kill()?;
            running.wait()?;
            Ok(())
        })
        .await?
    }

    async fn published(&self) -> Result<Vec<String>> {
        let jwks = self.minio.read_object(BUCKET, "openid/v1/jwks").await?;
        Ok(kids(&serde_json::from_slice(&jwks)?).into_iter().collect())
    }

    /// Every file below the folder, by its path, with its content.
    fn files(&self) -> Result<Vec<(String, Vec<u8>)>> {
        fn below(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
            for entry in std::fs::read_dir(folder)? {
                let path = entry?.path();
                if path.is_dir() { below(&path, found)? } else { found.push(path) }
            }
            Ok(())
        }
        let mut paths = Vec::new();
        below(&self.folder(), &mut paths)?;
        paths.sort();
        let name = |path: &PathBuf| anyhow::Ok(path.strip_prefix(self.folder())?.display().to_string());
        paths.iter().map(|path| Ok((name(path)?, std::fs::read(path)?))).collect()
    }
}

/// The lines that begin with the name of a step.
fn states(output: &str) -> Vec<(&str, &str)> {
    let lines = output.lines().filter(|line| !line.starts_with(' '));
    lines.filter_map(|line| Some((line.get(..16)?.trim(), line.get(16..)?))).collect()
}

#[tokio::test]
async fn one_file_becomes_a_clusters_issuer_however_often_it_is_killed() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver", "minio"]) {
        return Ok(());
    }
    let stage = Stage::new().await?;
    let plan = stage.run(&["plan"]).await?;
    ensure!(plan.code == Some(3), "{plan:?}");
    let planned = states(&plan.stdout);
    assert_eq!(planned.iter().map(|(name, _)| *name).collect::<Vec<_>>(), STEPS);
    assert_eq!(stage.files()?.len(), 1, "a plan writes nothing: {:?}", stage.files()?);

    for step in STEPS {
        stage.killed_after(step).await?;
    }
    // The second cluster reads the issuer's documents some seconds after they are there.
    let applied = wait::value("a first token that is accepted", async || {
        let applied = stage.run(&["apply"]).await?;
        let is_early = applied.code == Some(1) && applied.stderr.contains("second refused a token of it");
        ensure!(is_early || applied.code == Some(0), "{applied:?}");
        Ok((!is_early).then_some(applied))
    });
    let applied = applied.await?;
    ensure!(applied.stdout.contains("accepted by second"), "{}", applied.stdout);

    let made = stage.files()?;
    let names: Vec<&str> = made.iter().map(|(name, _)| name.as_str()).collect();
    let expected = [
        "bootstrap.yaml",
        "control-plane/README.md",
        "control-plane/cluster-configuration.yaml",
        "control-plane/pki/sa.pub",
        "keys/sa.key",
        "keys/sa.pub",
        "values.yaml",
        "writer.key",
    ];
    assert_eq!(names, expected, "and nothing that a killed run has left");
    let inspected = run_command({
        let mut command = Command::new(binary::chancery()?);
        command.args(["keygen", "inspect"]).arg(stage.folder().join("keys/sa.key"));
        command
    });
    let inspected = inspected.await?.success()?;
    let published = stage.published().await?;
    ensure!(published.len() == 1 && inspected.contains(&published[0]), "{published:?}: {inspected}");
    let provider = stage.iam.resource("clusters/providers/prod").context("no provider")?;
    ensure!(provider.to_string().contains(&published[0]), "{provider}");
    let values: Value =
        serde_saphyr::from_str(&std::fs::read_to_string(stage.folder().join("values.yaml"))?)?;
    let entry = &values["issuer"]["issuers"][0];
    ensure!(
        entry["url"] == stage.issuer.as_str() && entry["verify"]["ca"] == "/etc/chancery/ca.crt",
        "{entry}"
    );
    ensure!(entry["owner"].is_string() && entry.get("sources").is_none(), "{entry}");

    let again = stage.run(&["apply"]).await?.success()?;
    ensure!(states(&again).iter().all(|(_, state)| !["done", "to do"].contains(state)), "{again}");
    assert_eq!(stage.files()?, made, "nothing is written twice");
    stage.run(&["plan"]).await?.success()?;
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_used_is_refused_before_anything_is_done() -> Result<()> {
    let dir = Scratch::new("bootstrap-refusals")?;
    let issuer = json!({ "url": "https://id.example.com/a", "targets": [{ "to": { "directory": { "path": "out" } } }] });
    let control_plane = json!({ "distribution": "kubeadm", "version": "1.36" });
    let with = |name: &str, value: Value| {
        let mut file = json!({ "issuer": issuer, "controlPlane": control_plane });
        file[name] = value;
        file
    };
    let mut sourced = issuer.clone();
    sourced["sources"] = json!([]);
    for (file, words) in [
        (with("keys", json!({ "algorithm": "dsa" })), "keys.algorithm"),
        (
            with("controlPlane", json!({ "distribution": "kubeadmin", "version": "1" })),
            "controlPlane.distribution",
        ),
        (with("issuer", sourced), "leave them out"),
        (with("issuer", json!({ "url": "http://id.example.com" })), "https"),
        (with("surprise", json!(1)), "surprise"),
    ] {
        dir.write("bootstrap.yaml", file.to_string())?;
        let mut command = Command::new(binary::chancery()?);
        command.args(["bootstrap", "apply"]).current_dir(dir.path());
        let refused = run_command(command).await?;
        ensure!(refused.code == Some(1) && refused.stderr.contains(words), "{words}: {refused:?}");
    }
    let left: Vec<_> = std::fs::read_dir(dir.path())?.flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["bootstrap.yaml"]);
    Ok(())
}

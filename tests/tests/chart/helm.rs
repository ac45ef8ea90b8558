//! Helm, on the chart of this repository.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result, ensure};
use e2e::binary;
use e2e::scratch::Scratch;
use serde_json::{Value, json};

/// Below the folder of this crate, in which cargo runs its tests.
pub const CHART: &str = "../charts/chancery";

/// A release in these tests is called so, as docs/addon.md does.
pub const RELEASE: &str = "chancery";
/// Its namespace.
pub const NAMESPACE: &str = "chancery";

/// Helm with a home of its own: what a person has configured does not count.
pub struct Helm {
    dir: Scratch,
    kubeconfig: PathBuf,
}

/// What a run left.
#[derive(Debug)]
pub struct Ran {
    pub is_done: bool,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// The output of a run that must have succeeded.
    pub fn success(self) -> Result<String> {
        let Self { is_done, stdout, stderr } = self;
        ensure!(is_done, "helm refused\nstdout: {stdout}\nstderr: {stderr}");
        Ok(stdout)
    }

    /// Why a run was refused that must have been.
    pub fn refusal(self) -> Result<String> {
        ensure!(!self.is_done, "helm accepted it:\n{}", self.stdout);
        Ok(self.stderr)
    }
}

impl Helm {
    /// Without a cluster.
    pub fn new() -> Result<Self> {
        let dir = Scratch::new("helm")?;
        let kubeconfig = dir.join("no-kubeconfig");
        Ok(Self { dir, kubeconfig })
    }

    /// On the cluster of a kubeconfig.
    pub fn on(kubeconfig: &Path) -> Result<Self> {
        Ok(Self { dir: Scratch::new("helm")?, kubeconfig: kubeconfig.to_owned() })
    }

    pub async fn run(&self, arguments: &[&str]) -> Result<Ran> {
        let mut command = Command::new(binary::server("helm")?);
        command.args(arguments).stdin(Stdio::null());
        command.env("KUBECONFIG", &self.kubeconfig);
        for home in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(home, self.dir.path());
        }
        let output = tokio::task::spawn_blocking(move || command.output()).await?.context("run helm")?;
        Ok(Ran {
            is_done: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// Writes values to a file, for `--values`.
    pub fn values(&self, values: &Value) -> Result<String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("values-{}.json", NUMBER.fetch_add(1, Ordering::Relaxed));
        Ok(self.dir.write(&name, values.to_string())?.display().to_string())
    }

    /// `helm template` of a release with these values.
    pub async fn template(&self, release: &str, values: &Value, further: &[&str]) -> Result<Ran> {
        let values = self.values(values)?;
        let arguments = ["template", release, CHART, "--namespace", NAMESPACE, "--values", &values];
        self.run(&[&arguments, further].concat()).await
    }

    /// What it renders, which must be something.
    pub async fn render(&self, values: &Value, further: &[&str]) -> Result<Rendered> {
        Rendered::read(&self.template(RELEASE, values, further).await?.success()?)
    }
}

/// The objects of a release.
#[derive(Clone, Debug)]
pub struct Rendered(pub Vec<Value>);

impl Rendered {
    /// Reads what Helm printed.
    pub fn read(text: &str) -> Result<Self> {
        let documents = text.split("---\n").filter(|document| {
            document.lines().any(|line| !line.trim_start().starts_with('#') && !line.trim().is_empty())
        });
        let read = documents.map(|document| {
            serde_saphyr::from_str::<Value>(document).with_context(|| format!("not YAML: {document}"))
        });
        Ok(Self(read.collect::<Result<_>>()?))
    }

    /// One object.
    pub fn of(&self, kind: &str, name: &str) -> Result<&Value> {
        let is_it = |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == name;
        self.0.iter().find(is_it).with_context(|| format!("no {kind} {name} among {:?}", self.names()))
    }

    /// `Kind/name` of each.
    pub fn names(&self) -> BTreeSet<String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let name = |it: &Value| format!("{}/{}", text(&it["kind"]), text(&it["metadata"]["name"]));
        self.0.iter().map(name).collect()
    }

    /// The pod that a workload makes.
    pub fn pod(&self, kind: &str, name: &str) -> Result<&Value> {
        Ok(&self.of(kind, name)?["spec"]["template"])
    }
}

/// The least values: one issuer.
pub fn one_issuer() -> Value {
    json!({ "issuer": { "issuers": [{ "url": "https://id.example.com/cluster-a" }] } })
}

/// Values over others: maps are united, everything else is replaced.
pub fn over(mut below: Value, above: Value) -> Value {
    match (&mut below, above) {
        (Value::Object(below), Value::Object(above)) => {
            for (name, value) in above {
                let under = below.remove(&name).unwrap_or_default();
                below.insert(name, over(under, value));
            }
        }
        (below, above) => *below = above,
    }
    below
}

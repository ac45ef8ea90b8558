//! A real kube-apiserver with everything that a release needs to be there, and the release.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use e2e::authority::Authority;
use e2e::cluster::Cluster;
use e2e::etcd::Etcd;
use e2e::key_file::KeyFile;
use e2e::kube_apiserver::KubeApiserver;
use e2e::scratch::Scratch;
use e2e::{binary, chancery, ports, wait};
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, ValidationDirective};
use kube::core::{ApiResource, GroupVersionKind};
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::helm::{CHART, Helm, NAMESPACE, RELEASE, Rendered};

/// The issuer URL's host.
pub const HOST: &str = "id.example.com";

/// A block of the first list of docs/addon.md, by how it begins.
fn block(beginning: &str) -> Result<String> {
    let page = std::fs::read_to_string("../docs/addon.md")?;
    let (_, text) = page.split_once(&format!("   ```{beginning}")).context("no such block")?;
    let (text, _) = text.split_once("\n   ```").context("a block without an end")?;
    Ok(text.lines().map(|line| format!("{}\n", line.strip_prefix("   ").unwrap_or(line))).collect())
}

/// The cluster, and who asks it.
pub struct Stage {
    pub server: KubeApiserver,
    /// The key that the cluster signs with.
    pub key: KeyFile,
    /// Whose certificate the issuer serves with.
    pub authority: Authority,
    /// Where the issuer listens.
    pub port: u16,
    pub dir: Scratch,
    helm: Helm,
    client: reqwest::Client,
}

impl Stage {
    /// A cluster with the definitions of cert-manager and prometheus-operator, in which somebody has followed docs/addon.md.
    pub async fn new() -> Result<Self> {
        let dir = Scratch::new("chart")?;
        let key = KeyFile::new(&dir, "sa")?;
        let port = ports::free()?;
        let cluster =
            Cluster::new(Etcd::shared().await?.url(), &format!("https://{HOST}:{port}"), &key.private)?;
        let server = KubeApiserver::start(&cluster).await?;
        let kubeconfig = dir.join("kubeconfig");
        server.kubeconfig(&kubeconfig)?;
        let (authority, helm) = (Authority::new(dir.path())?, Helm::on(&kubeconfig)?);
        let client = e2e::http::client(Some(server.ca_pem()))?;
        let stage = Self { server, key, authority, port, dir, helm, client };
        stage.furnish().await?;
        Ok(stage)
    }

    async fn furnish(&self) -> Result<()> {
        for name in ["gateway", "keys", "clusters", "canaries"] {
            self.apply(&json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }))
                .await?;
        }
        self.server.create_service_account("canaries", "chancery-canary").await?;
        self.define_neighbours().await?;
        self.follow_the_page().await?;
        let pair = self.authority.issue(self.dir.path(), &[HOST])?;
        let (certificate, key) = (std::fs::read_to_string(pair.cert)?, std::fs::read_to_string(pair.key)?);
        self.apply(&json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
            "metadata": { "name": "chancery-issuer-tls", "namespace": NAMESPACE },
            "stringData": { "tls.crt": certificate, "tls.key": key },
        }))
        .await?;
        Ok(())
    }

    async fn define_neighbours(&self) -> Result<()> {
        for neighbour in ["prometheus-operator", "cert-manager"] {
            let folder = binary::server(neighbour)?.parent().map(PathBuf::from).context("no folder")?;
            for entry in std::fs::read_dir(folder)? {
                let path = entry?.path();
                if path.extension().is_some_and(|it| it == "yaml") {
                    self.apply(&serde_saphyr::from_str(&std::fs::read_to_string(path)?)?).await?;
                }
            }
        }
        wait::until("the definitions of the neighbours", async || {
            let arguments = ["template", RELEASE, CHART, "--validate", "--set", "issuer.enabled=false"];
            let served = self.helm.run(&arguments).await?;
            Ok(served.is_done && served.stdout.contains("kind: PodMonitor"))
        })
        .await
    }

    /// Installs the chart by the commands of docs/addon.md, as written.
    async fn follow_the_page(&self) -> Result<()> {
        let folder = self.dir.join("reader");
        std::fs::create_dir(&folder)?;
        symlink(std::path::absolute("../charts")?, folder.join("charts"))?;
        symlink(binary::server("helm")?, folder.join("helm"))?;
        symlink(binary::server("kubectl")?, folder.join("kubectl"))?;
        std::fs::write(folder.join("values.yaml"), block("yaml\n   # values.yaml\n")?)?;
        std::fs::write(folder.join("bucket.env"), "AWS_ACCESS_KEY_ID=id\nAWS_SECRET_ACCESS_KEY=secret\n")?;
        let program = binary::chancery()?;
        let programs = program.parent().context("a program without a folder")?.display();
        let mut command = Command::new("sh");
        command.args(["-euxc", &block("sh\n")?]).current_dir(&folder);
        command.env("PATH", format!("{}:{programs}:{}", folder.display(), std::env::var("PATH")?));
        command.env("KUBECONFIG", self.dir.join("kubeconfig")).env("HOME", &folder);
        let output = chancery::run_command(command).await?;
        ensure!(output.code == Some(0) && output.stdout.contains("STATUS: deployed"), "{output:?}");
        let notes = "It waits for the Secret chancery/chancery-writer-key, which is made once:";
        ensure!(output.stdout.contains(notes), "{}", output.stdout);
        Ok(())
    }

    /// Applies an object strictly: a field that is unknown or comes twice is an error.
    pub async fn apply(&self, object: &Value) -> Result<()> {
        self.send(object, PatchParams::apply("e2e").force()).await
    }

    /// The same without a change.
    pub async fn would_take(&self, object: &Value) -> Result<()> {
        self.send(object, PatchParams::apply("e2e").force().dry_run()).await
    }

    async fn send(&self, object: &Value, parameters: PatchParams) -> Result<()> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let (kind, name) = (text("/kind").context("no kind")?, text("/metadata/name").context("no name")?);
        let version = text("/apiVersion").context("no apiVersion")?;
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let client = self.server.kube_client().await?;
        let api: Api<DynamicObject> = match text("/metadata/namespace") {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        };
        let parameters = PatchParams { field_validation: Some(ValidationDirective::Strict), ..parameters };
        api.patch(name, &parameters, &Patch::Apply(object))
            .await
            .with_context(|| format!("{kind} {name}"))?;
        Ok(())
    }

    /// `helm install` or `upgrade` of the release, and what it consists of now.
    pub async fn release(&self, verb: &str, values: &Value) -> Result<Rendered> {
        let file = self.helm.values(values)?;
        self.helm
            .run(&[verb, RELEASE, CHART, "--namespace", NAMESPACE, "--values", &file])
            .await?
            .success()?;
        let manifest =
            self.helm.run(&["get", "manifest", RELEASE, "--namespace", NAMESPACE]).await?.success()?;
        Rendered::read(&manifest)
    }

    /// What `helm template` shows of it, asking the cluster what it knows.
    pub async fn template(&self, values: &Value) -> Result<Rendered> {
        Rendered::read(&self.helm.template(RELEASE, values, &["--validate"]).await?.success()?)
    }

    pub async fn uninstall(&self) -> Result<()> {
        self.helm.run(&["uninstall", RELEASE, "--namespace", NAMESPACE]).await?.success()?;
        Ok(())
    }

    /// What the API server answers an administrator at a path; nothing where nothing is.
    pub async fn get(&self, path: &str) -> Result<Option<Value>> {
        let url = format!("{}{path}", self.server.url());
        let answer = self.client.get(url).bearer_auth(self.server.admin_token()).send().await?;
        match answer.status() {
            StatusCode::NOT_FOUND => Ok(None),
            status => {
                ensure!(status == StatusCode::OK, "GET {path}: {status}");
                Ok(Some(answer.json().await?))
            }
        }
    }

    /// Deletes what is at a path, if anything is.
    pub async fn delete(&self, path: &str) -> Result<()> {
        let url = format!("{}{path}", self.server.url());
        let answer = self.client.delete(url).bearer_auth(self.server.admin_token()).send().await?;
        let status = answer.status();
        ensure!(status.is_success() || status == StatusCode::NOT_FOUND, "DELETE {path}: {status}");
        Ok(())
    }
}

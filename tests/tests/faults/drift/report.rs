//! Conditions and Events in a real cluster, with the rights that docs/visibility.md shows and no others.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use e2e::chancery::IssuerService;
use e2e::cluster::{API_AUDIENCE, Cluster};
use e2e::etcd::Etcd;
use e2e::key_file::KeyFile;
use e2e::kube_apiserver::KubeApiserver;
use e2e::scratch::Scratch;
use e2e::site::{Site, directory_target};
use e2e::{binary, wait};
use serde_json::{Value, json};

use super::{ISSUER, JWKS, quick, waits_for_drift};

const NAMESPACE: &str = "chancery-system";
const REPORT: &str = "chancery-report";

/// The objects that docs/visibility.md shows for the report: a ConfigMap, a Role and its binding.
fn documented_objects() -> Result<Vec<Value>> {
    let page = Path::new("../docs/visibility.md");
    let page = std::fs::read_to_string(page)?;
    let block = page.split("```yaml\n").find(|block| block.contains("kind: Role\n")).context("no Role")?;
    let block = block.split("```").next().unwrap_or_default();
    let objects = block.split("\n---\n").map(serde_saphyr::from_str::<Value>);
    Ok(objects.collect::<std::result::Result<_, _>>()?)
}

/// A cluster in which a ServiceAccount may do what the page says and nothing else.
pub struct Reported {
    server: KubeApiserver,
    kubeconfig: PathBuf,
}

impl Reported {
    /// `change` may take rights away before they are granted.
    pub async fn new(dir: &Scratch, change: impl Fn(&mut Value)) -> Result<Self> {
        let key = KeyFile::new(dir, "sa")?;
        let cluster = Cluster::new(Etcd::shared().await?.url(), "https://cluster.example", &key.private)?;
        let server = KubeApiserver::start(&cluster).await?;
        server.create_service_account(NAMESPACE, "chancery").await?;
        for mut object in documented_objects()? {
            change(&mut object);
            server.create(&api_path(&object)?, &object).await?;
        }
        let token = server.token_request((NAMESPACE, "chancery"), API_AUDIENCE, 3600).await?;
        let kubeconfig = dir.join("reporter");
        server.kubeconfig_with(&token, &kubeconfig)?;
        Ok(Self { server, kubeconfig })
    }

    pub fn configure(&self, site: &mut Site) -> Result<()> {
        let report = json!({
            "configMap": { "namespace": NAMESPACE, "name": REPORT }, "kubeconfig": self.kubeconfig,
        });
        site.config.as_object_mut().context("no configuration")?.insert("report".to_owned(), report);
        Ok(())
    }

    pub async fn config_map(&self) -> Result<Value> {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{REPORT}");
        Ok(serde_json::from_slice(&self.server.get_raw(&path).await?)?)
    }

    /// Waits until the ConfigMap carries a condition with this status and reason.
    pub async fn carries(
        &self,
        subject: &str,
        (name, status, reason): (&str, &str, &str),
        log: &IssuerService,
    ) -> Result<()> {
        let what = format!("{name}={status} {reason} of {subject} in the ConfigMap");
        let waited = wait::until(&what, async || {
            let config_map = self.config_map().await?;
            let text = config_map
                .pointer("/data/conditions.json")
                .and_then(Value::as_str)
                .context("no conditions")?;
            let conditions: Value = serde_json::from_str(text)?;
            let all = conditions.get("conditions").and_then(Value::as_array).context("no list")?;
            let is =
                |condition: &Value, field: &str, value: &str| condition.get(field) == Some(&json!(value));
            let found = all.iter().find(|it| is(it, "subject", subject) && is(it, "type", name));
            let found = found.with_context(|| format!("no {name} of {subject}"))?;
            ensure!(is(found, "status", status) && is(found, "reason", reason), "{found}");
            Ok(true)
        });
        waited.await.with_context(|| log.log())
    }

    /// The Events with this reason.
    pub async fn events(&self, reason: &str) -> Result<Vec<Value>> {
        let path = format!("/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events");
        let list: Value = serde_json::from_slice(&self.server.get_raw(&path).await?)?;
        let items = list.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
        Ok(items.into_iter().filter(|event| event.get("reason") == Some(&json!(reason))).collect())
    }

    /// Waits for a Warning about the ConfigMap with this reason, and returns it.
    pub async fn warns(&self, reason: &str, log: &IssuerService) -> Result<Value> {
        let what = format!("an Event {reason}");
        let waited = wait::value(&what, async || Ok(self.events(reason).await?.pop()));
        let event = waited.await.with_context(|| log.log())?;
        assert_eq!(event.get("type"), Some(&json!("Warning")), "{event}");
        assert_eq!(event.pointer("/regarding/kind"), Some(&json!("ConfigMap")), "{event}");
        assert_eq!(event.pointer("/regarding/name"), Some(&json!(REPORT)), "{event}");
        Ok(event)
    }
}

fn api_path(object: &Value) -> Result<String> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).context("an object without a type");
    let kind = format!("{}s", text("kind")?.to_ascii_lowercase());
    let group = match text("apiVersion")? {
        "v1" => "/api/v1".to_owned(),
        version => format!("/apis/{version}"),
    };
    Ok(format!("{group}/namespaces/{NAMESPACE}/{kind}"))
}

/// Starts a site whose reporter lacks one right, lets things happen, and waits for the words of the refusal.
async fn lacks(right: &str, words: &str) -> Result<()> {
    let keys = Scratch::new("keys")?;
    let key = KeyFile::new(&keys, "first")?;
    let reported = Reported::new(&keys, |object| {
        let rules = object.pointer_mut("/rules").and_then(Value::as_array_mut);
        for verbs in rules.into_iter().flatten().filter_map(|rule| rule.get_mut("verbs")?.as_array_mut()) {
            verbs.retain(|verb| verb != right);
        }
    });
    let reported = reported.await?;
    let mut site = Site::new()?;
    let published = site.dir().join("published");
    std::fs::create_dir(&published)?;
    site.add_issuer_of_files(ISSUER, &[&key.public], json!([directory_target(&published)]))?;
    quick(&mut site)?;
    reported.configure(&mut site)?;
    let service = site.start_ready().await?;
    let file = published.join(JWKS);
    for times in 1..=2 {
        wait::until("the JWKS", async || Ok(file.is_file())).await?;
        std::fs::remove_file(&file)?;
        waits_for_drift(&site, ("directory", "Vanished"), times.into(), &service).await?;
        if right == "patch" && times == 1 {
            reported.warns("Vanished", &service).await?;
        }
    }
    let what = format!("{words} in the log");
    let said = wait::until(&what, async || Ok(service.log().contains(words)));
    said.await.with_context(|| service.log())
}

#[tokio::test]
async fn one_right_less_and_the_log_names_it() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    for (right, words) in [
        ("get", "cannot get resource \"configmaps\""),
        ("update", "cannot update resource \"configmaps\""),
        ("create", "cannot create resource \"events\""),
        ("patch", "cannot patch resource \"events\""),
    ] {
        lacks(right, words).await?;
    }
    Ok(())
}

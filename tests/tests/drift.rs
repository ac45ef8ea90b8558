//! Somebody else changes a target behind our back: it is noticed within a period, said as condition, Event and metric,
//! and repaired where the target is ours and nowhere else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use aws_sdk_s3::primitives::ByteStream;
use e2e::chancery::{self, IssuerService};
use e2e::cluster::{API_AUDIENCE, Cluster};
use e2e::etcd::Etcd;
use e2e::key_file::KeyFile;
use e2e::kube_apiserver::KubeApiserver;
use e2e::minio::Minio;
use e2e::scratch::Scratch;
use e2e::site::{Site, bucket_target, directory_target};
use e2e::witness::kids;
use e2e::{binary, wait};
use serde_json::{Value, json};

const ISSUER: &str = "/cluster-a";
const BUCKET: &str = "documents";
const JWKS: &str = "openid/v1/jwks";
const NAMESPACE: &str = "chancery-system";
const REPORT: &str = "chancery-report";

/// The objects that docs/visibility.md shows for the report: a ConfigMap, a Role and its binding.
fn documented_objects() -> Result<Vec<Value>> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/visibility.md");
    let page = std::fs::read_to_string(page)?;
    let block = page.split("```yaml\n").find(|block| block.contains("kind: Role\n")).context("no Role")?;
    let block = block.split("```").next().unwrap_or_default();
    let objects = block.split("\n---\n").map(serde_saphyr::from_str::<Value>);
    Ok(objects.collect::<std::result::Result<_, _>>()?)
}

/// A cluster in which a ServiceAccount may do what the page says and nothing else.
struct Reported {
    server: KubeApiserver,
    kubeconfig: PathBuf,
}

impl Reported {
    /// `change` may take rights away before they are granted.
    async fn new(dir: &Scratch, change: impl Fn(&mut Value)) -> Result<Self> {
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

    fn configure(&self, site: &mut Site) -> Result<()> {
        let report = json!({
            "configMap": { "namespace": NAMESPACE, "name": REPORT }, "kubeconfig": self.kubeconfig,
        });
        site.config.as_object_mut().context("no configuration")?.insert("report".to_owned(), report);
        Ok(())
    }

    async fn config_map(&self) -> Result<Value> {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{REPORT}");
        Ok(serde_json::from_slice(&self.server.get_raw(&path).await?)?)
    }

    /// Waits until the ConfigMap carries a condition with this status and reason.
    async fn carries(
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
    async fn events(&self, reason: &str) -> Result<Vec<Value>> {
        let path = format!("/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events");
        let list: Value = serde_json::from_slice(&self.server.get_raw(&path).await?)?;
        let items = list.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
        Ok(items.into_iter().filter(|event| event.get("reason") == Some(&json!(reason))).collect())
    }

    /// Waits for a Warning about the ConfigMap with this reason, and returns it.
    async fn warns(&self, reason: &str, log: &IssuerService) -> Result<Value> {
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

/// A site that looks each second.
fn quick(site: &mut Site) -> Result<()> {
    let verify = site.config.pointer_mut("/issuers/0/verify").and_then(Value::as_object_mut);
    verify.context("no verify")?.insert("every".to_owned(), json!("1s"));
    Ok(())
}

async fn waits_for_drift(
    site: &Site,
    (target, kind): (&str, &str),
    at_least: f64,
    log: &IssuerService,
) -> Result<()> {
    let url = site.url(ISSUER);
    let labels = [("issuer", url.as_str()), ("target", target), ("kind", kind)];
    let what = format!("drift {kind}");
    let waited = wait::until(&what, async || {
        Ok(site.metric("chancery_drift_total", &labels).await?.is_some_and(|drift| drift >= at_least))
    });
    waited.await.with_context(|| log.log())
}

/// The JWKS of keys as a file of ours would be.
async fn jwks_of(keys: &[&KeyFile]) -> Result<Vec<u8>> {
    let mut arguments: Vec<&Path> = ["keygen", "jwks", "--key"].map(Path::new).into();
    arguments.extend(keys.iter().map(|key| key.public.as_path()));
    Ok(chancery::run(&arguments).await?.success()?.into_bytes())
}

/// What somebody with the bucket's credentials does.
struct Stranger {
    client: aws_sdk_s3::Client,
}

impl Stranger {
    /// Replaces the JWKS, headers and metadata as they are but for what `change` does to the metadata.
    async fn replaces(
        &self,
        body: Vec<u8>,
        change: impl FnOnce(&mut BTreeMap<String, String>),
    ) -> Result<()> {
        let head = self.client.head_object().bucket(BUCKET).key(JWKS).send().await?;
        let mut metadata: BTreeMap<String, String> = head.metadata.unwrap_or_default().into_iter().collect();
        ensure!(metadata.contains_key("chancery-owner"), "no marker: {metadata:?}");
        change(&mut metadata);
        let put = self.client.put_object().bucket(BUCKET).key(JWKS).body(ByteStream::from(body));
        let put = put.set_content_type(head.content_type).set_cache_control(head.cache_control);
        put.set_metadata(Some(metadata.into_iter().collect())).send().await?;
        Ok(())
    }

    async fn removes(&self) -> Result<()> {
        self.client.delete_object().bucket(BUCKET).key(JWKS).send().await?;
        Ok(())
    }
}

/// A bucket that is published to, in a site whose conditions are reported.
struct BucketStage {
    keys: Scratch,
    key: KeyFile,
    site: Site,
    minio: Minio,
    reported: Reported,
    service: IssuerService,
}

impl BucketStage {
    async fn new() -> Result<Self> {
        let keys = Scratch::new("keys")?;
        let key = KeyFile::new(&keys, "first")?;
        let (reported, minio) = tokio::try_join!(Reported::new(&keys, |_| {}), Minio::start())?;
        minio.create_public_bucket(BUCKET).await?;
        let mut site = Site::new()?;
        let mut target = bucket_target(&minio, minio.endpoint(), BUCKET);
        target.as_object_mut().context("no target")?.remove("publicUrl");
        site.add_issuer_of_files(ISSUER, &[&key.public], json!([target]))?;
        quick(&mut site)?;
        site.use_credentials_of(&minio);
        reported.configure(&mut site)?;
        let service = site.start_ready().await?;
        let stage = Self { keys, key, site, minio, reported, service };
        stage.reported.carries("target bucket", ("Published", "True", "UpToDate"), &stage.service).await?;
        Ok(stage)
    }

    fn stranger(&self) -> Stranger {
        Stranger { client: self.minio.s3_client() }
    }

    async fn object(&self) -> Result<Vec<u8>> {
        self.minio.read_object(BUCKET, JWKS).await
    }

    async fn is_restored(&self, expected: &[u8]) -> Result<()> {
        let restored = wait::until("the JWKS as it was", async || Ok(self.object().await? == expected)).await;
        restored.with_context(|| self.service.log())
    }

    async fn drifts(&self, kind: &str, at_least: f64) -> Result<()> {
        waits_for_drift(&self.site, ("bucket", kind), at_least, &self.service).await
    }
}

#[tokio::test]
async fn what_is_changed_or_deleted_in_a_bucket_is_noticed_and_repaired() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver", "minio"]) {
        return Ok(());
    }
    let stage = BucketStage::new().await?;
    let ours = stage.object().await?;
    let calm = ("Drifted", "False", "AsWritten");
    stage.reported.carries("target bucket", calm, &stage.service).await?;

    let mut garbled = ours.clone();
    garbled.extend(b"\n\n");
    stage.stranger().replaces(garbled, |_| {}).await?;
    stage.drifts("Changed", 1.0).await?;
    stage.is_restored(&ours).await?;
    let event = stage.reported.warns("Changed", &stage.service).await?;
    let note = event.get("note").and_then(Value::as_str).unwrap_or_default();
    ensure!(note.contains("target bucket: the JWKS was changed under our marker"), "{note}");
    ensure!(note.contains("repaired"), "{note}");

    // Our writer was the one who missed it, before any edge was asked: relying parties may have read there.
    let (url, gap) = (stage.site.url(ISSUER), "edge=\"target bucket\"");
    let labels = [("issuer", url.as_str()), ("view", "issuer URL"), ("kid", stage.key.kid.as_str())];
    let seen = async || Ok(stage.site.metric("chancery_key_visible_seconds", &labels).await? > Some(0.0));
    wait::until("a key that was seen for a time", seen).await.with_context(|| stage.service.log())?;
    ensure!(!stage.service.log().contains(gap), "nothing was missing so far: {}", stage.service.log());

    // Twice is one Event with a count.
    for times in 1..=2 {
        stage.stranger().removes().await?;
        stage.drifts("Vanished", times.into()).await?;
        stage.is_restored(&ours).await?;
        let count = if times == 1 { None } else { Some(json!(times)) };
        let counted = wait::until("the Event's count", async || {
            let events = stage.reported.events("Vanished").await?;
            ensure!(events.len() <= 1, "{events:?}");
            let event = events.first().context("no Event")?;
            Ok(event.pointer("/series/count") == count.as_ref())
        });
        counted.await.with_context(|| stage.service.log())?;
    }
    ensure!(stage.service.log().contains(gap), "{}", stage.service.log());
    stage.reported.carries("target bucket", calm, &stage.service).await?;
    stage.reported.carries("target bucket", ("OwnedByUs", "True", "OurMarker"), &stage.service).await?;
    let owner = stage.reported.config_map().await?;
    assert_eq!(owner.pointer("/metadata/annotations/chancery-owner"), Some(&json!("chancery-issuer")));
    Ok(())
}

#[tokio::test]
async fn a_foreign_key_in_a_bucket_is_named_and_a_foreign_marker_is_left_alone() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver", "minio"]) {
        return Ok(());
    }
    let stage = BucketStage::new().await?;
    let stranger = KeyFile::new(&stage.keys, "stranger")?;
    let both = jwks_of(&[&stage.key, &stranger]).await?;
    stage.stranger().replaces(both.trim_ascii_end().to_vec(), |_| {}).await?;
    stage.drifts("ForeignKeys", 1.0).await?;
    stage
        .reported
        .carries("target bucket", ("ForeignKeys", "True", "PossibleIntrusion"), &stage.service)
        .await?;
    let event = stage.reported.warns("PossibleIntrusion", &stage.service).await?;
    let note = event.get("note").and_then(Value::as_str).unwrap_or_default();
    ensure!(note.contains(&stranger.kid), "{note}");
    ensure!(stage.service.log().contains("possible intrusion"), "{}", stage.service.log());
    // Its tokens may be somebody's.
    let held = kids(&serde_json::from_slice(&stage.object().await?)?);
    ensure!(held.contains(&stranger.kid) && held.contains(&stage.key.kid), "{held:?}");

    let taken = jwks_of(&[&stranger]).await?;
    let theirs = |metadata: &mut BTreeMap<String, String>| {
        metadata.insert("chancery-owner".to_owned(), "somebody-else".to_owned());
    };
    stage.stranger().replaces(taken.clone(), theirs).await?;
    stage.drifts("MarkerReplaced", 1.0).await?;
    stage.reported.carries("target bucket", ("OwnedByUs", "False", "ForeignMarker"), &stage.service).await?;
    stage.reported.carries("target bucket", ("Published", "False", "Blocked"), &stage.service).await?;
    stage.reported.warns("ForeignMarker", &stage.service).await?;
    assert_eq!(stage.object().await?, taken, "it is not ours to repair");
    Ok(())
}

/// A directory that is published to, without a cluster.
struct DirectoryStage {
    keys: Scratch,
    key: KeyFile,
    site: Site,
    service: IssuerService,
}

impl DirectoryStage {
    async fn new() -> Result<Self> {
        let keys = Scratch::new("keys")?;
        let key = KeyFile::p256(&keys, "first")?;
        let mut site = Site::new()?;
        let published = site.dir().join("published");
        std::fs::create_dir(&published)?;
        site.add_issuer_of_files(ISSUER, &[&key.public], json!([directory_target(&published)]))?;
        quick(&mut site)?;
        let service = site.start_ready().await?;
        let stage = Self { keys, key, site, service };
        stage.condition("Published", "UpToDate").await?;
        Ok(stage)
    }

    fn file(&self) -> PathBuf {
        self.site.dir().join("published").join(JWKS)
    }

    async fn drifts(&self, kind: &str) -> Result<()> {
        waits_for_drift(&self.site, ("directory", kind), 1.0, &self.service).await
    }

    /// Waits until a condition of the target has this reason, on the admin port.
    async fn condition(&self, name: &str, reason: &str) -> Result<()> {
        let what = format!("{name} {reason}");
        let waited = wait::until(&what, async || {
            let (_, text) = self.site.admin("conditions").await?;
            let conditions: Value = serde_json::from_str(&text)?;
            let all = conditions.get("conditions").and_then(Value::as_array).context("no list")?;
            let is =
                |condition: &Value, field: &str, value: &str| condition.get(field) == Some(&json!(value));
            Ok(all.iter().any(|it| {
                is(it, "subject", "target directory") && is(it, "type", name) && is(it, "reason", reason)
            }))
        });
        waited.await.with_context(|| self.service.log())
    }

    /// Replaces the JWKS and makes its sidecar describe the new content: whoever may write there may do that as well.
    fn forge(&self, body: &[u8]) -> Result<()> {
        let file = self.file();
        let folder = file.parent().context("no folder")?;
        let sidecar = std::fs::read_dir(folder)?.flatten().map(|entry| entry.path());
        let name =
            |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".jwks"));
        let sidecar = sidecar.filter(name).find(|path| path.is_file()).context("no sidecar")?;
        let mut records: Value = serde_json::from_slice(&std::fs::read(&sidecar)?)?;
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, body);
        let content = base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, digest);
        *records.pointer_mut("/records/0/content").context("no record")? = json!(content);
        // The old description first, so that no moment shows the new content as nobody's.
        let old = std::fs::read(&sidecar)?;
        let mut both: Value = serde_json::from_slice(&old)?;
        let list = both.pointer_mut("/records").and_then(Value::as_array_mut).context("no records")?;
        list.insert(0, records.pointer("/records/0").cloned().unwrap_or_default());
        list.truncate(2);
        std::fs::write(&sidecar, both.to_string())?;
        std::fs::write(self.file().with_extension("new"), body)?;
        Ok(std::fs::rename(self.file().with_extension("new"), self.file())?)
    }
}

#[tokio::test]
async fn a_directory_is_repaired_where_it_carries_our_marker() -> Result<()> {
    let stage = DirectoryStage::new().await?;
    let ours = std::fs::read(stage.file())?;
    let restored = async || {
        let same = wait::until("the file as it was", async || Ok(std::fs::read(stage.file())? == ours)).await;
        same.with_context(|| stage.service.log())
    };
    std::fs::remove_file(stage.file())?;
    stage.drifts("Vanished").await?;
    restored().await?;

    let mut garbled = ours.clone();
    garbled.extend(b"\n");
    stage.forge(&garbled)?;
    stage.drifts("Changed").await?;
    restored().await?;
    stage.condition("Drifted", "AsWritten").await?;

    let stranger = KeyFile::p256(&stage.keys, "stranger")?;
    stage.forge(jwks_of(&[&stage.key, &stranger]).await?.trim_ascii_end())?;
    stage.drifts("ForeignKeys").await?;
    stage.condition("ForeignKeys", "PossibleIntrusion").await?;
    let held = kids(&serde_json::from_slice(&std::fs::read(stage.file())?)?);
    ensure!(held.contains(&stranger.kid) && held.contains(&stage.key.kid), "{held:?}");
    Ok(())
}

#[tokio::test]
async fn a_file_that_was_edited_by_hand_is_nobodys_and_stays() -> Result<()> {
    let stage = DirectoryStage::new().await?;
    let edited = b"{\"keys\":[]}";
    std::fs::write(stage.file(), edited)?;
    stage.drifts("MarkerReplaced").await?;
    stage.condition("OwnedByUs", "Unmarked").await?;
    stage.condition("Published", "Blocked").await?;
    assert_eq!(std::fs::read(stage.file())?, edited);
    Ok(())
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

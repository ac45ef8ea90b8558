//! A ConfigMap in a real cluster carries the cluster's own JWKS, written with exactly the documented rights.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use chancery_core::upload::{DesiredUpload, UploadPlan};
use chancery_core::{Jwks, KeyId, Owner, Withdrawals, key_file};
use chancery_publisher::sink::config_map::{ConfigMapSink, OWNER_ANNOTATION};
use chancery_publisher::sink::{JwksSink, SinkConfig, SinkPlace, Upload, UploadError, upload};
use e2e::cluster::Cluster;
use e2e::etcd::Etcd;
use e2e::key_file::KeyFile;
use e2e::kube_apiserver::KubeApiserver;
use e2e::scratch::Scratch;
use e2e::site::Site;
use e2e::{binary, wait};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

const NAMESPACE: &str = "gateway";
const NAME: &str = "cluster-a-jwks";
const ACCOUNT: &str = "chancery-issuer";

/// A cluster, and a ServiceAccount in it that may do what its Role says.
struct Stage {
    dir: Scratch,
    key: KeyFile,
    issuer: String,
    cluster: KubeApiserver,
    config_maps: Api<ConfigMap>,
}

impl Stage {
    async fn new() -> Result<Self> {
        Self::of("https://id.example.com/cluster-a").await
    }

    async fn of(issuer: &str) -> Result<Self> {
        let dir = Scratch::new("config-map-keys")?;
        let key = KeyFile::new(&dir, "sa")?;
        let cluster = Cluster::new(Etcd::shared().await?.url(), issuer, &key.private)?;
        let cluster = KubeApiserver::start(&cluster.jwks_uri(&format!("{issuer}/openid/v1/jwks"))).await?;
        cluster.create_service_account(NAMESPACE, ACCOUNT).await?;
        let config_maps = Api::namespaced(cluster.kube_client().await?, NAMESPACE);
        let rbac = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}");
        let binding = json!({
            "metadata": { "name": "chancery-jwks" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "chancery-jwks" },
            "subjects": [{ "kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE }],
        });
        cluster.create(&format!("{rbac}/rolebindings"), &binding).await?;
        cluster.create(&format!("{rbac}/roles"), &documented_role()?).await?;
        Ok(Self { dir, key, issuer: issuer.to_owned(), cluster, config_maps })
    }

    /// Takes a verb out of the Role, or none.
    async fn without(&self, verb: Option<&str>) -> Result<()> {
        let mut role = documented_role()?;
        for rule in role.pointer_mut("/rules").and_then(Value::as_array_mut).context("no rules")? {
            let verbs = rule.get_mut("verbs").and_then(Value::as_array_mut).context("no verbs")?;
            verbs.retain(|granted| Some(granted.as_str().unwrap_or_default()) != verb);
            if verbs.is_empty() {
                // A rule without verbs is refused.
                verbs.push(json!("watch"));
            }
        }
        let role: k8s_openapi::api::rbac::v1::Role = serde_json::from_value(role)?;
        let roles =
            Api::<k8s_openapi::api::rbac::v1::Role>::namespaced(self.cluster.kube_client().await?, NAMESPACE);
        let parameters = PatchParams::default();
        roles.patch("chancery-jwks", &parameters, &Patch::Merge(json!({ "rules": role.rules }))).await?;
        Ok(())
    }

    /// A kubeconfig of the ServiceAccount.
    async fn kubeconfig(&self) -> Result<std::path::PathBuf> {
        let token =
            self.cluster.token_request((NAMESPACE, ACCOUNT), e2e::cluster::API_AUDIENCE, 3600).await?;
        let path = self.dir.join("kubeconfig");
        self.cluster.kubeconfig(&path)?;
        let text = std::fs::read_to_string(&path)?.replace(self.cluster.admin_token(), &token);
        std::fs::write(&path, text)?;
        Ok(path)
    }

    async fn sink(&self, changes: Value) -> Result<ConfigMapSink> {
        let kubeconfig = kube::config::Kubeconfig::read_from(self.kubeconfig().await?)?;
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await?;
        let mut place = json!({ "namespace": NAMESPACE, "name": NAME });
        place.as_object_mut().context("a place")?.extend(changes.as_object().cloned().unwrap_or_default());
        let config_map: SinkConfig = serde_json::from_value(json!({ "configMap": place }))?;
        match config_map.place()? {
            SinkPlace::ConfigMap(place) => {
                Ok(ConfigMapSink::new(kube::Client::try_from(config)?, place, &self.issuer.parse()?))
            }
            other => anyhow::bail!("{other:?}"),
        }
    }

    async fn data(&self, key: &str) -> Result<String> {
        let config_map = self.config_maps.get(NAME).await?;
        config_map.data.and_then(|mut data| data.remove(key)).with_context(|| format!("no {key}"))
    }
}

/// The Role of the page.
fn documented_role() -> Result<Value> {
    let page = Path::new("../docs/targets/sinks.md");
    let page = std::fs::read_to_string(page)?;
    let mut blocks = page.split("```yaml\n").filter_map(|rest| rest.split("```").next());
    let role = blocks.find(|block| block.contains("kind: Role")).context("no Role on the page")?;
    Ok(serde_saphyr::from_str(role)?)
}

fn set(keys: &[&KeyFile]) -> Result<Jwks> {
    let pems = keys.iter().map(|key| key.public_pem()).collect::<Result<Vec<_>>>()?;
    Jwks::new(key_file::read_public_keys(&pems.concat()).keys).context("no keys")
}

async fn put(sink: &dyn JwksSink, keys: &[&KeyFile], adopt: bool) -> Result<Result<UploadPlan, UploadError>> {
    let (jwks, owner): (Jwks, Owner) = (set(keys)?, "us".parse()?);
    let desired =
        DesiredUpload { jwks: &jwks, withdrawals: Withdrawals::none(), owner: &owner, adopt_unmarked: adopt };
    Ok(upload(sink, desired).await)
}

#[tokio::test]
async fn the_service_writes_the_clusters_own_bytes_with_the_documented_rights() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let mut site = Site::new()?;
    let stage = Stage::of(&site.url("/cluster-a")).await?;
    let watched = stage.dir.join("watched");
    std::fs::create_dir(&watched)?;
    stage.key.put_public_half_into(&watched)?;
    site.add_issuer_of_files("/cluster-a", &[&watched], json!([]))?;
    let sinks = json!([{ "name": "one", "configMap": {
        "namespace": NAMESPACE, "name": NAME, "discoveryKey": "discovery", "kubeconfig": stage.kubeconfig().await?,
    } }]);
    site.config["issuers"][0]["sinks"] = sinks;
    let mut service = site.start_ready().await?;
    for (key, path) in [("jwks.json", "/openid/v1/jwks"), ("discovery", "/.well-known/openid-configuration")]
    {
        let served = String::from_utf8(stage.cluster.get_raw(path).await?)?;
        let is_there = async || Ok(stage.data(key).await? == served);
        wait::until(&format!("the bytes of {path} under {key}"), is_there).await?;
    }
    let second = KeyFile::new(&stage.dir, "second")?;
    second.put_public_half_into(&watched)?;
    wait::until("the second key", async || Ok(stage.data("jwks.json").await?.contains(&second.kid))).await?;
    ensure!(stage.data("jwks.json").await?.contains(&stage.key.kid));
    assert_eq!(service.terminate().await?, Some(0), "{}", service.log());
    Ok(())
}

#[tokio::test]
async fn one_right_less_is_named() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let stage = Stage::new().await?;
    let sink = stage.sink(json!({})).await?;
    let second = KeyFile::new(&stage.dir, "second")?;
    // What is missing shows when it is needed: nothing is there yet, then a key is to be added.
    for (missing, keys) in
        [("create", vec![&stage.key]), ("get", vec![&stage.key]), ("update", vec![&stage.key, &second])]
    {
        stage.without(Some(missing)).await?;
        let named = async || {
            let error = put(&sink, &keys, false).await?.err().context("it is not refused yet")?.to_string();
            ensure!(error.contains(&format!("cannot {missing} resource \"configmaps\"")), "{error}");
            ensure!(error.contains("RBAC"), "{error}");
            Ok(true)
        };
        // RBAC follows a change of its objects after a moment.
        wait::until(&format!("{missing} to be missed"), named).await?;
        stage.without(None).await?;
        wait::until("the rights to be back", async || Ok(put(&sink, &keys, false).await?.is_ok())).await?;
    }
    Ok(())
}

#[tokio::test]
async fn what_is_not_ours_stays_and_what_is_ours_is_mended() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let stage = Stage::new().await?;
    let sink = stage.sink(json!({ "discoveryKey": "discovery" })).await?;
    let (ours, theirs) = (&stage.key, KeyFile::new(&stage.dir, "theirs")?);

    let create = async |object: Value| -> Result<()> {
        stage.config_maps.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        Ok(())
    };
    let delete = async || stage.config_maps.delete(NAME, &DeleteParams::default()).await;

    create(json!({ "metadata": { "name": NAME }, "data": { "ca.crt": "theirs" } })).await?;
    let error = put(&sink, &[ours], false).await?.expect_err("blocked").to_string();
    assert!(error.contains("without an ownership marker") && error.contains("adopt: true"), "{error}");
    put(&sink, &[ours], true).await??;
    assert_eq!(stage.data("ca.crt").await?, "theirs");
    let annotations = stage.config_maps.get(NAME).await?.metadata.annotations.context("no annotations")?;
    assert_eq!(annotations.get(OWNER_ANNOTATION).map(String::as_str), Some("us"));
    assert_eq!(put(&sink, &[ours], false).await??.upload, None);

    // Somebody's key in the set stays; a damaged discovery document and an unreadable set are mended.
    let both = String::from_utf8(set(&[ours, &theirs])?.to_json())?;
    for (damage, is_mended, foreign) in [
        (json!({ "jwks.json": both }), false, vec![theirs.kid.parse()?]),
        (json!({ "discovery": "gone wrong" }), true, vec![theirs.kid.parse()?]),
        (json!({ "jwks.json": "{" }), true, Vec::<KeyId>::new()),
    ] {
        let patch = Patch::Merge(json!({ "data": damage }));
        stage.config_maps.patch(NAME, &PatchParams::default(), &patch).await?;
        let done = put(&sink, &[ours], false).await??;
        assert_eq!((done.upload.is_some(), done.foreign), (is_mended, foreign), "{damage}");
        assert!(stage.data("discovery").await?.contains("\"issuer\""), "{damage}");
        assert!(stage.data("jwks.json").await?.contains(&ours.kid), "{damage}");
    }

    let patch = Patch::Merge(json!({ "metadata": { "annotations": { OWNER_ANNOTATION: "them" } } }));
    stage.config_maps.patch(NAME, &PatchParams::default(), &patch).await?;
    let error = put(&sink, &[ours], true).await?.expect_err("blocked").to_string();
    assert!(error.contains("belongs to them"), "{error}");

    delete().await?;
    create(json!({ "metadata": { "name": NAME }, "immutable": true })).await?;
    let error = put(&sink, &[ours], false).await?.expect_err("immutable").to_string();
    assert!(error.contains("immutable"), "{error}");

    delete().await?;
    create(json!({ "metadata": { "name": NAME } })).await?;
    put(&sink, &[ours], false).await??;
    Ok(())
}

#[tokio::test]
async fn two_writers_end_with_the_union_and_an_old_reading_is_refused() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let stage = Stage::new().await?;
    let sink = stage.sink(json!({})).await?;
    let key = |name: &str| KeyFile::new(&stage.dir, name);
    let keys = [key("a")?, key("b")?, key("c")?, key("d")?];
    let writes = async |key: &KeyFile| anyhow::Ok(put(&sink, &[key], false).await??);
    tokio::try_join!(writes(&keys[0]), writes(&keys[1]), writes(&keys[2]), writes(&keys[3]))?;
    let there = stage.data("jwks.json").await?;
    assert!(keys.iter().all(|key| there.contains(&key.kid)), "{there}");

    let old = sink.read().await?;
    put(&sink, &[&stage.key], false).await??;
    let (jwks, owner) = (set(&[&stage.key])?, "us".parse()?);
    let refused =
        sink.write(Upload { jwks: &jwks, owner: &owner, held: &old }).await.expect_err("an old reading");
    assert_eq!(refused.kind, chancery_publisher::StoreErrorKind::Conflict, "{refused}");
    Ok(())
}

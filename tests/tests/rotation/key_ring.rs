//! A `KeyRing` in a real API server: its definition and rules, and a ring that is rotated by its spec.

use std::fs::{Permissions, create_dir, set_permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::chancery;
use e2e::cluster::Cluster;
use e2e::etcd::Etcd;
use e2e::key_file::KeyFile;
use e2e::kube_apiserver::KubeApiserver;
use e2e::process::Process;
use e2e::scratch::Scratch;
use e2e::signer::SignerProcess;
use e2e::{binary, wait};
use k8s_openapi::api::events::v1::Event;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::{Value, json};

mod imports;

const ISSUER: &str = "https://id.example.com/cluster-a";
/// Rings are read and written every third of a second, on a busy machine.
const LONG: Duration = Duration::from_secs(120);

/// An API server with the definition that the program prints.
struct Stage {
    dir: Scratch,
    server: KubeApiserver,
    client: Client,
}

impl Stage {
    async fn start() -> Result<Self> {
        let dir = Scratch::new("key-ring")?;
        let key = KeyFile::new(&dir, "sa")?;
        let cluster = Cluster::new(Etcd::shared().await?.url(), ISSUER, &key.private)?
            .max_token_expiration(Duration::from_secs(7200));
        let server = KubeApiserver::start(&cluster).await?;
        let client = server.kube_client().await?;
        let printed = chancery::run(&["ring", "crd"]).await?.success()?;
        let definition: DynamicObject = serde_saphyr::from_str(&printed)?;
        let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let definitions: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
        definitions.create(&PostParams::default(), &definition).await?;
        wait::value_within(LONG, "the definition is served", async || {
            let status = definitions.get("keyrings.chancery.dev").await?.data["status"].clone();
            let is_true = |kind: &str| {
                let conditions = status["conditions"].as_array().into_iter().flatten();
                conditions.clone().any(|held| held["type"] == kind && held["status"] == "True")
            };
            ensure!(!is_true("NonStructuralSchema"), "{status}");
            Ok(is_true("Established").then_some(()))
        })
        .await?;
        let stage = Self { dir, server, client };
        // Established comes a moment before it is served.
        wait::value_within(LONG, "KeyRings are listed", async || {
            Ok(stage.api().list(&ListParams::default()).await.ok().map(drop))
        })
        .await?;
        Ok(stage)
    }

    fn api(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("chancery.dev", "v1alpha1", "KeyRing");
        Api::namespaced_with(
            self.client.clone(),
            "default",
            &ApiResource::from_gvk_with_plural(&kind, "keyrings"),
        )
    }

    /// Makes one of this name, or says why not.
    async fn create(&self, name: &str, spec: Value) -> Result<(), String> {
        let object = object(name, spec);
        self.api().create(&PostParams::default(), &object).await.map(drop).map_err(|error| error.to_string())
    }

    async fn change(&self, name: &str, spec: Value) -> Result<(), String> {
        let patch = Patch::Merge(json!({ "spec": spec }));
        let changed = self.api().patch(name, &PatchParams::default(), &patch).await;
        changed.map(drop).map_err(|error| error.to_string())
    }

    async fn status(&self, name: &str) -> Result<Value> {
        Ok(self.api().get(name).await?.data["status"].clone())
    }

    /// The status of the ring once it is so.
    async fn shows(&self, what: &str, so: impl Fn(&Value) -> bool) -> Result<Value> {
        let seen = wait::value_within(LONG, what, async || {
            Ok(Some(self.status("main").await?).filter(|status| so(status)))
        });
        seen.await
    }
}

/// A condition of a status, or nothing.
fn condition<'a>(status: &'a Value, kind: &str) -> &'a Value {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let mut found = conditions.filter(|held| held["type"] == kind);
    found.next().unwrap_or(&Value::Null)
}

fn object(name: &str, spec: Value) -> DynamicObject {
    let kind = GroupVersionKind::gvk("chancery.dev", "v1alpha1", "KeyRing");
    let resource = ApiResource::from_gvk_with_plural(&kind, "keyrings");
    DynamicObject::new(name, &resource).data(json!({ "spec": spec }))
}

/// Specs that the API server takes, and what it says to a neighbour of each.
fn rules() -> Vec<(Value, Value, &'static str)> {
    let spec = |more: Value| {
        let mut spec = json!({ "issuer": ISSUER });
        if let (Some(spec), Some(more)) = (spec.as_object_mut(), more.as_object()) {
            spec.extend(more.clone());
        }
        spec
    };
    let of = |url: &str| json!({ "issuer": url });
    vec![
        (spec(json!({})), json!({}), "issuer: Required value"),
        (of("https://a.example"), of("http://a.example"), "an issuer begins with https://"),
        (of("https://a.example/b"), of("https://a.example/?b"), "neither query nor fragment"),
        (of("https://a.example/b"), of("https://a.example/#b"), "neither query nor fragment"),
        (
            spec(json!({ "schedule": { "every": "90d", "byHand": false } })),
            spec(json!({ "schedule": { "every": "90d", "byHand": true } })),
            "expected one of every, cron and byHand",
        ),
        (
            spec(json!({ "schedule": { "cron": "0 3 * * SUN", "zone": "Europe/Berlin", "window": "2h" } })),
            spec(json!({ "schedule": { "cron": "0 3 * * SUN", "every": "1d" } })),
            "expected one of every, cron and byHand",
        ),
        (
            spec(json!({ "schedule": { "cron": "0 3 * * SUN", "window": "2h" } })),
            spec(json!({ "schedule": { "every": "1d", "window": "2h" } })),
            "zone and window belong to a cron expression",
        ),
        (spec(json!({ "keysAtMost": 3 })), spec(json!({ "keysAtMost": 2 })), "greater than or equal to 3"),
        (spec(json!({ "keysAtMost": 100 })), spec(json!({ "keysAtMost": 101 })), "less than or equal to 100"),
        (spec(json!({ "key": "p-256" })), spec(json!({ "key": "ed25519" })), "Unsupported value"),
        (spec(json!({ "wait": "1d 12h" })), spec(json!({ "wait": "soon" })), "should match"),
        (
            spec(json!({ "overlap": { "maximum": "366d" } })),
            spec(json!({ "overlap": { "maximum": "-1d" } })),
            "should match",
        ),
        (
            spec(json!({ "parties": ["aws", "azure"] })),
            spec(json!({ "parties": ["aws", "aws"] })),
            "Duplicate value",
        ),
        (
            spec(json!({ "verifyOnly": true })),
            spec(json!({ "verifyOnly": "yes" })),
            "must be of type boolean",
        ),
    ]
}

#[tokio::test]
async fn every_rule_of_the_definition_lets_the_good_in_and_says_what_is_wrong() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let stage = Stage::start().await?;
    let rules = rules();
    for (number, (good, bad, why)) in rules.iter().enumerate() {
        let taken = stage.create(&format!("good-{number}"), good.clone()).await;
        ensure!(taken.is_ok(), "{good}: {taken:?}");
        let refused = stage.create(&format!("bad-{number}"), bad.clone()).await;
        ensure!(refused.as_ref().is_err_and(|said| said.contains(why)), "{bad}: {refused:?}");
    }
    let moved = stage.change("good-0", json!({ "issuer": "https://b.example" })).await;
    ensure!(moved.as_ref().is_err_and(|said| said.contains("cannot change")), "{moved:?}");
    stage.change("good-0", json!({ "issuer": ISSUER, "keysAtMost": 5 })).await.map_err(anyhow::Error::msg)
}

#[tokio::test]
async fn a_ring_is_rotated_by_the_spec_and_shown_in_the_status() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let stage = Stage::start().await?;
    for name in ["ring", "keys", "issuer"] {
        create_dir(stage.dir.join(name))?;
    }
    set_permissions(stage.dir.join("keys"), Permissions::from_mode(0o700))?;
    set_permissions(stage.dir.write("passphrase", "of the tests\n")?, Permissions::from_mode(0o600))?;
    stage.server.kubeconfig(&stage.dir.join("kubeconfig"))?;
    let policy = json!({
        "issuer": ISSUER,
        "ring": { "directory": "ring" },
        "keys": { "directory": "keys", "passphraseFile": "passphrase" },
        "visibility": { "directory": "issuer" },
        "signers": [{ "name": "a" }],
        "keyRing": { "namespace": "default", "name": "main", "kubeconfig": "kubeconfig" },
        "look": "300ms",
    });
    let policy = stage.dir.write("rotation.yaml", policy.to_string())?.display().to_string();
    let refused = chancery::run(&["ring", "init", "--policy", &policy]).await?;
    ensure!(
        refused.code == Some(1) && refused.stderr.contains("KeyRing default/main does not exist"),
        "{refused:?}"
    );
    stage
        .create("main", json!({ "issuer": ISSUER, "key": "p-256", "schedule": { "every": "30d" } }))
        .await
        .map_err(anyhow::Error::msg)?;
    let begun = chancery::run(&["ring", "init", "--policy", &policy]).await?.success()?;
    ensure!(begun.contains("ES256"), "the spec says which key: {begun}");

    let mut rotating = Vec::new();
    for name in ["one", "two"] {
        rotating.push(chancery::rotate(&policy, &stage.dir.join(name))?);
    }
    let followed = followed(&stage, &rotating).await;
    followed.with_context(|| rotating.iter().map(Process::log).collect::<String>())
}

/// What is seen of it from the cluster.
async fn followed(stage: &Stage, rotating: &[Process]) -> Result<()> {
    let two_keys = |status: &Value| status["keys"].as_array().is_some_and(|keys| keys.len() == 2);
    let status = stage.shows("a standby that waits to be seen", two_keys).await?;
    let active = status["active"].as_str().context("nothing signs")?.to_owned();
    ensure!(status["nextRotation"] == "in 30d" && status["observedGeneration"] == 1, "{status}");
    ensure!(condition(&status, "Ready")["status"] == "True", "{status}");
    ensure!(condition(&status, "RotationBlocked")["reason"] == "NotVisible", "{status}");
    let keys = &status["keys"];
    ensure!(keys[1]["state"] == "Pending" && keys[1]["algorithm"] == "ES256", "{status}");
    printed(stage, &active).await?;
    let events: Api<Event> = Api::namespaced(stage.client.clone(), "default");
    wait::value_within(LONG, "the Event of the new key", async || {
        let told = events.list(&ListParams::default()).await?.items;
        let of_key = |event: &&Event| event.reason.as_deref() == Some("KeyEntered");
        ensure!(told.iter().filter(of_key).count() <= 1, "told twice");
        Ok(told.iter().any(|event| of_key(&event)).then_some(()))
    })
    .await?;
    spec_is_kept_to(stage, rotating, &active).await
}

/// What its owner changes is taken over, and what cannot be kept is refused.
async fn spec_is_kept_to(stage: &Stage, rotating: &[Process], active: &str) -> Result<()> {
    let changed = |spec| async move { stage.change("main", spec).await.map_err(anyhow::Error::msg) };
    changed(json!({ "schedule": { "every": null, "byHand": true } })).await?;
    let status = stage.shows("another schedule", |status| status["nextRotation"] == "by hand").await?;
    ensure!(status["observedGeneration"] == 2, "{status}");
    // Each has its own last good spec: one that had not seen this one yet would go back to the one before.
    wait::value_within(LONG, "both keep to the other schedule", async || {
        Ok(rotating.iter().all(|process| process.log().contains("generation=2")).then_some(()))
    })
    .await?;
    // The rules do not know that tokens of a day outlive it.
    changed(json!({ "overlap": { "maximum": "3h" }, "schedule": { "every": "20d", "byHand": null } }))
        .await?;
    let status =
        stage.shows("a refusal", |status| condition(status, "SpecAccepted")["status"] == "False").await?;
    ensure!(status["nextRotation"] == "by hand", "the last good spec: {status}");
    let message = condition(&status, "SpecAccepted")["message"].to_string();
    ensure!(message.contains("tokens may live for 86400 s"), "{message}");
    changed(json!({ "overlap": null })).await?;
    let status = stage.shows("the spec is good again", |status| status["nextRotation"] == "in 20d").await?;
    ensure!(condition(&status, "SpecAccepted")["status"] == "True" && status["active"] == active, "{status}");
    Ok(())
}

/// What `kubectl get keyrings` prints.
async fn printed(stage: &Stage, active: &str) -> Result<()> {
    let request = http::Request::get("/apis/chancery.dev/v1alpha1/namespaces/default/keyrings/main")
        .header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Vec::new())?;
    let table: Value = stage.client.request(request).await?;
    let columns = table["columnDefinitions"].as_array().context("no columns")?;
    let names: Vec<&str> = columns.iter().filter_map(|column| column["name"].as_str()).collect();
    ensure!(names == ["Name", "Issuer", "Active", "Standby", "Blocked", "Next", "Age"], "{table}");
    let cells = &table["rows"][0]["cells"];
    ensure!(
        cells[1] == ISSUER && cells[2] == active && cells[4] == "NotVisible" && cells[5] == "in 30d",
        "{table}"
    );
    Ok(())
}

#[tokio::test]
async fn whoever_signs_keeps_to_the_spec_of_a_ring_in_the_cluster() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let stage = Stage::start().await?;
    let (account, path) = (("demo", "app"), |name: &str| stage.dir.join(name).display().to_string());
    stage.server.create_service_account(account.0, account.1).await?;
    stage.server.kubeconfig(&stage.dir.join("kubeconfig"))?;
    create_dir(stage.dir.join("state"))?;
    let objects = json!({ "namespace": "default", "name": "chancery", "kubeconfig": "kubeconfig" });
    let policy = json!({
        "issuer": ISSUER,
        "ring": { "configMap": objects },
        "keys": { "secrets": objects },
        "signers": [{ "name": "a" }, { "name": "files" }],
        "keyRing": { "namespace": "default", "name": "main", "kubeconfig": "kubeconfig" },
        "look": "300ms",
    });
    stage.dir.write("rotation.yaml", policy.to_string())?;
    let (policy, kubeconfig, key) = (path("rotation.yaml"), path("kubeconfig"), path("sa.key"));
    let hour = json!({ "external": "1h", "apiServer": "1h" });
    let spec = json!({ "issuer": ISSUER, "schedule": { "byHand": true }, "lifetimes": hour });
    stage.create("main", spec).await.map_err(anyhow::Error::msg)?;
    chancery::run(&["ring", "adopt", "--policy", &policy, "--signing-key-file", &key]).await?.success()?;

    // Beside a signer, whose ring and keys are in the cluster.
    let state = path("state");
    let arguments = [
        ["--name", "a"],
        ["--ring-namespace", "default"],
        ["--vault-namespace", "default"],
        ["--kubeconfig", &kubeconfig],
        ["--state-dir", &state],
        ["--rotation-policy", &policy],
        ["--max-token-expiration", "1h"],
    ];
    let signer = SignerProcess::start(&stage.dir, ISSUER, &arguments.concat()).await?;
    let is_shown = |status: &Value| {
        status["keys"].as_array().map(Vec::len) == Some(2) && status["nextRotation"] == "by hand"
    };
    stage.shows("a standby in the status", is_shown).await.with_context(|| signer.log())?;

    // Beside key files: the file alone would allow a day, and the spec less than this kube-apiserver signs.
    let step = async || {
        let arguments = ["ring", "files", "--once", "--name", "files", "--restart-command", "true"];
        let places = ["--policy", &policy, "--kubeconfig", &kubeconfig, "--server", stage.server.url()];
        let files =
            ["--signing-key-file", &key, "--key-file", &path("sa.pub"), "--service-account", "demo/app"];
        chancery::run(&[&arguments[..], &places[..], &files[..]].concat()).await
    };
    let refused = step().await?;
    let why = "it issues tokens of 7200 s, and the policy allows 3600 s";
    ensure!(refused.code == Some(1) && refused.stderr.contains(why), "{refused:?}");
    let longer = json!({ "lifetimes": { "external": "2h", "apiServer": "2h" } });
    stage.change("main", longer).await.map_err(anyhow::Error::msg)?;
    let taken = step().await?;
    ensure!(taken.code == Some(3) && taken.stderr.contains("key files: acknowledge"), "{taken:?}");
    Ok(())
}

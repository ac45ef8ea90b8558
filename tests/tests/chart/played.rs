//! Our own program in the place of the rendered pods: with exactly the rendered configuration, token and rights it does its
//! work, and without any one of the rights it says which.

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use e2e::signer::SignerClient;
use e2e::witness::kids;
use e2e::{chancery, http, ports, wait};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::cluster::{HOST, Stage};
use crate::helm::{NAMESPACE, Rendered};
use crate::pod::{NODE, Pod};

/// Ports of the issuer's admin page, and of the webhook.
#[derive(Clone, Copy)]
pub struct Ports {
    issuer_admin: u16,
    webhook: u16,
    webhook_admin: u16,
}

impl Ports {
    pub fn free() -> Result<Self> {
        Ok(Self { issuer_admin: ports::free()?, webhook: ports::free()?, webhook_admin: ports::free()? })
    }
}

/// Values of a release that can be played on this machine: on free ports, of an issuer that asks for every kind of right.
pub fn values(stage: &Stage, ports: Ports) -> Value {
    json!({
        "logFormat": "text",
        "issuer": {
            "issuers": [{
                "url": format!("https://{HOST}:{}", stage.port),
                "sources": [
                    { "kubeApiserver": {
                        "pollSeconds": 1, "canary": { "namespace": "canaries", "serviceAccount": "chancery-canary" },
                    } },
                    { "configMap": { "namespace": "keys", "name": "old-keys" } },
                    { "secret": { "namespace": "clusters", "name": "cluster-a-sa" } },
                ],
                "sinks": [{ "name": "gateway", "configMap": { "namespace": "gateway", "name": "jwks", "key": "jwks.json" } }],
                "verify": { "enabled": false },
            }],
            "serve": { "port": stage.port, "certificate": { "mode": "provided" } },
            "admin": { "port": ports.issuer_admin },
        },
        "webhook": { "port": ports.webhook, "admin": { "port": ports.webhook_admin }, "drainSeconds": 0 },
    })
}

/// The issuer reads every source, publishes to the sink, serves, and reports.
pub async fn the_issuer_publishes(stage: &Stage, release: &Rendered) -> Result<()> {
    let mut pod = Pod::start(stage, release.of("Deployment", "chancery-issuer")?).await?;
    let ready = async || Ok(pod.page("readyz").await?.0 == 200);
    wait::until("an issuer that is ready", ready).await.with_context(|| pod.process.log_tail())?;
    let published = async || {
        let jwks = stage.get("/api/v1/namespaces/gateway/configmaps/jwks").await?.context("no ConfigMap")?;
        let jwks = jwks["data"]["jwks.json"].as_str().context("no JWKS")?.to_owned();
        Ok(kids(&serde_json::from_str(&jwks)?).contains(&stage.key.kid))
    };
    wait::until("the keys in the sink", published).await.with_context(|| pod.process.log_tail())?;
    let client = http::client_of(stage.authority.pem(), HOST, "127.0.0.1".parse()?)?;
    let url = format!("https://{HOST}:{}/openid/v1/jwks", stage.port);
    let served: Value = client.get(url).send().await?.error_for_status()?.json().await?;
    ensure!(kids(&served).contains(&stage.key.kid), "{served}");
    let conditions = async || {
        let report = stage.get("/api/v1/namespaces/chancery/configmaps/chancery-report").await?;
        let report = report.context("no report")?;
        Ok(report["data"]["summary"].is_string())
    };
    wait::until("the report", conditions).await?;
    let told = async || {
        let events =
            stage.get("/apis/events.k8s.io/v1/namespaces/chancery/events").await?.context("no Events")?;
        Ok(events["items"].as_array().is_some_and(|it| !it.is_empty()))
    };
    wait::until("an Event", told).await?;
    let said = pod.process.log() + &pod.page("conditions").await?.1;
    ensure!(!said.contains("is forbidden"), "{said}");
    pod.process.signal(Signal::TERM)?;
    let code = pod.process.exit(wait::SOON).await?.code();
    ensure!(code == Some(0), "{code:?}: {}", pod.process.log_tail());
    Ok(())
}

/// What is made anew each time, so that a right to create is needed as well.
const MADE: [&str; 3] = [
    "/apis/coordination.k8s.io/v1/namespaces/chancery/leases/chancery-issuer",
    "/api/v1/namespaces/gateway/configmaps/jwks",
    "/api/v1/namespaces/chancery/secrets/chancery-webhook-authority",
];
const MADE_MAPS: [&str; 3] = ["chancery-state-", "chancery-visibility-", "chancery-signer-acknowledgement-"];

/// Each rule of the roles of one part, in these namespaces or for the whole cluster (`null`), is taken away in turn, and missed.
pub async fn every_right_is_needed(
    stage: &Stage,
    (release, name): (&Rendered, &str),
    namespaces: &[Value],
) -> Result<()> {
    let is_workload = |it: &&Value| {
        (it["kind"] == "Deployment" || it["kind"] == "DaemonSet") && it["metadata"]["name"] == name
    };
    let workload = release.0.iter().find(is_workload).context("no such workload")?;
    let is_role =
        |it: &&Value| (it["kind"] == "Role" || it["kind"] == "ClusterRole") && it["metadata"]["name"] == name;
    for namespace in namespaces {
        let role = release.0.iter().filter(is_role).find(|role| role["metadata"]["namespace"] == *namespace);
        let role = role.with_context(|| format!("no role in {namespace}"))?;
        let rules = role["rules"].as_array().context("no rules")?;
        for (position, rule) in rules.iter().enumerate() {
            if is_used_once(name, rule) {
                continue;
            }
            forget(stage).await?;
            let mut less = role.clone();
            less["rules"].as_array_mut().context("no rules")?.remove(position);
            stage.apply(&less).await?;
            let pod = Pod::start(stage, workload).await?;
            let missed = async || {
                let said =
                    pod.process.log() + &pod.page("conditions").await.map(|it| it.1).unwrap_or_default();
                Ok(is_missed(rule, &said))
            };
            let what = format!("whoever misses {rule} in {namespace}");
            wait::until(&what, missed).await.with_context(|| pod.process.log_tail())?;
            drop(pod);
            stage.apply(role).await?;
        }
    }
    Ok(())
}

/// A signer tells of steps, and takes none in a ring that is as it should be; [`the_signer_signs`] sees what it told.
fn is_used_once(name: &str, rule: &Value) -> bool {
    name == "chancery-signer" && rule["resources"][0] == "events"
}

async fn forget(stage: &Stage) -> Result<()> {
    for namespace in [NAMESPACE, "ring"] {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        let maps = stage.get(&path).await?.context("no ConfigMaps")?;
        let names =
            maps["items"].as_array().into_iter().flatten().filter_map(|map| map["metadata"]["name"].as_str());
        for name in names.filter(|name| MADE_MAPS.iter().any(|made| name.starts_with(made))) {
            stage.delete(&format!("{path}/{name}")).await?;
        }
    }
    for path in MADE {
        stage.delete(path).await?;
    }
    if stage.get(KEY_RING).await?.is_some() {
        stage.delete(KEY_RING).await?;
        declare_the_ring(stage).await?;
    }
    Ok(())
}

/// Whether kube-apiserver's refusal of one of the verbs of a rule stands there, however it is quoted.
fn is_missed(rule: &Value, said: &str) -> bool {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let resource = text(&rule["resources"][0]);
    let (kind, sub) = resource.split_once('/').unwrap_or((&resource, ""));
    let verbs = rule["verbs"].as_array().into_iter().flatten().map(text);
    let refusals = verbs.map(|verb| format!("cannot {verb} resource"));
    let lines: Vec<&str> = said.lines().filter(|line| line.contains(kind) && line.contains(sub)).collect();
    refusals.into_iter().any(|refusal| lines.iter().any(|line| line.contains(&refusal)))
}

/// The webhook makes its certificate, has kube-apiserver believe it, and answers.
pub async fn the_webhook_answers(stage: &Stage, release: &Rendered, ports: Ports) -> Result<()> {
    let pod = Pod::start(stage, release.of("Deployment", "chancery-webhook")?).await?;
    let ready = async || Ok(pod.page("readyz").await?.0 == 200);
    wait::until("a webhook that is ready", ready).await.with_context(|| pod.process.log_tail())?;
    let bundle = async || Ok(ca_bundle(stage).await?);
    let bundle = wait::value("the caBundle", bundle).await.with_context(|| pod.process.log_tail())?;
    let host = format!("chancery-webhook.{NAMESPACE}.svc");
    let pem = String::from_utf8(STANDARD.decode(&bundle)?)?;
    stage.server.create(
        "/api/v1/namespaces/default/serviceaccounts",
        &json!({ "metadata": { "name": "app", "annotations": { "eks.amazonaws.com/role-arn": "arn:aws:iam::123456789012:role/app" } } }),
    ).await?;
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "1", "operation": "CREATE", "namespace": "default",
            "kind": { "group": "", "version": "v1", "kind": "Pod" },
            "resource": { "group": "", "version": "v1", "resource": "pods" },
            "object": {
                "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "app", "namespace": "default" },
                "spec": { "serviceAccountName": "app", "containers": [{ "name": "app", "image": "app:1" }] },
            },
        },
    });
    let asked = async || {
        let client = http::client_of(&pem, &host, "127.0.0.1".parse()?)?;
        let answer =
            client.post(format!("https://{host}:{}/mutate", ports.webhook)).json(&review).send().await?;
        let answer: Value = answer.error_for_status()?.json().await?;
        Ok(answer["response"]["patch"].as_str().map(str::to_owned))
    };
    let patch = wait::value("an answer with a patch", asked).await.with_context(|| pod.process.log_tail())?;
    let patch = String::from_utf8(STANDARD.decode(patch)?)?;
    ensure!(patch.contains("AWS_ROLE_ARN"), "{patch}");
    ensure!(!pod.process.log().contains("is forbidden"), "{}", pod.process.log());
    Ok(())
}

/// The issuer of the ring that the signer signs by.
const RING: &str = "https://ring.example.com";

/// Values that add a signer of a ring, which rotates it.
pub fn signer_values(admin: u16) -> Value {
    json!({
        "signer": {
            "enabled": true, "highAvailability": true, "issuer": RING, "admin": { "port": admin },
            "keys": { "ring": { "namespace": "ring", "vaultNamespace": "vault", "nodes": [NODE] } },
            "rotation": { "keyRing": { "namespace": "ring", "name": "cluster-a" }, "look": "1s" },
        },
    })
}

/// The KeyRing that its owner has made.
pub const KEY_RING: &str = "/apis/chancery.dev/v1alpha1/namespaces/ring/keyrings/cluster-a";

async fn declare_the_ring(stage: &Stage) -> Result<()> {
    let metadata = json!({ "name": "cluster-a", "namespace": "ring" });
    let spec = json!({ "issuer": RING });
    let ring = json!({ "apiVersion": "chancery.dev/v1alpha1", "kind": "KeyRing", "metadata": metadata, "spec": spec });
    stage.apply(&ring).await
}

/// Begins a ring in the cluster, as a person does.
pub async fn begin_a_ring(stage: &Stage) -> Result<()> {
    for name in ["ring", "vault"] {
        stage
            .apply(&json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }))
            .await?;
    }
    declare_the_ring(stage).await?;
    let place =
        |namespace: &str| json!({ "namespace": namespace, "name": "chancery", "kubeconfig": "kubeconfig" });
    let policy = json!({
        "issuer": RING, "ring": { "configMap": place("ring") }, "keys": { "secrets": place("vault") },
        "signers": [{ "name": NODE }],
    });
    let policy = stage.dir.write("rotation.yaml", policy.to_string())?.display().to_string();
    chancery::run(&["ring", "init", "--policy", &policy]).await?.success()?;
    Ok(())
}

/// The signer signs by the ring, says so where the ring's writer reads it, and makes the next key.
pub async fn the_signer_signs(stage: &Stage, release: &Rendered) -> Result<()> {
    let pod = Pod::start(stage, release.of("DaemonSet", "chancery-signer")?).await?;
    let ready = async || Ok(pod.page("readyz").await?.0 == 200);
    wait::until("a signer that is ready", ready).await.with_context(|| pod.process.log_tail())?;
    let client = SignerClient::connect(&pod.path("/run/chancery/signer.sock"), "v1").await?;
    let has_standby = async || Ok(client.fetch_keys().await?.keys.len() == 2);
    wait::until("the key after the one that signs", has_standby)
        .await
        .with_context(|| pod.process.log_tail())?;
    let said = "chancery-signer-acknowledgement-ring-example-com-control-plane-1-";
    let acknowledged = async || {
        let maps = stage.get("/api/v1/namespaces/ring/configmaps").await?.context("no ConfigMaps")?;
        let maps = maps["items"].as_array().context("no list")?.clone();
        Ok(maps.iter().any(|map| map["metadata"]["name"].as_str().is_some_and(|name| name.starts_with(said))))
    };
    wait::until("the acknowledgement", acknowledged).await.with_context(|| pod.process.log_tail())?;
    let told = async || {
        let events =
            stage.get("/apis/events.k8s.io/v1/namespaces/ring/events").await?.context("no Events")?;
        Ok(events["items"]
            .as_array()
            .is_some_and(|it| it.iter().any(|event| event["reason"] == "KeyEntered")))
    };
    wait::until("the Event about the next key", told).await.with_context(|| pod.process.log_tail())?;
    ensure!(!pod.process.log().contains("is forbidden"), "{}", pod.process.log());
    Ok(())
}

/// The caBundle of the registration, once each entry has one.
pub async fn ca_bundle(stage: &Stage) -> Result<Option<String>> {
    let path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/chancery-webhook";
    let registration = stage.get(path).await?.context("no registration")?;
    let entries = registration["webhooks"].as_array().context("no entries")?;
    let bundles: Vec<&str> =
        entries.iter().filter_map(|it| it["clientConfig"]["caBundle"].as_str()).collect();
    let is_whole = bundles.len() == entries.len() && !bundles.is_empty();
    Ok(is_whole.then(|| bundles[0].to_owned()))
}

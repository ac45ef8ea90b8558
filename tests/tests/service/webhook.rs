//! `chancery webhook` asked by a real kube-apiserver: what it adds is taken, and opens a bucket.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use e2e::authority::{Authority, LOOPBACK};
use e2e::cluster::API_AUDIENCE;
use e2e::kube_apiserver::KubeApiserver;
use e2e::minio::Minio;
use e2e::process::{Process, READY, mortal};
use e2e::scratch::Scratch;
use e2e::{binary, chancery, http, ports, wait};
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::exchange::{AUDIENCE, ISSUER, Stage};

mod faults;
mod neighbours;
mod self_signed;

/// The label by which a pod asks for Azure itself.
const LABEL: &str = "azure.workload.identity/use";

/// A running webhook, and where it is.
struct Webhook {
    process: Process,
    authority: Authority,
    port: u16,
    admin: u16,
    dir: Scratch,
}

impl Webhook {
    /// Runs with the rights of docs/webhook.md, and registered; kube-apiserver asks it by now.
    async fn start(cluster: &KubeApiserver, minio: &Minio) -> Result<Self> {
        let dir = Scratch::new("webhook")?;
        let authority = Authority::new(dir.path())?;
        authority.issue(dir.path(), &LOOPBACK)?;
        let kubeconfig = least_rights(cluster, &dir).await?;
        let (port, admin) = (ports::free()?, ports::free()?);
        let config = json!({
            "listen": format!("127.0.0.1:{port}"),
            "tls": { "certificate": "tls.crt", "privateKey": "tls.key" },
            "admin": { "listen": format!("127.0.0.1:{admin}") },
            "kubeconfig": kubeconfig,
            "drainSeconds": 0,
            "aws": { "region": minio.region(), "stsEndpoint": minio.endpoint() },
        });
        let config = dir.write("webhook.yaml", config.to_string())?;
        let mut command = mortal(&binary::chancery()?);
        command.args(["webhook", "serve", "--config"]).arg(config);
        let process = Process::start("chancery webhook", command, &dir.join("log"))?;
        let mut webhook = Self { process, authority, port, admin, dir };
        let (client, ready) = (http::client(None)?, format!("http://127.0.0.1:{admin}/readyz"));
        webhook
            .process
            .ready(READY, async || {
                client.get(&ready).send().await.is_ok_and(|answer| answer.status().is_success())
            })
            .await?;
        webhook.register(cluster).await?;
        Ok(webhook)
    }

    async fn register(&self, cluster: &KubeApiserver) -> Result<()> {
        let (ca, url) =
            (self.authority.path().display().to_string(), format!("https://127.0.0.1:{}/mutate", self.port));
        let printed = ["webhook", "registration", "--ca", &ca, "--url", &url, "--namespace", "chancery"];
        let mut object: Value = serde_json::from_str(&chancery::run(&printed).await?.success()?)?;
        let entries = object.get_mut("webhooks").and_then(Value::as_array_mut);
        for entry in entries.into_iter().flatten().filter_map(Value::as_object_mut) {
            // On a busy machine nobody must be let in just because it took long.
            entry.insert("timeoutSeconds".to_owned(), json!(faults::PATIENT));
        }
        let path =
            "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations?fieldValidation=Strict";
        cluster.create(path, &object).await?;
        // kube-apiserver hears of it through a watch of its own.
        wait::value_within(READY, "the first pod that is looked at", async || {
            let (status, pod) = create(cluster, &pod("probe", "app"), true).await?;
            ensure!(status == StatusCode::CREATED, "{status}: {pod}");
            Ok(pod.pointer("/spec/volumes").is_some().then_some(()))
        })
        .await
    }

    /// Waits until readiness and the metrics say so of the registration; what readiness says.
    async fn stands(&self, expected: StatusCode, state: &str) -> Result<String> {
        let (client, ready) = (http::client(None)?, format!("http://127.0.0.1:{}/readyz", self.admin));
        let series = format!("chancery_webhook_registration{{state=\"{state}\"}} 1\n");
        wait::value_within(READY, &format!("a registration that is {state}"), async || {
            let answer = client.get(&ready).send().await?;
            let (status, page) = (answer.status(), answer.text().await?);
            let is_so = status == expected && self.metrics().await?.contains(&series);
            Ok(is_so.then_some(page))
        })
        .await
    }

    async fn metrics(&self) -> Result<String> {
        let page = format!("http://127.0.0.1:{}/metrics", self.admin);
        Ok(http::client(None)?.get(page).send().await?.error_for_status()?.text().await?)
    }
}

/// The kubeconfig of whoever may read ServiceAccounts and the registration, and do nothing else.
async fn least_rights(cluster: &KubeApiserver, dir: &Scratch) -> Result<PathBuf> {
    let account = ("chancery", "webhook");
    cluster.create_service_account(account.0, account.1).await?;
    let below = "/apis/rbac.authorization.k8s.io/v1";
    let reads = ["get", "list", "watch"];
    let rules = json!([
        { "apiGroups": [""], "resources": ["serviceaccounts"], "verbs": reads },
        {
            "apiGroups": ["admissionregistration.k8s.io"], "resources": ["mutatingwebhookconfigurations"],
            "resourceNames": ["chancery-webhook"], "verbs": reads,
        },
    ]);
    let role = json!({ "metadata": { "name": "chancery-webhook" }, "rules": rules });
    cluster.create(&format!("{below}/clusterroles"), &role).await?;
    let binding = json!({
        "metadata": { "name": "chancery-webhook" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "chancery-webhook" },
        "subjects": [{ "kind": "ServiceAccount", "name": account.1, "namespace": account.0 }],
    });
    cluster.create(&format!("{below}/clusterrolebindings"), &binding).await?;
    let token = cluster.token_request(account, API_AUDIENCE, 3600).await?;
    let path = dir.join("kubeconfig");
    cluster.kubeconfig_with(&token, &path)?;
    Ok(path)
}

/// A pod with a native sidecar.
fn pod(name: &str, account: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name },
        "spec": {
            "serviceAccountName": account,
            "initContainers": [{ "name": "sidecar", "image": "sidecar:1", "restartPolicy": "Always" }],
            "containers": [{ "name": "app", "image": "app:1" }],
        },
    })
}

async fn create(cluster: &KubeApiserver, pod: &Value, dry_run: bool) -> Result<(StatusCode, Value)> {
    let dry_run = if dry_run { "&dryRun=All" } else { "" };
    let path = format!("/api/v1/namespaces/demo/pods?fieldValidation=Strict{dry_run}");
    cluster.post(&path, cluster.admin_token(), pod).await
}

async fn annotate(cluster: &KubeApiserver, name: &str, annotations: Value) -> Result<()> {
    let account = json!({ "metadata": { "name": name, "annotations": annotations } });
    cluster.create("/api/v1/namespaces/demo/serviceaccounts", &account).await
}

/// What the first container of a pod finds in its environment.
fn environment(pod: &Value) -> BTreeMap<String, String> {
    let list = pod.pointer("/spec/containers/0/env").and_then(Value::as_array);
    let text = |variable: &Value, field: &str| variable[field].as_str().unwrap_or_default().to_owned();
    list.into_iter().flatten().map(|it| (text(it, "name"), text(it, "value"))).collect()
}

#[tokio::test]
async fn a_pod_gets_what_opens_a_bucket_and_nobody_else_is_kept_out() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver", "minio"]) {
        return Ok(());
    }
    let stage = Stage::new().await?;
    let minio = Minio::start_trusting(&stage.site.trusted(ISSUER, AUDIENCE)).await?;
    let cluster = &stage.cluster;
    cluster.create("/api/v1/namespaces", &json!({ "metadata": { "name": "demo" } })).await?;
    let role = json!({ "eks.amazonaws.com/role-arn": minio.role_arn()? });
    annotate(cluster, "app", role.clone()).await?;
    annotate(cluster, "plain", json!({})).await?;
    annotate(cluster, "wrong", json!({ "eks.amazonaws.com/role-arn": "app" })).await?;
    let mut webhook = Webhook::start(cluster, &minio).await?;

    let (status, app) = create(cluster, &pod("app", "app"), false).await?;
    ensure!(status == StatusCode::CREATED, "{status}: {app}\n{}", webhook.process.log_tail());
    ensure!(app["spec"]["initContainers"][0]["restartPolicy"] == "Always");
    ensure!(app["spec"]["initContainers"][0]["env"] == app["spec"]["containers"][0]["env"], "{app}");
    opens_a_bucket(&stage, &minio, &app).await?;
    looked_at_twice(cluster, &app).await?;

    let (status, plain) = create(cluster, &pod("plain", "plain"), false).await?;
    ensure!(status == StatusCode::CREATED && plain.pointer("/spec/volumes").is_none(), "{plain}");
    let mut mirror = pod("mirror", "app");
    mirror["metadata"]["annotations"] = json!({ "kubernetes.io/config.mirror": "x" });
    mirror["spec"]["nodeName"] = json!("node-1");
    let (status, mirror) = create(cluster, &mirror, true).await?;
    ensure!(status == StatusCode::CREATED && mirror.pointer("/spec/volumes").is_none(), "{mirror}");
    let (status, refused) = create(cluster, &pod("wrong", "wrong"), false).await?;
    ensure!(
        status == StatusCode::FORBIDDEN
            && refused["message"].as_str().is_some_and(|it| it.contains("demo/wrong")),
        "{refused}"
    );
    // Whoever comes together with its ServiceAccount is served, by the watch or by a look, which is given up after a second.
    annotate(cluster, "late", role).await?;
    wait::value_within(READY, "a pod of a new ServiceAccount that is served", async || {
        let (_, late) = create(cluster, &pod("late", "late"), true).await?;
        Ok(environment(&late).contains_key("AWS_ROLE_ARN").then_some(()))
    })
    .await?;

    faults::what_is_no_question_is_refused(&webhook).await?;
    faults::a_wrong_ca_bundle_is_said(cluster, &webhook).await?;
    faults::whoever_takes_too_long_is_not_waited_for(cluster, &webhook).await?;
    neighbours::another_vendor_injects_too(cluster, minio.role_arn()?).await?;
    renewed_under_load(cluster, &webhook).await?;
    nobody_answers(cluster, &mut webhook).await?;
    self_signed::replicas_keep_one_authority(cluster).await
}

/// The token that kubelet would ask for, and the variables as they were added.
async fn opens_a_bucket(stage: &Stage, minio: &Minio, pod: &Value) -> Result<()> {
    let token = pod.pointer("/spec/volumes/0/projected/sources/0/serviceAccountToken").context("no token")?;
    let audience = token["audience"].as_str().context("no audience")?;
    let seconds = token["expirationSeconds"].as_u64().context("no life")?;
    let token = stage.cluster.token_request(("demo", "app"), audience, seconds).await?;
    let environment = environment(pod);
    let of = |name: &str| environment.get(name).map(String::as_str).with_context(|| format!("no {name}"));
    let file = of("AWS_WEB_IDENTITY_TOKEN_FILE")?.trim_start_matches('/');
    ensure!(file.starts_with("var/run/secrets/eks.amazonaws.com/serviceaccount/"), "{file}");
    let source = stage.token_file("projected", &token)?;
    let exchange = [
        "exchange",
        "get",
        "--to",
        "aws",
        "--format",
        "credential-process",
        "--source",
        &source,
        "--role-arn",
        of("AWS_ROLE_ARN")?,
        "--region",
        of("AWS_REGION")?,
        "--sts-endpoint",
        of("AWS_ENDPOINT_URL_STS")?,
    ];
    let keys = crate::exchange::credentials_in(&chancery::run(&exchange).await?.success()?)?;
    minio.create_bucket("private").await?;
    minio.put_object("private", "object", b"content").await?;
    ensure!(minio.read_object_with(&keys, "private", "object").await? == b"content");
    Ok(())
}

/// A pod that has everything comes again, by another name.
async fn looked_at_twice(cluster: &KubeApiserver, pod: &Value) -> Result<()> {
    let again = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "again" }, "spec": pod.get("spec"),
    });
    let (status, second) = create(cluster, &again, true).await?;
    ensure!(status == StatusCode::CREATED && second.get("spec") == pod.get("spec"), "{second}");
    Ok(())
}

/// The certificate is renewed while pods come, and none is let in without what it asks for.
async fn renewed_under_load(cluster: &KubeApiserver, webhook: &Webhook) -> Result<()> {
    let is_renewed = || async {
        let page = webhook.metrics().await?;
        anyhow::Ok(page.contains("chancery_webhook_certificate_reloads_total{result=\"replaced\"} 1"))
    };
    ensure!(!is_renewed().await?);
    webhook.authority.issue(webhook.dir.path(), &LOOPBACK)?;
    wait::value_within(READY * 2, "the new certificate", async || {
        let created = (0..8)
            .map(|number| async move { create(cluster, &pod(&format!("load-{number}"), "app"), true).await });
        for created in futures_util::future::join_all(created).await {
            let (status, pod) = created?;
            ensure!(status == StatusCode::CREATED && environment(&pod).contains_key("AWS_ROLE_ARN"), "{pod}");
        }
        Ok(is_renewed().await?.then_some(()))
    })
    .await
}

/// While the webhook is gone only those wait that have asked by themselves.
async fn nobody_answers(cluster: &KubeApiserver, webhook: &mut Webhook) -> Result<()> {
    webhook.process.kill()?;
    let (status, bare) = create(cluster, &pod("bare", "app"), true).await?;
    ensure!(status == StatusCode::CREATED && bare.pointer("/spec/volumes").is_none(), "{bare}");
    let labelled = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "labelled", "labels": { LABEL: "true" } },
        "spec": pod("labelled", "app").get("spec"),
    });
    let (status, refused) = create(cluster, &labelled, true).await?;
    ensure!(status.is_server_error(), "{status}: {refused}");
    create(cluster, &pod("unserved", "app"), false).await?;
    let kubeconfig = webhook.dir.join("admin");
    cluster.kubeconfig(&kubeconfig)?;
    let kubeconfig = kubeconfig.display().to_string();
    let audit = chancery::run(&["webhook", "audit", "--kubeconfig", &kubeconfig]).await?;
    let lines: Vec<&str> = audit.stdout.lines().collect();
    ensure!(audit.code == Some(3) && lines.len() == 1, "{audit:?}");
    ensure!(
        audit.stdout.starts_with("demo/unserved runs without what it asks for (aws: role arn:minio:"),
        "{audit:?}"
    );
    let nothing = chancery::run(&["webhook", "audit", "--kubeconfig", &kubeconfig, "-n", "chancery"]).await?;
    ensure!(nothing.clone().success()?.starts_with("ok: 0 pods"), "{nothing:?}");
    Ok(())
}

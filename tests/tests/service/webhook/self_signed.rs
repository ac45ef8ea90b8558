//! `chancery webhook` that makes its certificate itself, in two replicas that start together.

#![allow(clippy::indexing_slicing, reason = "a test fails by panicking")]

use anyhow::{Context as _, Result, ensure};
use e2e::cluster::API_AUDIENCE;
use e2e::kube_apiserver::KubeApiserver;
use e2e::process::{Process, READY, mortal};
use e2e::scratch::Scratch;
use e2e::{binary, chancery, http, ports, wait};
use jiff::{Timestamp, ToSpan as _, tz::TimeZone};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams, ValidationDirective};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, KeyUsagePurpose, date_time_ymd};
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::faults;

const SECRET: &str = "chancery-webhook-authority";

/// Starts as one of two, by the configuration that is deployed, beside the cluster.
fn start((dir, name): (&Scratch, &str), port: u16, deployed: &Value) -> Result<Process> {
    let mut config = deployed.clone();
    config["listen"] = json!(format!("127.0.0.1:{port}"));
    config["admin"]["listen"] = json!("127.0.0.1:0");
    // A pod has a namespace of its own; whoever has a kubeconfig is in that of its context.
    config["selfSigned"]["namespace"] = json!("chancery");
    config["kubeconfig"] = json!("kubeconfig");
    config["drainSeconds"] = json!(0);
    let config = dir.write(&format!("{name}.yaml"), config.to_string())?;
    let mut command = mortal(&binary::chancery()?);
    command.args(["webhook", "serve", "--config"]).arg(config);
    Process::start("chancery webhook", command, &dir.join(&format!("{name}.log")))
}

/// Applies a document strictly: an unknown or repeated field is an error.
async fn apply(client: &Client, object: &Value) -> Result<()> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let (kind, name) = (text("/kind").context("no kind")?, text("/metadata/name").context("no name")?);
    let version = text("/apiVersion").context("no apiVersion")?;
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api: Api<DynamicObject> = match text("/metadata/namespace") {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let parameters = PatchParams {
        field_validation: Some(ValidationDirective::Strict),
        ..PatchParams::apply("e2e").force()
    };
    api.patch(name, &parameters, &Patch::Apply(object)).await.with_context(|| format!("{kind} {name}"))?;
    Ok(())
}

/// Applies deploy/webhook.yaml: the configuration in it. Its pods are as restricted as its namespace demands.
async fn deploy(cluster: &KubeApiserver) -> Result<Value> {
    let text = std::fs::read_to_string("../deploy/webhook.yaml")?;
    let objects: Vec<Value> =
        text.split("\n---\n").map(serde_saphyr::from_str).collect::<std::result::Result<_, _>>()?;
    let of = |kind: &str| {
        objects.iter().find(|object| object["kind"] == kind).with_context(|| format!("no {kind}"))
    };
    let registration = of("MutatingWebhookConfiguration")?;
    let printed = chancery::run(&["webhook", "registration", "--self-signed"]).await?.success()?;
    ensure!(*registration == serde_json::from_str::<Value>(&printed)?, "{printed}");
    let client = cluster.kube_client().await?;
    let api: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    api.delete("chancery-webhook", &Default::default()).await?;
    for object in &objects {
        apply(&client, object).await?;
    }
    let template = &of("Deployment")?["spec"]["template"];
    let mut spec = template["spec"].clone();
    spec["serviceAccountName"] = json!("default");
    let pod = json!({ "metadata": { "name": "as-deployed" }, "spec": spec });
    let path = "/api/v1/namespaces/chancery/pods?fieldValidation=Strict&dryRun=All";
    let (status, answer) = cluster.post(path, cluster.admin_token(), &pod).await?;
    ensure!(status == StatusCode::CREATED, "{status}: {answer}");
    let config = of("ConfigMap")?.pointer("/data/webhook.yaml").and_then(Value::as_str);
    Ok(serde_saphyr::from_str(config.context("no configuration")?)?)
}

/// The kubeconfig of the ServiceAccount that deploy/webhook.yaml gives its rights to.
async fn kubeconfig(cluster: &KubeApiserver, dir: &Scratch) -> Result<()> {
    let account = ("chancery", "chancery-webhook");
    let token = cluster.token_request(account, API_AUDIENCE, 3600).await?;
    cluster.kubeconfig_with(&token, &dir.join("kubeconfig"))
}

async fn register(cluster: &KubeApiserver, port: u16) -> Result<()> {
    let url = format!("https://127.0.0.1:{port}/mutate");
    let printed = ["webhook", "registration", "--self-signed", "--url", &url];
    let mut object: Value = serde_json::from_str(&chancery::run(&printed).await?.success()?)?;
    for entry in object["webhooks"].as_array_mut().into_iter().flatten() {
        entry["timeoutSeconds"] = json!(faults::PATIENT);
    }
    let api: Api<MutatingWebhookConfiguration> = Api::all(cluster.kube_client().await?);
    api.delete("chancery-webhook", &Default::default()).await?;
    api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    Ok(())
}

/// The certificates that each entry of the registration names; `None` while they are not of one mind.
async fn bundle(cluster: &KubeApiserver) -> Result<Option<String>> {
    let api: Api<MutatingWebhookConfiguration> = Api::all(cluster.kube_client().await?);
    let entries = api.get("chancery-webhook").await?.webhooks.unwrap_or_default();
    let mut bundles = entries.into_iter().map(|entry| entry.client_config.ca_bundle);
    let first = bundles.next().flatten();
    let agree = bundles.all(|other| other == first);
    Ok(first.filter(|_| agree).map(|bytes| String::from_utf8(bytes.0)).transpose()?)
}

/// Waits until every replica shows a certificate of this authority.
async fn all_are_believed(ports: [u16; 2], pem: &str) -> Result<()> {
    for port in ports {
        let url = format!("https://127.0.0.1:{port}/mutate");
        wait::value_within(READY, "a certificate of the shared authority", async || {
            // A new client each time, that shakes hands anew.
            let answer = http::client(Some(pem))?.get(&url).send().await;
            Ok(answer.is_ok_and(|it| it.status() == StatusCode::METHOD_NOT_ALLOWED).then_some(()))
        })
        .await?;
    }
    Ok(())
}

/// An authority that is past two thirds of its life: as the Secret has it, and its certificate.
fn aged() -> Result<(String, String)> {
    let day = |days: i64| {
        let date = Timestamp::now().to_zoned(TimeZone::UTC).checked_add(days.days())?.date();
        anyhow::Ok(date_time_ymd(
            i32::from(date.year()),
            u8::try_from(date.month())?,
            u8::try_from(date.day())?,
        ))
    };
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, "aged");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    (params.not_before, params.not_after) = (day(-300)?, day(60)?);
    let key = KeyPair::generate()?;
    let pem = params.self_signed(&key)?.pem();
    Ok((format!("{pem}{}", key.serialize_pem()), pem))
}

pub async fn replicas_keep_one_authority(cluster: &KubeApiserver) -> Result<()> {
    let dir = Scratch::new("self-signed")?;
    let deployed = deploy(cluster).await?;
    kubeconfig(cluster, &dir).await?;
    let ports = [ports::free()?, ports::free()?];
    let one = start((&dir, "one"), ports[0], &deployed)?;
    let _other = start((&dir, "other"), ports[1], &deployed)?;
    register(cluster, ports[0]).await?;
    faults::is_served(cluster, "app", true).await.with_context(|| one.log_tail())?;
    let first = bundle(cluster).await?.context("the entries differ")?;
    all_are_believed(ports, &first).await?;

    let secrets: Api<Secret> = Api::namespaced(cluster.kube_client().await?, "chancery");
    let (aged, aged_pem) = aged()?;
    let mut secret = secrets.get(SECRET).await?;
    secret.data = Some([("authorities.pem".to_owned(), ByteString(aged.into_bytes()))].into());
    secrets.replace(SECRET, &PostParams::default(), &secret).await?;
    wait::value_within(READY, "a successor beside the authority that grows old", async || {
        let bundle = bundle(cluster).await?.unwrap_or_default();
        let number = bundle.matches("BEGIN CERTIFICATE").count();
        Ok((number == 2 && !bundle.contains(&first)).then_some(()))
    })
    .await?;
    // The successor signs once every kube-apiserver knows it.
    all_are_believed(ports, &aged_pem).await?;
    faults::is_served(cluster, "app", true).await?;

    let kept = secrets.get(SECRET).await?.data;
    secrets.delete(SECRET, &Default::default()).await?;
    let again = wait::value_within(READY, "the Secret that was deleted", async || {
        Ok(secrets.get_opt(SECRET).await?)
    })
    .await?;
    ensure!(again.data == kept, "another authority after the Secret was deleted");
    Ok(())
}

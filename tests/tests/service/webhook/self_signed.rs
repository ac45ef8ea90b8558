//! `chancery webhook` that makes its certificate itself, in two replicas that start together.

use anyhow::{Context as _, Result, ensure};
use e2e::kube_apiserver::KubeApiserver;
use e2e::minio::Minio;
use e2e::process::{Process, READY, mortal};
use e2e::scratch::Scratch;
use e2e::{binary, chancery, http, ports, wait};
use jiff::{Timestamp, ToSpan as _, tz::TimeZone};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, KeyUsagePurpose, date_time_ymd};
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::{faults, least_rights};

const SECRET: &str = "chancery-webhook-authority";

/// Starts as one of two.
fn start((dir, name): (&Scratch, &str), port: u16, minio: &Minio) -> Result<Process> {
    let config = json!({
        "listen": format!("127.0.0.1:{port}"),
        "selfSigned": { "namespace": "chancery" },
        "kubeconfig": "kubeconfig",
        "drainSeconds": 0,
        "aws": { "region": minio.region(), "stsEndpoint": minio.endpoint() },
    });
    let config = dir.write(&format!("{name}.yaml"), config.to_string())?;
    let mut command = mortal(&binary::chancery()?);
    command.args(["webhook", "serve", "--config"]).arg(config);
    Process::start("chancery webhook", command, &dir.join(&format!("{name}.log")))
}

/// The rights that docs/webhook.md names for it, beside those that every webhook has.
async fn rights(cluster: &KubeApiserver) -> Result<()> {
    let below = "/apis/rbac.authorization.k8s.io/v1";
    let subjects = json!([{ "kind": "ServiceAccount", "name": "webhook", "namespace": "chancery" }]);
    let of = |kind: &str| json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": SECRET });
    let metadata = json!({ "name": SECRET });
    let rules = json!([{
        "apiGroups": ["admissionregistration.k8s.io"], "resources": ["mutatingwebhookconfigurations"],
        "resourceNames": ["chancery-webhook"], "verbs": ["patch"],
    }]);
    cluster
        .create(&format!("{below}/clusterroles"), &json!({ "metadata": metadata, "rules": rules }))
        .await?;
    let binding = json!({ "metadata": metadata, "roleRef": of("ClusterRole"), "subjects": subjects });
    cluster.create(&format!("{below}/clusterrolebindings"), &binding).await?;
    let rules = json!([
        { "apiGroups": [""], "resources": ["secrets"], "resourceNames": [SECRET], "verbs": ["get", "update"] },
        { "apiGroups": [""], "resources": ["secrets"], "verbs": ["create"] },
    ]);
    let below = format!("{below}/namespaces/chancery");
    cluster.create(&format!("{below}/roles"), &json!({ "metadata": metadata, "rules": rules })).await?;
    let binding = json!({ "metadata": metadata, "roleRef": of("Role"), "subjects": subjects });
    cluster.create(&format!("{below}/rolebindings"), &binding).await
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

pub async fn replicas_keep_one_authority(cluster: &KubeApiserver, minio: &Minio) -> Result<()> {
    let dir = Scratch::new("self-signed")?;
    drop(least_rights(cluster, &dir).await?);
    rights(cluster).await?;
    let ports = [ports::free()?, ports::free()?];
    let one = start((&dir, "one"), ports[0], minio)?;
    let _other = start((&dir, "other"), ports[1], minio)?;
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

//! What may go wrong between kube-apiserver and the webhook: requests that are none, a `caBundle` that does not lead to
//! its certificate, no answer in time.

use anyhow::{Context as _, Result, ensure};
use e2e::kube_apiserver::KubeApiserver;
use e2e::process::READY;
use e2e::{http, wait};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::Api;
use kube::api::PostParams;
use reqwest::{Method, StatusCode};
use rustix::process::Signal;
use serde_json::json;

use super::{LABEL, Webhook, create, environment, pod};

/// One byte more than is read.
const TOO_LARGE: usize = (8 << 20) + 1;
/// What it takes until nobody must be let in just because the machine is busy, in seconds.
pub const PATIENT: i32 = 30;

/// Fixture 15, over the wire.
pub async fn what_is_no_question_is_refused(webhook: &Webhook) -> Result<()> {
    let client = http::client(Some(webhook.authority.pem()))?;
    let url = |path: &str| format!("https://127.0.0.1:{}{path}", webhook.port);
    let json = "application/json";
    let beta =
        r#"{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{}}"#.to_owned();
    for (method, path, media_type, body, expected) in [
        (Method::POST, "/", json, "{}".to_owned(), StatusCode::NOT_FOUND),
        (Method::GET, "/mutate", json, String::new(), StatusCode::METHOD_NOT_ALLOWED),
        (Method::POST, "/mutate", "text/plain", "{}".to_owned(), StatusCode::UNSUPPORTED_MEDIA_TYPE),
        (Method::POST, "/mutate", json, " ".repeat(TOO_LARGE), StatusCode::PAYLOAD_TOO_LARGE),
        (Method::POST, "/mutate", json, String::new(), StatusCode::BAD_REQUEST),
        (Method::POST, "/mutate", json, beta, StatusCode::BAD_REQUEST),
    ] {
        let request = client.request(method, url(path)).header("content-type", media_type).body(body);
        let answer = request.send().await?;
        let (status, text) = (answer.status(), answer.text().await?);
        ensure!(status == expected && text.contains("expected"), "{expected}: {status}: {text}");
    }
    Ok(())
}

/// Changes every entry of the registration.
async fn register_anew(
    cluster: &KubeApiserver,
    change: impl Fn(&mut k8s_openapi::api::admissionregistration::v1::MutatingWebhook),
) -> Result<()> {
    let api: Api<MutatingWebhookConfiguration> = Api::all(cluster.kube_client().await?);
    let mut object = api.get("chancery-webhook").await?;
    object.webhooks.iter_mut().flatten().for_each(change);
    api.replace("chancery-webhook", &PostParams::default(), &object).await?;
    Ok(())
}

async fn trusting(cluster: &KubeApiserver, pem: &str) -> Result<()> {
    register_anew(cluster, |entry| entry.client_config.ca_bundle = Some(ByteString(pem.into()))).await
}

async fn waiting(cluster: &KubeApiserver, seconds: i32) -> Result<()> {
    register_anew(cluster, |entry| entry.timeout_seconds = Some(seconds)).await
}

/// Waits until a pod of this ServiceAccount is let in with, or without, what it asks for.
pub async fn is_served(cluster: &KubeApiserver, account: &str, expected: bool) -> Result<()> {
    wait::value_within(READY, &format!("a pod with its variables: {expected}"), async || {
        let (status, pod) = create(cluster, &pod("served", account), true).await?;
        ensure!(status == StatusCode::CREATED, "{status}: {pod}");
        Ok((environment(&pod).contains_key("AWS_ROLE_ARN") == expected).then_some(()))
    })
    .await
}

/// A pod that asks by its label is kept out.
async fn labelled_is_kept_out(cluster: &KubeApiserver) -> Result<()> {
    let mut labelled = pod("labelled", "app");
    let metadata = labelled.pointer_mut("/metadata").context("no metadata")?;
    *metadata = json!({ "name": "labelled", "labels": { LABEL: "true" } });
    let (status, refused) = create(cluster, &labelled, true).await?;
    ensure!(status.is_server_error(), "{status}: {refused}");
    Ok(())
}

/// Fixture 34: whoever is registered with somebody else's authority says so, and is not ready.
pub async fn a_wrong_ca_bundle_is_said(cluster: &KubeApiserver, webhook: &Webhook) -> Result<()> {
    webhook.stands(StatusCode::OK, "good").await?;
    // As kube-apiserver's own is, it was made for other servers.
    trusting(cluster, cluster.ca_pem()).await?;
    let page = webhook.stands(StatusCode::SERVICE_UNAVAILABLE, "wrong").await?;
    ensure!(page.contains("does not lead to our certificate for 127.0.0.1"), "{page}");
    is_served(cluster, "app", false).await?;
    ensure!(cluster.metric("apiserver_admission_webhook_fail_open_count").await? > 0.0);
    labelled_is_kept_out(cluster).await?;
    trusting(cluster, webhook.authority.pem()).await?;
    webhook.stands(StatusCode::OK, "good").await?;
    is_served(cluster, "app", true).await
}

/// Fixture 34: no answer in time is no answer.
pub async fn whoever_takes_too_long_is_not_waited_for(
    cluster: &KubeApiserver,
    webhook: &Webhook,
) -> Result<()> {
    waiting(cluster, 1).await?;
    webhook.process.freeze().await?;
    is_served(cluster, "app", false).await?;
    labelled_is_kept_out(cluster).await?;
    webhook.process.signal(Signal::CONT)?;
    waiting(cluster, PATIENT).await?;
    is_served(cluster, "app", true).await
}

//! A control plane whose keys somebody else rotates: with which key it signs is seen at the next reading.

use std::path::Path;

use anyhow::{Context as _, Result};
use e2e::chancery::IssuerService;
use e2e::cluster::Cluster;
use e2e::etcd::Etcd;
use e2e::key_file::KeyFile;
use e2e::kube_apiserver::KubeApiserver;
use e2e::scratch::Scratch;
use e2e::site::Site;
use e2e::{binary, wait};
use serde_json::{Value, json};

const ISSUER: &str = "/cluster-a";
const CONDITION: &str = "SigningKeyVisible";

/// Waits for the condition of the control plane to have this reason, and returns its message.
async fn condition(site: &Site, service: &IssuerService, reason: &str) -> Result<String> {
    let what = format!("{CONDITION} {reason}");
    let waited = wait::value(&what, async || {
        let (_, text) = site.admin("conditions").await?;
        let conditions: Value = serde_json::from_str(&text)?;
        let all = conditions.get("conditions").and_then(Value::as_array).context("no list")?;
        let is = |it: &Value, field: &str, value: &str| it.get(field) == Some(&json!(value));
        let it = all.iter().find(|it| is(it, "type", CONDITION) && is(it, "reason", reason));
        Ok(it.and_then(|it| it.get("message")?.as_str()).map(str::to_owned))
    });
    waited.await.with_context(|| service.log())
}

async fn alarms(site: &Site, server: &KubeApiserver) -> Result<Option<f64>> {
    let url = site.url(ISSUER);
    let labels = [("issuer", url.as_str()), ("source", server.url())];
    site.metric("chancery_source_unannounced_activation", &labels).await
}

#[tokio::test]
async fn a_key_that_signs_before_everybody_can_have_it_is_an_alarm_at_the_next_reading() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let dir = Scratch::new("canary")?;
    let (one, two) = (KeyFile::new(&dir, "one")?, KeyFile::new(&dir, "two")?);
    let mut site = Site::new()?;
    let etcd = Etcd::shared().await?;
    let cluster = Cluster::new(etcd.url(), &site.url(ISSUER), &one.private)?;
    let mut server = KubeApiserver::start(&cluster).await?;
    server.create_service_account("demo", "canary").await?;
    let kubeconfig = site.dir().join("kubeconfig");
    server.kubeconfig(&kubeconfig)?;
    let source = json!({ "kubeApiserver": {
        "endpoints": [server.url()], "kubeconfig": kubeconfig, "pollSeconds": 1,
        "canary": { "namespace": "demo", "serviceAccount": "canary" },
    } });
    site.add_issuer(ISSUER, json!([source]), json!([]))?;
    let service = site.start_ready().await?;

    // It signed before anybody looked.
    let message = condition(&site, &service, "NotYetProven").await?;
    assert!(message.contains(&one.kid), "{message}");
    assert_eq!(alarms(&site, &server).await?, Some(0.0));

    // Somebody puts another key in front, and restarts.
    let rotated = |keys: &[&Path]| cluster.clone().signing_key(&two.private).keys(keys);
    let port = server.port();
    server.process().kill()?;
    drop(server);
    let mut server = KubeApiserver::start_on(port, &rotated(&[&two.public, &one.public])).await?;
    let message = condition(&site, &service, "UnannouncedActivation").await?;
    assert!(message.contains(&two.kid) && message.contains("older key set"), "{message}");
    assert_eq!(alarms(&site, &server).await?, Some(1.0));
    // It is published all the same, as soon as it was seen.
    site.shows(&site.url(ISSUER), &[&two.kid, &one.kid]).await?;

    // Back to the key before: no alarm is left.
    server.process().kill()?;
    drop(server);
    let server = KubeApiserver::start_on(port, &cluster.clone().keys(&[&one.public, &two.public])).await?;
    wait::until("the end of the alarm", async || Ok(alarms(&site, &server).await? == Some(0.0))).await?;

    let accounts: kube::Api<k8s_openapi::api::core::v1::ServiceAccount> =
        kube::Api::namespaced(server.kube_client().await?, "demo");
    accounts.delete("canary", &kube::api::DeleteParams::default()).await?;
    let message = condition(&site, &service, "CannotAsk").await?;
    assert!(message.contains("serviceaccounts/token") && message.contains("not found"), "{message}");
    Ok(())
}

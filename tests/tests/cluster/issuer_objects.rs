//! Issuers that objects of a cluster declare: one real API server, two replicas of the service that take turns.

#![allow(clippy::indexing_slicing, reason = "a test fails by panicking")]

use anyhow::{Context, Result, ensure};
use e2e::chancery::IssuerService;
use e2e::kube_apiserver::KubeApiserver;
use e2e::{binary, chancery, wait};
use rustix::process::Signal;
use serde_json::{Value, json};

use self::stage::{Stage, condition};

mod random;
mod rules;
mod stage;

/// One stage for all of it: an API server takes seconds of a processor to start.
#[tokio::test]
async fn objects_come_and_go_beside_the_file_and_their_status_says_how_they_fare() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let mut stage = Stage::start().await?;
    rules::hold(&stage).await?;
    let mut replicas = stage.start_replicas().await?;
    let lived = live(&mut stage, &mut replicas).await;
    lived.with_context(|| format!("{}\n{}", replicas[0].log(), replicas[1].log()))?;
    for replica in &mut replicas {
        ensure!(replica.terminate().await? == Some(0), "{}", replica.log());
    }
    Ok(())
}

async fn live(stage: &mut Stage, replicas: &mut [IssuerService; 2]) -> Result<()> {
    come_and_change(stage).await.context("come and change")?;
    bad_specs(stage).await.context("bad specs")?;
    collide(stage).await.context("collide")?;
    give_way(stage, &mut replicas[0]).await.context("give way")?;
    // Nothing of all that restarted one of them, or touched the issuer of the file.
    for replica in replicas.iter_mut() {
        ensure!(replica.log().matches("listening").count() == 2, "it was started again");
    }
    stage.is_shown("/file", 0).await?;
    random::converge(stage, replicas, 30).await.context("at random")?;
    outlast_the_api_server(stage).await.context("without an API server")
}

/// An object is made, shown, changed, deleted.
async fn come_and_change(stage: &Stage) -> Result<()> {
    // This one is looked at from outside, too: the CA is that of `resources`.
    let looked_at = |mut spec: Value| {
        spec["verify"]["enabled"] = json!(true);
        spec
    };
    stage.create("cluster-a", looked_at(stage.spec("/a", 1, "a"))).await?;
    stage.is_shown("/a", 1).await?;
    stage.is_published("a", 1).await?;
    let status = stage.shows("cluster-a", "an issuer that is ready", |status| {
        condition(status, "Ready")["status"] == "True" && condition(status, "Visible")["status"] == "True"
    });
    let status = status.await?;
    ensure!(status["observedGeneration"] == 1, "{status}");
    ensure!(condition(&status, "Accepted")["reason"] == "Followed", "{status}");
    let (key, target) = (&status["keys"][0], &status["targets"][0]);
    ensure!(key["kid"] == stage.key(1).kid && key["algorithm"] == "ES256", "{status}");
    ensure!(key["maySign"] == false && key["obstacles"] == json!(["tooShort"]), "{status}");
    ensure!(target["name"] == "www" && target["upToDate"] == true, "{status}");
    ensure!(target["lastSuccess"].is_string() && key["publishedSince"].is_string(), "{status}");
    printed(stage).await?;
    rests(stage).await?;

    // Another key, another folder: the key before stays for its retention, what was published stays where it was.
    stage.change("cluster-a", looked_at(stage.spec("/a", 2, "a2"))).await?;
    let kids = [stage.key(1).kid.as_str(), &stage.key(2).kid];
    for replica in [&stage.a, &stage.b] {
        replica.site().shows(&stage.url("/a"), &kids).await?;
    }
    wait::until("both keys in the other folder", async || Ok(stage.folder("a2")?.len() == 2)).await?;
    ensure!(stage.folder("a")?.len() == 1, "what was published stays");
    let now = stage.shows("cluster-a", "the other spec", |status| {
        status["observedGeneration"] == 2 && condition(status, "Ready")["status"] == "True"
    });
    let now = now.await?;
    let first = now["keys"].as_array().and_then(|keys| keys.iter().find(|key| key["kid"] == kids[0]));
    ensure!(first.is_some_and(|first| first["publishedSince"] == key["publishedSince"]), "{now}");

    stage.delete("cluster-a").await?;
    stage.is_gone("/a").await?;
    ensure!(stage.folder("a2")?.len() == 2, "what was published stays");
    Ok(())
}

/// What `kubectl get issuers.chancery.dev` prints, and `chancery issuer --check` beside it.
async fn printed(stage: &Stage) -> Result<()> {
    let request =
        http::Request::get("/apis/chancery.dev/v1alpha1/namespaces/chancery-system/issuers/cluster-a")
            .header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
            .body(Vec::new())?;
    let table: Value = stage.client.request(request).await?;
    let columns = table["columnDefinitions"].as_array().context("no columns")?;
    let names: Vec<&str> = columns.iter().filter_map(|column| column["name"].as_str()).collect();
    ensure!(names == ["Name", "URL", "Ready", "Reason", "Accepted", "Message", "Age"], "{table}");
    let cells = &table["rows"][0]["cells"];
    let url = stage.url("/a");
    ensure!(
        cells[1] == url && cells[2] == "True" && cells[3] == "AllGood" && cells[4] == "Followed",
        "{table}"
    );
    let config = stage.a.site().write_config()?.display().to_string();
    let checked = chancery::run(&["issuer", "--check", "--config", &config]).await?.success()?;
    ensure!(checked.contains("ok, 1 issuers"), "{checked}");
    Ok(())
}

/// A status that says what is so is not written again, however often that is looked at.
async fn rests(stage: &Stage) -> Result<()> {
    let rounds = async || {
        let of_target = [("issuer", stage.url("/a")), ("result", "unchanged".to_owned())];
        let labels: Vec<(&str, &str)> =
            of_target.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let site = stage.leader().await?.site();
        Ok::<f64, anyhow::Error>(site.metric("chancery_publish_total", &labels).await?.unwrap_or_default())
    };
    let version = async || Ok::<_, anyhow::Error>(stage.get("cluster-a").await?.metadata.resource_version);
    let (before, begun) = (version().await?, rounds().await?);
    wait::until("four more rounds", async || Ok(rounds().await? >= begun + 4.0)).await?;
    ensure!(version().await? == before, "the status was written although nothing had changed");
    Ok(())
}

/// What the definition cannot see is refused by the service, by name, and runs on by the last good spec.
async fn bad_specs(stage: &Stage) -> Result<()> {
    let good = stage.spec("/b", 1, "b");
    let with = |more: Value| {
        let mut spec = good.clone();
        if let (Some(spec), Some(more)) = (spec.as_object_mut(), more.as_object()) {
            spec.extend(more.clone());
        }
        spec
    };
    stage.create("cluster-b", with(json!({ "retention": "0s" }))).await?;
    let status = stage.accepted("cluster-b", "InvalidSpec").await?;
    ensure!(
        condition(&status, "Ready")["reason"] == "InvalidSpec" && status["keys"] == json!([]),
        "{status}"
    );
    ensure!(condition(&status, "Accepted")["message"].to_string().contains("retention of 0s"), "{status}");
    stage.is_counted("refused", 1.0).await?;
    stage.change("cluster-b", good.clone()).await?;
    stage.is_shown("/b", 1).await?;
    let endpoint = json!([{ "to": { "s3": { "bucket": "b", "endpoint": "https://evil.example" } } }]);
    for (bad, word) in
        [(json!({ "targets": endpoint }), "resources.endpoints"), (json!({ "retention": "0s" }), "0s")]
    {
        stage.change("cluster-b", with(bad)).await?;
        let said = |status: &Value| condition(status, "Accepted")["message"].to_string().contains(word);
        let status = stage.shows("cluster-b", "a refusal", |status| {
            let reason = &condition(status, "Accepted")["reason"];
            reason == "LastGoodFollowed" && said(status) && condition(status, "Ready")["status"] == "True"
        });
        status.await?;
        stage.is_shown("/b", 1).await?;
    }
    let (_, conditions) = stage.a.site().admin("conditions").await?;
    ensure!(conditions.contains("Issuer object cluster-b"), "{conditions}");
    stage.change("cluster-b", good).await?;
    stage.accepted("cluster-b", "Followed").await?;
    stage.is_counted("refused", 0.0).await
}

/// Of two that cannot be together one runs, and the other says with whom it collides.
async fn collide(stage: &Stage) -> Result<()> {
    let taken = async |name: &str, word: &str| {
        let status = stage.accepted(name, "Collision").await?;
        let said = condition(&status, "Accepted")["message"].to_string();
        ensure!(said.contains(word) && status["keys"] == json!([]), "{status}");
        Ok(())
    };
    stage.create("of-the-file", stage.spec("/file", 1, "file-too")).await?;
    taken("of-the-file", "the entry ").await?;
    stage.a.site().shows(&stage.url("/file"), &[&stage.key(0).kid]).await?;
    // The older wins; of the same second the one whose name comes first. Both are so here.
    stage.create("c-1", stage.spec("/c", 1, "c1")).await?;
    stage.accepted("c-1", "Followed").await?;
    stage.create("c-2", stage.spec("/c", 2, "c2")).await?;
    stage.create("c-3", stage.spec("/c3", 2, "c1")).await?;
    taken("c-2", "the Issuer object c-1").await?;
    taken("c-3", "the Issuer object c-1").await?;
    stage.is_counted("collided", 3.0).await?;
    stage.is_shown("/c", 1).await?;
    // The younger ones come as soon as the older is gone, each where it may: the folder of the first keeps its marker.
    stage.change("c-3", stage.spec("/c3", 2, "c3")).await?;
    stage.is_shown("/c3", 2).await?;
    stage.delete("c-1").await?;
    stage.accepted("c-2", "Followed").await?;
    let kids = [stage.key(1).kid.as_str(), &stage.key(2).kid];
    stage.a.site().shows(&stage.url("/c"), &kids).await?;
    for name in ["of-the-file", "c-2", "c-3"] {
        stage.delete(name).await?;
    }
    stage.is_counted("collided", 0.0).await
}

/// An object gives way to an entry that comes into the file, and is there again when that is gone.
async fn give_way(stage: &Stage, service: &mut IssuerService) -> Result<()> {
    let replica = &stage.a;
    let config = replica.site().write_config()?;
    let before: Value = serde_json::from_slice(&std::fs::read(&config)?)?;
    let mut with = before.clone();
    let entries = with["issuers"].as_array_mut().context("no issuers")?;
    let files = json!([{ "files": { "paths": [stage.key(3).public] } }]);
    entries.push(json!({ "url": stage.url("/b"), "sources": files, "verify": { "enabled": false } }));
    std::fs::write(&config, with.to_string())?;
    service.process().signal(Signal::HUP)?;
    // The state knows the keys of the issuer, and those that are not shown any more stay for their retention.
    let kids = [stage.key(1).kid.as_str(), &stage.key(3).kid];
    replica.site().shows(&stage.url("/b"), &kids).await?;
    let (_, conditions) = replica.site().admin("conditions").await?;
    ensure!(conditions.contains("\"Collision\""), "{conditions}");
    std::fs::write(&config, before.to_string())?;
    service.process().signal(Signal::HUP)?;
    wait::until("the object follows again", async || {
        Ok(!replica.site().admin("conditions").await?.1.contains("\"Collision\""))
    })
    .await?;
    stage.delete("cluster-b").await?;
    stage.is_gone("/b").await
}

/// While nobody can ask the API server what is known is served, and what comes then is followed.
async fn outlast_the_api_server(stage: &mut Stage) -> Result<()> {
    stage.server.process().kill()?;
    stage.is_shown("/bystander", 3).await?;
    stage.server = KubeApiserver::start_on(stage.server.port(), stage.server.cluster()).await?;
    stage.create("later", stage.spec("/later", 2, "later")).await?;
    stage.is_shown("/later", 2).await?;
    stage.is_published("later", 2).await?;
    stage.accepted("later", "Followed").await.map(drop)
}

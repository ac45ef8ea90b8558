//! The life of a service as its operator directs it: signals, hung files, a check beside it, issuers that come and go.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use chancery_publisher::writer_key_file::random_writer_key;
use e2e::key_file::KeyFile;
use e2e::scratch::Scratch;
use e2e::site::{Site, directory_target};
use e2e::{chancery, wait};
use rustix::process::Signal;
use serde_json::json;
use tokio::net::TcpListener;

/// A site with an issuer at each of `paths`, of one key, published to a directory of its own.
fn site(dir: &Scratch, paths: &[&str]) -> Result<(Site, KeyFile)> {
    let key = KeyFile::p256(dir, "sa")?;
    let mut site = Site::new()?;
    for path in paths {
        add(&mut site, dir, path, &key.public)?;
    }
    Ok((site, key))
}

fn add(site: &mut Site, dir: &Scratch, path: &str, key: &Path) -> Result<()> {
    let folder = dir.join(path.trim_start_matches('/'));
    std::fs::create_dir_all(&folder)?;
    site.add_issuer_of_files(path, &[key], json!([directory_target(&folder)]))
}

fn pipe(path: &Path) -> Result<()> {
    ensure!(Command::new("mkfifo").arg(path).status()?.success(), "mkfifo {}", path.display());
    Ok(())
}

#[tokio::test]
async fn a_hangup_takes_over_the_issuers_of_the_file_and_a_bad_file_changes_nothing() -> Result<()> {
    let dir = Scratch::new("hangup")?;
    let (mut site, key) = site(&dir, &["/a", "/b"])?;
    let mut service = site.start_ready().await?;
    site.shows(&site.url("/b"), &[&key.kid]).await?;

    let issuers = site.config.pointer_mut("/issuers").and_then(|issuers| issuers.as_array_mut());
    issuers.context("no issuers")?.retain(|issuer| !issuer.to_string().contains("/b\""));
    add(&mut site, &dir, "/c", &key.public)?;
    site.write_config()?;
    service.process().signal(Signal::HUP)?;
    site.shows(&site.url("/c"), &[&key.kid]).await.with_context(|| service.log())?;
    let gone = site.client().get(format!("{}/openid/v1/jwks", site.url("/b"))).send().await?;
    assert_eq!(gone.status(), 404, "{}", service.log());
    ensure!(dir.join("b/openid/v1/jwks").exists(), "what was published stays");

    site.dir().write("chancery.yaml", "issuers: nonsense")?;
    service.process().signal(Signal::HUP)?;
    wait::until("a refused file", async || Ok(service.log().contains("going on as before"))).await?;
    site.shows(&site.url("/a"), &[&key.kid]).await?;
    assert_eq!(service.terminate().await?, Some(0), "{}", service.log());
    Ok(())
}

#[tokio::test]
async fn a_check_beside_a_running_service_passes_and_writes_nothing() -> Result<()> {
    let dir = Scratch::new("check")?;
    let (site, _key) = site(&dir, &["/a"])?;
    let service = site.start_ready().await?;
    let config = site.write_config()?;
    let arguments = [Path::new("issuer"), Path::new("--check"), Path::new("--config"), &config];
    chancery::run(&arguments).await?.success().with_context(|| service.log())?;
    Ok(())
}

#[tokio::test]
async fn one_broken_issuer_takes_nothing_from_the_others_and_is_served_once_it_is_mended() -> Result<()> {
    let dir = Scratch::new("broken")?;
    let (mut site, key) = site(&dir, &["/a"])?;
    add(&mut site, &dir, "/b", &dir.join("later.pub"))?;
    let mut service = site.start()?;
    site.shows(&site.url("/a"), &[&key.kid]).await.with_context(|| service.log())?;
    let (_, ready) = site.admin("readyz").await?;
    ensure!(ready.contains("/b not accepted") && ready.contains("later.pub"), "{ready}");
    std::fs::copy(&key.public, dir.join("later.pub"))?;
    site.shows(&site.url("/b"), &[&key.kid]).await.with_context(|| service.log())?;
    assert_eq!(service.terminate().await?, Some(0), "{}", service.log());
    Ok(())
}

#[tokio::test]
async fn a_pipe_where_a_file_is_expected_is_named_and_never_waited_for() -> Result<()> {
    let dir = Scratch::new("pipe")?;
    let (site, _key) = site(&dir, &["/a"])?;
    let pipe_path = dir.join("pipe");
    pipe(&pipe_path)?;
    for pointer in ["/issuers/0/sources/0/files/paths/0", "/issuers/0/verify/ca"] {
        let mut config = site.config.clone();
        *config.pointer_mut(pointer).context("no such field")? = json!(pipe_path);
        let file = dir.write("piped.yaml", config.to_string())?;
        let arguments = [Path::new("issuer"), Path::new("--check"), Path::new("--config"), &file];
        let ended = tokio::time::timeout(wait::SOON, chancery::run(&arguments)).await;
        let output = ended.with_context(|| format!("{pointer}: it hangs"))??;
        ensure!(output.code == Some(1) && output.stderr.contains("/pipe"), "{pointer}: {}", output.stderr);
    }
    Ok(())
}

#[tokio::test]
async fn a_part_that_cannot_be_read_after_a_restart_is_not_dropped_and_readiness_says_so() -> Result<()> {
    let dir = Scratch::new("unread")?;
    let (a, b) = (KeyFile::p256(&dir, "a")?, KeyFile::p256(&dir, "b")?);
    let mut site = Site::new()?;
    site.add_issuer_of_files("/a", &[&a.public, &b.public], json!([]))?;
    let mut service = site.start_ready().await?;
    site.shows(&site.url("/a"), &[&a.kid, &b.kid]).await?;
    assert_eq!(service.terminate().await?, Some(0));

    let text = std::fs::read_to_string(&b.public)?;
    std::fs::write(&b.public, text.get(..60).context("a short key")?)?;
    let service = site.start()?;
    wait::until("a reason", async || {
        let (status, ready) = site.admin("readyz").await?;
        Ok(status == 503 && ready.contains("a part was never read of source"))
    })
    .await
    .with_context(|| service.log())?;
    std::fs::write(&b.public, text)?;
    site.shows(&site.url("/a"), &[&a.kid, &b.kid]).await.with_context(|| service.log())
}

#[tokio::test]
async fn two_issuers_of_one_owner_keep_their_keys_apart_over_a_restart() -> Result<()> {
    let dir = Scratch::new("one-owner")?;
    let (a, b) = (KeyFile::p256(&dir, "a")?, KeyFile::p256(&dir, "b")?);
    let mut site = Site::new()?;
    for (path, key) in [("/a", &a), ("/b", &b)] {
        add(&mut site, &dir, path, &key.public)?;
    }
    let issuers = site.config.pointer_mut("/issuers").and_then(|issuers| issuers.as_array_mut());
    for issuer in issuers.context("no issuers")? {
        issuer.as_object_mut().context("no issuer")?.insert("owner".to_owned(), json!("platform-team"));
    }
    let mut service = site.start_ready().await?;
    site.shows(&site.url("/a"), &[&a.kid]).await?;
    site.shows(&site.url("/b"), &[&b.kid]).await?;
    assert_eq!(service.terminate().await?, Some(0), "{}", service.log());

    // What is shown now comes from what was kept: a key that moved to the other issuer would show there.
    std::fs::write(&a.public, std::fs::read(&b.public)?)?;
    let service = site.start_ready().await?;
    site.shows(&site.url("/a"), &[&a.kid, &b.kid]).await.with_context(|| service.log())?;
    site.shows(&site.url("/b"), &[&b.kid]).await.with_context(|| service.log())
}

#[tokio::test]
async fn a_healthy_source_looks_alive_without_a_change_and_an_outage_counts_each_failure() -> Result<()> {
    let dir = Scratch::new("alive")?;
    let key = KeyFile::p256(&dir, "sa")?;
    let mut site = Site::new()?;
    let source = json!({ "name": "it", "files": { "paths": [key.public], "pollSeconds": 1 } });
    site.add_issuer("/a", json!([source]), json!([]))?;
    let service = site.start_ready().await?;
    let success =
        async || site.metric("chancery_source_last_success_timestamp_seconds", &[("source", "it")]).await;
    let first = success().await?;
    wait::until("a later success", async || Ok(success().await? > first))
        .await
        .with_context(|| service.log())?;
    std::fs::write(&key.public, "")?;
    wait::until("three failures", async || {
        Ok(site.metric("chancery_source_failures_total", &[("source", "it")]).await? >= Some(3.0))
    })
    .await
    .with_context(|| service.log())
}

/// As the first process of a container a program ignores SIGTERM unless it listens to it from the start.
#[tokio::test]
async fn a_service_that_is_told_to_stop_while_it_opens_its_state_ends_in_order() -> Result<()> {
    let dir = Scratch::new("opening")?;
    let (mut site, _key) = site(&dir, &["/a"])?;
    let silent = TcpListener::bind("127.0.0.1:0").await?;
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "silent",
        "contexts": [{ "name": "silent", "context": { "cluster": "silent", "user": "somebody" } }],
        "clusters": [{ "name": "silent", "cluster": {
            "server": format!("https://{}", silent.local_addr()?),
        } }],
        "users": [{ "name": "somebody", "user": { "token": "t" } }],
    });
    let kubeconfig = dir.write("kubeconfig", kubeconfig.to_string())?;
    let key_file = dir.write("writer-key", format!("{}\n", random_writer_key().to_secret_text()))?;
    let config = site.config.as_object_mut().context("no object")?;
    config.insert("writerKeyFile".to_owned(), json!(key_file));
    let place = json!({ "namespace": "default", "name": "chancery-state", "kubeconfig": kubeconfig });
    config.insert("state".to_owned(), json!({ "configMap": place }));

    let mut service = site.start()?;
    let asked = tokio::time::timeout(wait::SOON, silent.accept()).await;
    let _unanswered = asked.with_context(|| service.log())??;
    assert_eq!(service.terminate().await?, Some(0), "{}", service.log());
    Ok(())
}

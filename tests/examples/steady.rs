//! What many issuers cost when nothing changes: processor time, requests and memory of one `chancery issuer` with a
//! thousand of them, a bucket prefix for each, over two minutes, with and without the outside view; then memory with ten
//! thousand that are only served. One run, printed; nothing is asserted.
//!
//! The program under measurement is the one `CHANCERY_BIN` names; `bench/run` sets it to an optimised build.
//! `SECONDS_WATCHED` is another time than two minutes.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};
use e2e::chancery::IssuerService;
use e2e::fault_proxy::FaultProxy;
use e2e::key_file::KeyFile;
use e2e::minio::Minio;
use e2e::scratch::Scratch;
use e2e::site::{Site, bucket_target};
use e2e::wait;
use serde_json::{Value, json};

const ISSUERS: usize = 1000;
const SERVED: usize = 10_000;
const BUCKET: &str = "documents";

#[tokio::main]
async fn main() -> Result<()> {
    for outside in [false, true] {
        measure(outside).await?;
    }
    served().await
}

/// Issuers that this process serves and publishes nowhere else, all with the same key.
async fn served() -> Result<()> {
    let (dir, mut site) = (Scratch::new("served")?, Site::new()?);
    let key = KeyFile::p256(&dir, "key")?;
    site.config.as_object_mut().context("no configuration")?.remove("state");
    for number in 0..SERVED {
        site.add_issuer_of_files(&format!("/cluster-{number}"), &[&key.public], json!([]))?;
        look_from_outside(&mut site, number, false)?;
    }
    let mut service = start(&site).await?;
    wait::until("the last issuer", async || {
        let jwks = site.url(&format!("/cluster-{}/openid/v1/jwks", SERVED - 1));
        Ok(site.client().get(jwks).send().await?.status() == 200)
    })
    .await?;
    tokio::time::sleep(Duration::from_secs(10)).await;
    println!("{SERVED} issuers, served and not published elsewhere");
    print_memory(&mut service)?;
    service.terminate().await?;
    Ok(())
}

async fn measure(outside: bool) -> Result<()> {
    let (dir, minio) = (Scratch::new("steady")?, Minio::start().await?);
    minio.create_public_bucket(BUCKET).await?;
    let proxy = FaultProxy::start(minio.endpoint()).await?;
    let mut site = Site::new()?;
    site.use_credentials_of(&minio);
    for number in 0..ISSUERS {
        let name = format!("cluster-{number}");
        let key = KeyFile::p256(&dir, &name)?;
        let mut target = bucket_target(&minio, proxy.url(), BUCKET);
        let s3 = target.pointer_mut("/to/s3").and_then(Value::as_object_mut).context("no S3")?;
        s3.insert("prefix".to_owned(), json!(name));
        target.as_object_mut().context("no target")?.remove("publicUrl");
        site.add_issuer_of_files(&format!("/{name}"), &[&key.public], json!([target]))?;
        look_from_outside(&mut site, number, outside)?;
    }
    let mut service = start(&site).await?;
    wait::until("every target up to date", async || {
        let (_, metrics) = site.admin("metrics").await?;
        let done =
            metrics.lines().filter(|l| l.starts_with("chancery_target_up_to_date{") && l.ends_with(" 1"));
        Ok(done.count() == ISSUERS)
    })
    .await?;
    // The first looks of all issuers come at once; afterwards each goes at its own pace.
    let watched = watched()?;
    tokio::time::sleep(watched / 2).await;

    let answered = site.metric("chancery_http_requests_total", &[("code", "200")]).await?.unwrap_or_default();
    proxy.forget();
    let before = processor_time(&mut service)?;
    tokio::time::sleep(watched).await;
    let used = processor_time(&mut service)? - before;
    let minutes = watched.as_secs_f64() / 60.0;
    let mut kinds: BTreeMap<(String, Option<u16>), usize> = BTreeMap::new();
    for record in proxy.records() {
        *kinds.entry((record.method.to_string(), record.status)).or_default() += 1;
    }
    let served = site.metric("chancery_http_requests_total", &[("code", "200")]).await?.unwrap_or_default();
    println!("{ISSUERS} issuers, nothing changes, outside view {}", if outside { "on" } else { "off" });
    println!("  processor time: {:.2} s a minute", used / minutes);
    for ((method, status), number) in kinds {
        let status = status.map_or_else(|| "no answer".to_owned(), |status| status.to_string());
        println!("  requests to the targets, {method} {status}: {:.0} a minute", number as f64 / minutes);
    }
    println!(
        "  requests of the outside view, answered by the process itself: {:.0} a minute",
        (served - answered) / minutes
    );
    print_memory(&mut service)?;
    service.terminate().await?;
    Ok(())
}

/// A service that is ready. So many issuers take their time to be opened.
async fn start(site: &Site) -> Result<IssuerService> {
    let mut service = site.start()?;
    let ready = async || site.admin("readyz").await.is_ok_and(|(status, _)| status == 200);
    service.process().ready(Duration::from_secs(600), ready).await?;
    Ok(service)
}

fn watched() -> Result<Duration> {
    let seconds = std::env::var("SECONDS_WATCHED").unwrap_or_else(|_| "120".to_owned());
    Ok(Duration::from_secs(seconds.parse().context("SECONDS_WATCHED")?))
}

fn look_from_outside(site: &mut Site, number: usize, enabled: bool) -> Result<()> {
    let verify = site.config.pointer_mut(&format!("/issuers/{number}/verify"));
    let verify = verify.and_then(Value::as_object_mut).context("no verify")?;
    verify.insert("enabled".to_owned(), json!(enabled));
    Ok(())
}

/// All that is resident, the most that was, and what of it is the process's own and not its program's file.
fn print_memory(service: &mut IssuerService) -> Result<()> {
    let status = fs::read_to_string(format!("/proc/{}/status", service.process().id()))?;
    let told = ["VmHWM", "VmRSS", "RssAnon"];
    for line in status.lines().filter(|line| told.iter().any(|field| line.starts_with(field))) {
        println!("  {}", line.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    Ok(())
}

/// Seconds of processor time so far, in user and kernel mode (proc(5): the 14th and 15th field, in ticks of 10 ms).
fn processor_time(service: &mut IssuerService) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", service.process().id()))?;
    // The name of the program, in parentheses, may hold spaces.
    let (_, fields) = stat.rsplit_once(") ").context("an unreadable stat")?;
    let ticks = fields.split(' ').skip(11).take(2).map(str::parse::<f64>).sum::<Result<f64, _>>()?;
    Ok(ticks / 100.0)
}

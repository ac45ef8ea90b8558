//! What the status page costs: how long the page of ten thousand issuers takes, as HTML and as JSON, its first page, one far
//! behind, and a search, read from one `chancery issuer` on this machine. One run, printed; nothing is asserted.
//!
//! The program under measurement is the one `CHANCERY_BIN` names; `bench/run` sets it to an optimised build.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use e2e::http;
use e2e::key_file::KeyFile;
use e2e::site::Site;
use e2e::wait;
use serde_json::{Value, json};

const ISSUERS: usize = 10_000;
const READS: usize = 30;
/// Opening ten thousand issuers takes a while on one core.
const OPEN: Duration = Duration::from_secs(600);

#[tokio::main]
async fn main() -> Result<()> {
    let mut site = Site::new()?;
    let key = KeyFile::p256(site.dir(), "sa")?;
    for number in 0..ISSUERS {
        site.add_issuer_of_files(&format!("/{number:05}"), &[&key.public], json!([]))?;
    }
    for issuer in site.config.pointer_mut("/issuers").and_then(Value::as_array_mut).context("no issuers")? {
        let verify = issuer.pointer_mut("/verify").and_then(Value::as_object_mut).context("no verify")?;
        verify.insert("enabled".to_owned(), json!(false));
    }
    // Ten thousand files would have to reach the disk first.
    site.config.as_object_mut().context("no configuration")?.remove("state");
    let mut service = site.start()?;
    let all = wait::value_within(OPEN, "every issuer", async || {
        let (status, text) = site.admin("status.json").await?;
        ensure!(status == 200, "{status}: {text}");
        let healthy =
            serde_json::from_str::<Value>(&text)?.pointer("/counts/healthy").and_then(Value::as_u64);
        Ok((healthy == Some(u64::try_from(ISSUERS)?)).then_some(()))
    });
    all.await.with_context(|| service.log())?;
    println!("{ISSUERS} issuers, {READS} reads of each page, one after another");
    for path in ["status", "status.json", "status?page=100", "status?find=%2F0999", "status?state=broken"] {
        let (bytes, mut taken) = read(&site, path).await?;
        taken.sort();
        let quantile = |part: usize| taken.get(taken.len() * part / 100).copied().context("nothing was read");
        println!(
            "  /{path}: {} KB, median {:.1?}, slowest {:.1?}",
            bytes / 1000,
            quantile(50)?,
            quantile(99)?
        );
    }
    service.terminate().await?;
    Ok(())
}

async fn read(site: &Site, path: &str) -> Result<(usize, Vec<Duration>)> {
    let (client, url) = (http::client(None)?, site.admin_url(path));
    let (mut bytes, mut taken) = (0, Vec::new());
    for _ in 0..READS {
        let asked = Instant::now();
        bytes = client.get(&url).send().await?.error_for_status()?.bytes().await?.len();
        taken.push(asked.elapsed());
    }
    Ok((bytes, taken))
}

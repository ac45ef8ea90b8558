//! What scrapers of the metrics cost relying parties: how long a read of each document takes from one `chancery issuer`
//! with five thousand keys, while nobody reads `/metrics` and while twenty read it again and again, in turns. One run,
//! printed with ratios; nothing is asserted.
//!
//! The program under measurement is the one `CHANCERY_BIN` names; `bench/run` sets it to an optimised build. The readers
//! share the machine's cores with it.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use e2e::http;
use e2e::site::Site;
use e2e::wait;
use serde_json::{Value, json};
use tokio::task::JoinSet;

const KEYS: usize = 5000;
const SCRAPERS: usize = 20;
const ROUNDS: usize = 5;
const TURN: Duration = Duration::from_secs(3);
const DOCUMENTS: [&str; 2] = [".well-known/openid-configuration", "openid/v1/jwks"];

#[tokio::main]
async fn main() -> Result<()> {
    let mut site = Site::new()?;
    let keys = site.dir().write("keys.pub", public_keys()?)?;
    site.add_issuer_of_files("", &[&keys], json!([]))?;
    let verify = site.config.pointer_mut("/issuers/0/verify").and_then(Value::as_object_mut);
    verify.context("no verify")?.insert("enabled".to_owned(), json!(false));
    let mut service = site.start_ready().await?;
    wait::until("every key served", async || Ok(site.kids(&site.url("")).await?.len() == KEYS)).await?;
    let (_, page) = site.admin("metrics").await?;
    println!("{KEYS} keys, {} KB of metrics, {SCRAPERS} scrapers without a pause", page.len() / 1000);

    let mut taken = [[vec![], vec![]], [vec![], vec![]]];
    for _ in 0..ROUNDS {
        for (document, [quiet, busy]) in DOCUMENTS.iter().zip(&mut taken) {
            let url = format!("{}/{document}", site.url(""));
            quiet.append(&mut latencies(&site, &url).await?);
            let mut scrapers = scrape(&site);
            busy.append(&mut latencies(&site, &url).await?);
            scrapers.abort_all();
            while let Some(ended) = scrapers.join_next().await {
                // An aborted one is an error of joining; one that ended by itself says why.
                if let Ok(ended) = ended {
                    ended.context("a scraper")?;
                }
            }
        }
    }
    for (document, [mut quiet, mut busy]) in DOCUMENTS.into_iter().zip(taken) {
        for (name, part) in [("median", 50), ("99 of 100", 99)] {
            let (alone, beside) = (quantile(&mut quiet, part)?, quantile(&mut busy, part)?);
            let ratio = beside.as_secs_f64() / alone.as_secs_f64();
            println!(
                "  {document}, {name}: {alone:.1?} alone, {beside:.1?} beside scrapers, ratio {ratio:.2}"
            );
        }
    }
    service.terminate().await?;
    Ok(())
}

/// The public halves of new keys, one after another in one text.
fn public_keys() -> Result<String> {
    let key = || Ok(rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?.public_key_pem());
    (0..KEYS).map(|_| key()).collect()
}

/// Twenty that read `/metrics` until they are aborted, each again as soon as it was answered.
fn scrape(site: &Site) -> JoinSet<Result<()>> {
    let url = site.admin_url("metrics");
    let scraper = |url: String| async move {
        let client = http::client(None)?;
        loop {
            let answer = client.get(&url).send().await?.error_for_status()?;
            answer.bytes().await?;
        }
    };
    (0..SCRAPERS).map(|_| scraper(url.clone())).collect()
}

/// How long each of many reads of `url` took, one after another on one connection. The reader has a thread of its own:
/// what the scrapers' clients do must not count.
async fn latencies(site: &Site, url: &str) -> Result<Vec<Duration>> {
    let (client, url) = (http::client(Some(site.authority().pem()))?, url.to_owned());
    let reads = async move {
        let (mut taken, begun) = (Vec::new(), Instant::now());
        client.get(&url).send().await?.error_for_status()?.bytes().await?;
        while begun.elapsed() < TURN {
            let asked = Instant::now();
            client.get(&url).send().await?.error_for_status()?.bytes().await?;
            taken.push(asked.elapsed());
        }
        Ok(taken)
    };
    let reader = move || tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(reads);
    let (done, told) = tokio::sync::oneshot::channel();
    thread::spawn(move || done.send(reader()));
    told.await.context("the reader has ended")?
}

fn quantile(taken: &mut [Duration], part: usize) -> Result<Duration> {
    taken.sort();
    taken.get(taken.len() * part / 100).copied().context("nothing was read")
}

//! Figures of the cache in memory: hits, alone, on eight threads and beside tenants whose other side hangs, many keys at
//! once, and memory. One run, printed; nothing is asserted.

#![allow(missing_docs, reason = "a program, not a library")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use chancery_exchange::cache::{Ask, Cache, CacheOptions, Exchanging, Labels};
use chancery_exchange::key::KeyBuilder;
use chancery_exchange::{Credential, ExchangeError};
use chancery_wire::Secret;
use jiff::Timestamp;

/// How many hits are measured at a time, so that reading the clock weighs nothing.
const BATCH: u32 = 1000;
/// How many times.
const BATCHES: usize = 300;
/// As many bytes as a session token of AWS's has, in a credential of about 2 KiB.
const TOKEN: usize = 1500;

#[tokio::main(flavor = "multi_thread", worker_threads = 8)]
async fn main() -> Result<(), ExchangeError> {
    let cache = Cache::new(CacheOptions::default());
    let mine = ask("mine");
    cache.credential(&mine, given).await?;
    let mut alone = hits(&cache, &mine).await?;
    println!("hit, one thread: median {:.0} ns", percentile(&mut alone, 50));
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let (cache, mine) = (cache.clone(), mine.clone());
            tokio::spawn(async move { each(&cache, &mine).await })
        })
        .collect();
    let mut together = Vec::new();
    for thread in threads {
        together.extend(thread.await.unwrap_or_else(|_| Ok(Vec::new()))?);
    }
    println!("hit, eight threads of one key: p99 {:.0} ns", percentile(&mut together, 99));
    for number in 0..1000 {
        let (cache, hanging) = (cache.clone(), ask(&format!("hanging {number}")));
        tokio::spawn(async move { cache.credential(&hanging, never).await.map(drop) });
    }
    let mut beside = each(&cache, &mine).await?;
    println!("hit beside 1000 keys that hang: p99 {:.0} ns", percentile(&mut beside, 99));
    println!("50 keys of 100 ms each, at once: {:.3} s", many(&cache).await?);
    memory().await
}

fn ask(identity: &str) -> Ask {
    let key = KeyBuilder::default().text("identity", identity).finish();
    let labels = Labels { provider: "bench", identity: identity.to_owned(), service_account: None };
    Ask::new(key, labels)
}

fn given() -> Exchanging {
    Box::pin(async {
        let now = Timestamp::now();
        let ends = now.checked_add(Duration::from_secs(3600)).ok();
        Ok(Credential::bearer(Secret::new("x".repeat(TOKEN)), now, ends))
    })
}

fn never() -> Exchanging {
    Box::pin(std::future::pending())
}

/// Nanoseconds of a hit, each the mean of a batch.
async fn hits(cache: &Cache, ask: &Ask) -> Result<Vec<f64>, ExchangeError> {
    let mut found = Vec::with_capacity(BATCHES);
    for _ in 0..BATCHES {
        let started = Instant::now();
        for _ in 0..BATCH {
            std::hint::black_box(cache.credential(ask, given).await?);
        }
        found.push(started.elapsed().as_secs_f64() * 1e9 / f64::from(BATCH));
    }
    Ok(found)
}

/// Nanoseconds of a hit, each measured alone.
async fn each(cache: &Cache, ask: &Ask) -> Result<Vec<f64>, ExchangeError> {
    let mut found = Vec::with_capacity(BATCHES * 100);
    for _ in 0..BATCHES * 100 {
        let started = Instant::now();
        std::hint::black_box(cache.credential(ask, given).await?);
        found.push(started.elapsed().as_secs_f64() * 1e9);
    }
    Ok(found)
}

async fn many(cache: &Cache) -> Result<f64, ExchangeError> {
    let started = Instant::now();
    let all: Vec<_> = (0..50)
        .map(|number| {
            let (cache, slow) = (cache.clone(), ask(&format!("slow {number}")));
            tokio::spawn(async move {
                let exchange = || -> Exchanging {
                    Box::pin(async {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        given().await
                    })
                };
                cache.credential(&slow, exchange).await.map(drop)
            })
        })
        .collect();
    for one in all {
        one.await.unwrap_or(Ok(()))?;
    }
    Ok(started.elapsed().as_secs_f64())
}

async fn memory() -> Result<(), ExchangeError> {
    let before = resident();
    let cache = Arc::new(Cache::new(CacheOptions::default()));
    for number in 0..10_000 {
        cache.credential(&ask(&format!("tenant {number}")), given).await?;
    }
    let after = resident();
    println!(
        "{} entries: {} KiB more resident, {after} KiB in all",
        cache.len(),
        after.saturating_sub(before)
    );
    Ok(())
}

/// What of this process is in memory, in KiB (proc(5)).
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok()).unwrap_or_default()
}

/// The value below which so many of a hundred lie.
fn percentile(values: &mut [f64], percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    let place = (values.len() * percent / 100).min(values.len().saturating_sub(1));
    values.get(place).copied().unwrap_or_default()
}

//! What the external signer costs: TokenRequests through a kube-apiserver that signs through our socket against one that
//! signs with the same key from its file, in turns; a signature over the socket against a bare one of aws-lc-rs; and how
//! long it takes to plan ten thousand rings. One run, printed; nothing is asserted.
//!
//! The signer under measurement is the one `CHANCERY_BIN` names; `bench/run` sets it to an optimised build.

#![allow(clippy::indexing_slicing, reason = "a measurement fails by panicking")]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chancery_core::KeyRing;
use chancery_core::ring::{AdoptedKey, Custody, Request};
use chancery_core::rotation::{Observations, Policy, Settings, plan};
use chancery_keygen::pem_file::Content;
use chancery_keygen::{PemFile, PrivateKey};
use e2e::cluster::{API_AUDIENCE, Cluster};
use e2e::etcd::Etcd;
use e2e::key_file::KeyFile;
use e2e::kube_apiserver::KubeApiserver;
use e2e::scratch::Scratch;
use e2e::signer::SignerProcess;
use futures_util::future::try_join_all;
use serde_json::json;

const ISSUER: &str = "https://id.example.com/cluster-a";
const ACCOUNT: (&str, &str) = ("demo", "app");
/// Turns of each kube-apiserver, and how many callers ask at a time for how long.
const TURNS: usize = 5;
const CALLERS: usize = 8;
const TURN: Duration = Duration::from_secs(3);
const SIGNATURES: usize = 1000;
const RINGS: usize = 10_000;

#[tokio::main]
async fn main() -> Result<()> {
    let dir = Scratch::new("signing")?;
    let key = KeyFile::new(&dir, "sa")?;
    let path = |path: &std::path::Path| path.to_str().map(str::to_owned).context("a path that is text");
    let (private, public) = (path(&key.private)?, path(&key.public)?);
    let arguments = ["--api-audience", API_AUDIENCE, "--signing-key-file", &private, "--key-file", &public];
    let signer = SignerProcess::start(&dir, ISSUER, &arguments).await?;
    signatures(&signer, &key).await?;
    token_requests(&signer, &key).await?;
    plans(&key)
}

async fn signatures(signer: &SignerProcess, key: &KeyFile) -> Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let claims = json!({ "iss": ISSUER, "sub": "system:serviceaccount:demo:app", "aud": ["rp"], "iat": now, "exp": now + 3600 });
    let claims = URL_SAFE_NO_PAD.encode(claims.to_string());
    let client = signer.client("v1").await?;
    let mut over_socket = Vec::new();
    for _ in 0..SIGNATURES {
        let started = Instant::now();
        client.sign(&claims).await?;
        over_socket.push(started.elapsed());
    }
    let bare = private_key(key)?.into_signing_key();
    let input = format!("{}.{claims}", bare.header());
    let mut alone = Vec::new();
    for _ in 0..SIGNATURES {
        let started = Instant::now();
        bare.sign(input.as_bytes())?;
        alone.push(started.elapsed());
    }
    println!("RS256 signatures of RSA-2048, {SIGNATURES} of each, one in flight");
    for (what, quantile) in [("p50", 50), ("p99", 99)] {
        let (ours, theirs) = (at(&mut over_socket, quantile), at(&mut alone, quantile));
        let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
        println!("  {what}: over the socket {ours:.0?}, bare {theirs:.0?}, ratio {ratio:.2}");
    }
    Ok(())
}

fn private_key(key: &KeyFile) -> Result<PrivateKey> {
    let text = std::fs::read(&key.private)?;
    let block = PemFile::read(&text, None).blocks.into_iter().next().context("no key")?;
    match block.content {
        Content::Private(key, _) => Ok(*key),
        other => anyhow::bail!("no private key: {other:?}"),
    }
}

async fn token_requests(signer: &SignerProcess, key: &KeyFile) -> Result<()> {
    let etcd = Etcd::shared().await?;
    let with_signer =
        KubeApiserver::start(&Cluster::signed_through(etcd.url(), ISSUER, signer.socket())?).await?;
    let with_file = KubeApiserver::start(&Cluster::new(etcd.url(), ISSUER, &key.private)?).await?;
    for server in [&with_signer, &with_file] {
        server.create_service_account(ACCOUNT.0, ACCOUNT.1).await?;
    }
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for turn in 0..TURNS {
        // Who goes first changes, so that neither always follows a warm machine.
        if turn % 2 == 0 {
            ours.push(rate(&with_signer).await?);
            theirs.push(rate(&with_file).await?);
        } else {
            theirs.push(rate(&with_file).await?);
            ours.push(rate(&with_signer).await?);
        }
    }
    let (ours, theirs) = (median(&mut ours), median(&mut theirs));
    println!("TokenRequests, {CALLERS} callers, median of {TURNS} turns of {} s", TURN.as_secs());
    println!(
        "  through our signer {ours:.0}/s, with the key in a file {theirs:.0}/s, ratio {:.2}",
        ours / theirs
    );
    Ok(())
}

/// TokenRequests answered in a second.
async fn rate(server: &KubeApiserver) -> Result<f64> {
    let started = Instant::now();
    let callers = (0..CALLERS).map(|_| async {
        let mut answered = 0_u32;
        while started.elapsed() < TURN {
            server.token_request(ACCOUNT, API_AUDIENCE, 3600).await?;
            answered += 1;
        }
        anyhow::Ok(answered)
    });
    let answered: u32 = try_join_all(callers).await?.into_iter().sum();
    Ok(f64::from(answered) / started.elapsed().as_secs_f64())
}

fn plans(key: &KeyFile) -> Result<()> {
    let adopted = AdoptedKey { public_key: key.public_key()?, signs: true, custody: Custody::Held };
    let ring = KeyRing::new().request(&Request::Adopt(vec![adopted]))?;
    let (policy, observed) = (Policy::new(Settings::default())?, Observations::default());
    let started = Instant::now();
    let steps: usize = (0..RINGS).map(|_| plan(&ring, &policy, &observed).steps.len()).sum();
    println!("{RINGS} rings planned in {:.0?}, {steps} steps to take", started.elapsed());
    Ok(())
}

fn at(times: &mut [Duration], quantile: usize) -> Duration {
    times.sort_unstable();
    times[times.len() * quantile / 100]
}

fn median(rates: &mut [f64]) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

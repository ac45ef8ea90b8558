//! Figures of a running `chancery issuer` that need a watch rather than a load generator: idle memory, start to first
//! served document, and a key file added to anonymously visible. One run, printed; nothing is asserted.
//!
//! The program under measurement is the one `CHANCERY_BIN` names; `bench/run` sets it to an optimised build.

#![allow(clippy::indexing_slicing, reason = "a measurement fails by panicking")]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use e2e::authority::{Authority, LOOPBACK};
use e2e::chancery::{self, IssuerService};
use e2e::minio::Minio;
use e2e::scratch::Scratch;
use e2e::{http, ports};

const STARTS: usize = 15;
const KEYS: usize = 15;
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> Result<()> {
    let minio = Minio::start().await?;
    minio.create_public_bucket("figures").await?;
    let setting = Setting::new(&minio).await?;

    println!("idle memory, one issuer, HTTPS and admin port");
    idle_memory(&setting).await?;
    println!("start to first served document, {STARTS} starts");
    starts(&setting).await?;
    println!("key file added to anonymously visible, {KEYS} keys");
    visibility(&setting, &minio).await
}

/// One issuer with a directory of keys, a directory target and a bucket.
struct Setting {
    dir: Scratch,
    port: u16,
    client: reqwest::Client,
    bucket_url: String,
    kids: Vec<String>,
}

impl Setting {
    async fn new(minio: &Minio) -> Result<Self> {
        let dir = Scratch::new("figures")?;
        let authority = Authority::new(dir.path())?;
        for folder in ["tls", "keys", "made", "www", "state"] {
            fs::create_dir_all(dir.join(folder))?;
        }
        authority.issue(&dir.join("tls"), &LOOPBACK)?;
        let mut kids = Vec::new();
        for number in 0..=KEYS {
            kids.push(make_key(&dir, number).await?);
        }
        fs::copy(dir.join("made/0.pub"), dir.join("keys/0.pub"))?;
        let (port, admin) = (ports::free()?, ports::free()?);
        let root = dir.path().display();
        let credentials = {
            let (id, secret) = minio.root_credentials();
            format!("[default]\naws_access_key_id = {id}\naws_secret_access_key = {secret}\n")
        };
        dir.write("credentials", credentials)?;
        let server = format!(
            "serve:\n  - listen: 127.0.0.1:{port}\n    tls: {{ certificate: {root}/tls/tls.crt, privateKey: {root}/tls/tls.key }}\n\
             admin: {{ listen: 127.0.0.1:{admin} }}\nstate: {{ directory: {root}/state }}\nleaderElection: {{ enabled: false }}\n"
        );
        let issuer = format!(
            "issuers:\n  - url: https://127.0.0.1:{port}\n    sources:\n      - files: {{ paths: [{root}/keys] }}\n    \
             verify: {{ ca: {} }}\n    targets:\n      - to: {{ directory: {{ path: {root}/www }} }}\n",
            authority.path().display()
        );
        let bucket = format!(
            "      - to: {{ s3: {{ bucket: figures, region: {}, endpoint: \"{}\", pathStyle: true, credentialsFile: {root}/credentials }} }}\n",
            minio.region(),
            minio.endpoint()
        );
        dir.write("one-target.yaml", format!("{issuer}{server}"))?;
        dir.write("two-targets.yaml", format!("{issuer}{bucket}{server}"))?;
        let client = http::client(Some(authority.pem()))?;
        let bucket_url = minio.object_url("figures", "openid/v1/jwks");
        Ok(Self { dir, port, client, bucket_url, kids })
    }

    fn jwks_url(&self) -> String {
        format!("https://127.0.0.1:{}/openid/v1/jwks", self.port)
    }

    fn start(&self, config: &str) -> Result<IssuerService> {
        IssuerService::start(&self.dir.join(config))
    }

    /// Waits until an anonymous reader of `url` is shown `kid`, asking again as soon as it was answered.
    async fn shown(&self, url: &str, kid: &str) -> Result<Instant> {
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            if let Ok(answer) = self.client.get(url).send().await
                && answer.text().await.is_ok_and(|text| text.contains(kid))
            {
                return Ok(Instant::now());
            }
            tokio::time::sleep(Duration::from_micros(500)).await;
        }
        bail!("{kid} was not visible at {url} within {PATIENCE:?}")
    }
}

async fn make_key(dir: &Scratch, number: usize) -> Result<String> {
    let (private, public) =
        (dir.join(&format!("made/{number}.key")), dir.join(&format!("made/{number}.pub")));
    let paths = [private.display().to_string(), public.display().to_string()];
    let arguments = ["keygen", "new", "--algorithm", "p-256", "--private", &paths[0], "--public", &paths[1]];
    chancery::run(&arguments).await?.success()?;
    let jwks = chancery::run(&["keygen", "jwks", "--key", &paths[1]]).await?.success()?;
    let jwks: serde_json::Value = serde_json::from_str(&jwks)?;
    Ok(jwks["keys"][0]["kid"].as_str().context("a kid")?.to_owned())
}

async fn idle_memory(setting: &Setting) -> Result<()> {
    let mut service = setting.start("one-target.yaml")?;
    setting.shown(&setting.jwks_url(), &setting.kids[0]).await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let status = fs::read_to_string(format!("/proc/{}/status", service.process().id()))?;
    for field in ["VmRSS", "RssAnon", "RssFile", "Threads"] {
        let line = status.lines().find(|line| line.starts_with(field)).unwrap_or_default();
        println!("  {}", line.replace('\t', " "));
    }
    service.terminate().await?;
    Ok(())
}

async fn starts(setting: &Setting) -> Result<()> {
    let mut taken = Vec::new();
    for _ in 0..STARTS {
        let started = Instant::now();
        let mut service = setting.start("one-target.yaml")?;
        let shown = setting.shown(&setting.jwks_url(), &setting.kids[0]).await?;
        taken.push(shown - started);
        service.terminate().await?;
    }
    print_times("start to first document over HTTPS", taken);
    Ok(())
}

async fn visibility(setting: &Setting, minio: &Minio) -> Result<()> {
    let mut service = setting.start("two-targets.yaml")?;
    setting.shown(&setting.bucket_url, &setting.kids[0]).await?;
    let file = setting.dir.join("www/openid/v1/jwks");
    let (mut served, mut on_disk, mut in_bucket, mut writes) = (vec![], vec![], vec![], vec![]);
    for (number, kid) in setting.kids.iter().enumerate().skip(1) {
        let added = Instant::now();
        fs::copy(
            setting.dir.join(&format!("made/{number}.pub")),
            setting.dir.join(&format!("keys/{number}.pub")),
        )?;
        let jwks_url = setting.jwks_url();
        let (by_us, on_file, by_bucket) = tokio::try_join!(
            setting.shown(&jwks_url, kid),
            in_file(&file, kid),
            setting.shown(&setting.bucket_url, kid)
        )?;
        served.push(by_us - added);
        on_disk.push(on_file - added);
        in_bucket.push(by_bucket - added);
        writes.push(write_round_trip(minio).await?);
    }
    print_times("served by us", served);
    print_times("directory target", on_disk);
    let bucket = print_times("S3 target", in_bucket);
    let write = print_times("one S3 write round trip", writes);
    let allowed = write * 2 + Duration::from_millis(100);
    println!("  S3 allowance, two write round trips plus 100 ms: {allowed:.1?}, used {bucket:.1?}");
    service.terminate().await?;
    Ok(())
}

async fn in_file(file: &Path, kid: &str) -> Result<Instant> {
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        if fs::read_to_string(file).is_ok_and(|text| text.contains(kid)) {
            return Ok(Instant::now());
        }
        tokio::time::sleep(Duration::from_micros(500)).await;
    }
    bail!("{kid} was not in {} within {PATIENCE:?}", file.display())
}

async fn write_round_trip(minio: &Minio) -> Result<Duration> {
    let started = Instant::now();
    minio.put_object("figures", "ruler", &[b'x'; 512]).await?;
    Ok(started.elapsed())
}

fn print_times(what: &str, mut times: Vec<Duration>) -> Duration {
    times.sort();
    let median = times[times.len() / 2];
    println!("  {what}: median {median:.1?}, least {:.1?}, most {:.1?}", times[0], times[times.len() - 1]);
    median
}

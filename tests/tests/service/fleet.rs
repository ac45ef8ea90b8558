//! A hundred issuers in one process.

use std::io::Write as _;

use anyhow::{Context, Result, ensure};
use e2e::binary;
use e2e::key_file::KeyFile;
use e2e::minio::Minio;
use e2e::scratch::Scratch;
use e2e::site::{Site, bucket_target, directory_target};
use e2e::wait;
use serde_json::{Value, json};

const ISSUERS: usize = 100;
const BUCKET: &str = "documents";

/// One issuer of many, and where its target is read.
struct Member {
    path: String,
    key: KeyFile,
    /// The folder that is published to, or nothing for a prefix in the bucket.
    directory: Option<std::path::PathBuf>,
}

impl Member {
    fn add(site: &mut Site, minio: &Minio, (number, dir): (usize, &Scratch)) -> Result<Self> {
        let name = format!("cluster-{number}");
        let key = KeyFile::p256(dir, &name)?;
        let directory = (number.is_multiple_of(2)).then(|| dir.join(&name));
        let target = match &directory {
            Some(directory) => {
                std::fs::create_dir(directory)?;
                directory_target(directory)
            }
            None => {
                let mut target = bucket_target(minio, minio.endpoint(), BUCKET);
                *target.pointer_mut("/publicUrl").context("no URL")? =
                    json!(format!("{}/{BUCKET}/{name}", minio.endpoint()));
                let s3 = target.pointer_mut("/to/s3").and_then(Value::as_object_mut).context("no S3")?;
                s3.insert("prefix".to_owned(), json!(name));
                target
            }
        };
        let path = format!("/{name}");
        site.add_issuer_of_files(&path, &[&key.public], json!([target]))?;
        Ok(Self { path, key, directory })
    }

    async fn published(&self, minio: &Minio) -> Result<Vec<u8>> {
        match &self.directory {
            Some(directory) => Ok(std::fs::read(directory.join("openid/v1/jwks"))?),
            None => {
                minio
                    .read_object(BUCKET, &format!("{}/openid/v1/jwks", self.path.trim_start_matches('/')))
                    .await
            }
        }
    }
}

/// Resident and peak memory of a process, as the kernel says it.
fn memory(pid: u32) -> Result<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let lines = status.lines().filter(|line| line.starts_with("VmRSS") || line.starts_with("VmHWM"));
    Ok(lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>().join(", "))
}

#[tokio::test]
async fn a_hundred_issuers_are_served_and_published_by_one_process() -> Result<()> {
    if binary::skipped(&["minio"]) {
        return Ok(());
    }
    let (dir, minio) = (Scratch::new("fleet")?, Minio::start().await?);
    minio.create_public_bucket(BUCKET).await?;
    let mut site = Site::new()?;
    site.use_credentials_of(&minio);
    let members = (0..ISSUERS).map(|number| Member::add(&mut site, &minio, (number, &dir)));
    let members = members.collect::<Result<Vec<_>>>()?;
    let mut service = site.start_ready().await?;

    for member in &members {
        let url = site.url(&member.path);
        site.shows(&url, &[&member.key.kid]).await?;
        let served = site.read(&url, "openid/v1/jwks").await?;
        wait::until(&format!("{} on its target", member.path), async || {
            Ok(member.published(&minio).await? == served)
        })
        .await
        .with_context(|| service.log())?;
        let issuer = [("issuer", url.as_str())];
        wait::until(&format!("{} up to date", member.path), async || {
            Ok(site.metric("chancery_target_up_to_date", &issuer).await? == Some(1.0))
        })
        .await?;
        let live = [("issuer", url.as_str()), ("state", "live")];
        assert_eq!(site.metric("chancery_keys", &live).await?, Some(1.0), "{url}");
    }
    let (_, metrics) = site.admin("metrics").await?;
    let up_to_date = metrics.lines().filter(|line| line.starts_with("chancery_target_up_to_date{"));
    assert_eq!(up_to_date.count(), ISSUERS);
    let (status, ready) = site.admin("readyz?verbose").await?;
    ensure!(status == 200 && members.iter().all(|member| ready.contains(&site.url(&member.path))), "{ready}");
    let unknown = site.client().get(site.url("/cluster-100/openid/v1/jwks")).send().await?;
    assert_eq!(unknown.status(), 404);

    // Not `println!`, which cargo captures from tests that pass.
    let memory = memory(service.process().id())?;
    writeln!(std::io::stderr(), "MEASURED: {ISSUERS} issuers in one process: {memory}")?;
    assert_eq!(service.terminate().await?, Some(0), "{}", service.log());
    Ok(())
}

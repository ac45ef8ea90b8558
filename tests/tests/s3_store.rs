//! The stores' battery on a real S3 server, and its refusals as kinds of ours.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use chancery_core::Marker;
use chancery_core::publication::Precondition;
use chancery_publisher::conformance::run_all;
use chancery_publisher::store::Put;
use chancery_publisher::target::S3Target;
use chancery_publisher::{DocumentStore, StoreErrorKind, TargetConfig};
use e2e::minio::Minio;
use e2e::scratch::Scratch;
use e2e::{binary, ports};

/// A target in a bucket of `minio`, with the credentials of its owner in a file.
fn target(minio: &Minio, dir: &Scratch, bucket: &str) -> Result<S3Target> {
    let (id, secret) = minio.root_credentials();
    let file = dir.write(
        "credentials",
        format!("[default]\naws_access_key_id = {id}\naws_secret_access_key = {secret}\n"),
    )?;
    Ok(S3Target {
        endpoint: Some(minio.endpoint().to_owned()),
        region: Some(minio.region().to_owned()),
        prefix: "/clusters/a/".to_owned(),
        path_style: true,
        credentials_file: Some(file),
        ..S3Target::of_bucket(bucket)
    })
}

async fn open(target: S3Target) -> Result<Arc<dyn DocumentStore>> {
    Ok(TargetConfig { s3: Some(target), ..TargetConfig::default() }.open().await?)
}

async fn passes(store: &dyn DocumentStore) -> Result<()> {
    let passed = run_all(store).await?;
    println!("{}: {} checks passed: {}", store.describe(), passed.len(), passed.join(", "));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_battery_passes_path_style() -> Result<()> {
    if binary::skipped(&["minio"]) {
        return Ok(());
    }
    let (minio, dir) = (Minio::start().await?, Scratch::new("s3-store")?);
    minio.create_bucket("documents").await?;
    let store = open(target(&minio, &dir, "documents")?).await?;
    assert_eq!(store.describe(), format!("s3://documents/clusters/a at {}", minio.endpoint()));
    passes(store.as_ref()).await?;
    // What the store calls a path lies below the prefix.
    let key = "clusters/a/conformance/a_created_object_reads_back_exactly/object";
    assert_eq!(minio.read_object("documents", key).await?, b"{\"keys\":[]}");
    Ok(())
}

#[tokio::test]
async fn a_missing_bucket_bad_credentials_and_no_server_are_told_apart() -> Result<()> {
    if binary::skipped(&["minio"]) {
        return Ok(());
    }
    let (minio, dir) = (Minio::start().await?, Scratch::new("s3-store")?);
    minio.create_bucket("documents").await?;
    let good = target(&minio, &dir, "documents")?;
    let bad = dir.write("bad", "[default]\naws_access_key_id = root\naws_secret_access_key = hunter2\n")?;
    let stranger =
        dir.write("stranger", "[default]\naws_access_key_id = no\naws_secret_access_key = hunter2\n")?;
    let nobody = dir.write("nobody", "[default]\n")?;
    let closed = format!("http://{}", ports::free_address()?);
    for (target, kind, words) in [
        (
            S3Target { bucket: "elsewhere".to_owned(), ..good.clone() },
            StoreErrorKind::NoSuchContainer,
            "bucket",
        ),
        (S3Target { credentials_file: Some(bad), ..good.clone() }, StoreErrorKind::Denied, "credentials"),
        (
            S3Target { credentials_file: Some(stranger), ..good.clone() },
            StoreErrorKind::Denied,
            "credentials",
        ),
        (
            S3Target { credentials_file: Some(nobody), ..good.clone() },
            StoreErrorKind::Misconfigured,
            "credentials",
        ),
        (S3Target { endpoint: Some(closed), ..good.clone() }, StoreErrorKind::Unavailable, "endpoint"),
    ] {
        let store = open(target).await?;
        let read = store.read("openid/v1/jwks").await.err().context("it was read")?;
        let marker = Marker::of("us".parse()?);
        let precondition = Precondition::Absent;
        let put = Put {
            path: "openid/v1/jwks",
            bytes: b"{}",
            media_type: "application/json",
            cache_control: "no-store",
            marker: &marker,
            precondition: &precondition,
        };
        let write = store.write(put).await.err().context("it was written")?;
        for error in [read, write] {
            assert_eq!(error.kind, kind, "{error}");
            let text = error.to_string();
            assert!(text.contains(words) && text.contains(&store.describe()), "{text}");
            assert!(!text.contains("hunter2"), "{text}");
        }
    }
    Ok(())
}

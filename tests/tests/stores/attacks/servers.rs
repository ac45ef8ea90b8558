//! Where the attacks are made: a directory, and every kind of bucket.

use std::sync::Arc;

use anyhow::Result;
use chancery_publisher::store::directory::DirectoryStore;
use chancery_publisher::target::{AzureBlobTarget, GcsTarget, S3Target};
use chancery_publisher::{DocumentStore, TargetConfig};
use e2e::azurite::Azurite;
use e2e::binary;
use e2e::fake_gcs::FakeGcs;
use e2e::fault_proxy::On;
use e2e::gcs_gate::GcsGate;
use e2e::google_sts::GoogleSts;
use e2e::s3_server::Brand;
use e2e::scratch::Scratch;

use super::{attack, slow_answers};

/// How a store is reached: the server itself with all the time that it takes, or a proxy that answers slowly.
struct Way<'a> {
    endpoint: &'a str,
    timeout_seconds: u32,
}

/// Every attack on stores that `open` opens by a name of their own; writes go as `writes` says.
async fn withstands(
    endpoint: &str,
    writes: On,
    open: impl AsyncFn(&str, Way<'_>) -> Result<Arc<dyn DocumentStore>>,
) -> Result<()> {
    attack(async |name| open(name, Way { endpoint, timeout_seconds: 30 }).await).await?;
    let slow = async |proxy: &str| open("slow-answers", Way { endpoint: proxy, timeout_seconds: 1 }).await;
    slow_answers::from_the_store(endpoint, writes, slow).await
}

#[tokio::test]
async fn a_directory_withstands_the_attacks() -> Result<()> {
    let dir = Scratch::new("attacks")?;
    attack(async |name: &str| {
        std::fs::create_dir(dir.join(name))?;
        Ok(Arc::new(DirectoryStore::new(dir.join(name))?) as _)
    })
    .await
}

async fn s3_withstands_the_attacks(brand: Brand) -> Result<()> {
    if binary::skipped(&[brand.name()]) {
        return Ok(());
    }
    let (server, dir) = (brand.start().await?, Scratch::new("attacks")?);
    withstands(server.endpoint(), On::put(""), async |bucket: &str, way: Way<'_>| {
        server.create_bucket(bucket).await?;
        let s3 = S3Target {
            endpoint: Some(way.endpoint.to_owned()),
            region: Some(server.region().to_owned()),
            path_style: true,
            credentials_file: Some(server.credentials_file(&dir)?),
            timeout_seconds: way.timeout_seconds,
            ..S3Target::of_bucket(bucket)
        };
        Ok(chancery_publisher::open_target(&TargetConfig { s3: Some(s3), ..TargetConfig::default() }).await?)
    })
    .await
}

#[tokio::test]
async fn minio_withstands_the_attacks() -> Result<()> {
    s3_withstands_the_attacks(Brand::Minio).await
}

#[tokio::test]
async fn versitygw_withstands_the_attacks() -> Result<()> {
    s3_withstands_the_attacks(Brand::Versitygw).await
}

#[tokio::test]
async fn azurite_withstands_the_attacks() -> Result<()> {
    if binary::skipped(&["azurite"]) {
        return Ok(());
    }
    let (server, dir) = (Azurite::start().await?, Scratch::new("attacks")?);
    withstands(server.origin(), On::put(""), async |container: &str, way: Way<'_>| {
        server.create_container(container).await?;
        let azure = AzureBlobTarget {
            endpoint: Some(format!("{}/{}", way.endpoint, server.account())),
            sas_file: Some(dir.write(container, server.sas(container, "rcw"))?),
            timeout_seconds: way.timeout_seconds,
            ..AzureBlobTarget::of_container(container)
        };
        let target = TargetConfig { azure_blob: Some(azure), ..TargetConfig::default() };
        Ok(chancery_publisher::open_target(&target).await?)
    })
    .await
}

#[tokio::test]
async fn google_cloud_storage_withstands_the_attacks() -> Result<()> {
    const TOKEN: &str = "ya29.an-access-token";
    if binary::skipped(&["fake-gcs-server"]) {
        return Ok(());
    }
    let server = FakeGcs::start().await?;
    server.create_bucket("attacked").await?;
    let gate = GcsGate::start(&server, "attacked", "", TOKEN).await?;
    let sts = GoogleSts::start(TOKEN, &["https://www.googleapis.com/auth/devstorage.read_write"]).await?;
    withstands(gate.url(), On::upload(""), async |prefix: &str, way: Way<'_>| {
        let gcs = GcsTarget {
            endpoint: Some(way.endpoint.to_owned()),
            prefix: prefix.to_owned(),
            credentials_file: Some(sts.credentials_file()?),
            timeout_seconds: way.timeout_seconds,
            ..GcsTarget::of_bucket("attacked")
        };
        Ok(chancery_publisher::open_target(&TargetConfig { gcs: Some(gcs), ..TargetConfig::default() })
            .await?)
    })
    .await
}

//! Two writers with different keys on one store, in every order or in many: the union survives.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use chancery_publisher::store::directory::DirectoryStore;
use chancery_publisher::store::memory::MemoryStore;
use chancery_publisher::target::{AzureBlobTarget, GcsTarget, S3Target};
use chancery_publisher::{DocumentStore, TargetConfig};
use e2e::azurite::Azurite;
use e2e::binary;
use e2e::fake_gcs::FakeGcs;
use e2e::gcs_gate::GcsGate;
use e2e::google_sts::GoogleSts;
use e2e::interleave::{Scene, Tally, every, sample};
use e2e::s3_server::Brand;
use e2e::scratch::Scratch;

/// Interleavings of each scene where an operation takes time.
const SAMPLE: usize = 100;

/// `CHANCERY_SEED`, or another one each time.
fn seed() -> u64 {
    let given = std::env::var("CHANCERY_SEED").ok().and_then(|seed| seed.parse().ok());
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    given.unwrap_or_else(now)
}

fn report(store: &dyn DocumentStore, scene: &str, tally: Tally) {
    println!("{}, {scene}: {tally}", store.describe());
    assert!(tally.with_conflicts > 0, "nobody lost a race: these orders prove nothing");
}

async fn survives(store: &dyn DocumentStore, name: &str, scene: &Scene) -> Result<()> {
    let seed = seed();
    println!("CHANCERY_SEED={seed}");
    report(store, name, sample(store, scene, SAMPLE, seed).await?);
    Ok(())
}

/// Both scenes, each with its name, which is a bucket's as well.
fn scenes() -> Result<[(&'static str, Scene); 2]> {
    Ok([("empty", Scene::empty()?), ("published", Scene::published()?)])
}

async fn survives_on(brand: Brand) -> Result<()> {
    if binary::skipped(&[brand.name()]) {
        return Ok(());
    }
    let (server, dir) = (brand.start().await?, Scratch::new("interleavings")?);
    for (bucket, scene) in scenes()? {
        server.create_bucket(bucket).await?;
        let s3 = S3Target {
            endpoint: Some(server.endpoint().to_owned()),
            region: Some(server.region().to_owned()),
            path_style: true,
            credentials_file: Some(server.credentials_file(&dir)?),
            ..S3Target::of_bucket(bucket)
        };
        let store =
            chancery_publisher::open_target(&TargetConfig { s3: Some(s3), ..TargetConfig::default() })
                .await?;
        survives(store.as_ref(), bucket, &scene).await?;
    }
    Ok(())
}

// The pauses after a lost race take no time here.
#[tokio::test(start_paused = true)]
async fn the_union_survives_every_interleaving_in_memory() -> Result<()> {
    for (name, scene) in scenes()? {
        let store = MemoryStore::new();
        report(&store, name, every(&store, &scene).await?);
    }
    Ok(())
}

#[tokio::test]
async fn the_union_survives_interleavings_in_a_directory() -> Result<()> {
    let dir = Scratch::new("interleavings")?;
    survives(&DirectoryStore::new(dir.path())?, "empty", &Scene::empty()?).await
}

#[tokio::test]
async fn the_union_survives_interleavings_on_minio() -> Result<()> {
    survives_on(Brand::Minio).await
}

#[tokio::test]
async fn the_union_survives_interleavings_on_versitygw() -> Result<()> {
    survives_on(Brand::Versitygw).await
}

#[tokio::test]
async fn the_union_survives_interleavings_on_azurite() -> Result<()> {
    if binary::skipped(&["azurite"]) {
        return Ok(());
    }
    let (server, dir) = (Azurite::start().await?, Scratch::new("interleavings")?);
    for (container, scene) in scenes()? {
        server.create_container(container).await?;
        let azure = AzureBlobTarget {
            endpoint: Some(server.endpoint().to_owned()),
            sas_file: Some(dir.write(container, server.sas(container, "rcw"))?),
            ..AzureBlobTarget::of_container(container)
        };
        let store = chancery_publisher::open_target(&TargetConfig {
            azure_blob: Some(azure),
            ..TargetConfig::default()
        })
        .await?;
        survives(store.as_ref(), container, &scene).await?;
    }
    Ok(())
}

// Behind the gate, which adds what the server lacks of the real one: ETags, conditions of reads, metagenerations.
#[tokio::test]
async fn the_union_survives_interleavings_on_google_cloud_storage() -> Result<()> {
    if binary::skipped(&["fake-gcs-server"]) {
        return Ok(());
    }
    let (scope, token) = ("https://www.googleapis.com/auth/devstorage.read_write", "ya29.an-access-token");
    let (server, sts) = (FakeGcs::start().await?, GoogleSts::start(token, &[scope]).await?);
    for (bucket, scene) in scenes()? {
        server.create_bucket(bucket).await?;
        let gate = GcsGate::start(&server, bucket, "", token).await?;
        let gcs = GcsTarget {
            endpoint: Some(gate.url().to_owned()),
            credentials_file: Some(sts.credentials_file()?),
            ..GcsTarget::of_bucket(bucket)
        };
        let store =
            chancery_publisher::open_target(&TargetConfig { gcs: Some(gcs), ..TargetConfig::default() })
                .await?;
        survives(store.as_ref(), bucket, &scene).await?;
    }
    Ok(())
}

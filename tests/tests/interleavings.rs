//! Two writers with different keys on one store, in every order or in many: the union survives.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use chancery_publisher::store::directory::DirectoryStore;
use chancery_publisher::store::memory::MemoryStore;
use chancery_publisher::target::S3Target;
use chancery_publisher::{DocumentStore, TargetConfig};
use e2e::binary;
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

async fn survives_samples(store: &dyn DocumentStore) -> Result<()> {
    let seed = seed();
    println!("CHANCERY_SEED={seed}");
    report(store, "empty", sample(store, &Scene::empty()?, SAMPLE, seed).await?);
    Ok(())
}

async fn survives_on(brand: Brand) -> Result<()> {
    if binary::skipped(&[brand.name()]) {
        return Ok(());
    }
    let (server, dir) = (brand.start().await?, Scratch::new("interleavings")?);
    for (bucket, scene) in [("empty", Scene::empty()?), ("published", Scene::published()?)] {
        server.create_bucket(bucket).await?;
        let s3 = S3Target {
            endpoint: Some(server.endpoint().to_owned()),
            region: Some(server.region().to_owned()),
            path_style: true,
            credentials_file: Some(server.credentials_file(&dir)?),
            ..S3Target::of_bucket(bucket)
        };
        let store = TargetConfig { s3: Some(s3), ..TargetConfig::default() }.open().await?;
        let seed = seed();
        println!("CHANCERY_SEED={seed}");
        let tally = sample(store.as_ref(), &scene, SAMPLE, seed).await?;
        report(store.as_ref(), bucket, tally);
    }
    Ok(())
}

// The pauses after a lost race take no time here.
#[tokio::test(start_paused = true)]
async fn the_union_survives_every_interleaving_in_memory() -> Result<()> {
    for (name, scene) in [("empty", Scene::empty()?), ("published", Scene::published()?)] {
        let store = MemoryStore::new();
        report(&store, name, every(&store, &scene).await?);
    }
    Ok(())
}

#[tokio::test]
async fn the_union_survives_interleavings_in_a_directory() -> Result<()> {
    let dir = Scratch::new("interleavings")?;
    survives_samples(&DirectoryStore::new(dir.path())?).await
}

#[tokio::test]
async fn the_union_survives_interleavings_on_minio() -> Result<()> {
    survives_on(Brand::Minio).await
}

#[tokio::test]
async fn the_union_survives_interleavings_on_versitygw() -> Result<()> {
    survives_on(Brand::Versitygw).await
}

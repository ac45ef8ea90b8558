//! A bucket of MinIO that somebody else may write as well, reported to a real cluster.

use std::collections::HashMap;

use anyhow::{Context, Result, ensure};
use e2e::chancery::IssuerService;
use e2e::key_file::KeyFile;
use e2e::minio::Minio;
use e2e::scratch::Scratch;
use e2e::site::{Site, bucket_target};
use e2e::{binary, wait};
use serde_json::{Value, json};

use super::report::Reported;
use super::{ISSUER, JWKS, jwks_of, quick, waits_for_drift};

const BUCKET: &str = "documents";

/// A bucket that is published to, in a site whose conditions are reported.
struct BucketStage {
    keys: Scratch,
    key: KeyFile,
    site: Site,
    minio: Minio,
    reported: Reported,
    service: IssuerService,
}

impl BucketStage {
    async fn new() -> Result<Self> {
        let keys = Scratch::new("keys")?;
        let key = KeyFile::new(&keys, "first")?;
        let (reported, minio) = tokio::try_join!(Reported::new(&keys, |_| {}), Minio::start())?;
        minio.create_public_bucket(BUCKET).await?;
        let mut site = Site::new()?;
        let mut target = bucket_target(&minio, minio.endpoint(), BUCKET);
        target.as_object_mut().context("no target")?.remove("publicUrl");
        site.add_issuer_of_files(ISSUER, &[&key.public], json!([target]))?;
        quick(&mut site)?;
        site.use_credentials_of(&minio);
        reported.configure(&mut site)?;
        let service = site.start_ready().await?;
        let stage = Self { keys, key, site, minio, reported, service };
        stage.reported.carries("target bucket", ("Published", "True", "UpToDate"), &stage.service).await?;
        Ok(stage)
    }

    /// What somebody with the bucket's credentials does: see [`e2e::s3_server::S3Server::replace_object`].
    async fn replace(&self, body: &[u8], change: impl FnOnce(&mut HashMap<String, String>)) -> Result<()> {
        self.minio.replace_object((BUCKET, JWKS), body.to_vec(), change).await
    }

    async fn object(&self) -> Result<Vec<u8>> {
        self.minio.read_object(BUCKET, JWKS).await
    }

    async fn is_restored(&self, expected: &[u8]) -> Result<()> {
        let restored = wait::until("the JWKS as it was", async || Ok(self.object().await? == expected)).await;
        restored.with_context(|| self.service.log())
    }

    async fn drifts(&self, kind: &str, at_least: f64) -> Result<()> {
        waits_for_drift(&self.site, ("bucket", kind), at_least, &self.service).await
    }
}

#[tokio::test]
async fn what_is_changed_or_deleted_in_a_bucket_is_noticed_and_repaired() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver", "minio"]) {
        return Ok(());
    }
    let stage = BucketStage::new().await?;
    let ours = stage.object().await?;
    let calm = ("Drifted", "False", "AsWritten");
    stage.reported.carries("target bucket", calm, &stage.service).await?;

    let mut garbled = ours.clone();
    garbled.extend(b"\n\n");
    stage.replace(&garbled, |_| {}).await?;
    stage.drifts("Changed", 1.0).await?;
    stage.is_restored(&ours).await?;
    let event = stage.reported.warns("Changed", &stage.service).await?;
    let note = event.get("note").and_then(Value::as_str).unwrap_or_default();
    ensure!(note.contains("target bucket: the JWKS was changed under our marker"), "{note}");
    ensure!(note.contains("repaired"), "{note}");

    // Our writer was the one who missed it, before any edge was asked: relying parties may have read there.
    let (url, gap) = (stage.site.url(ISSUER), "edge=\"target bucket\"");
    let labels = [("issuer", url.as_str()), ("view", "issuer URL"), ("kid", stage.key.kid.as_str())];
    let seen = async || Ok(stage.site.metric("chancery_key_visible_seconds", &labels).await? > Some(0.0));
    wait::until("a key that was seen for a time", seen).await.with_context(|| stage.service.log())?;
    ensure!(!stage.service.log().contains(gap), "nothing was missing so far: {}", stage.service.log());

    // Twice is one Event with a count.
    for times in 1..=2 {
        stage.minio.delete_object(BUCKET, JWKS).await?;
        stage.drifts("Vanished", times.into()).await?;
        stage.is_restored(&ours).await?;
        let count = if times == 1 { None } else { Some(json!(times)) };
        let counted = wait::until("the Event's count", async || {
            let events = stage.reported.events("Vanished").await?;
            ensure!(events.len() <= 1, "{events:?}");
            let event = events.first().context("no Event")?;
            Ok(event.pointer("/series/count") == count.as_ref())
        });
        counted.await.with_context(|| stage.service.log())?;
    }
    ensure!(stage.service.log().contains(gap), "{}", stage.service.log());
    stage.reported.carries("target bucket", calm, &stage.service).await?;
    stage.reported.carries("target bucket", ("OwnedByUs", "True", "OurMarker"), &stage.service).await?;
    let owner = stage.reported.config_map().await?;
    assert_eq!(owner.pointer("/metadata/annotations/chancery-owner"), Some(&json!("chancery-issuer")));
    Ok(())
}

#[tokio::test]
async fn a_planted_key_in_a_bucket_is_named_and_removed_and_a_foreign_marker_is_left_alone() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver", "minio"]) {
        return Ok(());
    }
    let stage = BucketStage::new().await?;
    let ours = stage.object().await?;
    let stranger = KeyFile::new(&stage.keys, "stranger")?;
    let both = jwks_of(&[&stage.key, &stranger]).await?;
    stage.replace(both.trim_ascii_end(), |_| {}).await?;
    stage.drifts("ForeignKeys", 1.0).await?;
    stage
        .reported
        .carries("target bucket", ("ForeignKeys", "True", "PossibleIntrusion"), &stage.service)
        .await?;
    let event = stage.reported.warns("PossibleIntrusion", &stage.service).await?;
    let note = event.get("note").and_then(Value::as_str).unwrap_or_default();
    ensure!(note.contains(&stranger.kid), "{note}");
    ensure!(stage.service.log().contains("possible intrusion"), "{}", stage.service.log());
    stage.is_restored(&ours).await?;

    // A marker that nobody can read takes nobody's sight of what is under it.
    let damaged = |metadata: &mut HashMap<String, String>| {
        metadata.insert("chancery-decision".to_owned(), "many".to_owned());
    };
    stage.replace(both.trim_ascii_end(), damaged).await?;
    stage.drifts("ForeignKeys", 2.0).await?;
    stage.is_restored(&ours).await?;

    let taken = jwks_of(&[&stranger]).await?;
    let theirs = |metadata: &mut HashMap<String, String>| {
        metadata.insert("chancery-owner".to_owned(), "somebody-else".to_owned());
    };
    stage.replace(&taken, theirs).await?;
    stage.drifts("MarkerReplaced", 1.0).await?;
    stage.reported.carries("target bucket", ("OwnedByUs", "False", "ForeignMarker"), &stage.service).await?;
    stage.reported.carries("target bucket", ("Published", "False", "Blocked"), &stage.service).await?;
    stage.reported.warns("ForeignMarker", &stage.service).await?;
    assert_eq!(stage.object().await?, taken, "it is not ours to repair");
    Ok(())
}

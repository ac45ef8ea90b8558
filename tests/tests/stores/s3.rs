//! The stores' battery on a real S3 server, and its refusals as kinds of ours.

use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use aws_sdk_s3::config::Credentials;
use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::SdkError;
use aws_sdk_s3::types::MetadataDirective;
use chancery_core::Marker;
use chancery_core::publication::Precondition;
use chancery_publisher::conformance::{Deviation, run_expecting};
use chancery_publisher::store::{ConditionalRead, Put};
use chancery_publisher::target::S3Target;
use chancery_publisher::{DocumentStore, StoreErrorKind, TargetConfig};
use e2e::s3_server::{Brand, S3Server};
use e2e::scratch::Scratch;
use e2e::{binary, ports};

/// A target in a bucket of `server`, with the credentials of its owner in a file.
fn target(server: &S3Server, dir: &Scratch, bucket: &str) -> Result<S3Target> {
    Ok(S3Target {
        endpoint: Some(server.endpoint().to_owned()),
        region: Some(server.region().to_owned()),
        prefix: "/clusters/a/".to_owned(),
        path_style: true,
        credentials_file: Some(server.credentials_file(dir)?),
        ..S3Target::of_bucket(bucket)
    })
}

async fn open(target: S3Target) -> Result<Arc<dyn DocumentStore>> {
    Ok(chancery_publisher::open_target(&TargetConfig { s3: Some(target), ..TargetConfig::default() }).await?)
}

/// What the protocol cannot promise, as docs/targets/s3.md says.
const OF_THE_PROTOCOL: [Deviation; 1] = [Deviation {
    check: "a_version_with_other_attributes_conflicts",
    because: "S3 compares the ETag alone, which speaks of the bytes",
}];

/// What a server does otherwise than other places, as far as the battery sees it.
fn deviations(brand: Brand) -> &'static [Deviation] {
    match brand {
        Brand::Minio | Brand::Versitygw => &OF_THE_PROTOCOL,
    }
}

async fn the_battery_passes_on(brand: Brand) -> Result<()> {
    if binary::skipped(&[brand.name()]) {
        return Ok(());
    }
    let (server, dir) = (brand.start().await?, Scratch::new("s3-store")?);
    server.create_bucket("documents").await?;
    let store = open(target(&server, &dir, "documents")?).await?;
    assert_eq!(store.describe(), format!("s3://documents/clusters/a at {}", server.endpoint()));
    let passed = run_expecting(store.as_ref(), deviations(brand)).await?;
    println!("{}: {} checks passed: {}", brand.name(), passed.len(), passed.join(", "));
    // What the store calls a path lies below the prefix.
    let key = "clusters/a/conformance/a_created_object_reads_back_exactly/object";
    assert_eq!(server.read_object("documents", key).await?, b"{\"keys\":[]}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_battery_passes_on_minio() -> Result<()> {
    the_battery_passes_on(Brand::Minio).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_battery_passes_on_versitygw() -> Result<()> {
    the_battery_passes_on(Brand::Versitygw).await
}

/// Somebody copies the object onto itself: the same bytes, so the same ETag, under other headers and another marker.
async fn a_copy_in_place_is_another_version_on(brand: Brand) -> Result<()> {
    const KEY: &str = "clusters/a/openid/v1/jwks";
    if binary::skipped(&[brand.name()]) {
        return Ok(());
    }
    let (server, dir) = (brand.start().await?, Scratch::new("s3-store")?);
    server.create_bucket("documents").await?;
    let (store, s3) = (open(target(&server, &dir, "documents")?).await?, server.s3_client());
    let ours = Put {
        path: "openid/v1/jwks",
        bytes: b"{\"keys\":[]}",
        media_type: "application/jwk-set+json",
        cache_control: "public, max-age=600",
        marker: &Marker::of("us".parse()?),
        precondition: &Precondition::Absent,
    };
    let mut known = store.write(ours).await?;
    let before = s3.head_object().bucket("documents").key(KEY).send().await?;
    for (media_type, cache_control, owner) in [
        ("application/jwk-set+json", "public, max-age=31536000", "us"),
        ("text/plain", "public, max-age=31536000", "us"),
        ("text/plain", "public, max-age=31536000", "somebody-else"),
    ] {
        let copy = s3.copy_object().bucket("documents").key(KEY).copy_source(format!("documents/{KEY}"));
        let copy = copy.metadata_directive(MetadataDirective::Replace).metadata("chancery-owner", owner);
        copy.content_type(media_type).cache_control(cache_control).send().await?;
        let copied = s3.head_object().bucket("documents").key(KEY).send().await?;
        assert_eq!(copied.e_tag, before.e_tag, "the ETag says nothing of it");
        let reading = store.read_unless("openid/v1/jwks", Some(&known)).await?;
        let ConditionalRead::Found(found) = reading else {
            bail!("{media_type}, {cache_control}: {reading:?}")
        };
        assert_eq!(found.media_type.as_deref(), Some(media_type));
        assert_eq!(found.cache_control.as_deref(), Some(cache_control));
        assert_eq!(found.marker, Some(Marker::of(owner.parse()?)));
        known = found.version;
        assert_eq!(store.read_unless("openid/v1/jwks", Some(&known)).await?, ConditionalRead::Unchanged);
    }
    Ok(())
}

#[tokio::test]
async fn a_copy_in_place_is_another_version_on_minio() -> Result<()> {
    a_copy_in_place_is_another_version_on(Brand::Minio).await
}

#[tokio::test]
async fn a_copy_in_place_is_another_version_on_versitygw() -> Result<()> {
    a_copy_in_place_is_another_version_on(Brand::Versitygw).await
}

#[tokio::test]
async fn a_missing_bucket_bad_credentials_and_no_server_are_told_apart_by_minio() -> Result<()> {
    refusals_are_told_apart_by(Brand::Minio).await
}

#[tokio::test]
async fn a_missing_bucket_bad_credentials_and_no_server_are_told_apart_by_versitygw() -> Result<()> {
    refusals_are_told_apart_by(Brand::Versitygw).await
}

async fn refusals_are_told_apart_by(brand: Brand) -> Result<()> {
    if binary::skipped(&[brand.name()]) {
        return Ok(());
    }
    let (server, dir) = (brand.start().await?, Scratch::new("s3-store")?);
    server.create_bucket("documents").await?;
    let good = target(&server, &dir, "documents")?;
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
        let read =
            store.read("openid/v1/jwks").await.err().with_context(|| format!("it was read: {words}"))?;
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

/// One thing that S3 does, and what each server of ours does in its place.
struct Habit {
    what: &'static str,
    s3: u16,
    minio: u16,
    versitygw: u16,
}

/// Differences from S3 that no store of ours meets, but that whoever writes more against these servers must know.
/// <https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-deletes.html>
const HABITS: [Habit; 5] = [
    Habit { what: "create what is there", s3: 412, minio: 412, versitygw: 412 },
    Habit { what: "replace a stale version", s3: 412, minio: 412, versitygw: 412 },
    Habit { what: "replace what is absent", s3: 404, minio: 404, versitygw: 404 },
    // MinIO ignores the condition, and deletes.
    Habit { what: "delete a stale version", s3: 412, minio: 204, versitygw: 412 },
    // versitygw takes the key id for the name of a missing user.
    Habit { what: "read with an unknown key id", s3: 403, minio: 403, versitygw: 404 },
];

async fn habits_of(server: &S3Server) -> Result<[u16; 5]> {
    const STALE: &str = "\"00000000000000000000000000000000\"";
    server.create_bucket("habits").await?;
    server.put_object("habits", "there", b"content").await?;
    let s3 = server.s3_client();
    let put = |key: &str| s3.put_object().bucket("habits").key(key);
    let stranger = server.s3_client_with(Credentials::new("no", "hunter2", None, None, "a stranger"));
    Ok([
        status(put("there").if_none_match("*").send().await)?,
        status(put("there").if_match(STALE).send().await)?,
        status(put("absent").if_match(STALE).send().await)?,
        status(s3.delete_object().bucket("habits").key("there").if_match(STALE).send().await)?,
        status(stranger.get_object().bucket("habits").key("there").send().await)?,
    ])
}

/// The status of a refusal; success is taken for 204.
fn status<T, E>(answer: std::result::Result<T, SdkError<E, HttpResponse>>) -> Result<u16> {
    match answer {
        Ok(_) => Ok(204),
        Err(error) => Ok(error.raw_response().context("no answer")?.status().as_u16()),
    }
}

#[tokio::test]
async fn what_each_server_does_otherwise_than_s3_is_written_down() -> Result<()> {
    for brand in Brand::ALL {
        if binary::skipped(&[brand.name()]) {
            continue;
        }
        let habits = habits_of(&*brand.start().await?).await?;
        for (habit, status) in HABITS.iter().zip(habits) {
            let expected = match brand {
                Brand::Minio => habit.minio,
                Brand::Versitygw => habit.versitygw,
            };
            assert_eq!(status, expected, "{}: {} (S3 answers {})", brand.name(), habit.what, habit.s3);
        }
    }
    Ok(())
}

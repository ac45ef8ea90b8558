//! The service and its target at their worst: killed between any two writes, refused, cut off, overtaken, and
//! in front of somebody else's documents. It always ends published, and no reader ever misses a key.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::fault_proxy::{Fault, FaultProxy, Moment, On};
use e2e::key_file::KeyFile;
use e2e::s3_server::{Brand, Running, S3Server};
use e2e::scratch::Scratch;
use e2e::site::{Site, bucket_target};
use e2e::witness::Witness;
use e2e::{binary, chancery, wait};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// Who the service is, and whoever else publishes the same issuer.
const OWNER: &str = "chancery-faults";
const ISSUER: &str = "/cluster-a";
const JWKS: &str = "openid/v1/jwks";
const DISCOVERY: &str = ".well-known/openid-configuration";

/// An issuer with one key, whose only target is a bucket behind a proxy.
struct Stage {
    server: &'static S3Server,
    bucket: String,
    proxy: FaultProxy,
    keys: Scratch,
    watched: Scratch,
    site: Site,
    first: KeyFile,
}

impl Stage {
    async fn new(brand: Brand, bucket: &str) -> Result<Self> {
        static SERVERS: [OnceCell<Running>; 2] = [const { OnceCell::const_new() }; 2];
        let [minio, versitygw] = &SERVERS;
        let cell = match brand {
            Brand::Minio => minio,
            Brand::Versitygw => versitygw,
        };
        let server: &S3Server = cell.get_or_try_init(|| brand.start()).await?;
        server.create_public_bucket(bucket).await?;
        let proxy = FaultProxy::start(server.endpoint()).await?;
        let (keys, watched) = (Scratch::new("keys")?, Scratch::new("watched")?);
        let first = KeyFile::new(&keys, "first")?;
        first.put_public_half_into(watched.path())?;
        let mut site = Site::new()?;
        let mut target = bucket_target(server, proxy.url(), bucket);
        *target.pointer_mut("/to/s3").context("no S3")? = json!({
            "bucket": bucket, "region": server.region(), "endpoint": proxy.url(), "pathStyle": true,
            "timeoutSeconds": 1,
        });
        site.add_issuer_of_files(ISSUER, &[watched.path()], json!([target]))?;
        let issuer = site.config.pointer_mut("/issuers/0").and_then(Value::as_object_mut);
        issuer.context("no issuer")?.insert("owner".to_owned(), json!(OWNER));
        site.use_credentials_of(server);
        Ok(Self { server, bucket: bucket.to_owned(), proxy, keys, watched, site, first })
    }

    fn url(&self) -> String {
        self.site.url(ISSUER)
    }

    fn bucket_url(&self) -> String {
        format!("{}/{}", self.server.endpoint(), self.bucket)
    }

    fn add_key(&self, name: &str) -> Result<KeyFile> {
        let key = KeyFile::new(&self.keys, name)?;
        key.put_public_half_into(self.watched.path())?;
        Ok(key)
    }

    fn witnesses(&self) -> [Witness; 2] {
        [self.url(), self.bucket_url()].map(|base| Witness::of(self.site.client(), &base))
    }

    /// Both places show exactly these keys, and the witnesses saw nothing wrong on the way.
    async fn ends_with(&self, kids: &[&str], witnesses: [Witness; 2]) -> Result<()> {
        for base in [self.url(), self.bucket_url()] {
            self.site.shows(&base, kids).await?;
        }
        for witness in witnesses {
            witness.swears(kids).await?;
        }
        Ok(())
    }

    async fn up_to_date(&self) -> Result<Option<f64>> {
        let url = self.url();
        let labels = [("issuer", url.as_str()), ("target", "bucket")];
        self.site.metric("chancery_target_up_to_date", &labels).await
    }

    /// Publishes past the proxy, as a pipeline of somebody else would.
    async fn publish_from_elsewhere(&self, key: &KeyFile, owner: &str) -> Result<()> {
        let mut command = std::process::Command::new(binary::chancery()?);
        let (id, secret) = self.server.root_credentials();
        command.env("AWS_ACCESS_KEY_ID", id).env("AWS_SECRET_ACCESS_KEY", secret);
        command.args(["publish", "apply", "--issuer", &self.url(), "--s3-bucket", &self.bucket]);
        command.args(["--s3-endpoint", self.server.endpoint(), "--s3-path-style", "--key"]).arg(&key.public);
        command.args(["--owner", owner]);
        chancery::run_command(command).await?.success()?;
        Ok(())
    }

    async fn objects(&self) -> Result<[Vec<u8>; 2]> {
        let read = async |key| self.server.read_object(&self.bucket, key).await;
        Ok([read(JWKS).await?, read(DISCOVERY).await?])
    }
}

/// Plays a scenario on each S3 server.
async fn on_each(bucket: &str, scenario: impl AsyncFn(Stage) -> Result<()>) -> Result<()> {
    for brand in Brand::ALL {
        if !binary::skipped(&[brand.name()]) {
            let stage = Stage::new(brand, bucket).await?;
            scenario(stage).await.with_context(|| format!("on {}", brand.name()))?;
        }
    }
    Ok(())
}

/// Kills the service while the write of `document` waits at `moment`, and starts it again.
async fn killed_at_the_first_publication(bucket: &str, document: &str, moment: Moment) -> Result<()> {
    on_each(bucket, async |stage| {
        let witnesses = stage.witnesses();
        let hold = stage.proxy.hold(On::put(document), moment);
        let mut service = stage.site.start()?;
        hold.reached().await.with_context(|| service.log())?;
        service.kill()?;
        stage.proxy.heal();
        let _service = stage.site.start_ready().await?;
        stage.ends_with(&[&stage.first.kid], witnesses).await
    })
    .await
}

/// The same while a second key is being added to what is published.
async fn killed_at_an_update(bucket: &str, moment: Moment) -> Result<()> {
    on_each(bucket, async |stage| {
        let witnesses = stage.witnesses();
        let mut service = stage.site.start_ready().await?;
        stage.site.shows(&stage.bucket_url(), &[&stage.first.kid]).await?;
        let hold = stage.proxy.hold(On::put(JWKS), moment);
        let second = stage.add_key("second")?;
        hold.reached().await.with_context(|| service.log())?;
        service.kill()?;
        stage.proxy.heal();
        let _service = stage.site.start_ready().await?;
        stage.ends_with(&[&stage.first.kid, &second.kid], witnesses).await
    })
    .await
}

#[tokio::test]
async fn killed_before_its_first_write() -> Result<()> {
    killed_at_the_first_publication("killed-1-before", JWKS, Moment::BeforeForwarding).await
}

#[tokio::test]
async fn killed_after_its_first_write() -> Result<()> {
    killed_at_the_first_publication("killed-1-after", JWKS, Moment::AfterForwarding).await
}

#[tokio::test]
async fn killed_before_its_second_write() -> Result<()> {
    killed_at_the_first_publication("killed-2-before", DISCOVERY, Moment::BeforeForwarding).await
}

#[tokio::test]
async fn killed_after_its_second_write() -> Result<()> {
    killed_at_the_first_publication("killed-2-after", DISCOVERY, Moment::AfterForwarding).await
}

#[tokio::test]
async fn killed_before_an_update_is_written() -> Result<()> {
    killed_at_an_update("killed-update-before", Moment::BeforeForwarding).await
}

#[tokio::test]
async fn killed_after_an_update_is_written() -> Result<()> {
    killed_at_an_update("killed-update-after", Moment::AfterForwarding).await
}

/// A fault during the first publication, and again while a second key is being added.
async fn ends_published_after(bucket: &str, faults: &[(On, Fault)]) -> Result<()> {
    on_each(bucket, async |stage| {
        let witnesses = stage.witnesses();
        let set = || faults.iter().for_each(|(on, fault)| stage.proxy.fail(on.clone(), fault.clone()));
        set();
        let service = stage.site.start_ready().await?;
        stage.site.shows(&stage.bucket_url(), &[&stage.first.kid]).await.with_context(|| service.log())?;
        stage.proxy.heal();
        set();
        let second = stage.add_key("second")?;
        let kids = [stage.first.kid.as_str(), &second.kid];
        stage.ends_with(&kids, witnesses).await.with_context(|| service.log())
    })
    .await
}

#[tokio::test]
async fn a_write_answered_with_500() -> Result<()> {
    let broken = Fault::Answer(StatusCode::INTERNAL_SERVER_ERROR);
    ends_published_after("answers-500", &[(On::put("").times(4), broken)]).await
}

#[tokio::test]
async fn a_read_answered_with_503_and_a_write_with_too_many_requests() -> Result<()> {
    let busy = Fault::Answer(StatusCode::SERVICE_UNAVAILABLE);
    let patience = Fault::TooManyRequests(1);
    ends_published_after("answers-503", &[(On::get("").times(3), busy), (On::put(""), patience)]).await
}

#[tokio::test]
async fn a_connection_cut_before_the_write() -> Result<()> {
    ends_published_after("hangs-up", &[(On::put("").times(3), Fault::HangUp)]).await
}

#[tokio::test]
async fn an_answer_lost_after_the_write() -> Result<()> {
    let lost = [(On::put(JWKS), Fault::LoseAnswer), (On::put(DISCOVERY), Fault::LoseAnswer)];
    ends_published_after("loses-answers", &lost).await
}

#[tokio::test]
async fn a_write_that_times_out() -> Result<()> {
    ends_published_after("stalls", &[(On::put(JWKS), Fault::Stall), (On::get(JWKS), Fault::Stall)]).await
}

#[tokio::test]
async fn a_write_that_times_out_after_it_took_effect() -> Result<()> {
    let stalls = [(On::put(JWKS), Fault::StallAnswer), (On::put(DISCOVERY), Fault::StallAnswer)];
    ends_published_after("stalls-answers", &stalls).await
}

#[tokio::test]
async fn a_reset_connection() -> Result<()> {
    let resets = [(On::put("").times(3), Fault::Reset), (On::get("").times(3), Fault::Reset)];
    ends_published_after("resets", &resets).await
}

#[tokio::test]
async fn an_answer_that_breaks_off() -> Result<()> {
    let broken = [(On::get("").times(3), Fault::Truncate), (On::put("").times(2), Fault::Truncate)];
    ends_published_after("breaks-off", &broken).await
}

#[tokio::test]
async fn a_slow_answer() -> Result<()> {
    let slow = |on| (on, Fault::Slow(Duration::from_millis(300)));
    ends_published_after("slow", &[slow(On::get("").always()), slow(On::put("").always())]).await
}

#[tokio::test]
async fn an_answer_that_comes_twice() -> Result<()> {
    let twice = |on| (on, Fault::Duplicate);
    ends_published_after("twice", &[twice(On::get("").always()), twice(On::put("").always())]).await
}

#[tokio::test]
async fn a_refused_connection() -> Result<()> {
    on_each("refused", async |stage| {
        let witnesses = stage.witnesses();
        stage.proxy.refuse().await;
        let service = stage.site.start_ready().await?;
        let reported = async || Ok(stage.up_to_date().await? == Some(0.0));
        wait::until("the metric of a target that is not up to date", reported).await?;
        ensure!(service.log().contains("Connection refused"), "{}", service.log());
        stage.proxy.accept().await?;
        stage.ends_with(&[&stage.first.kid], witnesses).await.with_context(|| service.log())
    })
    .await
}

#[tokio::test]
async fn a_target_that_is_down_is_reported_while_the_service_serves_and_is_mended_when_it_is_back()
-> Result<()> {
    on_each("down", async |stage| {
        let witnesses = stage.witnesses();
        stage.proxy.fail(On::put("").always(), Fault::Answer(StatusCode::INTERNAL_SERVER_ERROR));
        let service = stage.site.start_ready().await?;
        let reported = async || Ok(stage.up_to_date().await? == Some(0.0));
        wait::until("the metric of a target that is not up to date", reported).await?;
        ensure!(service.log().contains("not published"), "{}", service.log());
        let second = stage.add_key("second")?;
        let kids = [stage.first.kid.as_str(), &second.kid];
        stage.site.shows(&stage.url(), &kids).await?;
        stage.proxy.heal();
        stage.ends_with(&kids, witnesses).await.with_context(|| service.log())?;
        wait::until("a target that is up to date", async || Ok(stage.up_to_date().await? == Some(1.0))).await
    })
    .await
}

#[tokio::test]
async fn a_writer_that_was_faster_loses_nothing_and_neither_do_we() -> Result<()> {
    on_each("races", async |mut stage| {
        // Who is held must not give up, and write a second time before the other writer has written.
        let patience = stage.site.config.pointer_mut("/issuers/0/targets/0/to/s3/timeoutSeconds");
        *patience.context("no time limit")? = json!(120);
        let witnesses = stage.witnesses();
        let theirs = KeyFile::new(&stage.keys, "theirs")?;
        let hold = stage.proxy.hold(On::put(JWKS), Moment::BeforeForwarding);
        let service = stage.site.start_ready().await?;
        hold.reached().await?;
        stage.publish_from_elsewhere(&theirs, OWNER).await?;
        hold.release();
        let both = [stage.first.kid.as_str(), &theirs.kid];
        stage.site.shows(&stage.bucket_url(), &both).await.with_context(|| service.log())?;

        let second = stage.add_key("second")?;
        let all = [stage.first.kid.as_str(), &theirs.kid, &second.kid];
        stage.site.shows(&stage.bucket_url(), &all).await.with_context(|| service.log())?;
        let lost = |record: &e2e::request_log::Record| record.status == Some(412);
        ensure!(stage.proxy.records().iter().any(lost), "nobody lost a race: {:?}", stage.proxy.records());
        let url = stage.url();
        let labels = [("issuer", url.as_str()), ("target", "bucket")];
        // It stood there before our first write, so it is ours to publish from then on.
        assert_eq!(stage.site.metric("chancery_foreign_keys", &labels).await?, Some(0.0));
        let [served, bucket] = witnesses;
        bucket.swears(&all).await?;
        served.swears(&all).await
    })
    .await
}

/// What is there is somebody else's, as the log must say in the words `named`: not one write is tried.
async fn is_not_touched(stage: &Stage, named: &str) -> Result<()> {
    let before = stage.objects().await?;
    let service = stage.site.start_ready().await?;
    let url = stage.url();
    let labels = [("issuer", url.as_str()), ("target", "bucket"), ("result", "blocked")];
    let blocked = async || {
        let blocked = stage.site.metric("chancery_publish_total", &labels).await?;
        Ok(blocked.is_some_and(|times| times > 0.0))
    };
    wait::until("the metric of a blocked target", blocked).await.with_context(|| service.log())?;
    ensure!(service.log().contains(named), "the log does not say {named:?}:\n{}", service.log());
    let second = stage.add_key("second")?;
    stage.site.shows(&url, &[&stage.first.kid, &second.kid]).await?;
    let tried = stage.site.metric("chancery_publish_total", &labels).await?;
    wait::until("another try", async || {
        Ok(stage.site.metric("chancery_publish_total", &labels).await? > tried)
    })
    .await?;
    assert_eq!(stage.up_to_date().await?, Some(0.0));
    assert!(stage.objects().await? == before);
    let writes = stage.proxy.records().into_iter().filter(|record| record.method == Method::PUT);
    assert_eq!(writes.count(), 0);
    Ok(())
}

#[tokio::test]
async fn documents_with_a_foreign_marker_are_not_touched_and_their_owner_is_named() -> Result<()> {
    on_each("foreign", async |stage| {
        let theirs = KeyFile::new(&stage.keys, "theirs")?;
        stage.publish_from_elsewhere(&theirs, "somebody-else").await?;
        is_not_touched(&stage, "belongs to somebody-else").await
    })
    .await
}

#[tokio::test]
async fn documents_without_a_marker_are_not_touched_and_named() -> Result<()> {
    on_each("unmarked", async |stage| {
        let render = async |arguments: &[&str]| -> Result<Vec<u8>> {
            let mut all: Vec<&Path> = arguments.iter().map(Path::new).collect();
            all.extend([Path::new("--key"), &stage.first.public]);
            Ok(chancery::run(&all).await?.success()?.into_bytes())
        };
        let jwks = render(&["keygen", "jwks"]).await?;
        let discovery = render(&["keygen", "discovery", "--issuer", &stage.url()]).await?;
        stage.server.put_object(&stage.bucket, JWKS, &jwks).await?;
        stage.server.put_object(&stage.bucket, DISCOVERY, &discovery).await?;
        is_not_touched(&stage, "without an ownership marker").await
    })
    .await
}

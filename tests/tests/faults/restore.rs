//! Disasters: lost documents, a lost state, a state from a backup, a cluster that was made anew.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use e2e::aws_iam::AwsIam;
use e2e::chancery::{self, Output};
use e2e::key_api::{self, KeyApi};
use e2e::key_file::KeyFile;
use e2e::minio::Minio;
use e2e::scratch::Scratch;
use e2e::sigv4::verify::{CREDENTIALS, SESSION_TOKEN};
use e2e::site::{Site, bucket_target};
use e2e::{binary, wait};
use serde_json::{Value, json};

use crate::drift::quick;

const ISSUER: &str = "/cluster-a";
const BUCKET: &str = "documents";
const JWKS: &str = "openid/v1/jwks";
const DISCOVERY: &str = ".well-known/openid-configuration";

/// A service with one issuer, whose keys are in a watched folder, and a bucket.
struct Stage {
    minio: Minio,
    keys: Scratch,
    watched: Scratch,
    site: Site,
}

impl Stage {
    async fn new() -> Result<Self> {
        let (minio, keys, watched) = (Minio::start().await?, Scratch::new("keys")?, Scratch::new("watched")?);
        minio.create_public_bucket(BUCKET).await?;
        let mut site = Site::new()?;
        let target = bucket_target(&minio, minio.endpoint(), BUCKET);
        site.add_issuer_of_files(ISSUER, &[watched.path()], json!([target]))?;
        site.use_credentials_of(&minio);
        Ok(Self { minio, keys, watched, site })
    }

    fn add_key(&self, name: &str) -> Result<KeyFile> {
        let key = KeyFile::new(&self.keys, name)?;
        key.put_public_half_into(self.watched.path())?;
        Ok(key)
    }

    fn remove_key(&self, key: &KeyFile) -> Result<()> {
        Ok(fs::remove_file(self.watched.join(&key.public.file_name().context("a name")?.to_string_lossy()))?)
    }

    fn bucket_url(&self) -> String {
        self.minio.object_url(BUCKET, "").trim_end_matches('/').to_owned()
    }

    /// Runs the service until the bucket shows exactly these keys.
    async fn serve_until(&self, keys: &[&KeyFile]) -> Result<()> {
        let kids: Vec<&str> = keys.iter().map(|key| key.kid.as_str()).collect();
        let mut service = self.site.start_ready().await?;
        self.site.shows(&self.bucket_url(), &kids).await.with_context(|| service.log())?;
        ensure!(service.terminate().await? == Some(0), "{}", service.log());
        Ok(())
    }

    async fn shows(&self, keys: &[&KeyFile]) -> Result<()> {
        let kids: Vec<&str> = keys.iter().map(|key| key.kid.as_str()).collect();
        self.site.shows(&self.bucket_url(), &kids).await
    }

    fn keep_vanished_keys_for(&mut self, retention: &str) -> Result<()> {
        let issuer = self.site.config.pointer_mut("/issuers/0").and_then(Value::as_object_mut);
        issuer.context("no issuer")?.insert("retention".to_owned(), json!(retention));
        Ok(())
    }

    /// The file with the state of the one issuer.
    fn state(&self) -> Result<PathBuf> {
        let mut files = fs::read_dir(self.site.dir().join("state"))?
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<Vec<_>>>()?;
        // What begins with a dot is half of a write that a killed process has left.
        files.retain(|path| path.file_name().is_some_and(|name| !name.as_encoded_bytes().starts_with(b".")));
        files.retain(|path| fs::read(path).is_ok_and(|bytes| is_state(&bytes)));
        ensure!(files.len() == 1, "{files:?}");
        files.pop().context("no state")
    }

    /// Everything that is kept, the writer key included.
    fn lose_state(&self) -> Result<()> {
        fs::remove_file(self.state()?)?;
        Ok(fs::remove_file(self.site.dir().join("state/writer-key"))?)
    }

    fn owner(&self) -> Result<String> {
        let state: Value = serde_json::from_slice(&fs::read(self.state()?)?)?;
        Ok(state.pointer("/owner").and_then(Value::as_str).context("no owner")?.to_owned())
    }

    async fn marker(&self, path: &str) -> Result<String> {
        let head = self.minio.s3_client().head_object().bucket(BUCKET).key(path).send().await?;
        let owner = head.metadata().and_then(|metadata| metadata.get("chancery-owner")).cloned();
        owner.context("an object without a marker")
    }

    async fn publish(&self, arguments: &[&str]) -> Result<Output> {
        let mut command = std::process::Command::new(binary::chancery()?);
        let (id, secret) = self.minio.root_credentials();
        command.env("AWS_ACCESS_KEY_ID", id).env("AWS_SECRET_ACCESS_KEY", secret);
        command.arg("publish").args(arguments);
        chancery::run_command(command).await
    }

    async fn restore(&self, more: &[&str]) -> Result<Output> {
        let config = self.site.write_config()?.display().to_string();
        self.publish(&[&["restore", "--json", "--config", &config], more].concat()).await
    }
}

fn is_state(bytes: &[u8]) -> bool {
    serde_json::from_slice::<Value>(bytes).is_ok_and(|value| value.pointer("/record/keys").is_some())
}

fn report(output: Output) -> Result<Value> {
    let report: Value = serde_json::from_str(&output.success()?)?;
    report.get(0).cloned().context("an empty report")
}

#[tokio::test]
async fn lost_documents_come_back_from_the_state_and_the_sources() -> Result<()> {
    if binary::skipped(&["minio"]) {
        return Ok(());
    }
    let stage = Stage::new().await?;
    let (old, new) = (stage.add_key("old")?, stage.add_key("new")?);
    stage.serve_until(&[&old, &new]).await?;
    let owner = stage.owner()?;
    assert_eq!(stage.marker(JWKS).await?, owner);
    // Vanished from its source, and still in its retention time: only the state knows it.
    stage.remove_key(&old)?;
    for path in [JWKS, DISCOVERY] {
        stage.minio.delete_object(BUCKET, path).await?;
    }

    let planned = stage.restore(&["--plan"]).await?;
    assert_eq!(planned.code, Some(3), "{}", planned.stderr);
    assert!(stage.marker(JWKS).await.is_err(), "a plan changes nothing");
    let report = report(stage.restore(&[]).await?)?;
    assert_eq!(report.pointer("/steps/0/written"), Some(&json!([JWKS, DISCOVERY])), "{report}");
    assert_eq!(report.pointer("/imported"), Some(&json!([])), "{report}");
    stage.shows(&[&old, &new]).await?;
    assert_eq!((stage.marker(JWKS).await?, stage.marker(DISCOVERY).await?), (owner.clone(), owner));
    assert_eq!(stage.restore(&["--plan"]).await?.code, Some(0), "nothing is left to do");
    Ok(())
}

#[tokio::test]
async fn a_lost_state_goes_on_from_what_is_published_once_somebody_says_that_it_is_ours() -> Result<()> {
    if binary::skipped(&["minio"]) {
        return Ok(());
    }
    let stage = Stage::new().await?;
    let old = stage.add_key("old")?;
    stage.serve_until(&[&old]).await?;
    let owner = stage.owner()?;
    stage.lose_state()?;
    stage.remove_key(&old)?;
    let new = stage.add_key("new")?;

    let refused = stage.restore(&[]).await?;
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains(&owner) && refused.stderr.contains("--owner"), "{}", refused.stderr);
    stage.shows(&[&old]).await?;

    // Nobody but a person knows whether that key is in use.
    let refused = stage.restore(&["--owner", &owner]).await?;
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains(&format!("--import {}", old.kid)), "{}", refused.stderr);
    stage.shows(&[&old]).await?;
    let shown = stage.restore(&["--owner", &owner, "--plan"]).await?;
    assert!(shown.stdout.contains("undecided") && shown.stdout.contains(&old.kid), "{}", shown.stdout);

    let report = report(stage.restore(&["--owner", &owner, "--import", &old.kid]).await?)?;
    assert_eq!(report.pointer("/imported"), Some(&json!([old.kid])), "{report}");
    stage.shows(&[&old, &new]).await?;
    assert_eq!(stage.owner()?, owner);

    // What was imported is known from now on, whatever becomes of the documents.
    stage.minio.delete_object(BUCKET, JWKS).await?;
    stage.serve_until(&[&old, &new]).await?;
    assert_eq!(stage.marker(JWKS).await?, owner);
    Ok(())
}

#[tokio::test]
async fn a_cluster_that_was_made_anew_does_not_touch_what_its_predecessor_published() -> Result<()> {
    if binary::skipped(&["minio"]) {
        return Ok(());
    }
    let stage = Stage::new().await?;
    let old = stage.add_key("old")?;
    stage.serve_until(&[&old]).await?;
    let owner = stage.owner()?;
    stage.lose_state()?;
    stage.remove_key(&old)?;
    stage.add_key("new")?;

    let service = stage.site.start_ready().await?;
    let url = stage.site.url(ISSUER);
    let labels = [("issuer", url.as_str()), ("target", "bucket"), ("result", "blocked")];
    wait::until("the metric of a blocked target", async || {
        Ok(stage.site.metric("chancery_publish_total", &labels).await?.is_some_and(|times| times > 0.0))
    })
    .await
    .with_context(|| service.log())?;
    assert!(service.log().contains(&format!("belongs to {owner}")), "{}", service.log());
    assert_ne!(stage.owner()?, owner);
    stage.shows(&[&old]).await
}

#[tokio::test]
async fn a_state_from_a_backup_does_not_bring_a_withdrawn_key_back() -> Result<()> {
    if binary::skipped(&["minio"]) {
        return Ok(());
    }
    let mut stage = Stage::new().await?;
    stage.keep_vanished_keys_for("1s")?;
    let (old, new) = (stage.add_key("old")?, stage.add_key("new")?);
    stage.serve_until(&[&old, &new]).await?;
    let backup = fs::read(stage.state()?)?;
    stage.remove_key(&old)?;
    stage.serve_until(&[&new]).await?;

    restored(&stage.state()?, &backup)?;
    // From here on it is not the retention time that withdraws it.
    stage.keep_vanished_keys_for("1h")?;
    let latest = stage.add_key("latest")?;
    stage.serve_until(&[&new, &latest]).await?;
    let state: Value = serde_json::from_slice(&fs::read(stage.state()?)?)?;
    let withdrawn = state.pointer("/record/withdrawals/0").context("nothing is withdrawn")?;
    assert_eq!(withdrawn.get("cause"), Some(&json!("expired")), "{state}");
    let withdrawn = withdrawn.get("kid").and_then(Value::as_str).context("no kid")?;
    ensure!(old.kid.starts_with(withdrawn), "{state}");
    Ok(())
}

#[tokio::test]
async fn a_key_that_a_pipeline_withdraws_in_our_name_leaves_the_running_service_for_good() -> Result<()> {
    if binary::skipped(&["minio"]) {
        return Ok(());
    }
    let mut stage = Stage::new().await?;
    quick(&mut stage.site)?;
    let (old, new) = (stage.add_key("old")?, stage.add_key("new")?);
    let mut service = stage.site.start_ready().await?;
    stage.shows(&[&old, &new]).await.with_context(|| service.log())?;

    let writer_key = stage.site.dir().join("state/writer-key").display().to_string();
    let (issuer, owner, key) = (stage.site.url(ISSUER), stage.owner()?, new.public.display().to_string());
    let ours = ["apply", "--issuer", &issuer, "--owner", &owner, "--state-key-file", &writer_key];
    let bucket = ["--s3-bucket", BUCKET, "--s3-endpoint", stage.minio.endpoint(), "--s3-path-style"];
    let decided = ["--withdraw", &old.kid, "--key", &key];
    stage.publish(&[&ours[..], &bucket, &decided].concat()).await?.success()?;
    // Its source shows it still, and the service has decided nothing.
    stage.site.shows(&issuer, &[&new.kid]).await.with_context(|| service.log())?;
    stage.shows(&[&new]).await?;
    let latest = stage.add_key("latest")?;
    stage.site.shows(&issuer, &[&new.kid, &latest.kid]).await.with_context(|| service.log())?;
    ensure!(service.terminate().await? == Some(0), "{}", service.log());
    stage.serve_until(&[&new, &latest]).await
}

#[tokio::test]
async fn a_restore_takes_no_key_that_somebody_planted_where_the_state_is_whole() -> Result<()> {
    if binary::skipped(&["minio"]) {
        return Ok(());
    }
    let stage = Stage::new().await?;
    let ours = stage.add_key("ours")?;
    stage.serve_until(&[&ours]).await?;
    let stranger = KeyFile::new(&stage.keys, "stranger")?;
    let [ours_path, theirs] = [&ours, &stranger].map(|key| key.public.display().to_string());
    let arguments = ["keygen", "jwks", "--key", &ours_path, "--key", &theirs].map(Path::new);
    let both = chancery::run(&arguments).await?.success()?.into_bytes();
    stage.minio.replace_object((BUCKET, JWKS), both.trim_ascii_end().to_vec(), |_| {}).await?;
    stage.shows(&[&ours, &stranger]).await?;

    let planned = stage.restore(&["--plan"]).await?;
    assert_eq!(planned.code, Some(3), "{}", planned.stderr);
    assert!(planned.stdout.contains(&stranger.kid), "it is named: {}", planned.stdout);
    // Not even by name: a state that is whole knows its keys.
    let report = report(stage.restore(&["--import", &stranger.kid]).await?)?;
    assert_eq!(report.pointer("/imported"), Some(&json!([])), "{report}");
    stage.shows(&[&ours]).await?;
    stage.serve_until(&[&ours]).await
}

#[tokio::test]
async fn uploads_and_registrations_come_back_with_the_documents() -> Result<()> {
    let (dir, keys) = (Scratch::new("restore")?, Scratch::new("keys")?);
    let key = KeyFile::new(&keys, "sa")?;
    let api = KeyApi::start("secret").await?;
    let actions = ["Get", "Create", "Tag"].map(|verb| format!("iam:{verb}OpenIDConnectProvider"));
    let provider = "arn:aws:iam::123456789012:oidc-provider/id.example.com/cluster-a";
    let policy = json!({ "Version": "2012-10-17", "Statement": [
        { "Effect": "Allow", "Action": actions, "Resource": provider },
    ] });
    let iam = AwsIam::start(policy).await?;
    dir.write("token", "secret")?;
    fs::create_dir(dir.join("www"))?;
    let issuer = "https://id.example.com/cluster-a";
    let config = json!({ "issuers": [{
        "url": issuer,
        "sources": [{ "files": { "paths": [key.public] } }],
        "targets": [{ "to": { "directory": { "path": "www" } } }],
        "sinks": [{ "name": "api", "httpPut": {
            "url": format!("{}{}", api.origin(), key_api::PATH),
            "headers": { "Authorization": { "file": "token", "prefix": "Bearer " } },
            "body": "{ \"issuer\": \"{{issuer}}\", \"pems\": {{pems}}, \"set\": {{jwks}}, \"jwks\": \"{{jwks_string}}\" }",
            "read": { "pointer": "/pems" },
        } }],
        "registrations": [{ "aws": { "region": "us-east-1", "endpoint": iam.endpoint() } }],
    }] });
    let path = dir.write("chancery.yaml", config.to_string())?;
    let restore = async |more: &[&str]| {
        let mut command = std::process::Command::new(binary::chancery()?);
        let (id, secret) = CREDENTIALS;
        command.env("AWS_ACCESS_KEY_ID", id).env("AWS_SECRET_ACCESS_KEY", secret);
        command.env("AWS_SESSION_TOKEN", SESSION_TOKEN);
        command.args(["publish", "restore", "--json", "--config"]).arg(&path).args(more);
        chancery::run_command(command).await
    };

    let planned = restore(&["--plan"]).await?;
    assert_eq!(planned.code, Some(3), "{planned:?}");
    ensure!(iam.provider("id.example.com/cluster-a").is_none() && !dir.join("www/openid").exists());
    let report = report(restore(&[]).await?)?;
    let done = |step: usize| report.pointer(&format!("/steps/{step}/written")).cloned();
    assert_eq!(done(0), Some(json!([JWKS, DISCOVERY])), "{report}");
    assert_eq!(done(1), Some(json!(["1 keys"])), "{report}");
    assert_eq!(done(2).and_then(|calls| calls.as_array().map(Vec::len)), Some(1), "{report}");
    ensure!(api.value().pointer("/pems/0").is_some(), "{}", api.value());
    ensure!(iam.provider("id.example.com/cluster-a").is_some(), "{report}");
    let again = restore(&["--plan"]).await?;
    assert_eq!(again.code, Some(0), "nothing is left to do: {again:?}");
    Ok(())
}

fn restored(path: &Path, backup: &[u8]) -> Result<()> {
    ensure!(fs::read(path)? != backup, "the state has not changed since the backup");
    Ok(fs::write(path, backup)?)
}

//! A file system that stops answering keeps nobody from ending: whatever of the service's files lies there.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use e2e::binary::say_skipped;
use e2e::hang::HangingFolder;
use e2e::key_file::KeyFile;
use e2e::scratch::Scratch;
use e2e::site::{Site, directory_target};
use e2e::wait;
use serde_json::json;

/// What lies where nothing answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Keys,
    Certificate,
    State,
    Target,
}

/// A service of which something lies in the folder `slow`.
struct Stage {
    site: Site,
    keys: PathBuf,
    tls: PathBuf,
    slow: PathBuf,
    first: KeyFile,
    second: KeyFile,
    _dir: Scratch,
}

impl Stage {
    fn new(what: What) -> Result<Self> {
        let dir = Scratch::new("hanging")?;
        let (keys, tls, slow) = (dir.join("keys"), dir.join("tls"), dir.join("slow"));
        for folder in [&keys, &tls, &slow] {
            fs::create_dir(folder)?;
        }
        let (first, second) = (KeyFile::p256(&dir, "first")?, KeyFile::p256(&dir, "second")?);
        let mut site = Site::new()?;
        let mut targets = json!([]);
        match what {
            What::Keys => put_aside(&first.public, &slow, &keys.join("first.pub"))?,
            What::Certificate => {
                let (certificate, key) = (tls.join("tls.crt"), tls.join("tls.key"));
                put_aside(&site.certificate().cert, &slow, &certificate)?;
                put_aside(&site.certificate().key, &slow, &key)?;
                let files = json!({ "certificate": certificate, "privateKey": key });
                *site.config.pointer_mut("/serve/0/tls").context("no tls")? = files;
            }
            What::State => {
                fs::create_dir(slow.join("state"))?;
                *site.config.pointer_mut("/state/directory").context("no state")? = json!(slow.join("state"));
            }
            What::Target => targets = json!([directory_target(&slow.join("www"))]),
        }
        if what != What::Keys {
            first.put_public_half_into(&keys)?;
        }
        let source = json!([{ "name": "it", "files": { "paths": [keys], "pollSeconds": 1 } }]);
        site.add_issuer("/a", source, targets)?;
        Ok(Self { site, keys, tls, slow, first, second, _dir: dir })
    }

    /// Waits until exactly these keys are served.
    async fn serves(&self, keys: &[&KeyFile]) -> Result<()> {
        let kids: Vec<&str> = keys.iter().map(|key| key.kid.as_str()).collect();
        self.site.shows(&self.site.url("/a"), &kids).await
    }
}

/// Puts a copy of a file into `slow`, and a link to it at `path`.
fn put_aside(file: &Path, slow: &Path, path: &Path) -> Result<()> {
    let copy = slow.join(path.file_name().context("a path without a name")?);
    fs::copy(file, &copy)?;
    Ok(symlink(copy, path)?)
}

/// The service runs, then what it needs hangs, which it says, and goes on serving; told to stop, it ends in order.
async fn serves_and_ends(what: What) -> Result<()> {
    if let Some(obstacle) = HangingFolder::obstacle() {
        say_skipped(&obstacle);
        return Ok(());
    }
    let stage = Stage::new(what)?;
    let (first, second) = (&stage.first, &stage.second);
    let mut service = stage.site.start_ready().await?;
    stage.serves(&[first]).await.with_context(|| service.log())?;

    let _hanging = HangingFolder::over(&stage.slow)?;
    let mut keys = vec![first];
    let said = match what {
        What::Keys => "the file system has not answered",
        What::Certificate => {
            fs::write(stage.tls.join("renewed"), "")?;
            "so the old one stays"
        }
        What::State | What::Target => {
            second.put_public_half_into(&stage.keys)?;
            keys.push(second);
            "no answer for"
        }
    };
    wait::value_within(wait::SOON * 4, said, async || Ok(service.log().contains(said).then_some(())))
        .await
        .with_context(|| service.log())?;
    stage.serves(&keys).await.with_context(|| service.log())?;
    let ended = service.terminate().await;
    assert_eq!(ended.with_context(|| service.log())?, Some(0), "{}", service.log());
    Ok(())
}

#[tokio::test]
async fn key_files_that_hang_keep_no_service_from_ending() -> Result<()> {
    serves_and_ends(What::Keys).await
}

#[tokio::test]
async fn a_serving_certificate_that_hangs_keeps_no_service_from_ending() -> Result<()> {
    serves_and_ends(What::Certificate).await
}

#[tokio::test]
async fn a_state_that_hangs_keeps_no_service_from_ending() -> Result<()> {
    serves_and_ends(What::State).await
}

#[tokio::test]
async fn a_target_that_hangs_keeps_no_service_from_ending() -> Result<()> {
    serves_and_ends(What::Target).await
}

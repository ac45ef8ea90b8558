//! A directory that somebody else may write as well, without a cluster.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use e2e::chancery::IssuerService;
use e2e::key_file::KeyFile;
use e2e::scratch::Scratch;
use e2e::site::{Site, directory_target};
use e2e::wait;
use serde_json::{Value, json};

use super::{ISSUER, JWKS, jwks_of, quick, waits_for_drift};

/// A directory that is published to, without a cluster.
struct DirectoryStage {
    keys: Scratch,
    key: KeyFile,
    site: Site,
    service: IssuerService,
}

impl DirectoryStage {
    async fn new() -> Result<Self> {
        let keys = Scratch::new("keys")?;
        let key = KeyFile::p256(&keys, "first")?;
        let mut site = Site::new()?;
        let published = site.dir().join("published");
        std::fs::create_dir(&published)?;
        site.add_issuer_of_files(ISSUER, &[&key.public], json!([directory_target(&published)]))?;
        quick(&mut site)?;
        let service = site.start_ready().await?;
        let stage = Self { keys, key, site, service };
        stage.condition("Published", "UpToDate").await?;
        Ok(stage)
    }

    fn file(&self) -> PathBuf {
        self.site.dir().join("published").join(JWKS)
    }

    async fn drifts(&self, kind: &str) -> Result<()> {
        waits_for_drift(&self.site, ("directory", kind), 1.0, &self.service).await
    }

    /// Waits until a condition of the target has this reason, on the admin port.
    async fn condition(&self, name: &str, reason: &str) -> Result<()> {
        let what = format!("{name} {reason}");
        let waited = wait::until(&what, async || {
            let (_, text) = self.site.admin("conditions").await?;
            let conditions: Value = serde_json::from_str(&text)?;
            let all = conditions.get("conditions").and_then(Value::as_array).context("no list")?;
            let is =
                |condition: &Value, field: &str, value: &str| condition.get(field) == Some(&json!(value));
            Ok(all.iter().any(|it| {
                is(it, "subject", "target directory") && is(it, "type", name) && is(it, "reason", reason)
            }))
        });
        waited.await.with_context(|| self.service.log())
    }

    /// Replaces the JWKS and makes its sidecar describe the new content: whoever may write there may do that as well.
    fn forge(&self, body: &[u8]) -> Result<()> {
        let file = self.file();
        let folder = file.parent().context("no folder")?;
        let sidecar = std::fs::read_dir(folder)?.flatten().map(|entry| entry.path());
        let name =
            |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".jwks"));
        let sidecar = sidecar.filter(name).find(|path| path.is_file()).context("no sidecar")?;
        let mut described: Value = serde_json::from_slice(&std::fs::read(&sidecar)?)?;
        let records =
            described.pointer_mut("/records").and_then(Value::as_array_mut).context("no records")?;
        let mut forged = records.first().context("no record")?.clone();
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, body);
        let content = base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, digest);
        *forged.get_mut("content").context("no content")? = json!(content);
        // The old description stays, so that no moment shows a content as nobody's.
        records.insert(0, forged);
        records.truncate(2);
        std::fs::write(&sidecar, described.to_string())?;
        std::fs::write(self.file().with_extension("new"), body)?;
        Ok(std::fs::rename(self.file().with_extension("new"), self.file())?)
    }
}

#[tokio::test]
async fn a_directory_is_repaired_where_it_carries_our_marker() -> Result<()> {
    let stage = DirectoryStage::new().await?;
    let ours = std::fs::read(stage.file())?;
    let restored = async || {
        let same = wait::until("the file as it was", async || Ok(std::fs::read(stage.file())? == ours)).await;
        same.with_context(|| stage.service.log())
    };
    std::fs::remove_file(stage.file())?;
    stage.drifts("Vanished").await?;
    restored().await?;

    let mut garbled = ours.clone();
    garbled.extend(b"\n");
    stage.forge(&garbled)?;
    stage.drifts("Changed").await?;
    restored().await?;
    stage.condition("Drifted", "AsWritten").await?;

    let stranger = KeyFile::p256(&stage.keys, "stranger")?;
    stage.forge(jwks_of(&[&stage.key, &stranger]).await?.trim_ascii_end())?;
    stage.drifts("ForeignKeys").await?;
    restored().await?;
    stage.condition("ForeignKeys", "PossibleIntrusion").await?;
    ensure!(stage.service.log().contains(&stranger.kid), "the alarm names the key: {}", stage.service.log());
    Ok(())
}

#[tokio::test]
async fn a_file_that_was_edited_by_hand_is_repaired() -> Result<()> {
    let stage = DirectoryStage::new().await?;
    let ours = std::fs::read(stage.file())?;
    std::fs::write(stage.file(), b"{\"keys\":[]}")?;
    stage.drifts("MarkerReplaced").await?;
    let restored = wait::until("the file as it was", async || Ok(std::fs::read(stage.file())? == ours)).await;
    restored.with_context(|| stage.service.log())?;
    stage.condition("OwnedByUs", "OurMarker").await
}

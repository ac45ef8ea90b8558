//! A key ring as the source: it decides, and the service follows within seconds.

use anyhow::{Context as _, Result, bail};
use chancery_cluster::cell::{Cell, CellStore, Schema, StoreMode, Swap, Version};
use chancery_core::KeyRing;
use chancery_core::ring::{AdoptedKey, Custody, Request, Step};
use e2e::key_file::KeyFile;
use e2e::scratch::Scratch;
use e2e::site::{Site, directory_target};
use e2e::wait;
use serde_json::json;

/// The ring of an issuer in a directory, and what stands there.
pub(crate) struct Ring {
    cell: Cell<KeyRing>,
    pub(crate) ring: KeyRing,
    version: Option<Version>,
}

impl Ring {
    pub(crate) async fn new(dir: &Scratch, issuer: &str) -> Result<Self> {
        let folder = dir.join("ring");
        std::fs::create_dir_all(&folder)?;
        let store = CellStore::directory(&folder, StoreMode::Shared).await?;
        let schema = Schema { name: KeyRing::DOCUMENT, version: KeyRing::DOCUMENT_VERSION };
        Ok(Self { cell: store.cell(issuer, schema), ring: KeyRing::new(), version: None })
    }

    pub(crate) async fn write(&mut self, ring: KeyRing) -> Result<()> {
        match self.cell.swap(&ring, self.version.as_ref()).await? {
            Swap::Swapped(version) => (self.ring, self.version) = (ring, Some(version)),
            Swap::Lost(_) => bail!("somebody else writes the ring"),
        }
        Ok(())
    }

    pub(crate) async fn adopt(&mut self, key: &KeyFile, signs: bool) -> Result<()> {
        let adopted = AdoptedKey { public_key: key.public_key()?, signs, custody: Custody::Elsewhere };
        self.write(self.ring.request(&Request::Adopt(vec![adopted]))?).await
    }
}

#[tokio::test]
async fn a_ring_decides_and_no_file_backup_or_restart_brings_back_what_it_revoked() -> Result<()> {
    let dir = Scratch::new("ring")?;
    let (first, second) = (KeyFile::p256(&dir, "first")?, KeyFile::p256(&dir, "second")?);
    let mut site = Site::new()?;
    let issuer = site.url("/a");
    let mut ring = Ring::new(&dir, &issuer).await?;
    let sources = json!([
        { "name": "ring", "ring": { "directory": dir.join("ring") } },
        { "name": "files", "files": { "paths": [second.public] } },
    ]);
    let www = dir.join("www");
    std::fs::create_dir_all(&www)?;
    site.add_issuer("/a", sources, json!([directory_target(&www)]))?;
    ring.adopt(&first, true).await?;
    let mut service = site.start_ready().await?;
    site.shows(&issuer, &[&first.kid, &second.kid]).await.with_context(|| service.log())?;

    ring.adopt(&second, false).await?;
    let before = ring.ring.clone();
    let kid = second.public_key()?.key_id().clone();
    let asked = ring.ring.request(&Request::Revoke { kid: kid.clone(), at_once: true })?;
    ring.write(asked.apply(&Step::Revoke(kid))?).await?;
    site.shows(&issuer, &[&first.kid]).await.with_context(|| service.log())?;
    let published = || std::fs::read_to_string(www.join("openid/v1/jwks"));
    wait::until("the target without it", async || Ok(!published()?.contains(&second.kid))).await?;

    ring.write(before).await?;
    wait::until("a word about the backup", async || Ok(service.log().contains("comes from a backup")))
        .await?;
    assert_eq!(service.terminate().await?, Some(0), "{}", service.log());
    let service = site.start()?;
    site.shows(&issuer, &[&first.kid]).await.with_context(|| service.log())
}

//! A ring with its private halves in sealed files, and whoever rotates it: the tests themselves, step by step.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use chancery_cluster::cell::{Cell, CellStore, StoreMode, Swap};
use chancery_core::ring::{
    Acknowledgement, AdoptedKey, Custody, Passage, Request, Step, TokenLifetimes, WallTime,
};
use chancery_core::{KeyId, KeyRing, PublicKey};
use chancery_keygen::{KeySpec, Passphrase, PrivateKey};
use chancery_signer::acknowledgement;
use chancery_signer::ring_source::ring_cell;
use chancery_signer::vault::{KeyVault, SealedDirectory};
use e2e::scratch::Scratch;
use e2e::signer::SignerProcess;

use crate::stage::{ISSUER, Stage};

/// The name of the signer.
pub const NAME: &str = "node-a";
const PASSPHRASE: &str = "correct horse";

/// A ring in a folder, its keys' private halves in another one, and the state of one signer in a third.
pub struct RingStage {
    pub stage: Stage,
    pub vault: SealedDirectory,
    writer: Cell<KeyRing>,
    ring_dir: Scratch,
    vault_dir: Scratch,
    pub state: Scratch,
}

impl RingStage {
    /// Nothing is in the ring yet.
    pub async fn new() -> Result<Self> {
        let stage = Stage::new()?;
        let (ring_dir, vault_dir, state) =
            (Scratch::new("ring")?, Scratch::new("vault")?, Scratch::new("state")?);
        stage.dir.write("passphrase", PASSPHRASE)?;
        std::fs::set_permissions(vault_dir.path(), std::fs::Permissions::from_mode(0o700))?;
        let vault =
            SealedDirectory::open(vault_dir.path(), Passphrase::from_file_bytes(PASSPHRASE.as_bytes())?)?;
        let store = CellStore::directory(ring_dir.path(), StoreMode::ReadWrite).await?;
        let writer = ring_cell(&store, &ISSUER.parse()?);
        Ok(Self { stage, vault, writer, ring_dir, vault_dir, state })
    }

    /// The same with the ring in another place.
    pub fn with_writer(self, writer: Cell<KeyRing>) -> Self {
        Self { writer, ..self }
    }

    /// The folder with the passphrase's file.
    pub fn passphrase(&self) -> String {
        text(&self.stage.dir.join("passphrase"))
    }

    /// The arguments that name the places of the private halves and of the state.
    pub fn custody(&self) -> Vec<String> {
        let arguments = [
            "--vault-dir",
            &text(self.vault_dir.path()),
            "--passphrase-file",
            &self.passphrase(),
            "--state-dir",
            &text(self.state.path()),
            "--name",
            NAME,
            "--refresh-hint",
            "1s",
        ];
        arguments.map(str::to_owned).to_vec()
    }

    /// The arguments that name the place of the ring.
    pub fn ring_arguments(&self) -> Vec<String> {
        vec!["--ring-dir".to_owned(), text(self.ring_dir.path())]
    }

    /// A signer that follows the ring.
    pub async fn signer(&self) -> Result<SignerProcess> {
        let ring = self.ring_arguments();
        self.signer_with(&ring.iter().map(String::as_str).collect::<Vec<_>>()).await
    }

    /// A signer with these arguments that say where the ring is.
    pub async fn signer_with(&self, ring: &[&str]) -> Result<SignerProcess> {
        let custody = self.custody();
        let custody: Vec<&str> = custody.iter().map(String::as_str).collect();
        self.stage.signer(&[ring, custody.as_slice()].concat()).await
    }

    /// A new key, in custody or not.
    pub async fn key(&self, is_held: bool) -> Result<Arc<PrivateKey>> {
        let key = Arc::new(PrivateKey::generate(KeySpec::P256)?);
        if is_held {
            self.vault.store(key.clone()).await?;
        }
        Ok(key)
    }

    /// The ring of one key that signs.
    pub async fn begin(&self, signs: &PublicKey) -> Result<()> {
        let adopted = AdoptedKey { public_key: signs.clone(), signs: true, custody: Custody::Held };
        let mut ring = KeyRing::new().request(&Request::Adopt(vec![adopted]))?;
        ring.pass(Passage {
            elapsed: Duration::ZERO,
            now: WallTime(1),
            acknowledgements: &BTreeMap::new(),
            expected_signers: &BTreeSet::new(),
            used_elsewhere: &BTreeSet::new(),
            tried: &BTreeMap::new(),
            allowed: TokenLifetimes::both(86_400),
        });
        self.write(&ring).await
    }

    /// The ring as it is.
    pub async fn ring(&self) -> Result<KeyRing> {
        Ok(self.writer.load().await?.context("no ring")?.document)
    }

    /// Replaces the ring by another one, whatever it is.
    pub async fn write(&self, ring: &KeyRing) -> Result<()> {
        let version = self.writer.load().await?.map(|stored| stored.version);
        match self.writer.swap(ring, version.as_ref()).await? {
            Swap::Swapped(_) => Ok(()),
            Swap::Lost(_) => bail!("somebody else has written the ring"),
        }
    }

    /// Takes these steps.
    pub async fn take(&self, steps: &[Step]) -> Result<KeyRing> {
        let mut ring = self.ring().await?;
        for step in steps {
            ring = ring.apply(step)?;
        }
        self.write(&ring).await?;
        Ok(ring)
    }

    /// What the signer has acknowledged.
    pub async fn acknowledged(&self) -> Result<Acknowledgement> {
        let store = CellStore::directory(self.state.path(), StoreMode::ReadOnly).await?;
        acknowledged(&store).await
    }
}

/// What the signer has acknowledged in a store.
pub async fn acknowledged(store: &CellStore) -> Result<Acknowledgement> {
    let cell: Cell<Acknowledgement> =
        store.cell(&acknowledgement::subject(&ISSUER.parse()?, NAME), acknowledgement::SCHEMA);
    Ok(cell.load().await?.context("nothing is acknowledged")?.document)
}

/// The key id.
pub fn kid(key: &PrivateKey) -> KeyId {
    key.public_key().key_id().clone()
}

pub fn text(path: &Path) -> String {
    path.display().to_string()
}

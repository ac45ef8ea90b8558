//! Whole rotations on a directory, turn by turn; signers and the issuer are played.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use chancery_cluster::cell::{CellStore, Schema};
use chancery_core::KeyId;
use chancery_core::ring::{Acknowledgement, AdoptedKey, KeyState, Request, TokenLifetimes};
use chancery_core::visibility::{EdgeKeys, EdgeObservation, Observation, Visibility, VisibilityRecord};
use chancery_keygen::pem_file::Content;
use chancery_keygen::{PemFile, PrivateKey};
use serde_json::{Value, json};

use super::*;
use crate::acknowledgement::{SCHEMA, subject};
use crate::vault::VaultError;

const POLICY: &str = "
issuer: https://id.example.com/a
ring: { directory: ring }
keys: {}
look: 100ms
visibility: { directory: issuer }
signers: [{ name: a }, { name: b }]
schedule: { byHand: true }
key: p-256
trial: true
wait: 0s
lifetimes: { external: 600s, apiServer: 600s }
skew: 0s
overlap: { minimum: 0s, maximum: 700s }
rollbackWindow: 0s
";

/// Keys in memory: sealing one takes a processor for a third of a second, and for seconds where nothing is optimised.
#[derive(Debug, Default)]
struct MemoryVault {
    keys: Mutex<BTreeMap<KeyId, String>>,
    fails: AtomicBool,
}

#[async_trait]
impl KeyVault for MemoryVault {
    fn place(&self) -> String {
        "memory".to_owned()
    }

    async fn list(&self) -> Result<Vec<KeyId>, VaultError> {
        match self.fails.load(Ordering::Relaxed) {
            true => Err(VaultError::Lost(self.place())),
            false => Ok(self.keys.lock().unwrap().keys().cloned().collect()),
        }
    }

    async fn load(&self, kid: &KeyId) -> Result<PrivateKey, VaultError> {
        let text = self.keys.lock().unwrap().get(kid).cloned();
        let missing = || VaultError::Missing { place: self.place(), kid: kid.clone() };
        let block = PemFile::read(&text.ok_or_else(missing)?, None).blocks.remove(0);
        match block.content {
            Content::Private(key, _) => Ok(*key),
            _ => panic!("what was stored is a private key"),
        }
    }

    async fn store(&self, key: Arc<PrivateKey>) -> Result<(), VaultError> {
        let text = key.to_exposed_pem().unwrap().to_string();
        self.keys.lock().unwrap().insert(key.public_key().key_id().clone(), text);
        Ok(())
    }

    async fn destroy(&self, kid: &KeyId) -> Result<(), VaultError> {
        self.keys.lock().unwrap().remove(kid);
        Ok(())
    }
}

/// A folder with everything that a ring needs, and those who write there.
struct World {
    folder: tempfile::TempDir,
    visibility: Visibility,
    vault: Arc<MemoryVault>,
    desk: RingDesk,
}

impl World {
    /// A ring with one key, which signs.
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["ring", "issuer"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let config = Self::config_in(&folder);
        let desk = RingDesk::open(&config, StoreMode::Shared).await.unwrap();
        let vault = Arc::new(MemoryVault::default());
        let public_key = make_key(config.key, vault.as_ref()).await.unwrap();
        let first = AdoptedKey { public_key, signs: true, custody: Custody::Held };
        desk.begin(&KeyRing::new().request(&Request::Adopt(vec![first])).unwrap()).await.unwrap();
        let visibility = Visibility::new(["issuer URL"], Duration::from_secs(60));
        Self { folder, visibility, vault, desk }
    }

    fn config_in(folder: &tempfile::TempDir) -> RotationConfig {
        RotationConfig::parse(POLICY, &folder.path().join("rotation.yaml")).unwrap()
    }

    async fn controller(&self) -> RotationController {
        RotationController::with(Self::config_in(&self.folder), self.vault.clone()).await.unwrap()
    }

    async fn ring(&self) -> KeyRing {
        self.desk.read().await.unwrap()
    }

    /// The issuer publishes what the ring shows, and sees it.
    async fn publish(&mut self) {
        let kids = self.ring().await.decision().keys.iter().map(|key| key.key_id().clone()).collect();
        let edges = [("edge".to_owned(), EdgeObservation::Read(EdgeKeys { kids, ..EdgeKeys::default() }))];
        let (view, took) = ("issuer URL".to_owned(), Duration::ZERO);
        self.visibility.observe(Observation { view, edges: edges.into(), took });
        let store =
            CellStore::directory(&self.folder.path().join("issuer"), StoreMode::Shared).await.unwrap();
        let schema = Schema { name: VisibilityRecord::DOCUMENT, version: VisibilityRecord::DOCUMENT_VERSION };
        let document = json!({ "issuer": "https://id.example.com/a", "record": self.visibility.record() });
        write(&store.cell::<Value>("https://id.example.com/a", schema), &document).await;
    }

    /// A signer follows the ring.
    async fn sign(&self, name: &str) {
        let ring = self.ring().await;
        let signed = TokenLifetimes::both(600);
        let said = Acknowledgement {
            boot: "one".to_owned(),
            position: ring.position(),
            loaded: ring.verification_keys().map(|key| key.public_key.key_id().clone()).collect(),
            signed: ring
                .active()
                .map(|key| (key.kid().clone(), signed))
                .into_iter()
                .collect::<BTreeMap<_, _>>(),
            signs: None,
        };
        let store = CellStore::directory(&self.folder.path().join("ring"), StoreMode::Shared).await.unwrap();
        let issuer = "https://id.example.com/a".parse().unwrap();
        write(&store.cell::<Acknowledgement>(&subject(&issuer, name), SCHEMA), &said).await;
    }

    async fn kids(&self, state: KeyState) -> Vec<KeyId> {
        self.ring().await.in_state(state).map(|key| key.kid().clone()).collect()
    }
}

async fn write<T: serde::Serialize + serde::de::DeserializeOwned>(cell: &Cell<T>, document: &T) {
    let version = cell.load().await.unwrap().map(|stored| stored.version);
    assert!(matches!(cell.swap(document, version.as_ref()).await.unwrap(), Swap::Swapped(_)));
}

/// Turns until there is nothing to do now.
async fn settle(controller: &mut RotationController) {
    for _ in 0..20 {
        controller.makes_at = Some(Instant::now());
        if controller.turn().await.unwrap() == Turn::Rest {
            return;
        }
    }
    panic!("it never rests");
}

/// Makes the standby visible, loaded and called so.
async fn stand_by(world: &mut World, controller: &mut RotationController) -> KeyId {
    settle(controller).await;
    // The record has to be seen to move.
    for _ in 0..2 {
        world.publish().await;
        settle(controller).await;
    }
    let [standby] = world.kids(KeyState::Published).await.try_into().unwrap();
    for name in ["a", "b"] {
        world.sign(name).await;
    }
    settle(controller).await;
    standby
}

#[tokio::test]
async fn a_key_is_made_seen_activated_on_request_and_the_one_before_is_destroyed() {
    let mut world = World::new().await;
    let mut controller = world.controller().await;
    let [first] = world.kids(KeyState::Active).await.try_into().unwrap();
    let second = stand_by(&mut world, &mut controller).await;
    assert_eq!(world.kids(KeyState::Active).await, std::slice::from_ref(&first), "nobody has asked");

    world.desk.ask(&Request::RotateNow).await.unwrap();
    settle(&mut controller).await;
    assert_eq!(world.kids(KeyState::Active).await, std::slice::from_ref(&second));
    assert_eq!(world.kids(KeyState::Retiring).await, std::slice::from_ref(&first));
    let ring = world.ring().await;
    assert_eq!(ring.signing_still(ring.key(&first).unwrap()), ["a", "b"]);
    world.sign("a").await;
    settle(&mut controller).await;
    let ring = world.ring().await;
    assert_eq!(ring.signing_still(ring.key(&first).unwrap()), ["b"], "one signer is silent");
    world.sign("b").await;
    settle(&mut controller).await;
    let ring = world.ring().await;
    assert_eq!(ring.key(&first).unwrap().custody, Custody::Destroyed);
    let held = world.vault.clone().list().await.unwrap();
    assert!(!held.contains(&first) && held.contains(&second), "{held:?}");
    let page = controller.metrics().render().unwrap();
    assert!(page.contains("chancery_ring_transition_blocked{guard=\"TokensAlive\"} 1"), "{page}");
    assert!(page.contains("chancery_ring_epoch 1") && page.ends_with("# EOF\n"), "{page}");
}

#[tokio::test]
async fn an_unseen_key_a_silent_signer_and_a_record_at_rest_hold_the_standby_back() {
    let mut world = World::new().await;
    let mut controller = world.controller().await;
    settle(&mut controller).await;
    assert_eq!(world.kids(KeyState::Pending).await.len(), 1, "made, and seen by nobody");
    world.publish().await;
    settle(&mut controller).await;
    settle(&mut controller).await;
    assert_eq!(world.kids(KeyState::Published).await.len(), 0, "nobody knows whether the record is kept up");
    world.publish().await;
    settle(&mut controller).await;
    assert_eq!(world.kids(KeyState::Published).await.len(), 1);
    world.desk.ask(&Request::RotateNow).await.unwrap();
    world.sign("a").await;
    settle(&mut controller).await;
    let epoch = world.ring().await.position().epoch;
    assert_eq!(epoch, 0, "signer b was never heard");
    world.sign("b").await;
    settle(&mut controller).await;
    assert_eq!(world.ring().await.position().epoch, 1);
}

#[tokio::test]
async fn what_a_crash_left_is_finished_and_not_done_twice() {
    let mut world = World::new().await;
    let vault = world.vault.clone();
    let made = make_key(chancery_keygen::KeySpec::P256, vault.as_ref()).await.unwrap();
    let mut controller = world.controller().await;
    settle(&mut controller).await;
    assert_eq!(world.kids(KeyState::Pending).await, [made.key_id().clone()], "none is made beside it");
    assert_eq!(vault.list().await.unwrap().len(), 2);

    let second = stand_by(&mut world, &mut controller).await;
    let [first] = world.kids(KeyState::Active).await.try_into().unwrap();
    let copy = Arc::new(vault.load(&first).await.unwrap());
    world.desk.ask(&Request::RotateNow).await.unwrap();
    settle(&mut controller).await;
    assert_eq!(world.kids(KeyState::Active).await, [second]);
    // As if the process had died between the swap and the removal.
    vault.store(copy).await.unwrap();
    settle(&mut world.controller().await).await;
    assert!(!vault.list().await.unwrap().contains(&first));
}

#[tokio::test]
async fn two_at_once_do_everything_once() {
    let mut world = World::new().await;
    let (mut one, mut two) = (world.controller().await, world.controller().await);
    for _ in 0..3 {
        let both = async |one: &mut RotationController, two: &mut RotationController| {
            for _ in 0..12 {
                let (one, two) = tokio::join!(one.turn(), two.turn());
                one.unwrap();
                two.unwrap();
                sleep(Duration::from_millis(10)).await;
            }
        };
        for _ in 0..2 {
            both(&mut one, &mut two).await;
            world.publish().await;
        }
        both(&mut one, &mut two).await;
        for name in ["a", "b"] {
            world.sign(name).await;
        }
        world.desk.ask(&Request::RotateNow).await.unwrap();
        both(&mut one, &mut two).await;
    }
    let ring = world.ring().await;
    assert_eq!(ring.position().epoch, 3, "{ring:?}");
    assert_eq!(ring.in_state(KeyState::Active).count(), 1);
    let waiting =
        ring.keys().iter().filter(|key| matches!(key.state, KeyState::Pending | KeyState::Published));
    assert_eq!(waiting.count(), 1, "one standby");
}

#[tokio::test]
async fn a_vault_that_cannot_be_listed_makes_no_key_after_key() {
    let world = World::new().await;
    let mut controller = world.controller().await;
    world.vault.fails.store(true, Ordering::Relaxed);
    settle(&mut controller).await;
    world.vault.fails.store(false, Ordering::Relaxed);
    assert_eq!(world.vault.list().await.unwrap().len(), 1);
    settle(&mut controller).await;
    assert_eq!(world.kids(KeyState::Pending).await.len(), 1, "and goes on when it can be again");
}

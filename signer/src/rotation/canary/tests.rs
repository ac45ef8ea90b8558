//! When a token is signed, and what is made of the answers; the relying parties are played, real ones are asked in
//! `tests/tests/rotation/canary.rs`.

use std::path::Path;
use std::sync::Mutex;

use chancery_core::ring::{AdoptedKey, Custody, Request, Step};
use chancery_core::rotation::{Observations, observe};
use chancery_core::visibility::{EdgeKeys, EdgeObservation, Observation, Visibility};
use chancery_keygen::{KeySpec, PrivateKey};

use super::*;
use crate::vault::VaultError;

const POLICY: &str = "
issuer: https://id.example.com/a
ring: { directory: ring }
keys: {}
signers: []
key: p-256
trial: true
wait: 0s
canaries:
  - { name: a, oidc: { url: 'https://a.example/' }, audience: for-a }
  - { name: b, oidc: { url: 'https://b.example/' }, audience: for-b }
";

/// One key, until somebody loses it.
#[derive(Debug)]
struct OneKey(Mutex<Option<PrivateKey>>);

#[async_trait]
impl KeyVault for OneKey {
    fn place(&self) -> String {
        "memory".to_owned()
    }

    async fn list(&self) -> Result<Vec<KeyId>, VaultError> {
        Ok(Vec::new())
    }

    async fn load(&self, _: &KeyId) -> Result<PrivateKey, VaultError> {
        self.0.lock().unwrap().take().ok_or_else(|| VaultError::Lost(self.place()))
    }

    async fn store(&self, _: Arc<PrivateKey>) -> Result<(), VaultError> {
        Ok(())
    }

    async fn destroy(&self, _: &KeyId) -> Result<(), VaultError> {
        Ok(())
    }
}

/// Accepts, and keeps what it was shown; or never says anything.
#[derive(Clone, Debug, Default)]
struct Played {
    shown: Arc<Mutex<Vec<String>>>,
    is_silent: bool,
}

#[async_trait]
impl Asker for Played {
    async fn ask(&self, token: &CanaryToken) -> CanaryAnswer {
        self.shown.lock().unwrap().push(token.expose().to_owned());
        if self.is_silent {
            std::future::pending::<()>().await;
        }
        CanaryAnswer::Accepted
    }
}

/// A ring whose standby everybody has seen.
struct Scene {
    config: RotationConfig,
    ring: KeyRing,
    observations: Observations,
    canaries: Canaries,
    accepts: Played,
    silent: Played,
}

impl Scene {
    async fn new() -> Self {
        let config = RotationConfig::parse(POLICY, Path::new("rotation.yaml")).unwrap();
        let [active, standby] = [(); 2].map(|()| PrivateKey::generate(KeySpec::P256).unwrap());
        let (first, next) = (active.public_key().clone(), standby.public_key().clone());
        let kids = [&first, &next].map(|key| key.key_id().clone());
        let adopted = AdoptedKey { public_key: first, signs: true, custody: Custody::Held };
        let ring = KeyRing::new().request(&Request::Adopt(vec![adopted])).unwrap();
        let ring = ring.apply(&Step::Enter(next.clone())).unwrap();
        let ring = ring.apply(&Step::Publish(next.key_id().clone())).unwrap();
        let mut visibility = Visibility::new(["public"], Duration::from_secs(60));
        let keys = EdgeKeys { kids: kids.into(), ..EdgeKeys::default() };
        let edges = [("edge".to_owned(), EdgeObservation::Read(keys))].into();
        visibility.observe(Observation { view: "public".to_owned(), edges, took: Duration::ZERO });
        let observations = Observations { visibility: Ok(visibility.record()), ..Observations::default() };

        let vault = Arc::new(OneKey(Mutex::new(Some(standby))));
        let mut canaries = Canaries::open(&config, vault).await.unwrap();
        let accepts = Played::default();
        let silent = Played { is_silent: true, ..Played::default() };
        for (name, asker) in [("a", &accepts), ("b", &silent)] {
            let asker: Option<Box<dyn Asker>> = Some(Box::new(asker.clone()));
            let party = Party { audience: format!("for-{name}"), subject: "s".to_owned(), asker };
            canaries.parties.insert(name.to_owned(), Arc::new(party));
        }
        Self { config, ring, observations, canaries, accepts, silent }
    }

    /// One round, as the controller goes through it. Returns the troubles.
    fn look(&mut self) -> (Observations, Vec<String>) {
        let observations = self.observations.clone();
        let mut found = Observed { observations, held: None, troubles: Vec::new() };
        self.canaries.look(&self.ring, &self.config.policy, &mut found);
        (found.observations, found.troubles)
    }

    fn shown(&self) -> [usize; 2] {
        [&self.accepts, &self.silent].map(|played| played.shown.lock().unwrap().len())
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_is_signed_when_the_ring_counts_with_it_and_a_silent_party_holds_nobody_up() {
    let mut scene = Scene::new().await;
    let (observed, troubles) = scene.look();
    scene.canaries.settle().await;
    assert_eq!((scene.shown(), troubles.len()), ([0, 0], 0), "the ring knows of no token");
    // This is what the controller writes.
    let policy = scene.config.policy.clone();
    observe(&mut scene.ring, &policy, &observed, Duration::ZERO);

    scene.look();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(scene.shown(), [1, 1]);
    let (observed, troubles) = scene.look();
    let answers = observed.canaries.into_values().next().unwrap();
    assert_eq!(answers, BTreeMap::from([("a".to_owned(), CanaryAnswer::Accepted)]), "b has said nothing yet");
    assert!(troubles.is_empty());

    scene.canaries.settle().await;
    let (observed, troubles) = scene.look();
    let answers = observed.canaries.into_values().next().unwrap();
    assert_eq!(answers["b"], CanaryAnswer::Silent("no answer within 30 s".to_owned()));
    let [trouble] = troubles.try_into().unwrap();
    assert!(
        trouble.starts_with("canary b, of key ") && trouble.ends_with("no answer within 30 s"),
        "{trouble}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_loss_of_sight_asks_again_and_a_lost_private_half_is_said() {
    let mut scene = Scene::new().await;
    let policy = scene.config.policy.clone();
    let (observed, _) = scene.look();
    observe(&mut scene.ring, &policy, &observed, Duration::ZERO);
    scene.look();
    scene.canaries.settle().await;
    assert!(scene.look().0.canaries.values().all(|answers| answers.len() == 2));

    let seen = std::mem::take(&mut scene.observations);
    assert!(scene.look().0.canaries.is_empty(), "nobody knows who sees it");
    scene.observations = seen;
    scene.look();
    scene.canaries.settle().await;
    let (observed, troubles) = scene.look();
    let answers = observed.canaries.into_values().next().unwrap();
    assert!(answers.values().all(|said| said.to_string().contains("cannot be opened")), "{answers:?}");
    assert_eq!((scene.shown(), troubles.len()), ([1, 1], 2));
}

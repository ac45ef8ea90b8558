//! The second act: a key is replaced, and the next one revoked, while a workload has tokens signed and verified without
//! pause. Everything is what a control plane would run, with waits of seconds.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use chancery_cluster::cell::StoreMode;
use chancery_core::ring::{AdoptedKey, Custody, KeyState, Request};
use chancery_core::{KeyId, KeyRing};
use chancery_signer::rotation::{RingDesk, make_key};
use chancery_signer::{KeySource, RingConfig, RingPlace, RotationConfig, RotationController};
use chancery_signer::{Signer, SignerConfig, VaultPlace};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::narrator::Narrator;
use super::relying_party::RelyingPartyOfOneIssuer;
use super::stage::{SIGNER, Stage, TOKEN_LIFETIME, WAIT};
use super::workload::{Parts, Tally, Workload};

/// Whom the tokens are for.
const AUDIENCE: &str = "demo";

/// How long the act waits for a step. The longest one takes seven seconds on an idle machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The time between two looks at what is waited for.
const LOOK: Duration = Duration::from_millis(50);

/// The time between two looks of the signer at the ring, which takes 5 s by itself.
const PROMPT: Duration = Duration::from_millis(200);

/// Who takes part.
pub struct Rotation<'a> {
    narrator: &'a Narrator,
    desk: RingDesk,
    /// The signer and whoever rotates; they end with this.
    _running: JoinSet<()>,
    workload: Workload,
    /// Reads the keys whenever it is asked.
    witness: RelyingPartyOfOneIssuer,
    first: KeyId,
}

impl<'a> Rotation<'a> {
    /// Begins the ring with a key, a signer that signs by it, whoever rotates, and the workload.
    pub async fn begin(
        stage: &'a Stage,
        policy: RotationConfig,
        narrator: &'a Narrator,
    ) -> anyhow::Result<Self> {
        let issuer = &stage.rotating_issuer;
        narrator.step(&format!("now keys change, with waits of seconds instead of hours: {issuer}"))?;
        narrator.begin("making the first key of a ring")?;
        let desk = RingDesk::open(&policy, StoreMode::Shared).await?;
        let vault = policy.keys.open(&policy.base).await?;
        let first = make_key(policy.key, vault.as_ref()).await?;
        let kid = first.key_id().clone();
        let adopted = AdoptedKey { public_key: first, signs: true, custody: Custody::Held };
        desk.ask(&Request::Adopt(vec![adopted])).await?;

        let signer = Signer::open(signer_config(stage)).await?;
        let (service, prompt) = (signer.service(), signer.prompt());
        let controller = RotationController::open(policy).await?;
        let mut running = JoinSet::new();
        running.spawn(async move {
            if let Err(error) = signer.run(std::future::pending()).await {
                tracing::error!("{error}");
            }
        });
        running.spawn(controller.run());
        running.spawn(async move {
            loop {
                prompt.notify_one();
                sleep(PROMPT).await;
            }
        });
        let relying_party = || RelyingPartyOfOneIssuer::new(issuer, AUDIENCE, &stage.ca_pem);
        let mut witness = relying_party()?;
        narrator.begin("waiting until the key is served")?;
        until("the first key in the JWKS", async || Ok(witness.finds(&kid).await?.then_some(()))).await?;
        let relying_party = relying_party()?.keeping_keys();
        let parts = Parts { issuer: issuer.clone(), audience: AUDIENCE, signer: service, relying_party };
        let workload = Workload::begin(parts);
        narrator.step(&format!(
            "{} signs; a workload has tokens of {TOKEN_LIFETIME} s signed without pause, each verified when new and when old",
            short(&kid)
        ))?;
        Ok(Self { narrator, desk, _running: running, workload, witness, first: kid })
    }

    /// The steps of the act.
    pub async fn play(mut self) -> anyhow::Result<()> {
        let first = self.first.clone();
        let second = self.standby().await?;
        self.replace(&first, &second).await?;
        let third = self.standby().await?;
        self.revoke(&second, &third).await?;
        report(self.narrator, &self.workload.end().await?)
    }

    /// Waits for the next key.
    async fn standby(&self) -> anyhow::Result<KeyId> {
        self.narrator.begin("waiting for a standby")?;
        let kid = self
            .ring("a standby", |ring| {
                let mut standbys = ring.in_state(KeyState::Published).filter(|key| key.may_sign());
                standbys.next().map(|key| key.kid().clone())
            })
            .await?;
        let what = "is made, sealed, published and seen from outside: the standby";
        self.narrator.step(&format!("{} {what}", short(&kid)))?;
        Ok(kid)
    }

    /// A rotation: nobody rejects a token.
    async fn replace(&mut self, old: &KeyId, new: &KeyId) -> anyhow::Result<()> {
        self.desk.ask(&Request::RotateNow).await?;
        let wait = format!("waits until it was seen for {WAIT} s without a gap");
        self.narrator.step(&format!("a rotation is asked for; {} {wait}", short(new)))?;
        self.narrator.begin("waiting until it signs")?;
        self.ring("an activation", |ring| (ring.active()?.kid() == new).then_some(())).await?;
        let stays = "is retiring, and stays while a token of it may live";
        self.narrator.step(&format!("{} signs; {} {stays}", short(new), short(old)))?;
        let stopped = Instant::now();
        self.narrator.begin("waiting until its tokens are dead")?;
        self.ring("a retired key", |ring| {
            ring.tombstone(old).filter(|over| over.custody == Custody::Destroyed).map(drop)
        })
        .await?;
        self.gone(old).await?;
        let (after, what) = (stopped.elapsed(), "gone from the JWKS, its private half destroyed");
        self.narrator.step(&format!("{} is retired {after:.1?} later: {what}", short(old)))
    }

    /// A revocation: tokens of that key are rejected, and no others.
    async fn revoke(&mut self, old: &KeyId, next: &KeyId) -> anyhow::Result<()> {
        self.workload.expects_revoked(old);
        let asked = Instant::now();
        self.desk.ask(&Request::Revoke { kid: old.clone(), at_once: false }).await?;
        let words = format!("a revocation of {} is asked for; {} is to sign first", short(old), short(next));
        self.narrator.step(&words)?;
        self.narrator.begin("waiting until it is gone")?;
        self.ring("a revoked key", |ring| {
            ring.tombstone(old).filter(|over| over.state == KeyState::Revoked).map(drop)
        })
        .await?;
        self.gone(old).await?;
        let after = asked.elapsed();
        let token = self.workload.newest(old).context("the revoked key has signed nothing")?;
        let Err(reason) = self.witness.verify(&token).await else {
            bail!("a token of a revoked key was accepted");
        };
        let refused = format!("is revoked {after:.1?} later, and its tokens are refused: {reason:#}");
        self.narrator.step(&format!("{} {refused}", short(old)))?;
        self.narrator.begin("waiting for a token of the next key")?;
        until("a token of the next key", async || Ok(self.workload.newest(next).map(drop))).await?;
        self.narrator.step(&format!("{} signs", short(next)))
    }

    /// Waits until the JWKS is without a key.
    async fn gone(&mut self, kid: &KeyId) -> anyhow::Result<()> {
        let witness = &mut self.witness;
        until("a JWKS without it", async || Ok((!witness.finds(kid).await?).then_some(()))).await
    }

    /// Waits for something to be so in the ring.
    async fn ring<T>(&self, what: &str, so: impl Fn(&KeyRing) -> Option<T>) -> anyhow::Result<T> {
        until(what, async || Ok(so(&self.desk.read().await?))).await
    }
}

fn report(narrator: &Narrator, tally: &Tally) -> anyhow::Result<()> {
    let Tally { signed, newest, accepted, rejected, rejected_as_revoked, .. } = tally;
    let keys = newest.len();
    // It is revoked when nobody signs with it any more: by then its last token may be dead anyhow.
    let revoked = match rejected_as_revoked {
        0 => String::new(),
        number => format!("; of the revoked key {number} were, as they should be"),
    };
    narrator.step(&format!(
        "{signed} tokens of {keys} keys were signed; live ones were verified {accepted} times, {} rejected{revoked}",
        rejected.len()
    ))?;
    if let Some(first) = rejected.first() {
        bail!("live tokens were rejected, and none should be; the first one is {first}");
    }
    ensure!(*accepted > 0, "no token was verified");
    Ok(())
}

/// The beginning of a key id, by which a person tells a few of them apart.
fn short(kid: &KeyId) -> &str {
    kid.as_str().get(..8).unwrap_or(kid.as_str())
}

/// Asks until there is something. What fails counts as not yet: nothing may be served at first.
async fn until<T>(
    what: &str,
    mut probe: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let started = Instant::now();
    loop {
        let probed = probe().await;
        match probed {
            Ok(Some(found)) => return Ok(found),
            Err(error) if started.elapsed() > PATIENCE => {
                return Err(error.context(format!("waited {PATIENCE:?} in vain for {what}")));
            }
            Ok(None) if started.elapsed() > PATIENCE => {
                bail!("waited {PATIENCE:?} in vain for {what}; CHANCERY_LOG=info shows what it waits for")
            }
            _ => sleep(LOOK).await,
        }
    }
}

fn signer_config(stage: &Stage) -> SignerConfig {
    let path = |name: &str| stage.path().join(name);
    let keys = KeySource::Ring(RingConfig {
        ring: RingPlace::Directory(path("ring")),
        keys: VaultPlace::Directory(path("private")),
        passphrase: Some(path("passphrase")),
        name: SIGNER.to_owned(),
        start_from_record: false,
    });
    let mut config = SignerConfig::new(stage.rotating_issuer.clone(), path("signer.sock"), keys);
    config.state_directory = Some(path("signer"));
    config
}

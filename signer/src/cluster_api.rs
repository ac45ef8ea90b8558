//! A control plane of Cluster API, whose machines are made from the Secret `<cluster>-sa`: carries out what
//! [`chancery_core::rollout::decide_machines`] decides, one step at a time, in the management cluster.
//!
//! ```text
//!  ring, Secret, KubeadmControlPlane, Machines ──▶ decide_machines ──▶ one step ──▶ again
//! ```
//!
//! To whoever rotates the whole control plane is one signer: it acknowledges, under its name, what every machine has. It keeps
//! nothing but an annotation of the KubeadmControlPlane: killed after any step and started again, it looks and goes on.
//!
//! | room | what is in it |
//! |---|---|
//! | `objects` | the objects, read and written on a condition |
//! | `plane` | what a KubeadmControlPlane and its Machines say of themselves: pure |

use std::time::Duration;

use chancery_cluster::access::AccessError;
use chancery_cluster::cell::StoreMode;
use chancery_cluster::last_said::LastSaid;
use chancery_core::ring::TokenLifetimes;
use chancery_core::rollout::{
    MachinesForecast, MachinesRollout, MachinesStep, MachinesView, MachinesWait, NodeKeys, decide_machines,
    foresee_machines,
};
use chancery_core::{KeyId, KeyRing, PublicKey};
use chancery_keygen::KeyError;
use jiff::SignedDuration;
use tokio::time::sleep;
use tracing::{error, info, warn};
use zeroize::Zeroizing;

use crate::ring_follower::{RingFollower, RingFollowerError};
use crate::rotation::RotationConfig;

mod objects;
mod plane;

pub use objects::{ControlPlanePlace, ObjectsError};

use objects::{Found, NewKeys, Objects};
use plane::{LongestTokens, Mark};

/// Cluster API reads Secrets from a cache that a watch keeps up: a machine is made from what was written a while ago.
const BEHIND: Duration = Duration::from_secs(10);

/// The same where the policy is a trial.
const BEHIND_IN_TRIALS: Duration = Duration::from_secs(2);

/// What is told.
#[derive(Clone, Debug)]
pub struct ControlPlaneConfig {
    /// The policy of the ring.
    pub policy: RotationConfig,
    /// The control plane's name among the signers of the policy.
    pub name: String,
    /// Where it is.
    pub place: ControlPlanePlace,
}

/// A control plane, opened.
pub struct ControlPlane {
    config: ControlPlaneConfig,
    follower: RingFollower,
    objects: Objects,
    /// What was logged and goes on.
    waits: LastSaid<MachinesWait>,
    trouble: LastSaid,
}

/// Everything that was seen in one look.
#[derive(Debug)]
pub struct Seen {
    ring: KeyRing,
    found: Found,
    longest: LongestTokens,
}

impl ControlPlane {
    /// Opens everything that is needed: to look, or to act.
    ///
    /// # Errors
    /// What cannot be used, and what to do.
    pub async fn open(config: ControlPlaneConfig, mode: StoreMode) -> Result<Self, ControlPlaneError> {
        Ok(Self {
            follower: RingFollower::open(&config.policy, &config.name, mode).await?,
            objects: Objects::open(&config.place).await?,
            waits: LastSaid::default(),
            trouble: LastSaid::default(),
            config,
        })
    }

    /// Looks, and changes nothing.
    ///
    /// # Errors
    /// When something cannot be read, or its tokens may outlive a key: then nothing is decided.
    pub async fn look(&mut self) -> Result<Seen, ControlPlaneError> {
        let Some(ring) = self.follower.look().await? else {
            return Err(ControlPlaneError::NoRing(self.follower.place()));
        };
        let found = self.objects.read().await?;
        let longest = LongestTokens::of(&found.object).map_err(ControlPlaneError::Tokens)?;
        let allowed = self.follower.allowed_lifetimes().external_seconds;
        if longest.external > allowed {
            return Err(ControlPlaneError::Tokens(format!(
                "its kube-apiservers sign tokens of {} s, and the policy allows {allowed} s; set \
                 service-account-max-token-expiration among extraArgs, or longer `lifetimes`",
                longest.external
            )));
        }
        Ok(Seen { ring, found, longest })
    }

    /// Everything that would be done now, if nobody else did anything.
    pub fn foresee(&self, seen: &Seen) -> MachinesForecast {
        foresee_machines(&self.view(seen))
    }

    /// Looks, and takes the next step if there is one.
    ///
    /// # Errors
    /// What could not be read or done. It is tried again with the next look.
    pub async fn step(&mut self) -> Result<MachinesRollout, ControlPlaneError> {
        let seen = self.look().await?;
        let decided = decide_machines(&self.view(&seen));
        match &decided {
            MachinesRollout::Do { step, because } => {
                info!(cluster = self.config.name, because, "cluster API: {step}");
                self.carry_out(step, &seen).await?;
                self.waits.forget();
            }
            MachinesRollout::Wait(wait) => self.wait(wait),
            MachinesRollout::Done => _ = self.waits.forget(),
        }
        Ok(decided)
    }

    /// Goes on for as long as it is polled.
    pub async fn run(mut self) {
        let (cluster, ring) = (&self.config.name, self.follower.place());
        info!(cluster, ring, "cluster API: {} follows the ring from here", self.objects.secret_place());
        loop {
            match self.step().await {
                Ok(decided) => {
                    if self.trouble.forget() {
                        info!(
                            cluster = self.config.name,
                            "cluster API: everything can be read and written again"
                        );
                    }
                    if matches!(decided, MachinesRollout::Do { .. }) {
                        continue;
                    }
                }
                Err(trouble) => self.complain(&trouble),
            }
            sleep(self.config.policy.look).await;
        }
    }

    fn view<'a>(&'a self, Seen { ring, found, longest }: &'a Seen) -> MachinesView<'a> {
        let allowed = self.follower.allowed_lifetimes();
        let longest =
            TokenLifetimes { external_seconds: longest.external, api_server_seconds: longest.api_server };
        MachinesView {
            ring,
            acknowledged: self.follower.acknowledged(),
            signs_at_most: allowed.longest_of(longest),
            secret: found.keys.clone(),
            rolled: found.plane.mark.as_ref().map(Mark::keys),
            is_asked: found.plane.is_asked,
            under_way: found.plane.under_way.clone(),
        }
    }

    async fn carry_out(&mut self, step: &MachinesStep, seen: &Seen) -> Result<(), ControlPlaneError> {
        let found = &seen.found;
        match step {
            MachinesStep::Acknowledge(said) => self.follower.acknowledge(said.clone()).await?,
            MachinesStep::Doubt => {
                let keys = found.plane.mark.as_ref().map(Mark::keys).unwrap_or_default();
                self.objects.mark(found, &Mark::new(keys, None), None).await?;
            }
            MachinesStep::Write(keys) => {
                let Some(kid) = &keys.signs else { return Err(ControlPlaneError::NoSigningKey) };
                let signing = self.follower.private_half(kid).await?.to_exposed_pem()?;
                let signing = Zeroizing::new(signing.as_bytes().to_vec());
                let verifying = ordered(seen, keys).iter().map(PublicKey::to_pem).collect();
                self.objects.write(found, NewKeys { signing, verifying }).await?;
            }
            MachinesStep::Roll(keys) => self.roll(found, keys).await?,
        }
        Ok(())
    }

    /// Machines that are made from `since` on have the keys, whatever cache they are made from: by the clock of the management
    /// cluster's API server, which dates both the Secret and the machines.
    async fn roll(&self, found: &Found, keys: &NodeKeys) -> Result<(), ControlPlaneError> {
        let behind = if self.config.policy.policy.settings().is_trial { BEHIND_IN_TRIALS } else { BEHIND };
        sleep(behind).await;
        let now = self.objects.read().await?;
        let behind = SignedDuration::try_from(behind).unwrap_or_default();
        let written = now.written().and_then(|written| written.checked_add(behind).ok());
        let Some(since) = written.filter(|_| now.has_same_secret(found)) else {
            return Err(ObjectsError::Raced(self.objects.secret_place()).into());
        };
        // A later roll that somebody else has asked for does as well.
        let since = now.plane.after.map_or(since, |after| after.max(since));
        Ok(self.objects.mark(&now, &Mark::new(keys.clone(), Some(since)), Some(since)).await?)
    }

    fn wait(&mut self, wait: &MachinesWait) {
        if !self.waits.is_new(wait) {
            return;
        }
        let cluster = &self.config.name;
        match wait.is_usual() {
            true => info!(cluster, "cluster API: waits: {wait}"),
            false => warn!(cluster, "cluster API: waits: {wait}"),
        }
    }

    /// Says what went wrong, once.
    fn complain(&mut self, trouble: &ControlPlaneError) {
        let text = chancery_cluster::error_chain(trouble);
        if self.trouble.is_new(&text) {
            error!(cluster = self.config.name, "cluster API: {text}");
        }
    }
}

/// The public halves, that of the key that signs first: `kubeadm join` holds the first one against it, and breaks where they
/// are of two kinds.
fn ordered(seen: &Seen, keys: &NodeKeys) -> Vec<PublicKey> {
    let public = |kid: &KeyId| {
        let ours = seen.ring.key(kid).map(|key| &key.public_key);
        ours.or_else(|| seen.found.public.get(kid)).cloned()
    };
    let others = keys.verifies.iter().filter(|kid| keys.signs.as_ref() != Some(*kid));
    let first = keys.signs.iter().filter(|kid| keys.verifies.contains(*kid));
    first.chain(others).filter_map(public).collect()
}

/// Why it cannot go on now.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlPlaneError {
    /// The ring cannot be followed.
    #[error(transparent)]
    Follower(#[from] RingFollowerError),
    /// There is no ring.
    #[error("{0} is not there; take over the keys of the running cluster with `chancery ring adopt`")]
    NoRing(String),
    /// No key could sign.
    #[error("no key of the ring can sign; see `chancery ring plan`")]
    NoSigningKey,
    /// Its tokens live too long.
    #[error("the KubeadmControlPlane: {0}")]
    Tokens(String),
    /// The objects of the management cluster.
    #[error(transparent)]
    Objects(#[from] ObjectsError),
    /// The management cluster cannot be reached.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A private half cannot be written.
    #[error(transparent)]
    Key(#[from] KeyError),
}

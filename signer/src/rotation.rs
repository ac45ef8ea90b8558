//! Rotates the keys of a ring: carries out what [`chancery_core::rotation`] plans, one step at a time.
//!
//! ```text
//!  ring ──▶ destroy what it calls destroyed ──▶ observe ──▶ plan ──▶ first step ──▶ compare-and-swap ──▶ again
//! ```
//!
//! It decides nothing. Any number of them may run on one ring, one beside each signer as a rule: each counts the time
//! since it read the version that it replaces, and whoever loses a swap throws that away and reads again.
//!
//! | step | outside of the ring | then |
//! |---|---|---|
//! | make | a key is made, sealed, written and synced | the next plan enters it |
//! | enter, publish, activate, retire, withdraw, revoke | nothing | swap |
//! | destroy | nothing | swap, and in every round from then on: what the ring calls destroyed is removed from custody |
//!
//! A private half is destroyed after the ring says so and not before: until then a person may roll back to it.
//!
//! | room | what is in it |
//! |---|---|
//! | `config`, `schedule`, `times`, `custody` | the policy file, and what it names |
//! | `observer` | what core decides by, read from where it is |
//! | `canary` | relying parties that are shown a token of the next key |
//! | `feeds`, `feed` | what tasks of their own find out meanwhile |
//! | `api_servers` | what each kube-apiserver verifies with and signs with, and which nodes come and go |
//! | `census` | copies of tokens that outlive what is known |
//! | `counter` | the time that may be counted |
//! | `making` | new keys |
//! | `key_ring` | a `KeyRing` of a cluster, by whose spec is rotated and whose status shows the ring |
//! | `bundles`, `import` | keys from a machine without a network |
//! | `requests` | what a person asks for |
//! | `notices`, `metrics`, `error` | what is said about it |

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use chancery_cluster::cell::{Cell, StoreMode, Stored, Swap};
use chancery_core::ring::{Custody, Step};
use chancery_core::rotation::{PlannedStep, observe, plan};
use chancery_core::{KeyId, KeyRing};
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::vault::KeyVault;

mod api_servers;
mod bundles;
mod canary;
mod census;
mod config;
mod counter;
mod custody;
mod error;
mod feed;
mod feeds;
mod import;
mod key_ring;
mod making;
mod metrics;
mod notices;
mod observer;
mod requests;
mod schedule;
mod times;

pub use api_servers::{Account, ApiServersConfig, ListedServer};
pub use bundles::{EnrolmentError, OfflineConfig};
pub use canary::config::{
    ApiServerConfig, CanaryConfig, CanaryConfigError, CanaryPlace, OidcConfig, ServiceAccountConfig,
    StsConfig,
};
pub use canary::{Canaries, CanaryError, FirstTokens};
pub use census::{Census, CensusConfig, CopiedToken, Counter as TokenCounter};
#[cfg(feature = "kube")]
pub use census::{CensusError, count_cluster};
pub use config::{Refusal, RotationConfig, RotationConfigError};
pub use custody::{CustodyConfig, CustodyError};
pub use error::RotationError;
pub use feed::FeedError;
pub use import::{BundleFolder, ImportError, Imported, import};
pub use key_ring::{DEFINITION as KEY_RING_DEFINITION, KeyRingPolicyError};
#[cfg(feature = "kube")]
pub use key_ring::{PolicyInForce, resolved};
pub use making::{MakingError, make_key};
pub use metrics::RotationMetrics;
pub use observer::{Observed, Observer, ObserverError};
pub use requests::{RequestError, RingDesk};
pub use schedule::ScheduleError;

use counter::Counter;
use key_ring::{FollowedKeyRing, Shown};
use notices::Notices;

/// How often a ring is written in which nothing has changed but time. A crash costs as much, and delays by it.
const TIME_IS_WRITTEN: Duration = Duration::from_secs(60);

/// Rotates the keys of one ring.
#[derive(Debug)]
pub struct RotationController {
    config: RotationConfig,
    ring: Cell<KeyRing>,
    vault: Arc<dyn KeyVault>,
    key_ring: Option<FollowedKeyRing>,
    observer: Observer,
    canaries: Canaries,
    counter: Counter,
    notices: Notices,
    metrics: Arc<RotationMetrics>,
    /// When this process makes the key that is missing, if no other one has.
    makes_at: Option<Instant>,
}

/// What a turn came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// A step was taken, or somebody else has written: there may be another one.
    Again,
    /// There is nothing to do now.
    Rest,
}

impl RotationController {
    /// Opens what a policy names.
    ///
    /// # Errors
    /// When a part of it cannot be used.
    pub async fn open(config: RotationConfig) -> Result<Self, RotationError> {
        let vault = config.keys.open(&config.base).await?;
        Self::with(config, vault).await
    }

    async fn with(config: RotationConfig, vault: Arc<dyn KeyVault>) -> Result<Self, RotationError> {
        let desk = RingDesk::open(&config, StoreMode::Shared).await?;
        let observer = Observer::open(&config, vault.clone()).await?;
        let canaries = Canaries::open(&config, vault.clone()).await?;
        let key_ring = FollowedKeyRing::open(&config).await?;
        let notices = Notices::new(config.issuer.clone());
        Ok(Self {
            ring: desk.cell().clone(),
            config,
            vault,
            key_ring,
            observer,
            canaries,
            counter: Counter::default(),
            notices,
            metrics: Arc::default(),
            makes_at: None,
        })
    }

    /// What it counts and shows.
    pub fn metrics(&self) -> Arc<RotationMetrics> {
        self.metrics.clone()
    }

    /// Rotates for as long as it is polled.
    pub async fn run(mut self) {
        let (issuer, ring) = (&self.config.issuer, self.ring.place());
        info!(%issuer, ring, wait_seconds = self.config.policy.wait().as_secs(), "ring: its keys are rotated from here");
        if self.config.policy.settings().is_trial {
            warn!(%issuer, "ring: this is a trial; what relying parties need is not waited for, and tokens that workloads depend on would be rejected");
        }
        for warning in self.config.policy.warnings() {
            warn!(%issuer, "ring: {warning}");
        }
        loop {
            match self.turn().await {
                Ok(Turn::Again) => {}
                Ok(Turn::Rest) => sleep(self.config.look).await,
                Err(error) => {
                    self.metrics.failed();
                    self.notices.troubles(vec![chancery_cluster::error_chain(&error)]);
                    sleep(self.config.look).await;
                }
            }
        }
    }

    /// One round, in the order that the head of this module shows.
    async fn turn(&mut self) -> Result<Turn, RotationError> {
        let mut troubles = self.follow().await;
        let now = Instant::now();
        let Some(stored) = self.ring.load().await? else {
            return Err(RotationError::NoRing(self.ring.place()));
        };
        let elapsed = self.counter.elapsed(&stored.version, now);
        let mut found = self.observer.observe(&stored.document).await;
        self.canaries.look(&stored.document, &self.config.policy, &mut found);
        self.metrics.canaries(&self.config.policy, &found.observations);
        troubles.append(&mut found.troubles);
        self.destroy(&stored.document, found.held.as_deref().unwrap_or_default(), &mut troubles).await;
        let mut ring = stored.document.clone();
        observe(&mut ring, &self.config.policy, &found.observations, elapsed);
        let plan = plan(&ring, &self.config.policy, &found.observations);
        self.metrics.show_observed(&ring, &self.config.policy, &found.observations);
        let shown = Shown { ring: &ring, plan: &plan, calendar: found.observations.calendar };
        self.show(shown, &mut troubles).await;
        if !self.may_act() {
            return Ok(self.rest(troubles));
        }
        let mut turn = None;
        for planned in &plan.steps {
            turn = match planned.step {
                Step::Make(_) => {
                    let custody = Custodial { held: found.held.as_deref(), troubles: &mut troubles };
                    self.make(planned, &ring, custody).await
                }
                _ => Some(Taken::Changed(Box::new(ring.apply(&planned.step)?), planned.clone())),
            };
            if turn.is_some() {
                break;
            }
        }
        let rest = self.rest(troubles);
        match turn {
            Some(Taken::Outside) => Ok(Turn::Again),
            Some(Taken::Changed(after, planned)) => {
                let is_ours = self.swap(&stored, &after, elapsed).await?;
                if is_ours {
                    self.taken(&planned).await;
                }
                Ok(Turn::Again)
            }
            None => {
                if elapsed >= TIME_IS_WRITTEN || !stored.document.has_only_aged(&ring) {
                    self.swap(&stored, &ring, elapsed).await?;
                }
                Ok(rest)
            }
        }
    }

    /// Takes over what the owner of a `KeyRing` has changed, and says what is wrong with it.
    async fn follow(&mut self) -> Vec<String> {
        let Some(key_ring) = &mut self.key_ring else { return Vec::new() };
        match key_ring.follow(&self.config).await {
            Ok(None) => Vec::new(),
            Ok(Some(config)) => {
                self.observer.keep_to(config.calendar.clone());
                self.config = config;
                Vec::new()
            }
            Err(why) => vec![why],
        }
    }

    /// Says what went wrong in this round.
    fn rest(&mut self, troubles: Vec<String>) -> Turn {
        if !troubles.is_empty() {
            self.metrics.failed();
        }
        self.notices.troubles(troubles);
        Turn::Rest
    }

    /// Whether it is known what the owner of the ring wants.
    fn may_act(&self) -> bool {
        self.key_ring.as_ref().is_none_or(FollowedKeyRing::is_followed)
    }

    /// Says what is to be done, and what is in the way.
    async fn show(&mut self, shown: Shown<'_>, troubles: &mut Vec<String>) {
        self.notices.blocked(shown.plan);
        self.notices.imported(shown.plan.imported.as_ref());
        self.metrics.show(shown.ring, &self.config.policy, shown.plan);
        if let Some(key_ring) = &mut self.key_ring {
            troubles.extend(key_ring.show(&self.config, shown).await.err());
        }
    }

    /// Says that a step was taken. Safety does not rest on whether anybody hears it.
    async fn taken(&self, planned: &PlannedStep) {
        self.metrics.stepped();
        self.notices.taken(planned);
        if let Some(key_ring) = &self.key_ring
            && let Err(why) = key_ring.tell(planned).await
        {
            warn!(issuer = %self.config.issuer, "ring: no Event was written: {why}");
        }
    }

    /// Makes a key, unless there is one already that the ring does not know; `None` when nothing can be made now, and other
    /// steps can be taken.
    async fn make(&mut self, planned: &PlannedStep, ring: &KeyRing, custody: Custodial<'_>) -> Option<Taken> {
        let Custodial { held, troubles } = custody;
        // A key that cannot be seen to be kept would be made again and again.
        let held = held?;
        if self.observer.open_newcomer(ring, held).await {
            return Some(Taken::Outside);
        }
        // Of several processes, one makes it while the others still wait.
        let makes_at =
            *self.makes_at.get_or_insert_with(|| Instant::now() + self.config.look.mul_f64(dice()));
        if Instant::now() < makes_at && self.config.signers.len() > 1 {
            return None;
        }
        self.makes_at = None;
        match make_key(self.config.key, self.vault.as_ref()).await {
            Ok(key) => {
                let (issuer, kid) = (&self.config.issuer, key.key_id());
                info!(%issuer, %kid, because = planned.because, "ring: a key was made and is in custody");
                self.observer.know(key);
                Some(Taken::Outside)
            }
            Err(error) => {
                troubles.push(chancery_cluster::error_chain(&error));
                None
            }
        }
    }

    /// Whether it was written. Losing is normal: somebody else has taken a step.
    async fn swap(
        &mut self,
        stored: &Stored<KeyRing>,
        ring: &KeyRing,
        elapsed: Duration,
    ) -> Result<bool, RotationError> {
        match self.ring.swap(ring, Some(&stored.version)).await? {
            Swap::Swapped(version) => {
                self.counter.wrote(version, elapsed);
                Ok(true)
            }
            Swap::Lost(_) => {
                self.metrics.lost();
                Ok(false)
            }
        }
    }

    /// Removes what the ring calls destroyed from custody. What fails is tried again in the next round.
    async fn destroy(&self, ring: &KeyRing, held: &[KeyId], troubles: &mut Vec<String>) {
        let custody = |kid| {
            let key = ring.key(kid).map(|key| key.custody);
            key.or_else(|| ring.tombstone(kid).map(|over| over.custody))
        };
        for kid in held.iter().filter(|kid| custody(kid) == Some(Custody::Destroyed)) {
            match self.vault.destroy(kid).await {
                Ok(()) => info!(issuer = %self.config.issuer, %kid, "ring: its private half is destroyed"),
                Err(error) => {
                    let why = chancery_cluster::error_chain(&error);
                    troubles.push(format!("the private half of {kid} cannot be destroyed: {why}"));
                }
            }
        }
    }
}

/// What is held, and where to say what went wrong with it.
struct Custodial<'a> {
    held: Option<&'a [KeyId]>,
    troubles: &'a mut Vec<String>,
}

/// Between 0 and 1. The standard library seeds its hashers from the system's randomness; jitter needs nothing better.
fn dice() -> f64 {
    let thrown = RandomState::new().build_hasher().finish() % 1024;
    f64::from(u32::try_from(thrown).unwrap_or_default()) / 1024.0
}

/// A step that was taken as far as it goes before the swap.
enum Taken {
    /// All of it lies outside of the ring.
    Outside,
    /// The ring is to become this.
    Changed(Box<KeyRing>, PlannedStep),
}

#[cfg(test)]
mod tests;

//! A ring and everything that is known of it, as whoever rotates sees it.

use std::time::Duration;

use chancery_cluster::cell::StoreMode;
use chancery_core::KeyRing;
use chancery_core::ring::Step;
use chancery_core::rotation::{Observations, Plan, observe, plan};
use chancery_core::visibility::Obstacle;
use chancery_signer::RotationConfig;
use chancery_signer::rotation::{Canaries, Observer, RingDesk};
use tokio::time::{Instant, sleep};

use super::PolicyArg;
use crate::time::Time;

/// The time between two looks at a record that is to move.
const PAUSE: Duration = Duration::from_millis(500);

/// What is looked at, and for how long.
#[derive(clap::Args)]
pub struct LookArgs {
    #[command(flatten)]
    policy: PolicyArg,
    /// How long to look whether the visibility record is kept up
    #[arg(long, value_name = "TIME", default_value = "0s")]
    look: Time,
}

impl LookArgs {
    pub async fn take(self) -> anyhow::Result<Look> {
        Look::take(self.policy.resolved().await?, self.look.0).await
    }
}

/// What was seen.
pub struct Look {
    pub config: RotationConfig,
    pub ring: KeyRing,
    pub observations: Observations,
    pub plan: Plan,
    /// What a reader should know of how it was seen.
    pub notes: Vec<String>,
}

impl Look {
    /// Looks for as long as `patience` whether the visibility record is kept up; after that, it is taken as current.
    pub async fn take(config: RotationConfig, patience: Duration) -> anyhow::Result<Self> {
        let desk = RingDesk::open(&config, StoreMode::ReadOnly).await?;
        let vault = config.keys.open(&config.base).await?;
        let mut canaries = Canaries::open(&config, vault.clone()).await?;
        let mut observer = Observer::open(&config, vault).await?;
        let started = Instant::now();
        let (mut ring, mut observed) = loop {
            let ring = desk.read().await?;
            let observed = observer.observe(&ring).await;
            let is_at_rest = observed.observations.visibility == Err(Obstacle::RecordAtRest);
            if !is_at_rest || started.elapsed() >= patience {
                break (ring, observed);
            }
            sleep(PAUSE).await;
        };
        let mut notes = std::mem::take(&mut observed.troubles);
        notes.extend(config.policy.warnings());
        let at_rest = observed.observations.visibility == Err(Obstacle::RecordAtRest);
        if let Some(record) = observer.last_record().filter(|_| at_rest) {
            observed.observations.visibility = Ok(record.clone());
            notes.push(
                "the visibility record is taken as current; `--look 2m` waits until it is seen to be kept up"
                    .to_owned(),
            );
        }
        // They are asked, then what they said is there; the plan tells it.
        canaries.look(&ring, &config.policy, &mut observed);
        canaries.settle().await;
        canaries.look(&ring, &config.policy, &mut observed);
        observe(&mut ring, &config.policy, &observed.observations, Duration::ZERO);
        let mut plan = plan(&ring, &config.policy, &observed.observations);
        // Whoever rotates enters a key that is there before it makes one.
        let makes = |plan: &Plan| plan.steps.iter().any(|planned| matches!(planned.step, Step::Make(_)));
        let held = observed.held.unwrap_or_default();
        while makes(&plan) && observer.open_newcomer(&ring, &held).await {
            observed.observations.held = observer.observe(&ring).await.observations.held;
            plan = chancery_core::rotation::plan(&ring, &config.policy, &observed.observations);
        }
        Ok(Self { config, ring, observations: observed.observations, plan, notes })
    }
}

//! The plan: steps, each with its reason, and blocked steps, each with what blocks it.

use std::fmt;

use serde::Serialize;

use self::guards::Guards;
use super::{Block, Guard, ImportedLeft, Observations, Policy};
use crate::ring::{Position, Step, WallTime};
use crate::{KeyId, KeyRing};

mod activation;
mod ending;
mod guards;
mod imported;
mod standby;

/// What is to be done now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// The ring that it was made of.
    pub position: Position,
    /// When it was made.
    pub made: WallTime,
    /// Until when it may be carried out.
    pub expires: WallTime,
    /// What can be done, in this order.
    pub steps: Vec<PlannedStep>,
    /// What is wanted and has to wait.
    pub blocked: Vec<BlockedStep>,
    /// What is left of the bundles, where keys are imported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imported: Option<ImportedLeft>,
}

/// A step and its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlannedStep {
    /// What to do.
    pub step: Step,
    /// Why.
    pub because: String,
}

/// A step that has to wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BlockedStep {
    /// What is to be done.
    pub step: Step,
    /// Why.
    pub because: String,
    /// What has to happen first; one guard may wait for several things.
    pub blocks: Vec<Block>,
}

/// Why a plan must not be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The ring has changed.
    #[error("the plan was made of the ring at {planned}, which is at {found} now; plan again")]
    RingChanged {
        /// Of which ring it was made.
        planned: Position,
        /// What there is.
        found: Position,
    },
    /// The clock shows an earlier time than when the plan was made.
    #[error("the clock was set back by {0} s since the plan was made; plan again")]
    ClockWentBack(u64),
    /// Too long ago.
    #[error("the plan is over since {0} s; plan again")]
    Expired(u64),
}

/// What is to be done with a ring now, by what was observed; see [`super`] for how to carry it out.
pub fn plan(ring: &KeyRing, policy: &Policy, observed: &Observations) -> Plan {
    let guards = Guards { ring, policy, observed };
    let mut wanted = Vec::new();
    ending::revocations(&guards, &mut wanted);
    activation::activation(&guards, &mut wanted);
    standby::standby(&guards, &mut wanted);
    ending::drained(&guards, &mut wanted);
    ending::destruction(&guards, &mut wanted);
    let everywhere = guards.of_the_ring();
    let mut plan = Plan {
        position: ring.position(),
        made: observed.now,
        expires: observed.now.after(policy.settings().plan_is_good_for),
        steps: Vec::new(),
        blocked: Vec::new(),
        imported: guards.imported_left(),
    };
    for BlockedStep { step, because, mut blocks } in wanted {
        blocks.extend(everywhere.iter().cloned());
        match blocks.is_empty() {
            true => plan.steps.push(PlannedStep { step, because }),
            false => plan.blocked.push(BlockedStep { step, because, blocks }),
        }
    }
    plan
}

/// The key of which relying parties are to be shown a canary now: the one that signs next, once everybody has seen it
/// for long enough. Whoever asked earlier might have a party remember that it knows no such key.
pub fn to_be_tried(ring: &KeyRing, policy: &Policy, observed: &Observations) -> Option<KeyId> {
    let guards = Guards { ring, policy, observed };
    let is_asked = !policy.settings().canaries.is_empty();
    let key = activation::successor(&guards).filter(|_| is_asked)?;
    let is_seen = guards.visibility(key.kid()).is_empty() && guards.of_the_ring().is_empty();
    is_seen.then(|| key.kid().clone())
}

impl Plan {
    /// Whether it may be carried out still.
    ///
    /// # Errors
    /// When the ring has changed since, or the clock says that it was made in the future or too long ago.
    pub fn check(&self, ring: &KeyRing, now: WallTime) -> Result<(), PlanError> {
        if ring.position() != self.position {
            return Err(PlanError::RingChanged { planned: self.position, found: ring.position() });
        }
        if now < self.made {
            return Err(PlanError::ClockWentBack(self.made.0 - now.0));
        }
        if now > self.expires {
            return Err(PlanError::Expired(now.0 - self.expires.0));
        }
        Ok(())
    }

    /// The guards that hold anything back, each once.
    pub fn guards(&self) -> Vec<Guard> {
        let mut guards: Vec<Guard> = self.blocked.iter().flat_map(BlockedStep::guards).collect();
        guards.sort_unstable();
        guards.dedup();
        guards
    }
}

impl BlockedStep {
    /// The guards that hold it back, each once.
    pub fn guards(&self) -> Vec<Guard> {
        let mut guards: Vec<Guard> = self.blocks.iter().map(|block| block.guard).collect();
        guards.sort_unstable();
        guards.dedup();
        guards
    }
}

impl fmt::Display for Plan {
    /// A line for the ring, then one for each step and each thing that one waits for.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "ring at {}", self.position)?;
        for PlannedStep { step, because } in &self.steps {
            writeln!(f, "now      {step}, since {because}")?;
        }
        for BlockedStep { step, because, blocks } in &self.blocked {
            writeln!(f, "blocked  {step}, since {because}")?;
            for block in blocks {
                writeln!(f, "         - {block}")?;
            }
        }
        if let Some(left) = &self.imported {
            writeln!(f, "bundles  {left}")?;
        }
        if self.steps.is_empty() && self.blocked.is_empty() {
            writeln!(f, "nothing to do")?;
        }
        Ok(())
    }
}

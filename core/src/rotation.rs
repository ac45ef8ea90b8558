//! What is to be done with a key ring now, and what is in the way.
//!
//! [`plan()`] decides, and touches nothing: from the ring, the policy of its owner, what was observed, and the time. The
//! plan that a person reads is the plan that an executor runs, in this order:
//!
//! 1. Read the ring, and count the time until it is written ([`observe`]).
//! 2. Plan, and take the first step: a key is made and durably held before anything else, then [`KeyRing::apply`], then a
//!    compare-and-swap.
//! 3. Destroy the private halves that the ring calls destroyed: after it says so, since a person may ask to roll back to a
//!    key until then, and in every round, since a crash may lie in between.
//! 4. Begin again. A step whose answer was lost is taken again, and changes nothing then.
//!
//! No transition has a deadline: each may be delayed for ever, and a crash between any two of them rejects no token.
//! What holds a step back is a [`Guard`]; the suite `core/tests/rotation` shows for each of them what happens without.

use std::time::Duration;

use crate::KeyRing;
use crate::ring::{Passage, TokenLifetimes};

mod admission;
#[cfg(feature = "calendar")]
pub mod calendar;
mod canary;
mod guard;
mod observations;
mod plan;
mod policy;
mod supply;

pub use admission::{Admission, AdmissionError, ImportingRing, admit};
pub use canary::{CanaryAnswer, DeclaredCanary};
pub use guard::{Block, Guard};
pub use observations::{ApiServer, Motion, NextDue, Observations};
pub use plan::{BlockedStep, Plan, PlanError, PlannedStep, plan, to_be_tried};
pub use policy::{Overlap, Policy, PolicyError, Schedule, Settings};
pub use supply::{ImportedLeft, KeySupply};

/// Counts the time since this process read the version of `ring` that it will replace, and takes in what was observed.
/// The ring must be written with it, even when no step follows, or the time is lost; whoever loses the
/// compare-and-swap throws it away.
pub fn observe(ring: &mut KeyRing, policy: &Policy, observed: &Observations, elapsed: Duration) {
    let lifetime = policy.canary_lifetime().as_secs();
    let canary = TokenLifetimes { external_seconds: lifetime, api_server_seconds: 0 };
    let tried = observed.canaries.keys().map(|kid| (kid.clone(), canary)).collect();
    ring.pass(Passage {
        elapsed,
        now: observed.now,
        acknowledgements: &observed.acknowledgements,
        expected_signers: &observed.expected_signers,
        used_elsewhere: &observed.signed_with(),
        tried: &tried,
        allowed: policy.allowed_lifetimes(),
    });
}

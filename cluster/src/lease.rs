//! Leader election among the replicas of this process, by a `coordination.k8s.io/v1` Lease.
//!
//! ```text
//!  Lease ──read──▶ observed since (our clock) ──▶ decide ──▶ compare-and-swap ──▶ Term
//! ```
//!
//! The rule is client-go's (`tools/leaderelection`): a candidate waits until it has seen the record unchanged for
//! the lease duration, by its own monotonic clock from its own first sight of it. The times in the record are for
//! people; no two clocks are ever compared. The leader renews every retry period, and stops leading by itself when
//! its last successful renewal was sent a renew deadline ago, which is before any candidate's wait can be over.
//!
//! | | leads until | may lead from |
//! |---|---|---|
//! | leader that renewed at `t` | `t` + renew deadline | |
//! | candidate that saw it | | `t` + lease duration at the earliest |
//!
//! Leases are no fence: a write that is under way when leadership ends is not called back. Conditional writes are
//! what keeps two writers from harm; [`Term::transitions`] tells them apart.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use tokio::time::Instant;

mod decision;
mod elector;
#[cfg(test)]
mod simulation;

pub use decision::{Action, Observed, decide};
pub use elector::Elector;

/// The Lease and who we are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseConfig {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease, made when it is not there.
    pub name: String,
    /// What this candidate calls itself: unique among those that run, and among those before a restart, as
    /// [`unique_identity`] makes it.
    pub identity: String,
    /// The waits.
    pub timing: Timing,
}

/// The three waits of an election, in the order that keeps two leaders apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    lease_duration: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
}

impl Default for Timing {
    /// client-go's: 15 s, 10 s, 2 s. They tolerate an API server that restarts.
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

impl Timing {
    /// Candidates wait `lease_duration` for a silent leader, which gives up after `renew_deadline` and tries every
    /// `retry_period`.
    ///
    /// # Errors
    /// When the lease duration is not a whole number of seconds, as the Lease stores it, or the waits are not each
    /// longer than the next: the leader would be given no second try, or stop after another has begun.
    pub fn new(
        lease_duration: Duration,
        renew_deadline: Duration,
        retry_period: Duration,
    ) -> Result<Self, LeaseError> {
        let whole = lease_duration.subsec_nanos() == 0 && i32::try_from(lease_duration.as_secs()).is_ok();
        let ordered = lease_duration > renew_deadline && renew_deadline > retry_period.saturating_mul(2);
        match whole && ordered && !retry_period.is_zero() {
            true => Ok(Self { lease_duration, renew_deadline, retry_period }),
            false => Err(LeaseError::Timing { lease_duration, renew_deadline, retry_period }),
        }
    }

    /// How long others wait after our last renewal that they have seen.
    pub fn lease_duration(&self) -> Duration {
        self.lease_duration
    }

    /// How long we lead after our last successful renewal.
    pub fn renew_deadline(&self) -> Duration {
        self.renew_deadline
    }

    /// How long one request to the API server may take: half of the renew deadline, as with client-go
    /// (`resourcelock.NewFromKubeconfig`), so that one that hangs does not eat the remaining term.
    pub fn request_timeout(&self) -> Duration {
        self.renew_deadline / 2
    }

    /// The time between two tries.
    pub fn retry_period(&self) -> Duration {
        self.retry_period
    }
}

/// `name` and 64 random bits. A name alone is not enough: a pod of a StatefulSet that is made anew has its predecessor's,
/// and would renew the Lease that another process still holds. client-go's controllers add a UUID for the same reason.
pub fn unique_identity(name: &str) -> String {
    // The standard library seeds its hashers from the system's randomness.
    format!("{name}_{:016x}", RandomState::new().build_hasher().finish())
}

/// Since when and until when we lead, if we do.
///
/// A reader asks [`is_leader`](Self::is_leader) right before each write: the value in the channel is set back by a
/// task, and a process that was stopped for a while may run the reader before that task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Term {
    /// The time up to which our last renewal counts; nothing while we do not lead. Moves on without waking the
    /// readers of the channel.
    pub until: Option<Instant>,
    /// How often the Lease had changed hands by the last term that was seen, which tells one term from another.
    pub transitions: i32,
}

impl Term {
    /// Whether we lead at `now`.
    pub fn holds_at(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// Whether we lead, by the clock of this machine.
    pub fn is_leader(&self) -> bool {
        self.holds_at(Instant::now())
    }
}

/// Why an election cannot start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// Waits in the wrong order.
    #[error(
        "lease duration {lease_duration:?}, renew deadline {renew_deadline:?} and retry period {retry_period:?} do not \
         fit together; expected whole seconds for the first, less for the second, and less than half of that for \
         the third, such as 15 s, 10 s and 2 s"
    )]
    Timing {
        /// What came as lease duration.
        lease_duration: Duration,
        /// What came as renew deadline.
        renew_deadline: Duration,
        /// What came as retry period.
        retry_period: Duration,
    },
    /// No name to be a candidate under.
    #[error("an empty {0} cannot be used for leader election; give one")]
    Empty(&'static str),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_must_be_in_order() {
        let milliseconds = Duration::from_millis;
        for (lease, renew, retry, fits) in [
            (15_000, 10_000, 2_000, true),
            (3_000, 2_000, 500, true),
            (10_000, 10_000, 2_000, false),
            (15_000, 4_000, 2_000, false),
            (1_500, 1_000, 200, false),
            (15_000, 10_000, 0, false),
        ] {
            let timing = Timing::new(milliseconds(lease), milliseconds(renew), milliseconds(retry));
            assert_eq!(timing.is_ok(), fits, "{lease} {renew} {retry}");
        }
        let Timing { lease_duration, renew_deadline, retry_period } = Timing::default();
        assert_eq!(Timing::new(lease_duration, renew_deadline, retry_period), Ok(Timing::default()));
    }

    #[test]
    fn who_comes_after_us_under_our_name_is_another_candidate() {
        let (one, two) = (unique_identity("issuer-0"), unique_identity("issuer-0"));
        assert!(one.starts_with("issuer-0_") && one != two, "{one} {two}");
    }

    #[test]
    fn a_term_ends_by_itself() {
        let now = Instant::now();
        let term = Term { until: Some(now + Duration::from_secs(10)), transitions: 3 };
        assert!(term.holds_at(now + Duration::from_millis(9_999)));
        assert!(!term.holds_at(now + Duration::from_secs(10)));
        assert!(!Term::default().holds_at(now));
    }
}

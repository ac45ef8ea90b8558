//! What to do about a Lease: a function of the record and of how long we have seen it unchanged.
//!
//! Rules, in the order in which the code applies them:
//!
//! 1. No record, or one without a holder: take it.
//! 2. A record of ours: renew it. Nobody else has written since, or it would not be ours.
//! 3. Another's record, unchanged for its lease duration: its holder is dead, take it.
//! 4. Another's record: wait.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use super::Timing;

/// A record and how long we have seen exactly that.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The record; nothing when there is no Lease.
    pub record: Option<&'a LeaseSpec>,
    /// By our own monotonic clock, since we first saw it.
    pub unchanged_for: Duration,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Write ourselves in as the new holder, in this term.
    Acquire {
        /// `leaseTransitions` of the new term.
        transitions: i32,
    },
    /// Write that we still hold it, in the same term.
    Renew {
        /// `leaseTransitions` of the term.
        transitions: i32,
    },
    /// Write nothing.
    Wait {
        /// Who holds it.
        holder: String,
        /// How long until it may be taken if it stays unchanged.
        remaining: Duration,
    },
}

/// Decides for the candidate `identity`. `ours` is the duration that counts for a record that names none.
pub fn decide(observed: Observed<'_>, identity: &str, ours: &Timing) -> Action {
    let Some(record) = observed.record else { return Action::Acquire { transitions: 0 } };
    let transitions = record.lease_transitions.unwrap_or_default();
    let next = Action::Acquire { transitions: transitions.saturating_add(1) };
    let holder = record.holder_identity.as_deref().unwrap_or_default();
    if holder.is_empty() {
        return next;
    }
    if holder == identity {
        return Action::Renew { transitions };
    }
    let remaining = duration(record, ours).saturating_sub(observed.unchanged_for);
    if remaining.is_zero() {
        return next;
    }
    Action::Wait { holder: holder.to_owned(), remaining }
}

/// The holder's own word counts: it may be configured otherwise than we are.
fn duration(record: &LeaseSpec, ours: &Timing) -> Duration {
    let seconds = record.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    seconds.map_or(ours.lease_duration(), Duration::from_secs)
}

/// Who holds the Lease, and how often it changed hands before.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeaseHolder<'a> {
    pub identity: &'a str,
    pub transitions: i32,
}

/// The record that says who holds the Lease; what else it says stays.
pub(super) fn held(
    record: Option<&LeaseSpec>,
    holder: LeaseHolder<'_>,
    timing: &Timing,
    now: Timestamp,
) -> LeaseSpec {
    let LeaseHolder { identity, transitions } = holder;
    let record = record.cloned().unwrap_or_default();
    let same_term = record.holder_identity.as_deref() == Some(identity);
    let acquire_time = record.acquire_time.clone().filter(|_| same_term);
    LeaseSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: i32::try_from(timing.lease_duration().as_secs()).ok(),
        acquire_time: acquire_time.or(Some(MicroTime(now))),
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(transitions),
        ..record
    }
}

/// The record that gives the Lease back. Its duration is one second, as client-go writes it, for candidates that
/// do not look at the empty holder.
pub(super) fn released(record: &LeaseSpec, now: Timestamp) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(String::new()),
        lease_duration_seconds: Some(1),
        acquire_time: Some(MicroTime(now)),
        renew_time: Some(MicroTime(now)),
        ..record.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(holder: Option<&str>, seconds: Option<i32>, transitions: Option<i32>) -> LeaseSpec {
        LeaseSpec {
            holder_identity: holder.map(str::to_owned),
            lease_duration_seconds: seconds,
            lease_transitions: transitions,
            ..LeaseSpec::default()
        }
    }

    fn wait(seconds: u64) -> Action {
        Action::Wait { holder: "other".to_owned(), remaining: Duration::from_secs(seconds) }
    }

    #[test]
    fn the_rule() {
        let acquire = |transitions| Action::Acquire { transitions };
        for (record, seen, expected) in [
            (None, 0, acquire(0)),
            (Some(record(None, None, None)), 0, acquire(1)),
            (Some(record(Some(""), Some(1), Some(4))), 0, acquire(5)),
            (Some(record(Some("me"), Some(15), Some(4))), 0, Action::Renew { transitions: 4 }),
            (Some(record(Some("me"), Some(15), Some(4))), 99, Action::Renew { transitions: 4 }),
            (Some(record(Some("other"), Some(15), Some(4))), 0, wait(15)),
            (Some(record(Some("other"), Some(15), Some(4))), 14, wait(1)),
            (Some(record(Some("other"), Some(15), Some(4))), 15, acquire(5)),
            (Some(record(Some("other"), Some(60), Some(4))), 15, wait(45)),
            (Some(record(Some("other"), None, Some(4))), 14, wait(1)),
            (Some(record(Some("other"), Some(-1), Some(4))), 14, wait(1)),
            (Some(record(Some("other"), Some(15), Some(i32::MAX))), 15, acquire(i32::MAX)),
        ] {
            let observed = Observed { record: record.as_ref(), unchanged_for: Duration::from_secs(seen) };
            assert_eq!(decide(observed, "me", &Timing::default()), expected, "{record:?} for {seen} s");
        }
    }

    #[test]
    fn a_term_keeps_its_beginning_and_foreign_fields_stay() {
        let timing = Timing::default();
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut first = held(None, LeaseHolder { identity: "me", transitions: 0 }, &timing, at(100));
        first.preferred_holder = Some("someone".to_owned());
        let renewed = held(Some(&first), LeaseHolder { identity: "me", transitions: 0 }, &timing, at(102));
        assert_eq!(renewed.acquire_time, Some(MicroTime(at(100))));
        assert_eq!(renewed.renew_time, Some(MicroTime(at(102))));
        assert_eq!(renewed.lease_duration_seconds, Some(15));
        assert_eq!(renewed.preferred_holder.as_deref(), Some("someone"));

        let given_back = released(&renewed, at(103));
        let observed = Observed { record: Some(&given_back), unchanged_for: Duration::ZERO };
        assert_eq!(decide(observed, "other", &timing), Action::Acquire { transitions: 1 });
        let taken =
            held(Some(&given_back), LeaseHolder { identity: "other", transitions: 1 }, &timing, at(104));
        assert_eq!(taken.acquire_time, Some(MicroTime(at(104))));
        assert_eq!(taken.lease_transitions, Some(1));
    }
}

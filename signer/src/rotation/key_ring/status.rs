//! What the status of a `KeyRing` says: pure, and the same as long as nothing but time has changed.

use chancery_core::KeyRing;
use chancery_core::ring::{KeyState, RingKey};
use chancery_core::rotation::{BlockedStep, NextDue, Plan, Policy, Schedule};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::rotation::notices::{is_usual, lasting};

/// The status, as the API server keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    observed_generation: i64,
    epoch: u64,
    generation: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    active: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    standby: Option<String>,
    next_rotation: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    imported_keys_left: Option<usize>,
    keys: Vec<KeyStatus>,
    blocked: Vec<Blocked>,
    /// See [`Status::condition`].
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct KeyStatus {
    kid: String,
    state: String,
    algorithm: String,
    since: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stays_for: Option<String>,
    #[serde(default)]
    tainted: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Blocked {
    step: String,
    guard: String,
    message: String,
}

/// One condition, by the API conventions of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    /// One word.
    pub reason: String,
    /// What it means, for a person.
    pub message: String,
    last_transition_time: Timestamp,
    #[serde(default)]
    observed_generation: i64,
}

impl Condition {
    /// Whether it holds.
    pub fn holds(&self) -> bool {
        self.status == "True"
    }
}

/// A step waits for something that a rotation that goes well does not wait for.
pub const BLOCKED: &str = "RotationBlocked";

/// What is known when a status is written.
#[derive(Debug)]
pub struct Known<'a> {
    /// The ring.
    pub ring: &'a KeyRing,
    /// By which it is rotated.
    pub policy: &'a Policy,
    /// What is to be done.
    pub plan: &'a Plan,
    /// When the calendar asks next.
    pub calendar: Option<NextDue>,
    /// Of the object.
    pub generation: i64,
    /// Why its spec is not followed, if it is not.
    pub refusal: Option<&'a str>,
}

impl Status {
    /// What is to be said now, `before` having been said.
    pub fn new(known: &Known<'_>, before: &Self, now: Timestamp) -> Self {
        let Known { ring, plan, .. } = known;
        let standby = ring.in_state(KeyState::Published).find(|key| key.may_sign());
        let kid = |key: Option<&RingKey>| key.map(|key| key.kid().to_string());
        let blocked = blocked(plan);
        // Time that passes makes nothing new.
        let is_same = |blocked: &[Blocked], before: &[Blocked]| {
            let lasting =
                |blocked: &Blocked| (blocked.step.clone(), blocked.guard.clone(), lasting(&blocked.message));
            blocked.iter().map(lasting).eq(before.iter().map(lasting))
        };
        let blocked = if is_same(&blocked, &before.blocked) { before.blocked.clone() } else { blocked };
        let conditions =
            [accepted(known), active(ring), rotation_blocked(plan, &blocked), standby_there(standby)];
        Self {
            observed_generation: known.generation,
            epoch: ring.position().epoch,
            generation: ring.position().generation,
            active: kid(ring.active()),
            standby: kid(standby),
            next_rotation: next(known),
            imported_keys_left: plan.imported.as_ref().and_then(|left| left.keys),
            keys: ring.keys().iter().map(|key| key_status(key, known, (before, now))).collect(),
            blocked,
            conditions: conditions.map(|said| said.at(before, known.generation, now)).into(),
        }
    }

    /// One of its conditions.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }
}

/// A condition without its history.
struct Said {
    kind: &'static str,
    holds: bool,
    reason: String,
    message: String,
}

impl Said {
    fn at(self, before: &Status, observed_generation: i64, now: Timestamp) -> Condition {
        let status = if self.holds { "True" } else { "False" }.to_owned();
        let earlier = before.condition(self.kind).filter(|earlier| earlier.status == status);
        Condition {
            kind: self.kind.to_owned(),
            status,
            reason: self.reason,
            message: self.message,
            last_transition_time: earlier.map_or(now, |earlier| earlier.last_transition_time),
            observed_generation,
        }
    }
}

fn accepted(known: &Known<'_>) -> Said {
    let (reason, message) = match known.refusal {
        None => ("Followed", "the ring is rotated by this spec".to_owned()),
        Some(why) => ("InvalidSpec", format!("the last good spec is followed: {why}")),
    };
    Said { kind: "SpecAccepted", holds: known.refusal.is_none(), reason: reason.to_owned(), message }
}

fn active(ring: &KeyRing) -> Said {
    let (reason, message) = match ring.active() {
        Some(key) => ("Signing", format!("{} signs", key.kid())),
        None => ("NoActiveKey", "no key signs".to_owned()),
    };
    Said { kind: "Ready", holds: ring.active().is_some(), reason: reason.to_owned(), message }
}

fn standby_there(standby: Option<&RingKey>) -> Said {
    let (reason, message) = match standby {
        Some(key) => ("Published", format!("{} is published ahead", key.kid())),
        None => ("NoStandby", "no key is published ahead of the next rotation".to_owned()),
    };
    Said { kind: "StandbyPublished", holds: standby.is_some(), reason: reason.to_owned(), message }
}

/// Named by the first thing that is waited for although a rotation that goes well waits for no such thing.
fn rotation_blocked(plan: &Plan, blocked: &[Blocked]) -> Said {
    let guards = plan.guards();
    let unusual = guards.iter().find(|guard| !is_usual(**guard));
    let (holds, guard) = (unusual.is_some(), unusual.or(guards.first()));
    let waits = |waits: &&Blocked| guard.is_some_and(|guard| guard.as_str() == waits.guard);
    let message = match blocked.iter().find(waits) {
        Some(Blocked { step, message, .. }) => format!("waits before it can {step}: {message}"),
        None => "nothing is waited for".to_owned(),
    };
    let reason = guard.map_or("Nothing", |guard| guard.as_str()).to_owned();
    Said { kind: BLOCKED, holds, reason, message }
}

fn blocked(plan: &Plan) -> Vec<Blocked> {
    let of_one = |BlockedStep { step, blocks, .. }: &BlockedStep| {
        let step = step.to_string();
        let each = blocks.iter().map(move |block| Blocked {
            step: step.clone(),
            guard: block.guard.to_string(),
            message: block.why.clone(),
        });
        each.collect::<Vec<_>>()
    };
    plan.blocked.iter().flat_map(of_one).collect()
}

fn key_status(key: &RingKey, known: &Known<'_>, (before, now): (&Status, Timestamp)) -> KeyStatus {
    let (kid, state) = (key.kid().to_string(), key.state.to_string());
    let earlier = before.keys.iter().find(|earlier| earlier.kid == kid && earlier.state == state);
    let left = key.state.is_draining().then(|| known.policy.drain_left(key, key.outlived_by().any()));
    KeyStatus {
        since: earlier.map_or(now, |earlier| earlier.since),
        kid,
        state,
        algorithm: key.public_key.algorithm().to_string(),
        stays_for: left.map(coarse),
        tainted: key.tainted,
    }
}

fn next(known: &Known<'_>) -> String {
    if known.ring.is_rotation_asked() {
        return "as soon as it is safe".to_owned();
    }
    let active = known.ring.active().map_or(0, |key| key.active_seconds);
    match known.policy.settings().schedule {
        Schedule::ByHand => "by hand".to_owned(),
        Schedule::Every(period) => format!("in {}", coarse(period.as_secs().saturating_sub(active))),
        Schedule::Calendar { .. } => {
            let at =
                known.calendar.and_then(|due| Timestamp::from_second(i64::try_from(due.at.0).ok()?).ok());
            at.map_or_else(|| "the calendar names no date".to_owned(), |at| at.to_string())
        }
    }
}

/// A time in its largest unit, rounded up: it does not change with every second.
fn coarse(seconds: u64) -> String {
    match seconds {
        0..7200 => format!("{}m", seconds.div_ceil(60)),
        7200..172_800 => format!("{}h", seconds.div_ceil(3600)),
        _ => format!("{}d", seconds.div_ceil(86_400)),
    }
}

#[cfg(test)]
mod tests {
    use chancery_core::ring::{AdoptedKey, Custody, Request};
    use chancery_core::rotation::{Observations, Settings, plan};
    use chancery_keygen::{KeySpec, PrivateKey};

    use super::*;

    #[test]
    fn time_alone_changes_nothing_and_a_transition_has_its_own() {
        let policy = Policy::new(Settings::default()).unwrap();
        let public_key = PrivateKey::generate(KeySpec::P256).unwrap().public_key().clone();
        let first = AdoptedKey { public_key, signs: true, custody: Custody::Held };
        let ring = KeyRing::new().request(&Request::Adopt(vec![first])).unwrap();
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let status = |ring: &KeyRing, refusal, before: &Status, seconds| {
            let plan = plan(ring, &policy, &Observations::default());
            let known = Known { ring, policy: &policy, plan: &plan, calendar: None, generation: 3, refusal };
            Status::new(&known, before, at(seconds))
        };
        let one = status(&ring, None, &Status::default(), 1000);
        assert_eq!(status(&ring, None, &one, 2000), one);
        assert_eq!((one.next_rotation.as_str(), one.keys[0].since), ("in 90d", at(1000)));
        assert!(one.condition("Ready").unwrap().holds() && one.condition("SpecAccepted").unwrap().holds());
        let refused = status(&ring, Some("no"), &one, 3000);
        let condition = refused.condition("SpecAccepted").unwrap();
        assert_eq!((condition.reason.as_str(), condition.last_transition_time), ("InvalidSpec", at(3000)));
        assert_eq!(refused.condition("Ready"), one.condition("Ready"));
        let written = serde_json::to_value(&refused).unwrap();
        assert_eq!(serde_json::from_value::<Status>(written).unwrap(), refused);
    }

    #[test]
    fn times_are_rounded_up() {
        let shown = [0, 1, 7199, 7200, 172_799, 172_800, 172_801].map(coarse);
        assert_eq!(shown, ["0m", "1m", "120m", "2h", "48h", "2d", "3d"]);
    }
}

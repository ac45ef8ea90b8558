//! What the status of an `Issuer` says: pure, and the same as long as nothing but time has changed.
//!
//! After a restart, or while another replica takes over, it is not known yet what the targets hold: what the status said of
//! them stays until it is.

use std::collections::BTreeMap;

use chancery_core::PublicKey;
use chancery_core::visibility::Obstacle;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Standing;
use crate::conditions::{Condition, ConditionType, Status};

/// The status, as the API server keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct IssuerStatus {
    observed_generation: u64,
    keys: Vec<KeyStatus>,
    targets: Vec<TargetStatus>,
    conditions: Vec<StatusCondition>,
}

/// A published key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct KeyStatus {
    kid: String,
    algorithm: String,
    published_since: Timestamp,
    #[serde(default)]
    may_sign: bool,
    /// What is in the way, each kind once: numbers of seconds would run on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    obstacles: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TargetStatus {
    name: String,
    up_to_date: bool,
    reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_success: Option<Timestamp>,
}

/// One condition, by the API conventions of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StatusCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: String,
    message: String,
    last_transition_time: Timestamp,
    #[serde(default)]
    observed_generation: u64,
}

/// What is known when a status is written.
#[derive(Debug)]
pub(super) struct Known<'a> {
    /// The condition of the object itself.
    pub standing: &'a Condition,
    /// The conditions of its issuer, none when it does not run.
    pub conditions: Vec<&'a Condition>,
    /// The keys that are published, once every source was read, each with what keeps it from signing.
    pub keys: Option<Vec<(PublicKey, Vec<Obstacle>)>>,
    /// Its targets by name, each with the time when it was last found as it should be.
    pub targets: Vec<(String, Option<Timestamp>)>,
}

/// How much later a success may be than the status says before it is written for that alone.
const LATER: SignedDuration = SignedDuration::from_hours(1);
/// The longest message; whoever wants the rest reads the log.
const LONGEST_MESSAGE: usize = 2048;
/// Conditions of which an issuer has one for each of its parts: the worst is shown.
const OF_PARTS: [ConditionType; 9] = [
    ConditionType::Read,
    ConditionType::SigningKeyVisible,
    ConditionType::Published,
    ConditionType::OwnedByUs,
    ConditionType::Drifted,
    ConditionType::ForeignKeys,
    ConditionType::Uploaded,
    ConditionType::Visible,
    ConditionType::ServedAsPublished,
];

impl IssuerStatus {
    /// As the API server has it; nothing when it has another form.
    pub fn read(status: &Value) -> Self {
        serde_json::from_value(status.clone()).unwrap_or_default()
    }

    /// What is to be said now, `before` having been said.
    pub fn new(known: &Known<'_>, before: &Self, now: Timestamp) -> Self {
        let now = whole_seconds(now);
        let generation = known.standing.observed_generation.unwrap_or_default();
        let conditions = known.said().into_iter().map(|said| said.at(before, generation, now));
        let mut status = Self {
            observed_generation: generation,
            keys: known.keys(before, now),
            targets: known.targets.iter().map(|(name, _)| known.target(name, before)).collect(),
            conditions: conditions.collect(),
        };
        if known.runs() && !known.is_settled() {
            status.keep_what_is_not_known_yet(before);
        }
        let successes: BTreeMap<&str, Timestamp> = known
            .targets
            .iter()
            .filter_map(|(name, at)| Some((name.as_str(), whole_seconds((*at)?))))
            .collect();
        // That a target is still as it should be is written with whatever else is, or when it is an hour ago.
        let is_late = |target: &TargetStatus| {
            let success = successes.get(target.name.as_str());
            success.is_some_and(|at| target.last_success.is_none_or(|said| at.duration_since(said) >= LATER))
        };
        if status != *before || status.targets.iter().any(is_late) {
            for target in &mut status.targets {
                target.last_success = successes.get(target.name.as_str()).copied().or(target.last_success);
            }
        }
        status
    }

    /// Before this replica has looked everywhere, what was said of the same spec still holds.
    fn keep_what_is_not_known_yet(&mut self, before: &Self) {
        // While another had what it needs it did not run, and nothing was known.
        let ran = before.condition("Accepted").is_some_and(|it| !Standing::stands_still(&it.reason));
        let holds = |earlier: &&StatusCondition| {
            ran && earlier.reason != WAITING && earlier.observed_generation == self.observed_generation
        };
        for earlier in before.conditions.iter().filter(holds) {
            match self.conditions.iter_mut().find(|condition| condition.kind == earlier.kind) {
                None => self.conditions.push(earlier.clone()),
                Some(condition) if condition.reason == WAITING => *condition = earlier.clone(),
                Some(_) => {}
            }
        }
        self.conditions.sort_by_key(|condition| order(&condition.kind));
    }

    fn condition(&self, kind: &str) -> Option<&StatusCondition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }

    fn target(&self, name: &str) -> Option<&TargetStatus> {
        self.targets.iter().find(|target| target.name == name)
    }
}

/// The reason of an issuer of which it is not known yet how it fares.
const WAITING: &str = "Waiting";

/// The place of a condition: the two that sum up come first.
fn order(kind: &str) -> usize {
    let of_parts = OF_PARTS.iter().position(|known| known.as_str() == kind).map(|place| place + 2);
    match kind {
        "Ready" => 0,
        "Accepted" => 1,
        _ => of_parts.unwrap_or(usize::MAX),
    }
}

impl Known<'_> {
    fn runs(&self) -> bool {
        Standing::runs(self.standing.reason)
    }

    /// Whether every source was read and every target written or refused since this replica writes.
    fn is_settled(&self) -> bool {
        self.keys.is_some() && self.waited_for().is_none()
    }

    /// The first target that this replica knows nothing of yet.
    fn waited_for(&self) -> Option<&str> {
        let unknown = |(name, _): &&(String, Option<Timestamp>)| self.published(name).is_none();
        self.targets.iter().find(unknown).map(|(name, _)| name.as_str())
    }

    fn published(&self, target: &str) -> Option<&Condition> {
        let part = format!("target {target}");
        self.of(ConditionType::Published).find(|condition| condition.subject.part() == part)
    }

    fn of(&self, kind: ConditionType) -> impl Iterator<Item = &Condition> {
        self.conditions.iter().copied().filter(move |condition| condition.condition == kind)
    }

    fn said(&self) -> Vec<Said> {
        let mut said = vec![self.ready(), self.accepted()];
        said.extend(OF_PARTS.into_iter().filter_map(|kind| {
            let bad = self.of(kind).find(|condition| !condition.is_good());
            bad.or_else(|| self.of(kind).next()).map(Said::of_part)
        }));
        said
    }

    /// Whether everything that the issuer names is open, and by which spec.
    fn accepted(&self) -> Said {
        let of_issuer = self.of(ConditionType::Accepted).find(|condition| !condition.is_good());
        Said::of(of_issuer.filter(|_| self.standing.is_good()).unwrap_or(self.standing))
    }

    fn ready(&self) -> Said {
        let kind = ConditionType::Ready.as_str();
        if !self.runs() {
            return Said { kind, ..Said::of(self.standing) };
        }
        let found = self.of(ConditionType::Ready).next();
        if let Some(bad) = found.filter(|condition| !condition.is_good()) {
            return Said::of(bad);
        }
        let message = match (found, &self.keys, self.waited_for()) {
            (Some(ready), Some(_), None) => return Said::of(ready),
            (Some(_), Some(_), Some(target)) => format!("the target {target} was not written yet"),
            (Some(_), None, _) => "no key was read yet".to_owned(),
            (None, ..) => "what it names is not open yet".to_owned(),
        };
        Said { kind, status: Status::False, reason: WAITING, message }
    }

    fn keys(&self, before: &IssuerStatus, now: Timestamp) -> Vec<KeyStatus> {
        let Some(keys) = &self.keys else {
            return if self.runs() { before.keys.clone() } else { Vec::new() };
        };
        let keys = keys.iter().map(|(key, obstacles)| {
            let kid = key.key_id().to_string();
            let earlier = before.keys.iter().find(|earlier| earlier.kid == kid);
            KeyStatus {
                algorithm: key.algorithm().to_string(),
                published_since: earlier.map_or(now, |earlier| earlier.published_since),
                may_sign: obstacles.is_empty(),
                obstacles: kinds(obstacles),
                kid,
            }
        });
        keys.collect()
    }

    fn target(&self, name: &str, before: &IssuerStatus) -> TargetStatus {
        let earlier = before.target(name);
        let last_success = earlier.and_then(|earlier| earlier.last_success);
        match (self.published(name), earlier) {
            (Some(published), _) => TargetStatus {
                name: name.to_owned(),
                up_to_date: published.is_good(),
                reason: published.reason.to_owned(),
                last_success,
            },
            (None, Some(earlier)) => earlier.clone(),
            (None, None) => {
                let (name, reason) = (name.to_owned(), WAITING.to_owned());
                TargetStatus { name, up_to_date: false, reason, last_success }
            }
        }
    }
}

/// The kinds of obstacles, as the record of visibility calls them, each once.
fn kinds(obstacles: &[Obstacle]) -> Vec<String> {
    let kind = |obstacle: &Obstacle| {
        let written = serde_json::to_value(obstacle).ok()?;
        Some(written.get("reason")?.as_str()?.to_owned())
    };
    let mut kinds: Vec<String> = obstacles.iter().filter_map(kind).collect();
    kinds.sort();
    kinds.dedup();
    kinds
}

fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// A condition without its history.
struct Said {
    kind: &'static str,
    status: Status,
    reason: &'static str,
    message: String,
}

impl Said {
    fn of(condition: &Condition) -> Self {
        let (status, reason) = (condition.status, condition.reason);
        Self { kind: condition.condition.as_str(), status, reason, message: cut(condition.message.clone()) }
    }

    fn of_part(condition: &Condition) -> Self {
        let message = cut(format!("{}: {}", condition.subject.part(), condition.message));
        Self { message, ..Self::of(condition) }
    }

    fn at(self, before: &IssuerStatus, observed_generation: u64, now: Timestamp) -> StatusCondition {
        let status = match self.status {
            Status::True => "True",
            Status::False => "False",
            Status::Unknown => "Unknown",
        };
        let earlier = before.condition(self.kind).filter(|earlier| earlier.status == status);
        StatusCondition {
            kind: self.kind.to_owned(),
            status: status.to_owned(),
            reason: self.reason.to_owned(),
            message: self.message,
            last_transition_time: earlier.map_or(now, |earlier| earlier.last_transition_time),
            observed_generation,
        }
    }
}

fn cut(mut message: String) -> String {
    if message.len() > LONGEST_MESSAGE {
        let end = (0..=LONGEST_MESSAGE).rev().find(|end| message.is_char_boundary(*end)).unwrap_or_default();
        message.truncate(end);
        message.push_str("...");
    }
    message
}

#[cfg(test)]
#[path = "status/tests.rs"]
mod tests;

//! What a page says, as plain data: JSON as it stands, and the whole of what a template is given.
//!
//! Times are RFC 3339 in UTC. A member whose name ends in `Seconds` is a whole number of seconds. Members are added in later
//! releases; none changes its meaning without another [`FORMAT`].

use jiff::Timestamp;
use serde::Serialize;

use super::standing::Standing;
use super::state::State;
use crate::conditions::{Condition, Status};

/// The form of the JSON.
pub const FORMAT: u32 = 1;

/// The page of all issuers.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// [`FORMAT`].
    pub format: u32,
    /// Who says it.
    pub replica: Replica,
    /// How many issuers stand how, all of them.
    pub counts: Counts,
    /// What was asked for.
    pub asked: Asked,
    /// How many issuers are what was asked for.
    pub matching: usize,
    /// How many pages they take.
    pub pages: usize,
    /// Those of this page, the worst first, then by URL.
    pub issuers: Vec<IssuerRow>,
}

/// The process that says it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Replica {
    /// When.
    pub at: Timestamp,
    /// Which build.
    pub version: &'static str,
    /// Whether this replica publishes. What targets and sinks hold is known to that one alone.
    pub publishes: bool,
    /// Its serving certificates.
    pub certificates: Vec<CertificateRow>,
    /// `Issuer` objects whose spec of now is not followed.
    pub objects: Vec<ObjectRow>,
}

/// An `Issuer` object.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRow {
    /// Its name.
    pub name: String,
    /// How it stands.
    #[serde(flatten)]
    pub standing: Standing,
}

/// A serving certificate.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CertificateRow {
    /// Its file.
    pub path: String,
    /// When the one in use expires.
    pub expires_at: Option<Timestamp>,
    /// How it stands.
    #[serde(flatten)]
    pub standing: Standing,
}

/// How many issuers stand how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// A person must act.
    pub broken: usize,
    /// A person should find out about something.
    pub attention: usize,
    /// It will be well by itself.
    pub waiting: usize,
    /// All is well.
    pub healthy: usize,
}

impl Counts {
    /// One more.
    pub fn count(&mut self, state: State) {
        match state {
            State::Broken => self.broken += 1,
            State::Attention => self.attention += 1,
            State::Waiting | State::Unknown => self.waiting += 1,
            State::Healthy => self.healthy += 1,
        }
    }

    /// All of them.
    pub fn total(self) -> usize {
        self.broken + self.attention + self.waiting + self.healthy
    }

    /// How many there are of each, the worst first.
    pub fn each(self) -> [(State, usize); 4] {
        [
            (State::Broken, self.broken),
            (State::Attention, self.attention),
            (State::Waiting, self.waiting),
            (State::Healthy, self.healthy),
        ]
    }
}

/// What of the issuers was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Asked {
    /// Which page, counted from 1.
    pub page: usize,
    /// Only those that stand so.
    pub state: Option<State>,
    /// Only those whose URL contains this.
    pub find: Option<String>,
}

/// One issuer among all.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IssuerRow {
    /// Its URL.
    pub issuer: String,
    /// How it stands.
    #[serde(flatten)]
    pub standing: Standing,
    /// How many keys it publishes.
    pub published_keys: usize,
    /// How many of them wait to be seen everywhere for long enough.
    pub waiting_keys: usize,
}

/// The page of one issuer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IssuerPage {
    /// [`FORMAT`].
    pub format: u32,
    /// Who says it.
    pub replica: Replica,
    /// The issuer URL.
    pub issuer: String,
    /// Where its discovery document is.
    pub discovery_url: String,
    /// Where its JWKS is.
    pub jwks_url: String,
    /// How it stands.
    #[serde(flatten)]
    pub standing: Standing,
    /// Everything that is not as it should be, the worst first.
    pub problems: Vec<Standing>,
    /// Its published keys, in their order.
    pub keys: Vec<KeyRow>,
    /// The keys that are withdrawn, the latest first.
    pub withdrawn_keys: Vec<WithdrawnKeyRow>,
    /// The rotation, where a key ring decides.
    pub rotation: Option<Rotation>,
    /// Where its keys come from.
    pub sources: Vec<PartRow>,
    /// Where relying parties read from.
    pub targets: Vec<TargetRow>,
    /// Who is given the keys themselves.
    pub sinks: Vec<PartRow>,
    /// What is seen from outside.
    pub outside: OutsideView,
    /// Every condition.
    pub conditions: Vec<ConditionRow>,
}

/// A published key.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyRow {
    /// Its id.
    pub kid: String,
    /// Its algorithm.
    pub algorithm: &'static str,
    /// `pending`, `published`, `active` or `retiring` as its ring says; `live` or `retained` where none decides.
    pub state: &'static str,
    /// What that means.
    pub meaning: &'static str,
    /// Whether it may sign; nothing where nobody can tell.
    pub may_sign: Option<bool>,
    /// What is in the way.
    pub because: Vec<String>,
    /// How long it takes at least, if nothing but time is in the way.
    pub may_sign_in_seconds: Option<u64>,
    /// When this replica first saw it.
    pub first_seen_at: Option<Timestamp>,
    /// For how long it stays, in accumulated time, when no source shows it any more.
    pub leaves_in_seconds: Option<u64>,
    /// Where it is visible, and for how long.
    pub visible: Vec<VisibleRow>,
}

/// For how long one key was visible in one view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VisibleRow {
    /// The view.
    pub view: String,
    /// Whether every edge showed it at the last look.
    pub shown_now: bool,
    /// Without a gap, intervals without observation left out.
    pub visible_seconds: u64,
    /// Without such an interval either.
    pub unbroken_seconds: u64,
}

/// A withdrawn key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WithdrawnKeyRow {
    /// Its id, or the beginning of it where no more is known.
    pub kid: String,
    /// `expired`, `retired` or `revoked`.
    pub cause: String,
}

/// What the key ring says of the rotation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rotation {
    /// How far the ring has come.
    pub epoch: u64,
    /// The change of that epoch.
    pub generation: u64,
    /// Whether what it says is followed; an older one is not.
    pub followed: bool,
    /// The key that signs.
    pub active_key: Option<String>,
    /// When a key was activated last, by the clock of whoever rotates.
    pub activated_at: Option<Timestamp>,
    /// Whether a rotation was asked for and has not begun.
    pub asked: bool,
    /// What comes next, in one sentence.
    pub next: &'static str,
}

/// A source or a sink.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PartRow {
    /// Its name.
    pub name: String,
    /// How it stands.
    #[serde(flatten)]
    pub standing: Standing,
    /// When it was last read, or found up to date.
    pub last_good_at: Option<Timestamp>,
}

/// A target.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetRow {
    /// What it has in common with sources and sinks.
    #[serde(flatten)]
    pub part: PartRow,
    /// What changed there behind our back; nothing where that is not known.
    pub drift: Option<Standing>,
    /// Keys there that are not ours; nothing where that is not known.
    pub foreign_keys: Option<Standing>,
}

impl TargetRow {
    /// What is known of drift and foreign keys.
    pub fn facts(&self) -> impl Iterator<Item = &Standing> {
        self.drift.iter().chain(&self.foreign_keys)
    }
}

/// What is seen from outside.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OutsideView {
    /// Whether anybody is to look.
    pub looked_at: bool,
    /// Why the rest says nothing about now, if it does not.
    pub obstacle: Option<String>,
    /// When it was last looked at by this replica.
    pub last_look_at: Option<Timestamp>,
    /// How long a new key must be visible without a gap before it may sign.
    pub wait_seconds: u64,
    /// The longest time for which a cache may still hold what was served.
    pub longest_max_age_seconds: Option<u64>,
    /// Each place that relying parties read.
    pub views: Vec<ViewRow>,
}

/// A place that relying parties read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ViewRow {
    /// Its name.
    pub name: String,
    /// How long ago it was read.
    pub read_seconds_ago: Option<u64>,
    /// The longest time for which a cache may still hold what was served there.
    pub longest_max_age_seconds: Option<u64>,
    /// The ways to read it.
    pub edges: Vec<EdgeRow>,
}

/// One way to read a view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EdgeRow {
    /// Its name.
    pub name: String,
    /// Why it could not be read.
    pub unreadable: Option<String>,
    /// Published keys that it does not show.
    pub missing: Vec<String>,
    /// How many keys it shows that are not ours.
    pub other_keys: usize,
    /// How long its answer had been in a cache.
    pub age_seconds: Option<u64>,
    /// How long its answer may be kept.
    pub max_age_seconds: Option<u64>,
}

/// A condition, in the form of Kubernetes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConditionRow {
    /// Of which part.
    pub subject: String,
    /// Which one.
    #[serde(rename = "type")]
    pub condition: &'static str,
    /// `True`, `False` or `Unknown`.
    pub status: Status,
    /// One word in CamelCase.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
    /// Since when its status is what it is.
    pub last_transition_time: Timestamp,
}

impl From<&Condition> for ConditionRow {
    fn from(condition: &Condition) -> Self {
        Self {
            subject: condition.subject.part(),
            condition: condition.condition.as_str(),
            status: condition.status,
            reason: condition.reason,
            message: condition.message.clone(),
            last_transition_time: condition.last_transition_time,
        }
    }
}

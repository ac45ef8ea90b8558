//! What is so about each issuer and its sources, targets, sinks and views, and about each serving certificate, in the form in which Kubernetes says such things.
//!
//! A condition has a status, a reason for programs and a message for people, and says since when its status is what it
//! is. [`Conditions`] is a pure state machine: what is said again changes nothing, so that nobody is told twice.
//!
//! | condition | of | good | reasons |
//! |---|---|---|---|
//! | `Accepted` | issuer | `True` | `Running`; `CannotOpen` |
//! | `Accepted` | `Issuer` object | `True` | `Followed`; `LastGoodFollowed`, `InvalidSpec`, `Collision` |
//! | `Ready` | issuer | `True` | `AllGood`; `NotReady` |
//! | `Read` | source | `True` | `Read`; `NotYetRead`, `Unreadable`, `Incomplete` |
//! | `SigningKeyVisible` | source | `True` | `VisibleEverywhere`, `Published`; `NotYetProven`, `UnannouncedActivation`, `CannotAsk` |
//! | `Published` | target | `True` | `UpToDate`; `Blocked`, `Raced`, `Failed`, `NoAnswer` |
//! | `OwnedByUs` | target | `True` | `OurMarker`; `ForeignMarker`, `Unmarked` |
//! | `Drifted` | target | `False` | `AsWritten`; `Changed`, `Vanished`, `Oversize`, `MarkerReplaced`, `RolledBack`, `ForeignKeys` |
//! | `ForeignKeys` | target | `False` | `NoForeignKeys`; `KeysOfNoSource`, `PossibleIntrusion` |
//! | `Uploaded` | sink | `True` | `UpToDate`; `Blocked`, `Raced`, `Failed`, `NoAnswer` |
//! | `Visible` | view | `True` | `SeenEverywhere`; `KeyNotYetSeen`, `KeyVanished`, `EdgeUnreadable` |
//! | `ServedAsPublished` | view | `True` | `AsPublished`; `Stale`, `Altered`, `ServesForeignKeys`, `NotKnownHere`, `TargetsNotRead` |
//! | `Acceptable` | serving certificate | `True` | `InUse`; `Unacceptable`, `ReplacementRefused` |
//!
//! `Ready` is what all other conditions of an issuer come to. `Drifted` and `ForeignKeys` do not count: a target that
//! drifted is written anew, which `Published` says, and foreign keys harm nobody who reads there.

use std::collections::BTreeMap;

use chancery_core::IssuerUrl;
use jiff::Timestamp;
use serde::Serialize;

mod store;
mod subject;

pub use store::{ConditionStore, Transition};
pub use subject::{PartKind, Subject};

/// The reason of [`ConditionType::Read`] when a part of a source was never read since the start.
pub(crate) const INCOMPLETE: &str = "Incomplete";

/// The reason of [`ConditionType::SigningKeyVisible`] when a key signs before every relying party can have it.
#[cfg(feature = "kube")]
pub(crate) const UNANNOUNCED: &str = "UnannouncedActivation";

/// The conditions there are; the table at the head of this module explains each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum ConditionType {
    /// Everything the issuer names is open, and its tasks run; or what an object declares is followed.
    Accepted,
    /// Nobody needs to act on any of the issuer's conditions, but for what is repaired by itself.
    Ready,
    /// Every part of the source was read.
    Read,
    /// Every relying party can have the key that the source signs with.
    SigningKeyVisible,
    /// The target holds what is to be published.
    Published,
    /// The target's objects carry our marker.
    OwnedByUs,
    /// Something on the target changed, and not by us.
    Drifted,
    /// The target shows keys that are not ours.
    ForeignKeys,
    /// The sink holds what is to be published.
    Uploaded,
    /// Every edge of the view shows every key.
    Visible,
    /// What the view serves is what a target of ours holds.
    ServedAsPublished,
    /// Clients take the serving certificate in use, and what lies in its files is in use.
    Acceptable,
}

impl ConditionType {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "Accepted",
            Self::Ready => "Ready",
            Self::Read => "Read",
            Self::SigningKeyVisible => "SigningKeyVisible",
            Self::Published => "Published",
            Self::OwnedByUs => "OwnedByUs",
            Self::Drifted => "Drifted",
            Self::ForeignKeys => "ForeignKeys",
            Self::Uploaded => "Uploaded",
            Self::Visible => "Visible",
            Self::ServedAsPublished => "ServedAsPublished",
            Self::Acceptable => "Acceptable",
        }
    }

    /// The status that nobody needs to act on.
    fn good(self) -> Status {
        match self {
            Self::Drifted | Self::ForeignKeys => Status::False,
            _ => Status::True,
        }
    }

    fn opposite(self) -> Status {
        if self.good() == Status::True { Status::False } else { Status::True }
    }
}

/// Kubernetes' three values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Status {
    /// It is so.
    True,
    /// It is not.
    False,
    /// Nobody can tell.
    Unknown,
}

/// What somebody found about one subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Of which condition.
    pub condition: ConditionType,
    /// Whether it is so.
    pub status: Status,
    /// One word in CamelCase.
    pub reason: &'static str,
    /// A sentence. It holds no number that runs on by itself, so that it is the same as long as nothing changes.
    pub message: String,
    /// The generation of the decisions that this is about.
    pub generation: Option<u64>,
    /// Whether somebody should act on it.
    pub alarm: bool,
}

impl Verdict {
    /// All is well.
    pub fn good(condition: ConditionType, reason: &'static str, message: impl Into<String>) -> Self {
        let (status, message) = (condition.good(), message.into());
        Self { condition, status, reason, message, generation: None, alarm: false }
    }

    /// Somebody should act.
    pub fn bad(condition: ConditionType, reason: &'static str, message: impl Into<String>) -> Self {
        Self { alarm: true, ..Self::pending(condition, reason, message) }
    }

    /// Not well yet, and it will be by itself.
    pub fn pending(condition: ConditionType, reason: &'static str, message: impl Into<String>) -> Self {
        Self { status: condition.opposite(), ..Self::good(condition, reason, message) }
    }

    /// Nobody can tell, and somebody should find out why.
    pub fn unknown(condition: ConditionType, reason: &'static str, message: impl Into<String>) -> Self {
        Self { status: Status::Unknown, alarm: true, ..Self::good(condition, reason, message) }
    }

    /// The same about the decisions of this generation.
    #[must_use]
    pub fn at(self, generation: Option<u64>) -> Self {
        Self { generation, ..self }
    }
}

/// One condition as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What it is about.
    #[serde(flatten)]
    pub subject: Subject,
    /// Which one.
    #[serde(rename = "type")]
    pub condition: ConditionType,
    /// Whether it is so.
    pub status: Status,
    /// One word in CamelCase.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
    /// Since when the status is what it is.
    pub last_transition_time: Timestamp,
    /// The generation of the decisions that this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<u64>,
    /// Whether somebody should act on it, as [`Verdict::alarm`].
    #[serde(skip)]
    pub alarm: bool,
}

impl Condition {
    /// Whether nobody needs to act on it.
    pub fn is_good(&self) -> bool {
        self.status == self.condition.good()
    }

    /// Whether its issuer is not ready because of it.
    fn keeps_from_ready(&self) -> bool {
        use ConditionType::{Drifted, ForeignKeys, Ready};
        !self.is_good() && !matches!(self.condition, Ready | Drifted | ForeignKeys)
    }
}

/// What a verdict did to the conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// Nothing: it was known.
    Nothing,
    /// This was not known of the subject at all.
    First,
    /// The words changed, the case is the same.
    Words,
    /// The status or its reason changed, or what happens now and then has happened again.
    Case,
}

/// Every condition of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions(BTreeMap<(Subject, ConditionType), Box<Condition>>);

impl Conditions {
    /// Takes a verdict that was found at `now`.
    pub fn set(&mut self, subject: &Subject, verdict: &Verdict, now: Timestamp) -> News {
        let news = self.take(subject, verdict, now);
        if news != News::Nothing
            && let Some(issuer) = subject.issuer_url()
        {
            self.sum_up(&issuer.clone(), now);
        }
        news
    }

    /// Drops everything about a subject that this replica does not look at any more. Whether there was anything.
    pub fn forget(&mut self, subject: &Subject, now: Timestamp) -> bool {
        let before = self.0.len();
        self.0.retain(|(known, _), _| known != subject);
        let is_gone = self.0.len() < before;
        if is_gone && let Some(issuer) = subject.issuer_url() {
            self.sum_up(issuer, now);
        }
        is_gone
    }

    /// Drops everything about an issuer that is not ours any more. Whether there was anything.
    pub fn forget_issuer(&mut self, issuer: &IssuerUrl) -> bool {
        let before = self.0.len();
        self.0.retain(|(known, _), _| known.issuer_url() != Some(issuer));
        self.0.len() < before
    }

    /// Those of one issuer, by subject and type.
    pub fn of_issuer(&self, issuer: &IssuerUrl) -> impl Iterator<Item = &Condition> {
        // The issuer is the first of its own subjects, and all of them stand together.
        let from = (Subject::issuer(issuer), ConditionType::Accepted);
        let all = self.0.range(from..).map(|(_, condition)| condition.as_ref());
        all.take_while(move |condition| condition.subject.issuer_url() == Some(issuer))
    }

    /// All of them, by issuer, subject and type.
    pub fn iter(&self) -> impl Iterator<Item = &Condition> {
        self.0.values().map(Box::as_ref)
    }

    fn take(&mut self, subject: &Subject, verdict: &Verdict, now: Timestamp) -> News {
        let key = (subject.clone(), verdict.condition);
        let known = self.0.get(&key);
        let same_status = known.is_some_and(|known| known.status == verdict.status);
        let same_case = same_status && known.is_some_and(|known| known.reason == verdict.reason);
        let since = known.filter(|_| same_status).map_or(now, |known| known.last_transition_time);
        let condition = Condition {
            subject: subject.clone(),
            condition: verdict.condition,
            status: verdict.status,
            reason: verdict.reason,
            message: verdict.message.clone(),
            last_transition_time: since,
            observed_generation: verdict.generation,
            alarm: verdict.alarm,
        };
        // Drift is an event each time: it was written anew in between.
        let again = verdict.condition == ConditionType::Drifted && verdict.alarm;
        let news = match known {
            None => News::First,
            Some(known) if **known == condition && !again => News::Nothing,
            _ if same_case && !again => News::Words,
            _ => News::Case,
        };
        self.0.insert(key, Box::new(condition));
        news
    }

    /// Says of an issuer what its other conditions come to, once it was said whether it is accepted.
    fn sum_up(&mut self, issuer: &IssuerUrl, now: Timestamp) {
        let subject = Subject::issuer(issuer);
        if !self.0.contains_key(&(subject.clone(), ConditionType::Accepted)) {
            return;
        }
        let mut bad = self.of_issuer(issuer).filter(|condition| condition.keeps_from_ready());
        let verdict = match (bad.next(), bad.count()) {
            (None, _) => Verdict::good(ConditionType::Ready, "AllGood", "all is as it should be"),
            (Some(first), more) => {
                let (condition, reason) = (first.condition.as_str(), first.reason);
                let more = if more > 0 { format!(", and {more} more") } else { String::new() };
                let message = format!("{condition} of {} ({reason}){more}", first.subject);
                Verdict::bad(ConditionType::Ready, "NotReady", message)
            }
        };
        self.take(&subject, &verdict, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject() -> Subject {
        Subject::target(&"https://id.example.com".parse().unwrap(), "bucket")
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_time_is_that_of_the_last_change_of_status_and_what_is_known_is_no_news() {
        use ConditionType::Published;
        let mut conditions = Conditions::default();
        let good = Verdict::good(Published, "UpToDate", "as it should be").at(Some(1));
        let failed = Verdict::bad(Published, "Failed", "no answer");
        for (second, verdict, news, since) in [
            (1, good.clone(), News::First, 1),
            (2, good.clone(), News::Nothing, 1),
            (3, good.clone().at(Some(2)), News::Words, 1),
            (4, failed.clone(), News::Case, 4),
            (5, failed.clone(), News::Nothing, 4),
            (6, Verdict { message: "denied".to_owned(), ..failed.clone() }, News::Words, 4),
            (7, Verdict { reason: "Blocked", ..failed }, News::Case, 4),
            (8, Verdict::unknown(Published, "NotRead", "?"), News::Case, 8),
            (9, good, News::Case, 9),
        ] {
            assert_eq!(conditions.set(&subject(), &verdict, at(second)), news, "{second}");
            let condition = conditions.iter().next().unwrap();
            assert_eq!((condition.status, condition.reason), (verdict.status, verdict.reason));
            assert_eq!(condition.last_transition_time, at(since), "{second}");
        }
        assert_eq!(conditions.iter().count(), 1);
    }

    #[test]
    fn good_is_true_for_some_and_false_for_others_and_drift_is_news_each_time() {
        let mut conditions = Conditions::default();
        let drifted = Verdict::bad(ConditionType::Drifted, "Changed", "the JWKS was changed");
        assert_eq!(drifted.status, Status::True);
        assert_eq!(conditions.set(&subject(), &drifted, at(1)), News::First);
        assert_eq!(conditions.set(&subject(), &drifted, at(2)), News::Case);
        assert!(!conditions.iter().next().unwrap().is_good());
        let calm = Verdict::good(ConditionType::Drifted, "AsWritten", "");
        assert_eq!(calm.status, Status::False);
        conditions.set(&subject(), &calm, at(3));
        assert!(conditions.iter().next().unwrap().is_good());
        assert!(conditions.forget(&subject(), at(4)) && !conditions.forget(&subject(), at(4)));
    }

    #[test]
    fn a_condition_has_kubernetes_form() {
        let mut conditions = Conditions::default();
        let verdict = Verdict::bad(ConditionType::OwnedByUs, "ForeignMarker", "theirs").at(Some(7));
        conditions.set(&subject(), &verdict, at(1_700_000_000));
        let expected = serde_json::json!({
            "issuer": "https://id.example.com", "subject": "target bucket", "type": "OwnedByUs", "status": "False",
            "reason": "ForeignMarker", "message": "theirs", "lastTransitionTime": "2023-11-14T22:13:20Z",
            "observedGeneration": 7,
        });
        assert_eq!(serde_json::to_value(conditions.iter().next().unwrap()).unwrap(), expected);
    }

    #[test]
    fn an_issuer_that_is_accepted_is_ready_when_nothing_keeps_it_from_that() {
        use ConditionType::{Accepted, Drifted, Published, Ready};
        let issuer: IssuerUrl = "https://id.example.com".parse().unwrap();
        let mut conditions = Conditions::default();
        let ready = |conditions: &Conditions| {
            let ready = conditions.iter().find(|condition| condition.condition == Ready);
            ready.map(|ready| (ready.is_good(), ready.last_transition_time, ready.message.clone()))
        };
        let published = Verdict::good(Published, "UpToDate", "");
        conditions.set(&subject(), &published, at(1));
        assert_eq!(ready(&conditions), None, "nobody said that it is accepted");
        conditions.set(&Subject::issuer(&issuer), &Verdict::good(Accepted, "Running", ""), at(2));
        assert_eq!(ready(&conditions).map(|ready| (ready.0, ready.1)), Some((true, at(2))));
        conditions.set(&subject(), &Verdict::bad(Drifted, "Changed", ""), at(3));
        assert_eq!(ready(&conditions).map(|ready| ready.1), Some(at(2)));
        conditions.set(&subject(), &Verdict::bad(Published, "Failed", "down"), at(4));
        let (good, since, message) = ready(&conditions).unwrap();
        assert_eq!((good, since), (false, at(4)));
        assert!(message.contains("Published of https://id.example.com target bucket (Failed)"), "{message}");
        conditions.forget(&subject(), at(5));
        assert_eq!(ready(&conditions).map(|ready| (ready.0, ready.1)), Some((true, at(5))));
        assert!(conditions.forget_issuer(&issuer) && conditions.iter().next().is_none());
    }
}

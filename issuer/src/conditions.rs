//! What is so about each target and each view, in the form in which Kubernetes says such things.
//!
//! A condition has a status, a reason for programs and a message for people, and says since when its status is what it
//! is. [`Conditions`] is a pure state machine: what is said again changes nothing, so that nobody is told twice.
//!
//! | condition | of a | good | reasons |
//! |---|---|---|---|
//! | `Published` | target | `True` | `UpToDate`; `Blocked`, `Raced`, `Failed` |
//! | `OwnedByUs` | target | `True` | `OurMarker`; `ForeignMarker`, `Unmarked` |
//! | `Drifted` | target | `False` | `AsWritten`; `Changed`, `Vanished`, `MarkerReplaced`, `ForeignKeys` |
//! | `ForeignKeys` | target | `False` | `NoForeignKeys`; `KeysOfNoSource`, `PossibleIntrusion` |
//! | `Visible` | view | `True` | `SeenEverywhere`; `KeyNotYetSeen`, `KeyVanished`, `EdgeUnreadable` |
//! | `ServedAsPublished` | view | `True` | `AsPublished`; `Stale`, `Altered`, `ServesForeignKeys` |

use std::collections::BTreeMap;

use chancery_core::IssuerUrl;
use jiff::Timestamp;
use serde::Serialize;

mod board;

pub use board::{Board, Happening};

/// What a condition is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Subject {
    /// Whose documents.
    pub issuer: IssuerUrl,
    /// `target NAME` or `view NAME`.
    pub subject: String,
}

impl Subject {
    /// A target, by its name in the configuration.
    pub fn target(issuer: &IssuerUrl, name: &str) -> Self {
        Self { issuer: issuer.clone(), subject: format!("target {name}") }
    }

    /// A view, by the name that the visibility record gives it.
    pub fn view(issuer: &IssuerUrl, name: &str) -> Self {
        Self { issuer: issuer.clone(), subject: format!("view {name}") }
    }
}

/// The conditions there are; the table at the head of this module explains each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum ConditionType {
    /// The target holds what is to be published.
    Published,
    /// The target's objects carry our marker.
    OwnedByUs,
    /// Something on the target changed, and not by us.
    Drifted,
    /// The target shows keys that are not ours.
    ForeignKeys,
    /// Every edge of the view shows every key.
    Visible,
    /// What the view serves is what a target of ours holds.
    ServedAsPublished,
}

impl ConditionType {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Published => "Published",
            Self::OwnedByUs => "OwnedByUs",
            Self::Drifted => "Drifted",
            Self::ForeignKeys => "ForeignKeys",
            Self::Visible => "Visible",
            Self::ServedAsPublished => "ServedAsPublished",
        }
    }

    /// The status that nobody needs to act on.
    fn good(self) -> Status {
        match self {
            Self::Drifted | Self::ForeignKeys => Status::False,
            Self::Published | Self::OwnedByUs | Self::Visible | Self::ServedAsPublished => Status::True,
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
        Self::of(condition, condition.good(), (reason, message.into()), false)
    }

    /// Somebody should act.
    pub fn bad(condition: ConditionType, reason: &'static str, message: impl Into<String>) -> Self {
        Self::of(condition, condition.opposite(), (reason, message.into()), true)
    }

    /// Not well yet, and it will be by itself.
    pub fn pending(condition: ConditionType, reason: &'static str, message: impl Into<String>) -> Self {
        Self::of(condition, condition.opposite(), (reason, message.into()), false)
    }

    /// Nobody can tell, and somebody should find out why.
    pub fn unknown(condition: ConditionType, reason: &'static str, message: impl Into<String>) -> Self {
        Self::of(condition, Status::Unknown, (reason, message.into()), true)
    }

    /// The same about the decisions of this generation.
    #[must_use]
    pub fn at(self, generation: Option<u64>) -> Self {
        Self { generation, ..self }
    }

    fn of(
        condition: ConditionType,
        status: Status,
        (reason, message): (&'static str, String),
        alarm: bool,
    ) -> Self {
        Self { condition, status, reason, message, generation: None, alarm }
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
}

impl Condition {
    /// Whether nobody needs to act on it.
    pub fn is_good(&self) -> bool {
        self.status == self.condition.good()
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
pub struct Conditions(BTreeMap<(Subject, ConditionType), Condition>);

impl Conditions {
    /// Takes a verdict that was found at `now`.
    pub fn set(&mut self, subject: &Subject, verdict: &Verdict, now: Timestamp) -> News {
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
        };
        // Drift is an event each time: it was written anew in between.
        let again = verdict.condition == ConditionType::Drifted && verdict.alarm;
        let news = match known {
            None => News::First,
            Some(known) if *known == condition && !again => News::Nothing,
            _ if same_case && !again => News::Words,
            _ => News::Case,
        };
        self.0.insert(key, condition);
        news
    }

    /// Drops everything about a subject that this replica does not look at any more. Whether there was anything.
    pub fn forget(&mut self, subject: &Subject) -> bool {
        let before = self.0.len();
        self.0.retain(|(known, _), _| known != subject);
        self.0.len() < before
    }

    /// All of them, by issuer, subject and type.
    pub fn iter(&self) -> impl Iterator<Item = &Condition> {
        self.0.values()
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
        assert!(conditions.forget(&subject()) && !conditions.forget(&subject()));
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
}

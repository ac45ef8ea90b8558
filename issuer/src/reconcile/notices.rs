//! What one publication says about its target: conditions, drift and what the target holds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use chancery_core::drift::{Drift, DriftKind};
use chancery_core::marker::Edition;
use chancery_core::publication::Blocked;
use chancery_core::visibility::OriginObservation;
use chancery_core::{IssuerUrl, KeyId};
use chancery_publisher::publish::{Outcome, PublishError};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{error, warn};

use crate::conditions::{ConditionStore, ConditionType, Subject, Verdict};
use crate::metrics::{Metrics, TargetLabels};
use crate::published_history::PublishedHistory;
use crate::visibility::ObservationEvent;

/// The voice of one target.
#[derive(Debug)]
pub struct Notices {
    issuer: IssuerUrl,
    target: String,
    channels: NoticeChannels,
    /// Keys that somebody put there under our marker while we looked, and that stay.
    intruders: BTreeSet<KeyId>,
    /// Keys that somebody put there and that were removed, with the time of the last removal.
    removed: BTreeMap<KeyId, Instant>,
}

/// How long a planted key is spoken of after it was removed, so that people see it who look once an hour.
const ALARM_STAYS: Duration = Duration::from_secs(24 * 3600);

/// Whom a target's notices go to.
#[derive(Debug)]
pub struct NoticeChannels {
    /// Where conditions go.
    pub conditions: Arc<ConditionStore>,
    /// Told what the target holds.
    pub history: Arc<PublishedHistory>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Told about the keys that the target holds.
    pub observations: mpsc::Sender<Box<ObservationEvent>>,
    /// The view that the target stands behind.
    pub view: String,
}

impl Notices {
    /// The voice of the target that the configuration calls `target`.
    pub fn new(issuer: &IssuerUrl, target: &str, channels: NoticeChannels) -> Self {
        let (issuer, target) = (issuer.clone(), target.to_owned());
        Self { issuer, target, channels, intruders: BTreeSet::new(), removed: BTreeMap::new() }
    }

    /// Says which keys the target held, one set after the other: relying parties may have read each of them.
    pub async fn held(&self, sets: Vec<BTreeSet<KeyId>>) {
        for kids in sets {
            let (view, origin) = (self.channels.view.clone(), format!("target {}", self.target));
            let event = Box::new(ObservationEvent::Origin(OriginObservation { view, origin, kids }));
            // The keeper ends only with the process.
            let _ = self.channels.observations.send(event).await;
        }
    }

    /// Says what a publication and the reading before it found.
    pub fn take(&mut self, result: &Result<Outcome, PublishError>, drift: &[Drift]) {
        let labels = TargetLabels::new(&self.issuer, &self.target);
        for found in drift {
            self.channels.metrics.visibility().drifted(&labels, &found.what);
            let kind = found.what.name();
            match found.what.is_possible_intrusion() {
                true => {
                    error!(issuer = %self.issuer, target = self.target, kind, "possible intrusion: {found}");
                }
                false => warn!(issuer = %self.issuer, target = self.target, kind, "{found}"),
            }
            if let DriftKind::ForeignKeys { kids, .. } = &found.what {
                self.intruders.extend(kids.iter().cloned());
            }
        }
        if let Ok(outcome) = result {
            for kid in &outcome.intruders {
                error!(issuer = %self.issuer, target = self.target, %kid, "possible intrusion: a key that no writer of ours has proven stood at the target; it was removed");
                self.removed.insert(kid.clone(), Instant::now());
            }
            self.removed.retain(|_, at| at.elapsed() < ALARM_STAYS);
            self.channels.history.holds(&self.target, &outcome.result);
            self.intruders.retain(|kid| outcome.foreign.contains(kid));
        }
        let subject = Subject::target(&self.issuer, &self.target);
        for verdict in verdicts(result, drift, &self.alarm()) {
            self.channels.conditions.set(&subject, &verdict);
        }
    }

    /// What says that a round hangs, without this voice at hand.
    pub fn hangs(&self) -> impl Fn() + Send + 'static {
        let (conditions, subject) =
            (self.channels.conditions.clone(), Subject::target(&self.issuer, &self.target));
        move || {
            let message =
                "a round hangs, so that nobody can tell what the target holds; see its disk or network";
            conditions.set(&subject, &Verdict::unknown(ConditionType::Published, "NoAnswer", message));
        }
    }

    /// The keys to be spoken of.
    fn alarm(&self) -> Alarm {
        Alarm { staying: self.intruders.clone(), removed: self.removed.keys().cloned().collect() }
    }

    /// Forgets what was said: another replica publishes now.
    pub fn stand_down(&mut self) {
        self.intruders.clear();
        self.channels.history.is_written_by_another(&self.target);
        self.channels.conditions.forget(&Subject::target(&self.issuer, &self.target));
    }
}

/// Keys that somebody put at a target.
#[derive(Debug, Default)]
struct Alarm {
    /// They stay, since it cannot be told whose they are.
    staying: BTreeSet<KeyId>,
    /// They were removed.
    removed: Vec<KeyId>,
}

fn verdicts(result: &Result<Outcome, PublishError>, drift: &[Drift], alarm: &Alarm) -> Vec<Verdict> {
    let mut verdicts = vec![published(result)];
    verdicts.extend(owned(result));
    verdicts.extend(drifted(result, drift));
    verdicts.extend(result.as_ref().ok().map(|outcome| foreign_keys(&outcome.foreign, alarm)));
    verdicts
}

fn published(result: &Result<Outcome, PublishError>) -> Verdict {
    let condition = ConditionType::Published;
    match result {
        Ok(outcome) => Verdict::good(condition, "UpToDate", "the target holds what is to be published")
            .at(outcome.edition.as_ref().map(Edition::decision)),
        Err(problem) => {
            let reason = match problem {
                PublishError::Blocked { .. } => "Blocked",
                PublishError::Contended { .. } => "Raced",
                _ => "Failed",
            };
            Verdict::bad(condition, reason, crate::error_chain(problem))
        }
    }
}

/// Nothing where the publication did not get as far as the marker.
fn owned(result: &Result<Outcome, PublishError>) -> Option<Verdict> {
    let condition = ConditionType::OwnedByUs;
    match result {
        Ok(_) => Some(Verdict::good(condition, "OurMarker", "every object carries our marker")),
        Err(PublishError::Blocked { blocked, .. }) => {
            let reason = match blocked {
                Blocked::ForeignOwner { .. } => "ForeignMarker",
                Blocked::Unmarked { .. } => "Unmarked",
                _ => return None,
            };
            Some(Verdict::bad(condition, reason, blocked.to_string()))
        }
        Err(_) => None,
    }
}

/// The worst first. Calm only after a publication that found everything as it was written.
fn drifted(result: &Result<Outcome, PublishError>, drift: &[Drift]) -> Option<Verdict> {
    let condition = ConditionType::Drifted;
    let worst = drift.iter().max_by_key(|found| match found.what {
        DriftKind::Changed => 0,
        DriftKind::Vanished => 1,
        DriftKind::Oversize => 2,
        DriftKind::Marker { .. } => 3,
        DriftKind::RolledBack => 4,
        DriftKind::ForeignKeys { .. } => 5,
    });
    let Some(worst) = worst else {
        let calm = Verdict::good(condition, "AsWritten", "the target holds what was written last");
        return result.is_ok().then_some(calm);
    };
    let found: Vec<String> = drift.iter().map(ToString::to_string).collect();
    let outcome = match result {
        Ok(outcome) if outcome.written.is_empty() => "nothing needed to be repaired",
        Ok(_) => "repaired, as it is ours",
        Err(_) => "not repaired",
    };
    Some(Verdict::bad(condition, worst.what.name(), format!("{} ({outcome})", found.join("; "))))
}

fn foreign_keys(foreign: &[KeyId], alarm: &Alarm) -> Verdict {
    let condition = ConditionType::ForeignKeys;
    let list = |kids: &[&KeyId]| kids.iter().map(|kid| kid.as_str()).collect::<Vec<_>>().join(", ");
    if !alarm.removed.is_empty() {
        let kids: Vec<&KeyId> = alarm.removed.iter().collect();
        let message = format!(
            "somebody put keys there that no writer of ours has proven: {}. They were removed; tokens signed with them were accepted until then. Find out who can write there",
            list(&kids)
        );
        return Verdict::bad(condition, "PossibleIntrusion", message);
    }
    let slipped_in: Vec<&KeyId> = foreign.iter().filter(|kid| alarm.staying.contains(*kid)).collect();
    if !slipped_in.is_empty() {
        let message = format!(
            "somebody put keys there under our marker: {}. Tokens signed with them are accepted; find out whose they are, and remove them by hand if nobody answers",
            list(&slipped_in)
        );
        return Verdict::bad(condition, "PossibleIntrusion", message);
    }
    match foreign.is_empty() {
        true => Verdict::good(condition, "NoForeignKeys", "every key there is ours"),
        false => {
            let kids: Vec<&KeyId> = foreign.iter().collect();
            let message = format!("keys that no source of ours shows stay there: {}", list(&kids));
            Verdict::bad(condition, "KeysOfNoSource", message)
        }
    }
}

#[cfg(test)]
mod tests {
    use chancery_core::{CachePolicy, DocumentKind, DocumentSet, Jwks, PublicKey};

    use super::*;

    fn key() -> PublicKey {
        let pair = rcgen::KeyPair::generate().unwrap();
        PublicKey::from_spki_der(&rcgen::PublicKeyData::subject_public_key_info(&pair)).unwrap()
    }

    fn outcome(written: &[DocumentKind], foreign: &[KeyId]) -> Result<Outcome, PublishError> {
        let issuer = "https://id.example.com".parse().unwrap();
        let result = DocumentSet::new(issuer, Jwks::new([key()]).unwrap(), CachePolicy::default());
        let (written, foreign) = (written.to_vec(), foreign.to_vec());
        Ok(Outcome { written, foreign, intruders: Vec::new(), result, edition: None })
    }

    fn blocked(blocked: Blocked) -> Result<Outcome, PublishError> {
        Err(PublishError::Blocked { target: "bucket".to_owned(), blocked })
    }

    fn in_short(verdicts: &[Verdict]) -> Vec<String> {
        let line = |verdict: &Verdict| format!("{}={}", verdict.condition.as_str(), verdict.reason);
        verdicts.iter().map(line).collect()
    }

    #[test]
    fn every_end_of_a_publication_has_its_conditions() {
        let kid = key().key_id().clone();
        let theirs = Blocked::ForeignOwner {
            kind: DocumentKind::Jwks,
            theirs: "them".parse().unwrap(),
            ours: "us".parse().unwrap(),
        };
        let drift = |what| vec![Drift { document: DocumentKind::Jwks, what }];
        let intruder = BTreeSet::from([kid.clone()]);
        let jwks = &[DocumentKind::Jwks][..];
        for (result, drift, intruders, expected) in [
            (
                outcome(&[], &[]),
                vec![],
                BTreeSet::new(),
                "Published=UpToDate OwnedByUs=OurMarker Drifted=AsWritten ForeignKeys=NoForeignKeys",
            ),
            (
                outcome(jwks, &[]),
                drift(DriftKind::Vanished),
                BTreeSet::new(),
                "Published=UpToDate OwnedByUs=OurMarker Drifted=Vanished ForeignKeys=NoForeignKeys",
            ),
            (
                outcome(&[], std::slice::from_ref(&kid)),
                vec![],
                BTreeSet::new(),
                "Published=UpToDate OwnedByUs=OurMarker Drifted=AsWritten ForeignKeys=KeysOfNoSource",
            ),
            (
                outcome(&[], std::slice::from_ref(&kid)),
                drift(DriftKind::ForeignKeys { kids: vec![kid.clone()], removed: false }),
                intruder,
                "Published=UpToDate OwnedByUs=OurMarker Drifted=ForeignKeys ForeignKeys=PossibleIntrusion",
            ),
            (
                blocked(theirs),
                drift(DriftKind::Marker { theirs: None }),
                BTreeSet::new(),
                "Published=Blocked OwnedByUs=ForeignMarker Drifted=MarkerReplaced",
            ),
            (
                blocked(Blocked::Unmarked { kind: DocumentKind::Jwks }),
                vec![],
                BTreeSet::new(),
                "Published=Blocked OwnedByUs=Unmarked",
            ),
            (
                blocked(Blocked::ForeignEntry { kid: String::new(), kty: String::new() }),
                vec![],
                BTreeSet::new(),
                "Published=Blocked",
            ),
        ] {
            let alarm = Alarm { staying: intruders, removed: Vec::new() };
            let verdicts = verdicts(&result, &drift, &alarm);
            assert_eq!(in_short(&verdicts).join(" "), expected);
        }
    }

    #[test]
    fn a_planted_key_is_spoken_of_after_it_was_removed() {
        let kid = key().key_id().clone();
        let alarm = Alarm { staying: BTreeSet::new(), removed: vec![kid.clone()] };
        let verdict = foreign_keys(&[], &alarm);
        assert_eq!(verdict.reason, "PossibleIntrusion");
        assert!(verdict.message.contains(kid.as_str()), "{}", verdict.message);
    }

    #[test]
    fn what_was_repaired_is_said_and_the_worst_names_the_case() {
        let kid = key().key_id().clone();
        let drift = [DriftKind::Changed, DriftKind::ForeignKeys { kids: vec![kid.clone()], removed: false }]
            .map(|what| Drift { document: DocumentKind::Jwks, what });
        let verdict = drifted(&outcome(&[DocumentKind::Jwks], &[]), &drift).unwrap();
        assert_eq!(verdict.reason, "ForeignKeys");
        assert!(
            verdict.message.contains(kid.as_str()) && verdict.message.ends_with("(repaired, as it is ours)")
        );
        let verdict = drifted(&blocked(Blocked::Unmarked { kind: DocumentKind::Jwks }), &drift).unwrap();
        assert!(verdict.message.ends_with("(not repaired)"), "{}", verdict.message);
    }
}

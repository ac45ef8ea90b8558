//! What one publication says about its target: conditions, drift and what the target holds.

use std::collections::BTreeSet;
use std::sync::Arc;

use chancery_core::drift::{Drift, DriftKind};
use chancery_core::marker::Edition;
use chancery_core::publication::Blocked;
use chancery_core::{IssuerUrl, KeyId};
use chancery_publisher::publish::{Outcome, PublishError};
use tokio::sync::mpsc;
use tracing::{error, warn};

use crate::conditions::{Board, ConditionType, Subject, Verdict};
use crate::held::Held;
use crate::metrics::{Metrics, TargetLabels};
use crate::visibility::Observation;

/// The voice of one target.
#[derive(Debug)]
pub struct Notices {
    issuer: IssuerUrl,
    target: String,
    board: Arc<Board>,
    held: Arc<Held>,
    metrics: Arc<Metrics>,
    /// Told about keys that are missing.
    observations: mpsc::Sender<Observation>,
    /// The view that the target stands behind.
    view: String,
    /// Keys that somebody put there under our marker while we looked.
    intruders: BTreeSet<KeyId>,
}

impl Notices {
    /// The voice of the target that the configuration calls `target`, which stands behind a view.
    pub fn new(
        issuer: &IssuerUrl,
        target: &str,
        (board, held, metrics): (Arc<Board>, Arc<Held>, Arc<Metrics>),
        (observations, view): (mpsc::Sender<Observation>, String),
    ) -> Self {
        let (issuer, target) = (issuer.clone(), target.to_owned());
        Self { issuer, target, board, held, metrics, observations, view, intruders: BTreeSet::new() }
    }

    /// Says which keys were wanted and not there: whoever read the target then has a set without them.
    pub async fn found_missing(&self, kids: BTreeSet<KeyId>) {
        if !kids.is_empty() {
            let (view, origin) = (self.view.clone(), format!("target {}", self.target));
            // The keeper ends only with the process.
            let _ = self.observations.send(Observation::Missing { view, origin, kids }).await;
        }
    }

    /// Says what a publication and the reading before it found.
    pub fn take(&mut self, result: &Result<Outcome, PublishError>, drift: &[Drift]) {
        let labels = TargetLabels::new(&self.issuer, &self.target);
        for found in drift {
            self.metrics.visibility().drifted(&labels, &found.what);
            let kind = found.what.name();
            match found.what.is_possible_intrusion() {
                true => {
                    error!(issuer = %self.issuer, target = self.target, kind, "possible intrusion: {found}");
                }
                false => warn!(issuer = %self.issuer, target = self.target, kind, "{found}"),
            }
            if let DriftKind::ForeignKeys(kids) = &found.what {
                self.intruders.extend(kids.iter().cloned());
            }
        }
        if let Ok(outcome) = result {
            self.held.holds(&self.target, &outcome.result);
            self.intruders.retain(|kid| outcome.foreign.contains(kid));
        }
        let subject = Subject::target(&self.issuer, &self.target);
        for verdict in verdicts(result, drift, &self.intruders) {
            self.board.set(&subject, &verdict);
        }
    }

    /// Forgets what was said: another replica publishes now.
    pub fn rest(&mut self) {
        self.intruders.clear();
        self.held.forget(&self.target);
        self.board.forget(&Subject::target(&self.issuer, &self.target));
    }
}

fn verdicts(
    result: &Result<Outcome, PublishError>,
    drift: &[Drift],
    intruders: &BTreeSet<KeyId>,
) -> Vec<Verdict> {
    let mut verdicts = vec![published(result)];
    verdicts.extend(owned(result));
    verdicts.extend(drifted(result, drift));
    verdicts.extend(result.as_ref().ok().map(|outcome| foreign_keys(&outcome.foreign, intruders)));
    verdicts
}

fn published(result: &Result<Outcome, PublishError>) -> Verdict {
    let condition = ConditionType::Published;
    match result {
        Ok(outcome) => Verdict::good(condition, "UpToDate", "the target holds what is to be published")
            .at(outcome.edition.as_ref().map(Edition::generation)),
        Err(problem) => {
            let reason = match problem {
                PublishError::Blocked { .. } => "Blocked",
                PublishError::Contended { .. } => "Raced",
                _ => "Failed",
            };
            Verdict::bad(condition, reason, crate::chain(problem))
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
        DriftKind::Marker { .. } => 2,
        DriftKind::ForeignKeys(_) => 3,
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

fn foreign_keys(foreign: &[KeyId], intruders: &BTreeSet<KeyId>) -> Verdict {
    let condition = ConditionType::ForeignKeys;
    let list = |kids: &[&KeyId]| kids.iter().map(|kid| kid.as_str()).collect::<Vec<_>>().join(", ");
    let slipped_in: Vec<&KeyId> = foreign.iter().filter(|kid| intruders.contains(*kid)).collect();
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
        Ok(Outcome { written: written.to_vec(), foreign: foreign.to_vec(), result, edition: None })
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
                drift(DriftKind::ForeignKeys(vec![kid.clone()])),
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
            let verdicts = verdicts(&result, &drift, &intruders);
            assert_eq!(in_short(&verdicts).join(" "), expected);
        }
    }

    #[test]
    fn what_was_repaired_is_said_and_the_worst_names_the_case() {
        let kid = key().key_id().clone();
        let drift = [DriftKind::Changed, DriftKind::ForeignKeys(vec![kid.clone()])]
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

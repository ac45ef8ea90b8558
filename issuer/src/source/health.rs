//! Tells operators how the sources of one issuer fare: metrics at every reading, a condition for each source.

use std::sync::Arc;

use chancery_core::retention::SourceId;
use chancery_core::{IssuerUrl, KeyRing};
use jiff::Timestamp;

#[cfg(feature = "kube")]
use crate::conditions::UNANNOUNCED;
use crate::conditions::{ConditionStore, ConditionType, INCOMPLETE, Subject, Verdict};
use crate::known_keys::{KnownKeys, KnownRing};
use crate::metrics::{Metrics, SourceLabels};
#[cfg(feature = "kube")]
use chancery_core::token::TokenFacts;

/// Where the readings of one issuer's sources are told. By default nowhere, for commands that look once.
#[derive(Clone, Debug, Default)]
pub struct SourceHealth(Option<Operators>);

/// Who knows whether a source may sign with the key that it signs with.
#[cfg(feature = "kube")]
pub(crate) trait CanaryJudge: std::fmt::Debug + Send + Sync {
    /// What there is to say of the key that `source` signs with; nothing before anything is published.
    fn judge(&self, source: &SourceId, canary: Result<TokenFacts, String>) -> Option<Verdict>;

    /// Forgets a source that is gone.
    fn forget(&self, source: &SourceId);
}

#[derive(Clone, Debug)]
struct Operators {
    issuer: IssuerUrl,
    metrics: Arc<Metrics>,
    conditions: Arc<ConditionStore>,
    /// What is known of the keys.
    known: KnownKeys,
    /// What the keys that sign are held against; nothing where they are not asked for.
    #[cfg(feature = "kube")]
    signing_keys: Option<Arc<dyn CanaryJudge>>,
}

impl SourceHealth {
    /// Told of the sources of `issuer`.
    pub fn new(issuer: IssuerUrl, metrics: Arc<Metrics>, conditions: Arc<ConditionStore>) -> Self {
        Self(Some(Operators {
            issuer,
            metrics,
            conditions,
            known: KnownKeys::default(),
            #[cfg(feature = "kube")]
            signing_keys: None,
        }))
    }

    /// Has what a key ring says told to `known`.
    #[must_use]
    pub fn telling(self, known: &KnownKeys) -> Self {
        Self(self.0.map(|operators| Operators { known: known.clone(), ..operators }))
    }

    /// Has the keys that sources sign with judged by `judge`.
    #[cfg(feature = "kube")]
    #[must_use]
    pub(crate) fn judging(self, judge: Arc<dyn CanaryJudge>) -> Self {
        Self(self.0.map(|operators| Operators { signing_keys: Some(judge), ..operators }))
    }

    /// Whether anybody is told with which key a source signs.
    #[cfg(feature = "kube")]
    pub(super) fn wants_canaries(&self) -> bool {
        self.0.as_ref().is_some_and(|operators| operators.signing_keys.is_some())
    }

    /// A canary of the source was minted, or could not be.
    #[cfg(feature = "kube")]
    pub(super) fn canary(&self, source: &SourceId, canary: Result<TokenFacts, String>) {
        let Some(operators) = &self.0 else { return };
        let Some(judge) = &operators.signing_keys else { return };
        let Some(verdict) = judge.judge(source, canary) else { return };
        operators.metrics.sources().unannounced(&operators.labels(source), verdict.reason == UNANNOUNCED);
        operators.conditions.set(&operators.subject(source), &verdict);
    }

    /// A key ring was read.
    pub(super) fn ring(&self, ring: &KeyRing) {
        if let Some(operators) = &self.0 {
            operators.known.ring_is(KnownRing::from(ring));
        }
    }

    /// The source was read completely, now.
    pub(super) fn read(&self, source: &SourceId) {
        let Some(operators) = &self.0 else { return };
        operators.metrics.sources().read(&operators.labels(source), Timestamp::now());
        let verdict = Verdict::good(ConditionType::Read, "Read", "every part of it was read");
        operators.conditions.set(&operators.subject(source), &verdict);
    }

    /// A reading of the source failed; `unread` parts of it were never read since the start.
    pub(super) fn failed(&self, source: &SourceId, error: &str, unread: usize) {
        let Some(operators) = &self.0 else { return };
        operators.metrics.sources().failed(&operators.labels(source));
        let reason = if unread > 0 { INCOMPLETE } else { "Unreadable" };
        operators
            .conditions
            .set(&operators.subject(source), &Verdict::bad(ConditionType::Read, reason, error));
    }

    /// There is such a source now, and it was not read yet.
    #[cfg(feature = "kube")]
    pub(super) fn found(&self, source: &SourceId) {
        let Some(operators) = &self.0 else { return };
        let verdict = Verdict::pending(ConditionType::Read, "NotYetRead", "it was not read yet");
        operators.conditions.set(&operators.subject(source), &verdict);
    }

    /// There is no such source any more.
    #[cfg(feature = "kube")]
    pub(super) fn gone(&self, source: &SourceId) {
        let Some(operators) = &self.0 else { return };
        operators.metrics.sources().gone(&operators.labels(source));
        operators.signing_keys.iter().for_each(|judge| judge.forget(source));
        operators.conditions.forget(&operators.subject(source));
    }
}

impl Operators {
    fn labels(&self, source: &SourceId) -> SourceLabels {
        SourceLabels::new(&self.issuer, &source.name)
    }

    fn subject(&self, source: &SourceId) -> Subject {
        Subject::source(&self.issuer, &source.name)
    }
}

#[cfg(all(test, feature = "kube"))]
mod tests {
    use super::*;

    #[test]
    fn a_replica_that_left_its_control_plane_leaves_neither_series_nor_condition() {
        let (metrics, conditions) = (Arc::new(Metrics::new("test")), Arc::new(ConditionStore::default()));
        let issuer: IssuerUrl = "https://id.example.com/a".parse().unwrap();
        let health = SourceHealth::new(issuer, metrics.clone(), conditions.clone());
        let replica = |name: &str| SourceId { position: 0, name: name.to_owned() };
        let (stays, leaves) = (replica("https://10.0.0.1:6443"), replica("https://10.0.0.2:6443"));
        for source in [&stays, &leaves] {
            health.found(source);
            health.read(source);
            health.failed(source, "connection refused", 0);
        }
        let told = |source: &SourceId| {
            let page = metrics.render(Timestamp::UNIX_EPOCH).unwrap();
            let series = page.lines().filter(|line| line.contains(&source.name)).count();
            (
                series,
                conditions.conditions().iter().filter(|it| it.subject.part().contains(&source.name)).count(),
            )
        };
        assert_eq!((told(&stays), told(&leaves)), ((2, 1), (2, 1)));
        health.gone(&leaves);
        assert_eq!((told(&stays), told(&leaves)), ((2, 1), (0, 0)));
    }
}

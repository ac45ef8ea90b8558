//! Brings one target to what the index asks for.

use std::sync::Arc;

use chancery_core::publication::Desired;
use chancery_core::{IssuerUrl, KeyId, Owner};
use chancery_publisher::publish::{LastSeen, Outcome, PublishError, publish_again};
use chancery_publisher::store::DocumentStore;
use jiff::Timestamp;
use tokio::sync::watch;
use tracing::{debug, error, info, warn};

use crate::index::Publication;
use crate::metrics::{Metrics, PublishResult, TargetLabels};
use crate::pace::{LastProblem, Round};

/// The owner of one target of one issuer.
#[derive(Debug)]
pub(crate) struct Reconciler {
    /// Whose documents.
    pub issuer: IssuerUrl,
    /// What a person calls the target.
    pub name: String,
    /// The target.
    pub store: Arc<dyn DocumentStore>,
    /// Our marker.
    pub owner: Owner,
    /// Whether objects without a marker may be taken over.
    pub adopt: bool,
    /// Told about every successful publication, so that somebody looks from outside.
    pub published: watch::Sender<u64>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// What the target held last.
    pub seen: LastSeen,
    /// What was complained about last.
    pub problem: LastProblem,
}

impl Round for Reconciler {
    async fn work(&mut self, publication: &Publication) -> bool {
        match self.publish(publication).await {
            Ok(outcome) => {
                self.problem.is_over();
                self.succeeded(&outcome);
                true
            }
            Err(problem) => {
                self.failed(&problem);
                false
            }
        }
    }
}

impl Reconciler {
    async fn publish(&mut self, publication: &Publication) -> Result<Outcome, PublishError> {
        let desired = Desired {
            documents: &publication.documents,
            tombstones: &publication.tombstones,
            owner: &self.owner,
            generation: Some(publication.generation),
            adopt_unmarked: self.adopt,
        };
        publish_again(self.store.as_ref(), desired, &mut self.seen).await
    }

    fn succeeded(&self, outcome: &Outcome) {
        let result =
            if outcome.written.is_empty() { PublishResult::Unchanged } else { PublishResult::Written };
        self.metrics.published(&self.labels(), result, Timestamp::now());
        self.metrics.foreign_keys_are(&self.labels(), outcome.foreign.len());
        if outcome.written.is_empty() {
            debug!(issuer = %self.issuer, target = self.name, "up to date");
            return;
        }
        info!(issuer = %self.issuer, target = self.name, written = outcome.written.len(), "published");
        self.published.send_modify(|times| *times += 1);
        if !outcome.foreign.is_empty() {
            let kids: Vec<&str> = outcome.foreign.iter().map(KeyId::as_str).collect();
            warn!(issuer = %self.issuer, target = self.name, kids = kids.join(","), "the target holds keys that no source shows; they stay");
        }
    }

    fn failed(&mut self, problem: &PublishError) {
        let result = match problem {
            PublishError::Blocked { .. } => PublishResult::Blocked,
            PublishError::Contended { .. } => PublishResult::Raced,
            _ => PublishResult::Failed,
        };
        self.metrics.published(&self.labels(), result, Timestamp::now());
        let text = crate::chain(problem);
        if self.problem.is_new(&text) {
            error!(issuer = %self.issuer, target = self.name, "not published: {text}");
        }
    }

    fn labels(&self) -> TargetLabels {
        TargetLabels::new(&self.issuer, &self.name)
    }
}

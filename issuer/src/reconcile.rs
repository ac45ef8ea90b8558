//! Brings one target to what the index asks for, whenever that changes, and looks again now and then.

use std::sync::Arc;
use std::time::Duration;

use chancery_core::publication::Desired;
use chancery_core::{IssuerUrl, KeyId, Owner};
use chancery_publisher::publish::{LastSeen, Outcome, PublishError, publish_again};
use chancery_publisher::store::DocumentStore;
use jiff::Timestamp;
use tokio::sync::watch;
use tracing::{debug, error, info, warn};

use crate::backoff::Backoff;
use crate::index::Publication;
use crate::leadership::Leading;
use crate::metrics::{Metrics, PublishResult, TargetLabels};

mod notices;

pub use notices::Notices;

/// The task that owns one target of one issuer.
#[derive(Debug)]
pub struct Reconciler {
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
    /// How often an unchanged target is read again, so that a deleted or altered object is noticed.
    pub every: Duration,
    /// What the index asks for.
    pub publications: watch::Receiver<Option<Arc<Publication>>>,
    /// Whether this replica publishes.
    pub leading: Leading,
    /// Told about every successful publication, so that somebody looks from outside.
    pub published: watch::Sender<u64>,
    /// Ends the task between two publications, never within one.
    pub shutdown: watch::Receiver<bool>,
    /// What is said about the target.
    pub notices: Notices,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

impl Reconciler {
    /// Runs until shutdown.
    pub async fn run(mut self) {
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(30));
        let mut last_problem = None;
        let mut seen = LastSeen::default();
        let mut wrote = 0;
        while !*self.shutdown.borrow_and_update() {
            // Leadership is asked again before every publication; a plan of a former leader is never carried out.
            let leading = self.leading.now();
            let publication = self.publications.borrow_and_update().clone();
            if !leading {
                // What another replica writes from now on is not drift.
                seen = LastSeen::default();
                self.notices.rest();
            }
            let pause = match publication.filter(|_| leading) {
                None => self.every,
                Some(publication) => match self.publish(&publication, &mut seen, wrote).await {
                    Ok(outcome) => {
                        wrote = wrote.max(outcome.generation);
                        self.succeeded(&outcome);
                        last_problem = None;
                        backoff.reset();
                        self.every
                    }
                    Err(problem) => {
                        self.failed(&problem, &mut last_problem);
                        backoff.next_pause()
                    }
                },
            };
            tokio::select! {
                changed = self.publications.changed() => if changed.is_err() { return },
                () = self.leading.changed() => {}
                changed = self.shutdown.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// `wrote` is the generation that our own last write there was given: more than that of the publication where it
    /// replaced an altered object.
    async fn publish(
        &mut self,
        publication: &Publication,
        seen: &mut LastSeen,
        wrote: u64,
    ) -> Result<Outcome, PublishError> {
        let desired = Desired {
            documents: &publication.documents,
            tombstones: &publication.tombstones,
            owner: &self.owner,
            generation: Some(publication.generation.max(wrote)),
            adopt_unmarked: self.adopt,
        };
        let result = publish_again(self.store.as_ref(), desired, seen).await;
        self.notices.found_missing(seen.take_missing()).await;
        self.notices.take(&result, &seen.take_drift());
        result
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

    /// The same problem is said once, not at every try.
    fn failed(&self, problem: &PublishError, last: &mut Option<String>) {
        let result = match problem {
            PublishError::Blocked { .. } => PublishResult::Blocked,
            PublishError::Contended { .. } => PublishResult::Raced,
            _ => PublishResult::Failed,
        };
        self.metrics.published(&self.labels(), result, Timestamp::now());
        let text = crate::chain(problem);
        if last.as_ref() != Some(&text) {
            error!(issuer = %self.issuer, target = self.name, "not published: {text}");
            *last = Some(text);
        }
    }

    fn labels(&self) -> TargetLabels {
        TargetLabels::new(&self.issuer, &self.name)
    }
}

//! Brings one target to what the index asks for.

use std::sync::Arc;

use chancery_core::marker::Edition;
use chancery_core::publication::{Blocked, Desired, Known};
use chancery_core::{IssuerUrl, KeyId, Owner};
use chancery_publisher::publish::{LastSeen, Outcome, PublishError, publish_again};
use chancery_publisher::store::DocumentStore;
use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{debug, error, info, warn};

use crate::collect::Lesson;
use crate::index::Publication;
use crate::metrics::{Metrics, PublishResult, TargetLabels};
use crate::pace::{LastProblem, Round};

mod notices;

pub use notices::Notices;

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
    /// The JWKS that we last wrote there, or whose decisions we last adopted.
    pub known: Option<Edition>,
    /// Whether it is another writer's.
    pub adopted: bool,
    /// Where the index learns what the target was written from.
    pub lessons: mpsc::Sender<Lesson>,
    /// Told about every successful publication, so that somebody looks from outside.
    pub published: watch::Sender<u64>,
    /// What is said about the target.
    pub notices: Notices,
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
                self.remember(outcome.edition.clone()).await;
                self.problem.is_over();
                self.succeeded(&outcome);
                true
            }
            Err(PublishError::Blocked {
                blocked: Blocked::Behind { found, published, withdrawn }, ..
            }) => {
                self.adopt_decisions(found, published, withdrawn).await;
                false
            }
            Err(problem) => {
                self.failed(&problem);
                false
            }
        }
    }

    fn rest(&mut self) {
        // What another replica writes from now on is not drift.
        self.seen = LastSeen::default();
        self.notices.rest();
    }
}

impl Reconciler {
    async fn publish(&mut self, publication: &Publication) -> Result<Outcome, PublishError> {
        let desired = Desired {
            documents: &publication.documents,
            tombstones: &publication.tombstones,
            owner: &self.owner,
            known: match &self.known {
                None => Known::Nothing,
                Some(edition) if self.adopted => Known::Adopted(edition),
                Some(edition) => Known::Wrote(edition),
            },
            adopt_unmarked: self.adopt,
        };
        let result = publish_again(self.store.as_ref(), desired, &mut self.seen).await;
        self.notices.found_missing(self.seen.take_missing()).await;
        if !matches!(&result, Err(PublishError::Blocked { blocked: Blocked::Behind { .. }, .. })) {
            self.notices.take(&result, &self.seen.take_drift());
        }
        result
    }

    /// Remembers, over restarts too, what the target holds.
    async fn remember(&mut self, edition: Option<Edition>) {
        if edition != self.known
            && let Some(edition) = edition
        {
            self.known = Some(edition.clone());
            self.adopted = false;
            // Nobody listens only while the process ends.
            let _ = self.lessons.send(Lesson::Current { target: self.name.clone(), edition }).await;
        }
    }

    /// Has what another writer decided taken into account, and returns when the publication shows it.
    async fn adopt_decisions(&mut self, edition: Edition, published: Vec<KeyId>, withdrawn: Vec<KeyId>) {
        let (adopted, shown) = oneshot::channel();
        let target = self.name.clone();
        let lesson = Lesson::Behind { target, edition: edition.clone(), published, withdrawn, adopted };
        if self.lessons.send(lesson).await.is_ok() && shown.await.is_ok() {
            self.known = Some(edition);
            self.adopted = true;
        }
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

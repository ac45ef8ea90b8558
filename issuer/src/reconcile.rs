//! Brings one target to what the index asks for, whenever that changes, and looks again now and then.

use std::sync::Arc;
use std::time::Duration;

use chancery_core::marker::Edition;
use chancery_core::publication::{Blocked, Desired, Known};
use chancery_core::{IssuerUrl, KeyId, Owner};
use chancery_publisher::publish::{LastSeen, Outcome, PublishError, publish_again};
use chancery_publisher::store::DocumentStore;
use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{debug, error, info, warn};

use crate::backoff::Backoff;
use crate::collect::Lesson;
use crate::index::Publication;
use crate::leadership::Leading;
use crate::metrics::{Metrics, PublishResult, TargetLabels};

/// How often an unchanged target is read again, so that a deleted or altered object is noticed.
const RESYNC: Duration = Duration::from_secs(60);

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
    /// The JWKS that we last wrote there, or whose decisions we last adopted.
    pub known: Option<Edition>,
    /// Whether it is another writer's.
    pub adopted: bool,
    /// What the index asks for.
    pub publications: watch::Receiver<Option<Arc<Publication>>>,
    /// Where the index learns what the target was written from.
    pub lessons: mpsc::Sender<Lesson>,
    /// Whether this replica publishes.
    pub leading: Leading,
    /// Told about every successful publication, so that somebody looks from outside.
    pub published: watch::Sender<u64>,
    /// Ends the task between two publications, never within one.
    pub shutdown: watch::Receiver<bool>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

impl Reconciler {
    /// Runs until shutdown.
    pub async fn run(mut self) {
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(30));
        let mut last_problem = None;
        let mut seen = LastSeen::default();
        while !*self.shutdown.borrow_and_update() {
            // Leadership is asked again before every publication; a plan of a former leader is never carried out.
            let leading = self.leading.now();
            let publication = self.publications.borrow_and_update().clone();
            let pause = match publication.filter(|_| leading) {
                None => RESYNC,
                Some(publication) => match self.publish(&publication, &mut seen).await {
                    Ok(outcome) => {
                        self.remember(outcome.edition.clone()).await;
                        self.succeeded(&outcome);
                        last_problem = None;
                        backoff.reset();
                        RESYNC
                    }
                    Err(PublishError::Blocked {
                        blocked: Blocked::Behind { found, published, withdrawn },
                        ..
                    }) => {
                        self.adopt_decisions(found, published, withdrawn).await;
                        Duration::ZERO
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

    async fn publish(&self, publication: &Publication, seen: &mut LastSeen) -> Result<Outcome, PublishError> {
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
        publish_again(self.store.as_ref(), desired, seen).await
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

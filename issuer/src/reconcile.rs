//! Brings one target to what the index asks for.

use std::sync::Arc;

use chancery_cluster::last_said::LastSaid;
use chancery_core::marker::Edition;
use chancery_core::publication::{Blocked, Contact, Desired, Returning, WriterMemory};
use chancery_core::withdrawal::Withdrawal;
use chancery_core::{IssuerUrl, KeyId, Owner, PublicKey, WriterKey};
use chancery_publisher::publish::{LastSeen, Outcome, PublishError, publish_again};
use chancery_publisher::store::DocumentStore;
use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{debug, error, info, warn};

use crate::collect::TargetFinding;
use crate::index::Publication;
use crate::metrics::{Metrics, PublishResult, TargetLabels};
use crate::pace::Round;

mod notices;

pub use notices::{NoticeChannels, Notices};

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
    /// How we prove and remember what we write.
    pub writer: Writer,
    /// Where the index learns what was found.
    pub findings: mpsc::Sender<Box<TargetFinding>>,
    /// Told about every successful publication, so that somebody looks from outside.
    pub published: watch::Sender<u64>,
    /// What is said about the target.
    pub notices: Notices,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// What the target held last.
    pub seen: LastSeen,
    /// What was complained about last.
    pub problem: LastSaid,
}

/// How a writer proves and remembers what it writes to one target.
#[derive(Debug)]
pub(crate) enum Writer {
    /// The service keeps no state.
    Stateless {
        /// Proves what it writes all the same.
        writer_key: Option<Arc<WriterKey>>,
        /// The number of the first decision at an empty place.
        first_decision: u64,
    },
    /// It keeps one.
    Stateful {
        /// Proves what it writes.
        writer_key: Arc<WriterKey>,
        /// What is recorded of the target, once it is.
        contact: Option<Contact>,
    },
}

impl Writer {
    fn memory(&self, decision: u64) -> WriterMemory<'_> {
        match self {
            Self::Stateless { writer_key, first_decision } => WriterMemory::Stateless {
                writer_key: writer_key.as_deref(),
                returning: Returning::LeftOut,
                may_empty: false,
                first_decision: *first_decision,
            },
            Self::Stateful { writer_key, contact } => {
                WriterMemory::Stateful { writer_key, decision, contact: contact.as_ref() }
            }
        }
    }

    fn knows(&mut self, known: Contact) {
        if let Self::Stateful { contact, .. } = self {
            *contact = Some(known);
        }
    }
}

impl Round for Reconciler {
    async fn work(&mut self, publication: &Publication) -> bool {
        match self.publish(publication).await {
            Ok(outcome) => {
                self.remember(outcome.edition.clone()).await;
                self.problem.forget();
                self.succeeded(&outcome);
                true
            }
            Err(PublishError::Blocked { blocked: Blocked::FirstContact { published }, .. }) => {
                self.make_contact(published).await;
                false
            }
            Err(PublishError::Blocked {
                blocked: Blocked::OtherEdition { edition, published, withdrawn },
                ..
            }) => {
                self.adopt(edition, published, withdrawn).await;
                false
            }
            Err(problem) => {
                self.failed(&problem);
                false
            }
        }
    }

    fn overdue(&self) -> impl Fn() + Send + 'static {
        let (metrics, labels) = (self.metrics.clone(), self.labels());
        let hangs = self.notices.hangs();
        move || {
            metrics.published(&labels, PublishResult::Failed, Timestamp::now());
            hangs();
        }
    }

    fn stand_down(&mut self) {
        // What another replica writes from now on is not drift.
        self.seen = LastSeen::default();
        self.notices.stand_down();
    }
}

impl Reconciler {
    async fn publish(&mut self, publication: &Publication) -> Result<Outcome, PublishError> {
        let desired = Desired {
            documents: &publication.documents,
            withdrawals: &publication.withdrawals,
            owner: &self.owner,
            memory: self.writer.memory(publication.decision),
            adopt_unmarked: self.adopt,
        };
        let result = publish_again(self.store.as_ref(), desired, &mut self.seen).await;
        self.notices.held(self.seen.take_held()).await;
        if !is_finding(&result) {
            self.notices.take(&result, &self.seen.take_drift());
        }
        result
    }

    /// Remembers, over restarts too, what the target holds.
    async fn remember(&mut self, edition: Option<Edition>) {
        let Writer::Stateful { contact, .. } = &mut self.writer else { return };
        if let Some(edition) = edition
            && contact.as_ref().and_then(|contact| contact.known.as_ref()) != Some(&edition)
        {
            *contact = Some(Contact { known: Some(edition.clone()) });
            // Nobody listens only while the process ends.
            let _ = self
                .findings
                .send(Box::new(TargetFinding::Current { target: self.name.clone(), edition }))
                .await;
        }
    }

    /// Has it recorded that we write here from now on, and the keys that stand here published.
    async fn make_contact(&mut self, published: Vec<PublicKey>) {
        let (recorded, shown) = oneshot::channel();
        let finding = TargetFinding::FirstContact { target: self.name.clone(), published, recorded };
        if self.findings.send(Box::new(finding)).await.is_ok() && shown.await.is_ok() {
            self.writer.knows(Contact::default());
        }
    }

    /// Has what another writer decided taken into account, and returns when the publication shows it.
    async fn adopt(&mut self, edition: Edition, published: Vec<PublicKey>, withdrawn: Vec<Withdrawal>) {
        let (adopted, shown) = oneshot::channel();
        let (target, found) = (self.name.clone(), edition.clone());
        let finding = TargetFinding::OtherEdition { target, edition, published, withdrawn, adopted };
        if self.findings.send(Box::new(finding)).await.is_ok() && shown.await.is_ok() {
            self.writer.knows(Contact { known: Some(found) });
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
        let text = crate::error_chain(problem);
        if self.problem.is_new(&text) {
            let request = problem.request_id();
            error!(issuer = %self.issuer, target = self.name, request.id = request, "not published: {text}");
        }
    }

    fn labels(&self) -> TargetLabels {
        TargetLabels::new(&self.issuer, &self.name)
    }
}

/// Whether the target was only looked at, as the index must learn what stands there before anything is written.
fn is_finding(result: &Result<Outcome, PublishError>) -> bool {
    let Err(PublishError::Blocked { blocked, .. }) = result else { return false };
    matches!(blocked, Blocked::FirstContact { .. } | Blocked::OtherEdition { .. })
}

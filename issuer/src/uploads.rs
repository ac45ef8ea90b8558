//! Keeps one relying party in sync that is given the keys themselves: the sibling of [`crate::reconcile`].

use std::sync::Arc;

use chancery_cluster::last_said::LastSaid;
use chancery_core::upload::{DesiredUpload, UploadPlan};
use chancery_core::{IssuerUrl, KeyId, Owner};
use chancery_publisher::sink::{JwksSink, SinkConfig, UploadError, upload};
use jiff::Timestamp;
use tokio::sync::watch;
use tracing::{debug, error, info, warn};

use crate::conditions::{ConditionStore, ConditionType, Subject, Verdict};
use crate::index::Publication;
use crate::metrics::{Metrics, PublishResult, SinkLabels};
use crate::pace::Round;

mod open;

pub(crate) use open::open_sink;

/// What a sink holds as far as this replica knows: a relying party accepts the tokens of these keys.
///
/// Sent after every round, also when it is the same again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SinkView {
    /// What a person calls the sink.
    pub name: String,
    /// Every key that was there when it was last read. Empty while that is not known: before the first round, after
    /// one that failed, and while another replica leads.
    pub held: Vec<KeyId>,
}

/// The owner of one sink of one issuer.
#[derive(Debug)]
pub(crate) struct Uploader {
    issuer: IssuerUrl,
    name: String,
    sink: Arc<dyn JwksSink>,
    owner: Owner,
    adopt: bool,
    view: watch::Sender<SinkView>,
    metrics: Arc<Metrics>,
    conditions: Arc<ConditionStore>,
    problem: LastSaid,
    foreign: Vec<KeyId>,
}

impl Round for Uploader {
    async fn work(&mut self, publication: &Publication) -> bool {
        let desired = DesiredUpload {
            jwks: publication.documents.jwks(),
            withdrawals: &publication.withdrawals,
            owner: &self.owner,
            adopt_unmarked: self.adopt,
        };
        match upload(self.sink.as_ref(), desired).await {
            Ok(done) => {
                self.succeeded(done);
                true
            }
            Err(problem) => {
                self.failed(&problem);
                false
            }
        }
    }

    fn overdue(&self) -> impl Fn() + Send + 'static {
        let (metrics, labels) = (self.metrics.clone(), self.labels());
        let (conditions, subject) = (self.conditions.clone(), self.subject());
        move || {
            metrics.sinks().uploaded(&labels, PublishResult::Failed, Timestamp::now());
            let verdict =
                Verdict::unknown(ConditionType::Uploaded, "NoAnswer", "a round hangs; see the sink");
            conditions.set(&subject, &verdict);
        }
    }

    fn stand_down(&mut self) {
        // Another replica says what it holds.
        self.conditions.forget(&self.subject());
        self.shows(Vec::new());
    }
}

/// A sink that is open, and who we are there.
pub struct OpenSink<'a> {
    /// What the configuration says of it.
    pub config: &'a SinkConfig,
    /// Whose keys are put there.
    pub owner: Owner,
    /// Where they go.
    pub sink: Arc<dyn JwksSink>,
}

impl Uploader {
    /// The uploader to a sink that is open.
    pub fn new(
        issuer: &IssuerUrl,
        opened: OpenSink<'_>,
        metrics: Arc<Metrics>,
        conditions: Arc<ConditionStore>,
    ) -> Self {
        let OpenSink { config, owner, sink } = opened;
        let name = config.display_name();
        let view = watch::Sender::new(SinkView { name: name.clone(), held: Vec::new() });
        let (problem, foreign) = (LastSaid::default(), Vec::new());
        let (issuer, adopt) = (issuer.clone(), config.adopt);
        Self { issuer, name, sink, owner, adopt, view, metrics, conditions, problem, foreign }
    }

    /// What the sink holds, now and later.
    pub fn view(&self) -> watch::Receiver<SinkView> {
        self.view.subscribe()
    }

    fn succeeded(&mut self, done: UploadPlan) {
        let result = if done.upload.is_some() { PublishResult::Written } else { PublishResult::Unchanged };
        let labels = self.labels();
        self.metrics.sinks().uploaded(&labels, result, Timestamp::now());
        self.metrics.sinks().foreign_keys_are(&labels, done.foreign.len());
        self.problem.forget();
        let verdict = Verdict::good(ConditionType::Uploaded, "UpToDate", "the sink holds every key");
        self.conditions.set(&self.subject(), &verdict);
        self.shows(done.result);
        match done.upload {
            None => debug!(issuer = %self.issuer, sink = self.name, "up to date"),
            Some(_) => {
                let (adds, withdraws) = (list(&done.adds), list(&done.withdraws));
                info!(issuer = %self.issuer, sink = self.name, adds, withdraws, "uploaded");
            }
        }
        if self.foreign != done.foreign && !done.foreign.is_empty() {
            let kids = list(&done.foreign);
            warn!(issuer = %self.issuer, sink = self.name, kids, "the sink holds keys that no source shows; they stay");
        }
        self.foreign = done.foreign;
    }

    fn failed(&mut self, problem: &UploadError) {
        let result = match problem {
            UploadError::Blocked { .. } => PublishResult::Blocked,
            UploadError::Contended { .. } => PublishResult::Raced,
            _ => PublishResult::Failed,
        };
        self.metrics.sinks().uploaded(&self.labels(), result, Timestamp::now());
        self.shows(Vec::new());
        let text = crate::error_chain(problem);
        let reason = match result {
            PublishResult::Blocked => "Blocked",
            PublishResult::Raced => "Raced",
            _ => "Failed",
        };
        self.conditions.set(&self.subject(), &Verdict::bad(ConditionType::Uploaded, reason, &text));
        if self.problem.is_new(&text) {
            let request = problem.request_id();
            error!(issuer = %self.issuer, sink = self.name, request.id = request, "not uploaded: {text}");
        }
    }

    fn shows(&self, held: Vec<KeyId>) {
        self.view.send_replace(SinkView { name: self.name.clone(), held });
    }

    fn subject(&self) -> Subject {
        Subject::sink(&self.issuer, &self.name)
    }

    fn labels(&self) -> SinkLabels {
        SinkLabels::new(&self.issuer, &self.name)
    }
}

fn list(kids: &[KeyId]) -> String {
    kids.iter().map(KeyId::as_str).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests;

//! Keeps one relying party in sync that is given the keys themselves: the sibling of [`crate::reconcile`].

use std::sync::Arc;

use chancery_core::upload::{DesiredUpload, UploadPlan};
use chancery_core::{IssuerUrl, KeyId, Owner};
use chancery_publisher::sink::{JwksSink, SinkConfig, UploadError, upload};
use jiff::Timestamp;
use tokio::sync::watch;
use tracing::{debug, error, info, warn};

use crate::index::Publication;
use crate::metrics::{Metrics, PublishResult, SinkLabels};
use crate::pace::{LastProblem, Round};

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
    problem: LastProblem,
    foreign: Vec<KeyId>,
}

impl Round for Uploader {
    async fn work(&mut self, publication: &Publication) -> bool {
        let desired = DesiredUpload {
            jwks: publication.documents.jwks(),
            tombstones: &publication.tombstones,
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

    fn rest(&mut self) {
        self.shows(Vec::new());
    }
}

impl Uploader {
    /// The uploader to a sink that is open.
    pub fn new(
        issuer: &IssuerUrl,
        (config, owner): (&SinkConfig, Owner),
        sink: Arc<dyn JwksSink>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let name = config.display_name();
        let view = watch::Sender::new(SinkView { name: name.clone(), held: Vec::new() });
        let (problem, foreign) = (LastProblem::default(), Vec::new());
        let (issuer, adopt) = (issuer.clone(), config.adopt);
        Self { issuer, name, sink, owner, adopt, view, metrics, problem, foreign }
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
        self.problem.is_over();
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
        let text = crate::chain(problem);
        if self.problem.is_new(&text) {
            error!(issuer = %self.issuer, sink = self.name, "not uploaded: {text}");
        }
    }

    fn shows(&self, held: Vec<KeyId>) {
        self.view.send_replace(SinkView { name: self.name.clone(), held });
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

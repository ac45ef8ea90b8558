//! Carries what the sources of one issuer report into its index, and what the index decides out to the others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chancery_core::marker::Edition;
use chancery_core::publication::Contact;
use chancery_core::withdrawal::Withdrawal;
use chancery_core::{IssuerUrl, KeyId, PublicKey};
use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tracing::{error, info, warn};

use crate::index::{Index, Publication};
use crate::known_keys::{KnownKey, KnownKeys};
use crate::leadership::Leading;
use crate::metrics::{KeyState, Metrics};
use crate::source::SourceEvent;
use crate::state::{Recorded, Recorder, Saved};

/// How long the start waits for a source that does not answer before it shows what is recorded and read.
/// Longer than a kube-apiserver restart takes; until then relying parties read the targets as they are.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// How often what another replica has recorded in between is merged before the next event is looked at.
const RECORD_TRIES: u32 = 3;

/// Accumulated time is counted at least this often.
const COUNT_EVERY: Duration = Duration::from_secs(60);

/// What publishing finds at a target that the index must know.
#[derive(Debug)]
pub enum TargetFinding {
    /// We have never been there.
    FirstContact {
        /// The target.
        target: String,
        /// The keys that stand there. They stay.
        published: Vec<PublicKey>,
        /// Told once the contact is recorded.
        recorded: oneshot::Sender<()>,
    },
    /// Another writer of this issuer was there: our state comes from a backup, or another replica decided.
    OtherEdition {
        /// The target.
        target: String,
        /// The JWKS found, proven.
        edition: Edition,
        /// What is published there.
        published: Vec<PublicKey>,
        /// What was withdrawn there.
        withdrawn: Vec<Withdrawal>,
        /// Told once what there is to publish takes it into account.
        adopted: oneshot::Sender<()>,
    },
    /// The target is as we want it.
    Current {
        /// The target.
        target: String,
        /// The JWKS there.
        edition: Edition,
    },
}

/// The task that owns one issuer's index.
#[derive(Debug)]
pub struct Collector {
    /// Whose keys.
    pub issuer: IssuerUrl,
    /// The index, with whatever was recorded.
    pub index: Index,
    /// What the sources report.
    pub events: mpsc::Receiver<Box<SourceEvent>>,
    /// The targets that we have been at, by name, each with the JWKS as we know it.
    pub contacts: BTreeMap<String, Contact>,
    /// What is found at the targets, where there are any.
    pub findings: Option<mpsc::Receiver<Box<TargetFinding>>>,
    /// Whether this replica publishes.
    pub leading: Leading,
    /// Where the publication goes; the value is replaced only when it differs.
    pub publications: watch::Sender<Option<Arc<Publication>>>,
    /// Where the record goes, and what it says; nowhere without a state.
    pub recorder: Option<Recorder>,
    /// Whether other replicas record there too, so that the leader alone may.
    pub shares_state: bool,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Told what operators ask of the keys.
    pub known: KnownKeys,
}

impl Collector {
    /// Runs until every source is gone. `changed` is told when there is something else to serve.
    pub async fn run(mut self, changed: mpsc::Sender<()>) {
        let started = Instant::now();
        let mut counted = started;
        let mut first_seen = BTreeMap::new();
        loop {
            let pause = self.pause(started.elapsed());
            let (event, finding) = tokio::select! {
                event = self.events.recv() => match event {
                    Some(event) => (Some(event), None),
                    None => return,
                },
                Some(finding) = next(&mut self.findings) => (None, Some(finding)),
                () = self.leading.changed() => (None, None),
                () = tokio::time::sleep(pause) => (None, None),
            };
            self.let_time_pass(counted.elapsed());
            counted = Instant::now();
            if let Some(event) = event {
                self.take(&event);
            }
            let learned = finding.and_then(|finding| self.learn(*finding));
            if !self.index.is_complete() && started.elapsed() >= START_TIMEOUT {
                warn!(issuer = %self.issuer, "a source has not answered since the start; going on with what is recorded and read");
                self.index.stop_waiting();
            }
            // The decision is counted, then recorded, then shown.
            let mut publication = self.index.publish();
            for _ in 0..RECORD_TRIES {
                if !Box::pin(self.record()).await {
                    break;
                }
                publication = self.index.publish();
            }
            if self.send(publication, &mut first_seen) {
                // Several changes before whoever serves looks are one.
                let _ = changed.try_send(());
            }
            if let Some(learned) = learned {
                // Whoever asked may have ended.
                let _ = learned.send(());
            }
        }
    }

    /// How long nothing needs to be done if no source reports.
    fn pause(&self, since_start: Duration) -> Duration {
        let waiting = (!self.index.is_complete()).then(|| START_TIMEOUT.saturating_sub(since_start));
        let retention = self.index.next_withdrawal().map(|left| left.min(COUNT_EVERY));
        let recording = self.recorder.as_ref().and_then(Recorder::next_try);
        waiting.into_iter().chain(retention).chain(recording).min().unwrap_or(Duration::from_secs(3600))
    }

    fn let_time_pass(&mut self, elapsed: Duration) {
        for kid in self.index.elapse(elapsed) {
            info!(issuer = %self.issuer, %kid, "withdrawing a key that every source dropped a retention time ago");
        }
    }

    fn take(&mut self, event: &SourceEvent) {
        let vanished = self.index.vanished();
        if let Err(older) = self.index.apply(event) {
            self.known.follows(older.known);
            error!(issuer = %self.issuer, "{older}");
            return;
        }
        match event {
            SourceEvent::Listed { source, skipped, .. } => {
                for what in skipped {
                    warn!(issuer = %self.issuer, source = source.name, "skipped {what}");
                }
            }
            SourceEvent::Failed { source, error } => {
                warn!(issuer = %self.issuer, source = source.name, "cannot read a source, keeping what it showed last: {error}");
            }
            SourceEvent::Found { .. } => {}
            SourceEvent::Decided { source, decision } => {
                let position = decision.position;
                self.known.follows(position);
                info!(issuer = %self.issuer, source = source.name, %position, "the key ring has decided");
            }
            SourceEvent::Gone { source } => {
                info!(issuer = %self.issuer, source = source.name, "a source is gone, its keys stay for their retention time");
            }
        }
        for kid in self.index.vanished().iter().filter(|kid| !vanished.contains(kid)) {
            warn!(issuer = %self.issuer, %kid, "no source shows this key any more; it stays published for its retention time");
        }
    }

    /// Returns whom to tell once the finding is recorded and shows.
    fn learn(&mut self, finding: TargetFinding) -> Option<oneshot::Sender<()>> {
        match finding {
            TargetFinding::Current { target, edition } => {
                self.contacts.insert(target, Contact { known: Some(edition) });
                None
            }
            TargetFinding::FirstContact { target, published, recorded } => {
                let kids = self.index.import(published);
                let kids: Vec<&str> = kids.iter().map(KeyId::as_str).collect();
                info!(issuer = %self.issuer, target, taken_over = kids.join(","), "publishing to this target for the first time; keys that stand there stay");
                self.contacts.insert(target, Contact::default());
                Some(recorded)
            }
            TargetFinding::OtherEdition { target, edition, published, withdrawn, adopted } => {
                info!(
                    issuer = %self.issuer, target, %edition,
                    "another writer of this issuer was at the target since we looked; adopting what it decided",
                );
                self.index.adopt(edition.decision(), published, withdrawn);
                self.contacts.insert(target, Contact { known: Some(edition) });
                Some(adopted)
            }
        }
    }

    /// Records before anything is shown: an older edition that somebody brings back must never pass for our own work
    /// after a crash. A state that does not answer is waited for a moment only. Returns whether another replica had
    /// decided something else.
    async fn record(&mut self) -> bool {
        if self.shares_state && !self.leading.now() {
            return false;
        }
        let Some(recorder) = &mut self.recorder else { return false };
        let (targets, record) = (self.contacts.clone(), self.index.record());
        let saved = Saved { targets, record, ..recorder.saved().clone() };
        let Recorded::Outrun(theirs) = recorder.record(saved).await else { return false };
        info!(issuer = %self.issuer, "another replica has saved its state since; adopting what it decided");
        self.index.merge(&theirs.record);
        for (target, theirs) in theirs.targets {
            let ours = self.contacts.entry(target).or_default();
            if theirs.decision() > ours.decision() {
                *ours = theirs;
            }
        }
        true
    }

    /// Whether it is another publication than before.
    fn send(
        &self,
        publication: Option<Arc<Publication>>,
        first_seen: &mut BTreeMap<KeyId, Timestamp>,
    ) -> bool {
        let is_published = publication.is_some();
        let mut changed = false;
        let is_other = self.publications.send_if_modified(|current| {
            let differs = *current != publication;
            if differs {
                changed =
                    current.as_ref().map(|p| &p.documents) != publication.as_ref().map(|p| &p.documents);
                *current = publication;
            }
            differs
        });
        // A key may change its state without a byte of the documents being changed by it.
        if is_published {
            self.report(changed, first_seen);
        }
        is_other
    }

    fn report(&self, changed: bool, first_seen: &mut BTreeMap<KeyId, Timestamp>) {
        let states = self.key_states();
        if changed {
            let published = states.iter().filter(|(_, state)| *state != KeyState::Withdrawn);
            let kids: Vec<&str> = published.map(|(kid, _)| kid.as_str()).collect();
            info!(issuer = %self.issuer, keys = kids.len(), kids = kids.join(","), "the key set changed");
        }
        let now = Timestamp::now();
        let since: Vec<Timestamp> =
            states.iter().map(|(kid, _)| *first_seen.entry(kid.clone()).or_insert(now)).collect();
        let seen = || states.iter().zip(&since).map(|((kid, state), since)| (kid, *state, *since));
        self.metrics.keys_are(&self.issuer, seen());
        let published = seen().filter(|(_, state, _)| *state != KeyState::Withdrawn);
        let known = published.map(|(kid, _, first_seen)| KnownKey {
            kid: kid.clone(),
            first_seen,
            leaves_after: self.index.leaves_after(kid),
        });
        self.known.keys_are(known.collect());
    }

    fn key_states(&self) -> Vec<(KeyId, KeyState)> {
        let vanished = self.index.vanished();
        let published = self.index.keys().into_iter().map(|key| {
            let kid = key.key_id().clone();
            let state = if vanished.contains(&kid) { KeyState::Retained } else { KeyState::Live };
            (kid, state)
        });
        // A marker tells only the beginning of an id.
        let withdrawn = self.index.withdrawals().iter().filter_map(|it| it.key.as_str().parse().ok());
        published.chain(withdrawn.map(|kid| (kid, KeyState::Withdrawn))).collect()
    }
}

/// The next finding; none ever, where there is no target.
async fn next(findings: &mut Option<mpsc::Receiver<Box<TargetFinding>>>) -> Option<Box<TargetFinding>> {
    match findings {
        Some(findings) => findings.recv().await,
        None => std::future::pending().await,
    }
}

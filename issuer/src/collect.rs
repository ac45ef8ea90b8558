//! Carries what the sources of one issuer report into its index, and what the index decides out to the others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chancery_core::marker::Edition;
use chancery_core::{IssuerUrl, KeyId};
use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tracing::{error, info, warn};

use crate::index::{Index, Publication};
use crate::leadership::Leading;
use crate::metrics::{KeyState, Metrics, SourceLabels};
use crate::source::SourceEvent;
use crate::state::{Kept, Saved, StateStore};

/// How long the start waits for a source that does not answer before it shows what is recorded and read.
/// Longer than a kube-apiserver restart takes; until then relying parties read the targets as they are.
const PATIENCE: Duration = Duration::from_secs(30);

/// Accumulated time is recorded this often, so a crash costs a vanished key at most this much longer a stay.
const RECORD_EVERY: Duration = Duration::from_secs(60);

/// What publishing teaches the index about the decisions that a target was written from.
#[derive(Debug)]
pub enum Lesson {
    /// Another writer of this issuer was there: our state comes from a backup, or another replica decided.
    Behind {
        /// The target.
        target: String,
        /// The JWKS found.
        edition: Edition,
        /// What is published there.
        published: Vec<KeyId>,
        /// What was withdrawn there last.
        withdrawn: Vec<KeyId>,
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
    pub events: mpsc::Receiver<SourceEvent>,
    /// The JWKS of each target as we know it, by the target's name.
    pub known: BTreeMap<String, Edition>,
    /// What the targets teach.
    pub lessons: mpsc::Receiver<Lesson>,
    /// Whether this replica publishes.
    pub leading: Leading,
    /// Where the publication goes; the value is replaced only when it differs.
    pub publications: watch::Sender<Option<Arc<Publication>>>,
    /// Where the record goes.
    pub state: Option<StateStore>,
    /// What is recorded there.
    pub saved: Saved,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

impl Collector {
    /// Runs until every source is gone.
    pub async fn run(mut self) {
        let started = Instant::now();
        let mut counted = started;
        let mut first_seen = BTreeMap::new();
        loop {
            let pause = self.pause(started.elapsed());
            let (event, lesson) = tokio::select! {
                event = self.events.recv() => match event {
                    Some(event) => (Some(event), None),
                    None => return,
                },
                Some(lesson) = self.lessons.recv() => (None, Some(lesson)),
                () = self.leading.changed() => (None, None),
                () = tokio::time::sleep(pause) => (None, None),
            };
            self.let_time_pass(counted.elapsed());
            counted = Instant::now();
            if let Some(event) = event {
                self.take(&event);
            }
            let adopted = lesson.and_then(|lesson| self.learn(lesson));
            if !self.index.is_complete() && started.elapsed() >= PATIENCE {
                warn!(issuer = %self.issuer, "a source has not answered since the start; going on with what is recorded and read");
                self.index.stop_waiting();
            }
            self.record().await;
            self.send(&mut first_seen);
            if let Some(adopted) = adopted {
                // Whoever asked may have ended.
                let _ = adopted.send(());
            }
        }
    }

    /// How long nothing needs to be done if no source reports.
    fn pause(&self, since_start: Duration) -> Duration {
        let patience = (!self.index.is_complete()).then(|| PATIENCE.saturating_sub(since_start));
        let residence = self.index.next_withdrawal().map(|left| left.min(RECORD_EVERY));
        patience.into_iter().chain(residence).min().unwrap_or(Duration::from_secs(3600))
    }

    fn let_time_pass(&mut self, elapsed: Duration) {
        for kid in self.index.elapse(elapsed) {
            info!(issuer = %self.issuer, %kid, "withdrawing a key that every source dropped a residence time ago");
        }
    }

    fn take(&mut self, event: &SourceEvent) {
        let vanished = self.index.vanished();
        self.index.apply(event);
        match event {
            SourceEvent::Listed { source, skipped, .. } => {
                self.metrics.source_read(&SourceLabels::new(&self.issuer, &source.name), Timestamp::now());
                for what in skipped {
                    warn!(issuer = %self.issuer, source = source.name, "skipped {what}");
                }
            }
            SourceEvent::Failed { source, error } => {
                self.metrics.source_failed(&SourceLabels::new(&self.issuer, &source.name));
                warn!(issuer = %self.issuer, source = source.name, "cannot read a source, keeping what it showed last: {error}");
            }
            SourceEvent::Found { .. } => {}
            SourceEvent::Gone { source } => {
                info!(issuer = %self.issuer, source = source.name, "a source is gone, its keys stay for their residence time");
            }
        }
        for kid in self.index.vanished().iter().filter(|kid| !vanished.contains(kid)) {
            warn!(issuer = %self.issuer, %kid, "no source shows this key any more; it stays published for its residence time");
        }
    }

    /// Returns whom to tell once the lesson shows.
    fn learn(&mut self, lesson: Lesson) -> Option<oneshot::Sender<()>> {
        match lesson {
            Lesson::Current { target, edition } => {
                self.known.insert(target, edition);
                None
            }
            Lesson::Behind { target, edition, published, withdrawn, adopted } => {
                info!(
                    issuer = %self.issuer, target, %edition,
                    "another writer of this issuer was at the target since we looked; adopting what it decided",
                );
                self.index.adopt(&published, &withdrawn);
                self.known.insert(target, edition);
                Some(adopted)
            }
        }
    }

    /// Saves before anything is shown: a key we published must never look foreign to us after a crash.
    async fn record(&mut self) {
        let Some(state) = &self.state else { return };
        if state.is_shared() && !self.leading.now() {
            return;
        }
        let record = self.index.record();
        let saved = Saved { targets: self.known.clone(), record, ..self.saved.clone() };
        if saved == self.saved {
            return;
        }
        match state.save(&saved, Some(&self.saved)).await {
            Ok(Kept::Saved) => self.saved = saved,
            Ok(Kept::Changed(theirs)) if theirs.owner != saved.owner => {
                error!(issuer = %self.issuer, ours = %saved.owner, theirs = %theirs.owner, "the state was begun anew under another id; restart this replica so that it takes it over");
            }
            Ok(Kept::Changed(theirs)) => {
                info!(issuer = %self.issuer, "another replica has saved its state since; adopting what it decided");
                self.index.adopt(&[], &theirs.record.tombstones);
                self.saved = theirs;
            }
            Err(problem) => {
                error!(issuer = %self.issuer, "cannot record the keys seen: {}", crate::chain(&problem));
            }
        }
    }

    fn send(&self, first_seen: &mut BTreeMap<KeyId, Timestamp>) {
        let publication = self.index.publication();
        let mut changed = false;
        self.publications.send_if_modified(|current| {
            let differs = *current != publication;
            if differs {
                changed =
                    current.as_ref().map(|p| &p.documents) != publication.as_ref().map(|p| &p.documents);
                current.clone_from(&publication);
            }
            differs
        });
        // A key may change its state without a byte of the documents being changed by it.
        if publication.is_some() {
            self.report(changed, first_seen);
        }
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
        let seen = states.iter().zip(since).map(|((kid, state), since)| (kid, *state, since));
        self.metrics.keys_are(&self.issuer, seen);
    }

    fn key_states(&self) -> Vec<(KeyId, KeyState)> {
        let vanished = self.index.vanished();
        let published = self.index.keys().into_iter().map(|key| {
            let kid = key.key_id().clone();
            let state = if vanished.contains(&kid) { KeyState::Resident } else { KeyState::Live };
            (kid, state)
        });
        let withdrawn = self.index.withdrawn().map(|kid| (kid.clone(), KeyState::Withdrawn));
        published.chain(withdrawn).collect()
    }
}

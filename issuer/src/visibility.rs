//! Keeps the visibility record of one issuer: takes what was observed, lets time run, saves, and shows it to whoever asks.
//!
//! ```text
//!  outside view ──┐
//!  uploaded copies├─ ObservationEvent ─▶ Keeper ──▶ record (core::visibility) ──▶ document, metrics, `Visible`
//!  our own writers┘                                   └─▶ VisibilitySnapshot: the admin port, a rotation
//! ```
//!
//! The replica that publishes observes and writes the document; the others read it, and tell by its counter and their
//! own clocks whether it is kept up ([`chancery_core::visibility::RecordReader`]). Whoever observes says when that
//! ended, so that a queue in between adds no time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chancery_cluster::cell::{Cell, CellError, Stored};
use chancery_cluster::last_said::LastSaid;
use chancery_core::visibility::{Observation, OriginObservation, RecordReader, Visibility};
use chancery_core::{IssuerUrl, KeyId, PublicKey};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tracing::error;

use crate::conditions::{ConditionStore, Subject};
use crate::index::Publication;
use crate::leadership::Leading;
use crate::metrics::{Metrics, ViewLabels};
use crate::published_history::PublishedHistory;

mod answer;
mod document;
mod snapshot;
mod verdict;
mod writer;

pub use answer::{VisibilityQuestion, answer};
pub use document::{VISIBILITY, VisibilityDocument};
pub use snapshot::VisibilitySnapshot;
use writer::Writer;

/// What somebody found out about a view.
#[derive(Clone, Debug)]
pub enum ObservationEvent {
    /// Its edges were read.
    Edges {
        /// What was seen.
        observation: Observation,
        /// When the last of it was read.
        ended: Instant,
    },
    /// A writer read or wrote what stands behind it.
    Origin(OriginObservation),
}

impl ObservationEvent {
    /// An observation that has ended now.
    pub fn just_ended(observation: Observation) -> Self {
        Self::Edges { observation, ended: Instant::now() }
    }
}

/// How far apart two observations of a view may be when one is due `every` so often: one may be missed, and one may
/// take as long as it takes.
pub fn longest_gap(every: Duration) -> Duration {
    every.saturating_mul(2).saturating_add(Duration::from_secs(60))
}

/// What the configuration says about the record.
#[derive(Clone, Debug)]
pub struct RecordSettings {
    /// Every place that should be observed, also where nobody looks.
    pub views: Vec<String>,
    /// How far apart two observations of a view may be.
    pub longest_gap: Duration,
    /// How often a view is observed.
    pub every: Duration,
    /// No cache is believed to keep anything for longer, if that is set.
    pub longest_lifetime: Option<Duration>,
    /// What the declared relying parties need.
    pub usual_wait: Duration,
}

impl RecordSettings {
    /// How often the document is written when nothing but time changes, and how often it is read: so that even then,
    /// no reader takes it for older than the longest gap, or waits long for what was observed.
    fn pace(&self) -> Duration {
        (self.longest_gap / 3).min(self.every).max(Duration::from_secs(1))
    }
}

/// The task that owns one issuer's record.
#[derive(Debug)]
pub struct Keeper {
    /// Whose keys.
    pub issuer: IssuerUrl,
    /// What is recorded.
    pub settings: RecordSettings,
    /// Where the record is kept, if anywhere.
    pub cell: Option<Cell<VisibilityDocument>>,
    /// Whether this replica observes.
    pub leading: Leading,
    /// What is observed. The sender may be cloned for whoever observes something.
    pub events: mpsc::Receiver<Box<ObservationEvent>>,
    /// Where the record is shown.
    pub snapshots: watch::Sender<VisibilitySnapshot>,
    /// What should be seen.
    pub publications: watch::Receiver<Option<Arc<Publication>>>,
    /// What our targets hold and held.
    pub history: Arc<PublishedHistory>,
    /// Where conditions go.
    pub conditions: Arc<ConditionStore>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

/// What this replica does with the record.
enum Role {
    Writes(Box<Writer>),
    Reads(Follower),
}

/// A replica that reads what another one observes, by a clock that starts with it.
struct Follower {
    reader: RecordReader,
    started: Instant,
}

impl Follower {
    fn begin() -> Self {
        Self { reader: RecordReader::default(), started: Instant::now() }
    }
}

impl Keeper {
    /// What is shown before anything is known.
    pub fn nothing_known(settings: &RecordSettings) -> watch::Sender<VisibilitySnapshot> {
        let reader = RecordReader::default();
        watch::Sender::new(VisibilitySnapshot::read(reader, Instant::now(), settings.usual_wait))
    }

    /// Whether somebody may tell it something, by another sender than `observations`, or reads what it keeps.
    pub fn is_needed(&self, observations: &mpsc::Sender<Box<ObservationEvent>>) -> bool {
        self.cell.is_some() || observations.strong_count() > 1
    }

    /// Shows that nobody looks, instead of running for it.
    pub fn rest(&self) {
        let views = self.settings.views.iter().map(String::as_str);
        let record = Visibility::new(views, self.settings.longest_gap).record();
        let snapshot = VisibilitySnapshot::observed(record, Instant::now(), self.settings.usual_wait);
        self.snapshots.send_replace(snapshot);
    }

    /// Runs until nobody is left who could observe anything.
    pub async fn run(mut self) {
        let mut tick = interval(self.settings.pace());
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut role = Role::Reads(Follower::begin());
        let mut problem = LastSaid::default();
        loop {
            let mut leading = self.leading.clone();
            let (event, ticked) = tokio::select! {
                event = self.events.recv() => match event {
                    Some(event) => (Some(event), false),
                    None => return,
                },
                () = leading.changed() => (None, false),
                _ = tick.tick() => (None, true),
            };
            // Boxed: what a turn takes is not kept between turns.
            match Box::pin(self.turn(&mut role, event.map(|event| *event), ticked)).await {
                Ok(()) => _ = problem.forget(),
                Err(error) => {
                    let text = crate::error_chain(&error);
                    if problem.is_new(&text) {
                        error!(issuer = %self.issuer, "the visibility record cannot be kept: {text}");
                    }
                }
            }
        }
    }
}

impl Keeper {
    /// One turn after an event, a change of leadership or a tick.
    async fn turn(
        &mut self,
        role: &mut Role,
        event: Option<ObservationEvent>,
        ticked: bool,
    ) -> Result<(), KeeperError> {
        let leads = self.leading.now();
        match role {
            Role::Reads(_) if leads => {
                let stored = self.load().await?;
                let writer = Writer::begin(&self.issuer, &self.settings, stored, &self.history);
                *role = Role::Writes(Box::new(writer));
            }
            Role::Writes(_) if !leads => {
                self.stand_down();
                *role = Role::Reads(Follower::begin());
            }
            _ => {}
        }
        match role {
            Role::Writes(writer) => self.write(writer, event).await,
            Role::Reads(follower) if ticked => self.read(follower).await,
            Role::Reads(_) => Ok(()),
        }
    }

    async fn load(&self) -> Result<Option<Stored<VisibilityDocument>>, KeeperError> {
        let Some(cell) = &self.cell else { return Ok(None) };
        match cell.load().await? {
            Some(stored) if stored.document.issuer != self.issuer => {
                Err(KeeperError::OtherIssuer { place: cell.place(), found: stored.document.issuer })
            }
            stored => Ok(stored),
        }
    }

    async fn write(&self, writer: &mut Writer, event: Option<ObservationEvent>) -> Result<(), KeeperError> {
        let publication = self.publications.borrow().clone();
        let published = publication.iter().flat_map(|publication| publication.documents.jwks().keys());
        let published: BTreeSet<&KeyId> = published.map(PublicKey::key_id).collect();
        if let Some(event) = event {
            // Before anything is published, everything that was recorded still concerns us.
            let is_look = matches!(event, ObservationEvent::Edges { .. });
            let view = writer.take(event, |kid| publication.is_none() || published.contains(kid));
            // What our own writers find is no look from outside: where nobody looks, nobody can say what is visible.
            if is_look || writer.was_looked_at(&view) {
                self.judge(&view, writer, publication.as_deref());
            }
        }
        self.snapshots.send_replace(VisibilitySnapshot::observed(
            writer.record().record(),
            writer.counted(),
            self.settings.usual_wait,
        ));
        match &self.cell {
            Some(cell) if writer.is_due(&self.settings, &self.history) => {
                Ok(writer.write(cell, &self.settings, &self.history).await?)
            }
            _ => Ok(()),
        }
    }

    /// Follows what the replica that publishes observes.
    async fn read(&self, Follower { reader, started }: &mut Follower) -> Result<(), KeeperError> {
        let Some(stored) = self.load().await? else { return Ok(()) };
        self.history.restore(&stored.document.published);
        reader.read(stored.document.record, started.elapsed());
        let snapshot = VisibilitySnapshot::read(reader.clone(), *started, self.settings.usual_wait);
        self.snapshots.send_replace(snapshot);
        Ok(())
    }

    /// Forgets what was said: another replica observes now.
    fn stand_down(&self) {
        for view in &self.settings.views {
            self.conditions.forget(&Subject::view(&self.issuer, view));
        }
    }

    fn judge(&self, name: &str, writer: &Writer, publication: Option<&Publication>) {
        let record = writer.record().record();
        let Some((_, view)) = record.views().find(|(known, _)| *known == name) else { return };
        let labels = ViewLabels::new(&self.issuer, name);
        let wanted = publication.into_iter().flat_map(|publication| publication.documents.jwks().keys());
        self.metrics.visibility().observed(&labels, view, wanted.map(PublicKey::key_id));
        if let Some(publication) = publication {
            let was_seen = |kid: &KeyId| writer.was_seen(name, kid);
            let verdict = verdict::visible(publication.documents.jwks(), view, was_seen);
            self.conditions.set(&Subject::view(&self.issuer, name), &verdict);
        }
    }
}

/// Why the record cannot be kept.
#[derive(Debug, thiserror::Error)]
enum KeeperError {
    #[error(transparent)]
    Cell(#[from] CellError),
    #[error("{place} is the visibility record of {found}; put each issuer's record back under its own name")]
    OtherIssuer { place: String, found: IssuerUrl },
}

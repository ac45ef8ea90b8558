//! Keeps the visibility record of one issuer: takes what was seen, lets time run, saves, and shows it to whoever asks.
//!
//! ```text
//!  outside view ──┐
//!  uploaded copies├─ Observation ─▶ Keeper ──▶ record (core::visibility) ──▶ file, metrics, condition `Visible`
//!  our own writers┘                                   └─▶ Shown: the admin port, a rotation
//! ```
//!
//! Whoever sees something says when the seeing ended, so that a queue in between adds no time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chancery_core::visibility::{Change, Sighting, Visibility};
use chancery_core::{IssuerUrl, KeyId, PublicKey};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tracing::{error, info, warn};

use crate::conditions::{Board, Subject};
use crate::index::Publication;
use crate::metrics::{Metrics, ViewLabels};

mod answer;
mod file;
mod verdict;

pub use answer::{Question, answer};
pub use file::{VisibilityFile, VisibilityFileError};

/// Times are saved this often when nothing but time changes, so that a crash costs no more of a wait.
const SAVE_EVERY: Duration = Duration::from_secs(60);

/// What somebody found out about a view.
#[derive(Clone, Debug)]
pub enum Observation {
    /// Its edges were read.
    Sighted {
        /// What was seen.
        sighting: Sighting,
        /// When the last of it was read.
        ended: Instant,
    },
    /// A writer found keys missing in what stands behind it.
    Missing {
        /// The view.
        view: String,
        /// What lacks the keys.
        origin: String,
        /// The keys.
        kids: BTreeSet<KeyId>,
    },
}

impl Observation {
    /// A sighting that has ended now.
    pub fn seen(sighting: Sighting) -> Self {
        Self::Sighted { sighting, ended: Instant::now() }
    }
}

/// The record as it was at some time.
#[derive(Clone, Debug)]
pub struct Shown {
    record: Visibility,
    at: Instant,
}

impl Shown {
    /// The record as it is now: what was seen grows older while nobody looks.
    pub fn now(&self) -> Visibility {
        let mut record = self.record.clone();
        record.elapse(self.at.elapsed());
        record
    }
}

/// How far apart two sightings of a view may be when one is due `every` so often: one may be missed, and one may take
/// as long as it takes.
pub fn patience(every: Duration) -> Duration {
    every.saturating_mul(2).saturating_add(Duration::from_secs(60))
}

/// The task that owns one issuer's record.
#[derive(Debug)]
pub struct Keeper {
    /// Whose keys.
    pub issuer: IssuerUrl,
    /// The record, with whatever was saved.
    pub record: Visibility,
    /// What is seen. The sender may be cloned for whoever sees something.
    pub observations: mpsc::Receiver<Observation>,
    /// Where the record is shown.
    pub shown: watch::Sender<Shown>,
    /// Where it is saved.
    pub file: Option<VisibilityFile>,
    /// What should be seen.
    pub publications: watch::Receiver<Option<Arc<Publication>>>,
    /// Where conditions go.
    pub board: Arc<Board>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

impl Keeper {
    /// What a record shows before anything was seen.
    pub fn show(record: &Visibility) -> watch::Sender<Shown> {
        watch::Sender::new(Shown { record: record.clone(), at: Instant::now() })
    }

    /// Runs until nobody is left who could see anything.
    pub async fn run(mut self) {
        let mut counted = Instant::now();
        let mut saved = None;
        let mut seen_once = self.proven();
        while let Some(observation) = self.observations.recv().await {
            let (view, changes) = match observation {
                Observation::Sighted { sighting, ended } => {
                    self.record.elapse(ended.saturating_duration_since(counted));
                    counted = counted.max(ended);
                    (sighting.view.clone(), self.record.observe(sighting))
                }
                Observation::Missing { view, origin, kids } => {
                    let changes = self.record.found_missing(&view, &origin, &kids);
                    (view, changes)
                }
            };
            changes.iter().for_each(|change| self.say(&view, change));
            seen_once.extend(self.proven());
            let due = saved.is_none_or(|saved: Instant| saved.elapsed() >= SAVE_EVERY);
            if (due || !changes.is_empty()) && self.save() {
                saved = Some(Instant::now());
            }
            self.judge(&view, &seen_once);
            self.count(&view);
            self.shown.send_replace(Shown { record: self.record.clone(), at: counted });
        }
    }

    /// The keys that were seen for any time, by view: one that is missed then was there.
    fn proven(&self) -> BTreeSet<(String, KeyId)> {
        let views = self.record.views();
        let keys = views.flat_map(|(name, view)| view.keys().map(move |(kid, time)| (name, kid, time)));
        let seen = keys.filter(|(_, _, time)| !time.is_zero());
        seen.map(|(name, kid, _)| (name.to_owned(), kid.clone())).collect()
    }

    fn say(&self, view: &str, change: &Change) {
        match change {
            Change::Appeared { kid } => info!(issuer = %self.issuer, view, %kid, "every edge shows this key"),
            Change::Gap { kid, edge, after } => {
                let wanted =
                    self.publications.borrow().as_ref().is_some_and(|p| p.documents.jwks().contains(kid));
                if wanted {
                    warn!(issuer = %self.issuer, view, %kid, edge, seconds = after.as_secs(), "a key is not shown any more, its time starts again");
                } else {
                    info!(issuer = %self.issuer, view, %kid, edge, "a key that is not published any more is gone");
                }
            }
            Change::LongestMaxAge(longest) => {
                info!(issuer = %self.issuer, view, seconds = longest.as_secs(), "no key may sign sooner after its publication than this, for which a document may be kept");
            }
        }
    }

    /// Whether the file is up to date.
    fn save(&self) -> bool {
        let Some(file) = &self.file else { return true };
        match file.save(&self.record.record()) {
            Ok(()) => true,
            Err(problem) => {
                error!(issuer = %self.issuer, "cannot save what was seen: {}", crate::chain(&problem));
                false
            }
        }
    }

    fn judge(&self, name: &str, seen_once: &BTreeSet<(String, KeyId)>) {
        let Some(publication) = self.publications.borrow().clone() else { return };
        let Some((_, view)) = self.record.views().find(|(known, _)| *known == name) else { return };
        let was_seen = |kid: &KeyId| seen_once.contains(&(name.to_owned(), kid.clone()));
        let verdict = verdict::visible(publication.documents.jwks(), view, was_seen);
        self.board.set(&Subject::view(&self.issuer, name), &verdict);
    }

    fn count(&self, name: &str) {
        let Some((_, view)) = self.record.views().find(|(known, _)| *known == name) else { return };
        let labels = ViewLabels::new(&self.issuer, name);
        let publication = self.publications.borrow().clone();
        let wanted = publication.iter().flat_map(|publication| publication.documents.jwks().keys());
        self.metrics.visibility().seen(&labels, view, wanted.map(PublicKey::key_id));
    }
}

//! Looks at one issuer from outside, after every publication and now and then, at every address that its hosts have.

use std::sync::Arc;
use std::time::Duration;

use chancery_cluster::backoff::Backoff;
use chancery_core::IssuerUrl;
use chancery_core::lint::{Finding, Severity};
use chancery_publisher::verify::probe::Probe;
use chancery_publisher::verify::{Expectation, IssuerPlace, Verifier};
use futures_util::future::join_all;
use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};

use self::said::{Look, SaidLately};
use self::served::{HeldBehind, Served, StrangeSince};
use crate::conditions::{ConditionStore, Subject};
use crate::index::Publication;
use crate::leadership::Leading;
use crate::metrics::Metrics;
use crate::published_history::PublishedHistory;
use crate::turns::Turns;
use crate::visibility::ObservationEvent;

mod said;
mod served;

/// How long after a change the first look waits: targets are being written meanwhile, and a look would report
/// what is about to be put right.
const SETTLE: Duration = Duration::from_millis(500);

/// Each look is several connections with TLS. A second or two pass in one over the widest network, so that a thousand
/// issuers are done within the usual minute.
static LOOKS: Turns = Turns::new(16, Duration::from_secs(30));

/// The holder that is this process itself, in [`OutsideView::holders`].
pub const OURSELVES: &str = "";

/// One address at which relying parties read an issuer.
#[derive(Clone, Debug)]
pub struct OutsideView {
    /// What logs, metrics and the record call it: the target's name, or `issuer URL`.
    pub name: String,
    /// The URL below which the documents are read, when that is not the issuer URL.
    pub base: Option<String>,
    /// What may stand behind it: targets by name, and [`OURSELVES`].
    pub holders: Vec<String>,
}

/// The task that looks at one issuer.
#[derive(Debug)]
pub struct Outside {
    /// Whose documents.
    pub issuer: IssuerUrl,
    /// Where they are read.
    pub views: Vec<OutsideView>,
    /// Reads as an anonymous relying party does.
    pub verifier: Verifier,
    /// Time between two looks when all is well.
    pub every: Duration,
    /// What must be visible.
    pub publications: watch::Receiver<Option<Arc<Publication>>>,
    /// Told about every publication on a target.
    pub published: watch::Receiver<u64>,
    /// Ends the task.
    pub shutdown: watch::Receiver<bool>,
    /// Whether this replica observes: the one that publishes does, and the others read what it has seen.
    pub leading: Leading,
    /// Told about everything that is seen.
    pub observations: mpsc::Sender<Box<ObservationEvent>>,
    /// What the targets hold.
    pub history: Arc<PublishedHistory>,
    /// Where conditions go.
    pub conditions: Arc<ConditionStore>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

/// What is remembered of a view from one look to the next, while this replica observes.
#[derive(Clone, Debug)]
struct ViewMemory {
    since: Instant,
    said: SaidLately,
    /// Whether a question past its caches was ever answered.
    answers_past_caches: bool,
    strange: StrangeSince,
}

impl ViewMemory {
    fn begin() -> Self {
        Self {
            since: Instant::now(),
            said: SaidLately::default(),
            answers_past_caches: false,
            strange: StrangeSince::default(),
        }
    }
}

impl Outside {
    /// Runs until shutdown.
    pub async fn run(mut self) {
        let mut backoff = Backoff::new(Duration::from_millis(500), self.every);
        let mut memories = Vec::new();
        // Another number each time, also after a restart: no cache has an answer for it.
        let mut nonce = u64::try_from(Timestamp::now().as_microsecond()).unwrap_or_default();
        while !*self.shutdown.borrow_and_update() {
            // What is looked for is read after the wait for a turn, so that it is what is published now.
            let turn = LOOKS.take().await;
            self.published.mark_unchanged();
            let leading = self.leading.now();
            let publication = self.publications.borrow_and_update().clone();
            nonce = nonce.wrapping_add(1);
            let good = match publication.filter(|_| leading) {
                Some(publication) => self.look(&publication, &mut memories, nonce).await,
                None => {
                    memories.clear();
                    true
                }
            };
            drop(turn);
            let pause = if good { self.every } else { backoff.next_pause() };
            if good {
                backoff.reset();
            }
            tokio::select! {
                changed = self.publications.changed() => if changed.is_err() { return },
                // An issuer without a target has nobody who would tell.
                Ok(()) = self.published.changed() => {}
                () = self.leading.changed() => {}
                changed = self.shutdown.changed() => if changed.is_err() { return },
                () = sleep(pause) => continue,
            }
            sleep(SETTLE).await;
        }
    }

    /// Looks at every view and says what changed since the last look. Whether all is well.
    async fn look(&self, publication: &Publication, memories: &mut Vec<ViewMemory>, nonce: u64) -> bool {
        memories.resize_with(self.views.len(), ViewMemory::begin);
        let keys = publication.documents.jwks().keys().iter().map(|key| key.key_id().clone());
        let expected = Expectation { cache: publication.documents.cache(), ..Expectation::of_keys(keys) };
        self.history.holds(OURSELVES, &publication.documents);
        let looks = self.views.iter().zip(memories).map(|(view, memory)| async {
            let place = IssuerPlace { issuer: &self.issuer, base: view.base.as_deref() };
            let probe = self.verifier.probe(place, &expected, nonce).await;
            memory.answers_past_caches |= probe.answers_past_caches();
            let observation = probe.observation(&view.name, memory.answers_past_caches);
            // The keeper ends only with the process.
            let _ = self.observations.send(Box::new(ObservationEvent::just_ended(observation))).await;
            let mut findings = probe.findings();
            findings.extend(self.compare(view, &probe, memory));
            memory.said.say(Look {
                issuer: &self.issuer,
                view: &view.name,
                probe: &probe,
                findings: &findings,
            });
            findings
        });
        let findings: Vec<Finding> = join_all(looks).await.into_iter().flatten().collect();
        let severities = findings.iter().map(|finding| finding.severity);
        self.metrics.verified(&self.issuer, severities, Timestamp::now());
        findings.iter().all(|finding| finding.severity < Severity::Warning)
    }

    /// Holds what a view serves against what our targets hold.
    fn compare(&self, view: &OutsideView, probe: &Probe, memory: &mut ViewMemory) -> Option<Finding> {
        let held = HeldBehind {
            history: &self.history,
            holders: &view.holders,
            known_since: memory.since,
            grace: self.every,
        };
        let Served { verdict, finding } = served::judge(held, probe, &mut memory.strange)?;
        self.conditions.set(&Subject::view(&self.issuer, &view.name), &verdict);
        finding
    }
}

//! Looks at one issuer from outside, after every publication and now and then, at every address that its hosts have.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chancery_core::lint::{Finding, Severity};
use chancery_core::{IssuerUrl, KeyId};
use chancery_publisher::verify::probe::Probe;
use chancery_publisher::verify::{Expectation, Place, Verifier};
use futures_util::future::join_all;
use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;
use tracing::{info, warn};

use crate::backoff::Backoff;
use crate::conditions::{Board, Subject};
use crate::held::Held;
use crate::index::Publication;
use crate::metrics::Metrics;
use crate::visibility::Observation;

mod served;

/// How long after a change the first look waits: targets are being written meanwhile, and a look would report
/// what is about to be put right.
const SETTLE: Duration = Duration::from_millis(500);

/// The holder that is this process itself, in [`View::holders`].
pub const OURSELVES: &str = "";

/// One address at which relying parties read an issuer.
#[derive(Clone, Debug)]
pub struct View {
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
    pub views: Vec<View>,
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
    /// Told about everything that is seen.
    pub observations: mpsc::Sender<Observation>,
    /// What the targets hold.
    pub held: Arc<Held>,
    /// Where conditions go.
    pub board: Arc<Board>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

/// What is remembered of a view from one look to the next.
#[derive(Clone, Debug, Default)]
struct Memory {
    /// The state that was said last.
    said: Option<String>,
    /// Whether a question past its caches was ever answered.
    answers_past_caches: bool,
}

impl Outside {
    /// Runs until shutdown.
    pub async fn run(mut self) {
        let mut backoff = Backoff::new(Duration::from_millis(500), self.every);
        let mut memories = vec![Memory::default(); self.views.len()];
        // Another number each time, also after a restart: no cache has an answer for it.
        let mut nonce = u64::try_from(Timestamp::now().as_microsecond()).unwrap_or_default();
        while !*self.shutdown.borrow_and_update() {
            self.published.mark_unchanged();
            let publication = self.publications.borrow_and_update().clone();
            nonce = nonce.wrapping_add(1);
            let good = match publication {
                Some(publication) => self.look(&publication, &mut memories, nonce).await,
                None => true,
            };
            let pause = if good { self.every } else { backoff.next_pause() };
            if good {
                backoff.reset();
            }
            tokio::select! {
                changed = self.publications.changed() => if changed.is_err() { return },
                // An issuer without a target has nobody who would tell.
                Ok(()) = self.published.changed() => {}
                changed = self.shutdown.changed() => if changed.is_err() { return },
                () = sleep(pause) => continue,
            }
            sleep(SETTLE).await;
        }
    }

    /// Looks at every view and says what changed since the last look. Whether all is well.
    async fn look(&self, publication: &Publication, memories: &mut [Memory], nonce: u64) -> bool {
        let keys = publication.documents.jwks().keys().iter().map(|key| key.key_id().clone());
        let expected = Expectation { cache: publication.documents.cache(), ..Expectation::of_keys(keys) };
        self.held.holds(OURSELVES, &publication.documents);
        let looks = self.views.iter().zip(memories).map(|(view, memory)| async {
            let place = Place { issuer: &self.issuer, base: view.base.as_deref() };
            let probe = self.verifier.probe(place, &expected, nonce).await;
            memory.answers_past_caches |= probe.answers_past_caches();
            let sighting = probe.sighting(&view.name, memory.answers_past_caches);
            // The keeper ends only with the process.
            let _ = self.observations.send(Observation::seen(sighting)).await;
            let mut findings = probe.findings();
            findings.extend(self.compare(view, &probe));
            self.say(view, memory, (&probe, &findings));
            findings
        });
        let findings: Vec<Finding> = join_all(looks).await.into_iter().flatten().collect();
        let severities = findings.iter().map(|finding| finding.severity);
        self.metrics.verified(&self.issuer, severities, Timestamp::now());
        findings.iter().all(|finding| finding.severity < Severity::Warning)
    }

    /// Holds what a view serves against what our targets hold.
    fn compare(&self, view: &View, probe: &Probe) -> Option<Finding> {
        let (verdict, finding) = served::judge(&self.held, &view.holders, probe)?;
        self.board.set(&Subject::view(&self.issuer, &view.name), &verdict);
        finding
    }

    fn say(&self, view: &View, memory: &mut Memory, (probe, findings): (&Probe, &[Finding])) {
        let sentence = summary(probe, findings);
        if memory.said.as_ref() == Some(&sentence) {
            return;
        }
        let bad = || findings.iter().filter(|finding| finding.severity > Severity::Note);
        if bad().next().is_none() {
            info!(issuer = %self.issuer, view = view.name, "{sentence}");
        } else {
            warn!(issuer = %self.issuer, view = view.name, "{sentence}");
        }
        for finding in bad() {
            let breaks: Vec<&str> = finding.breaks.iter().map(|party| party.as_str()).collect();
            warn!(issuer = %self.issuer, view = view.name, rule = finding.rule, breaks = breaks.join(","), "{}; {}", finding.message, finding.remedy);
        }
        memory.said = Some(sentence);
    }
}

/// The state of a view in one sentence, equal as long as nothing changed.
fn summary(probe: &Probe, findings: &[Finding]) -> String {
    let mut rules: Vec<&str> = findings
        .iter()
        .filter(|finding| finding.severity > Severity::Note)
        .map(|finding| finding.rule)
        .collect();
    rules.sort_unstable();
    rules.dedup();
    if !rules.is_empty() {
        return format!("relying parties will not be content: {}", rules.join(", "));
    }
    let kids: BTreeSet<&KeyId> = probe.plain().flat_map(|edge| &edge.report.visible).collect();
    let kids: Vec<&str> = kids.into_iter().map(KeyId::as_str).collect();
    format!("visible from outside: {}", kids.join(", "))
}

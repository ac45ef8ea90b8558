//! Looks at one issuer from outside, after every publication and now and then.

use std::sync::Arc;
use std::time::Duration;

use chancery_core::lint::Severity;
use chancery_core::{IssuerUrl, KeyId};
use chancery_publisher::verify::report::Report;
use chancery_publisher::verify::{Expectation, Verifier};
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::backoff::Backoff;
use crate::index::Publication;
use crate::metrics::Metrics;

/// How long after a change the first look waits: targets are being written meanwhile, and a look would report
/// what is about to be put right.
const SETTLE: Duration = Duration::from_millis(500);

/// One address at which relying parties read an issuer.
#[derive(Clone, Debug)]
pub struct View {
    /// What logs call it: the target's name, or `issuer URL`.
    pub name: String,
    /// The URL below which the documents are read, when that is not the issuer URL.
    pub base: Option<String>,
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
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

impl Outside {
    /// Runs until shutdown.
    pub async fn run(mut self) {
        let mut backoff = Backoff::new(Duration::from_millis(500), self.every);
        let mut said = vec![None; self.views.len()];
        while !*self.shutdown.borrow_and_update() {
            self.published.mark_unchanged();
            let publication = self.publications.borrow_and_update().clone();
            let good = match publication {
                Some(publication) => self.look(&publication, &mut said).await,
                None => true,
            };
            let pause = if good { self.every } else { backoff.next_pause() };
            if good {
                backoff.reset();
            }
            tokio::select! {
                changed = self.publications.changed() => if changed.is_err() { return },
                // Without a target nobody publishes, and there is nobody to end with.
                Ok(()) = self.published.changed() => {}
                changed = self.shutdown.changed() => if changed.is_err() { return },
                () = sleep(pause) => continue,
            }
            sleep(SETTLE).await;
        }
    }

    /// Looks at every view and says what changed since the last look.
    async fn look(&self, publication: &Publication, said: &mut [Option<String>]) -> bool {
        let keys = publication.documents.jwks().keys().iter().map(|key| key.key_id().clone());
        let expected = Expectation { cache: publication.documents.cache(), ..Expectation::of_keys(keys) };
        let mut severities = Vec::new();
        let mut all_good = true;
        for (view, said) in self.views.iter().zip(said) {
            let report = match &view.base {
                None => self.verifier.verify(&self.issuer, &expected).await,
                Some(base) => self.verifier.verify_mirror(base, &self.issuer, &expected).await,
            };
            all_good &= report.is_good();
            severities.extend(report.findings.iter().map(|finding| finding.severity));
            let sentence = summary(&report);
            if said.as_ref() != Some(&sentence) {
                self.say(view, &report, &sentence);
                *said = Some(sentence);
            }
        }
        self.metrics.verified(&self.issuer, severities, Timestamp::now());
        all_good
    }

    fn say(&self, view: &View, report: &Report, sentence: &str) {
        if report.is_good() {
            info!(issuer = %self.issuer, view = view.name, "{sentence}");
            return;
        }
        warn!(issuer = %self.issuer, view = view.name, "{sentence}");
        for finding in report.findings.iter().filter(|finding| finding.severity > Severity::Note) {
            let breaks: Vec<&str> = finding.breaks.iter().map(|party| party.as_str()).collect();
            warn!(issuer = %self.issuer, view = view.name, rule = finding.rule, breaks = breaks.join(","), "{}; {}", finding.message, finding.remedy);
        }
    }
}

/// The state of a view in one sentence, equal as long as nothing changed.
fn summary(report: &Report) -> String {
    let mut rules: Vec<&str> =
        report.findings.iter().filter(|f| f.severity > Severity::Note).map(|f| f.rule).collect();
    rules.sort_unstable();
    rules.dedup();
    if rules.is_empty() {
        let kids: Vec<&str> = report.visible.iter().map(KeyId::as_str).collect();
        format!("visible from outside: {}", kids.join(", "))
    } else {
        format!("relying parties will not be content: {}", rules.join(", "))
    }
}

//! What the log hears of each look: only what changed, and not more than it can bear when somebody changes it on purpose.

use std::collections::BTreeSet;
use std::time::Duration;

use chancery_core::lint::{Finding, Severity};
use chancery_core::{IssuerUrl, KeyId, listed};
use chancery_publisher::verify::probe::Probe;
use tokio::time::Instant;
use tracing::{info, warn};

/// How many changes of a view are told at once, however fast they come.
const BURST: u32 = 10;
/// After them, one is told this often.
const REFILL: Duration = Duration::from_secs(60);
/// The most findings that are told of one look.
const FINDINGS: usize = 10;

/// One look at one view.
#[derive(Clone, Copy)]
pub(super) struct Look<'a> {
    pub issuer: &'a IssuerUrl,
    pub view: &'a str,
    pub probe: &'a Probe,
    pub findings: &'a [Finding],
}

/// What was said of a view, and how much more may be said now.
#[derive(Clone, Debug, Default)]
pub(super) struct SaidLately {
    sentence: Option<String>,
    /// How many changes were told, less those that time has made up for.
    told: u32,
    counted: Option<Instant>,
}

impl SaidLately {
    /// Says how a view is, if that is news.
    pub fn say(&mut self, look: Look<'_>) {
        let sentence = summary(look);
        if self.sentence.as_ref() == Some(&sentence) || !self.may_tell(Instant::now()) {
            return;
        }
        let Look { issuer, view, findings, .. } = look;
        let bad: Vec<&Finding> =
            findings.iter().filter(|finding| finding.severity > Severity::Note).collect();
        if bad.is_empty() {
            info!(%issuer, view, "{sentence}");
        } else {
            warn!(%issuer, view, "{sentence}");
        }
        for finding in bad.iter().take(FINDINGS) {
            let breaks: Vec<&str> = finding.breaks.iter().map(|party| party.as_str()).collect();
            warn!(%issuer, view, rule = finding.rule, breaks = breaks.join(","), "{}; {}", finding.message, finding.remedy);
        }
        if let Some(more) = bad.len().checked_sub(FINDINGS + 1) {
            warn!(%issuer, view, "and {} findings more; `chancery verify --every-address` shows them", more + 1);
        }
        self.sentence = Some(sentence);
    }

    /// Takes one of the changes that may be told.
    fn may_tell(&mut self, now: Instant) -> bool {
        let counted = *self.counted.get_or_insert(now);
        let passed = now.saturating_duration_since(counted).as_secs() / REFILL.as_secs();
        if passed > 0 {
            self.told = self.told.saturating_sub(u32::try_from(passed).unwrap_or(u32::MAX));
            self.counted = Some(now);
        }
        if self.told >= BURST {
            return false;
        }
        self.told += 1;
        true
    }
}

/// The state of a view in one sentence, equal as long as nothing changed.
fn summary(look: Look<'_>) -> String {
    let bad = look.findings.iter().filter(|finding| finding.severity > Severity::Note);
    let rules: BTreeSet<&str> = bad.map(|finding| finding.rule).collect();
    if !rules.is_empty() {
        let rules: Vec<&str> = rules.into_iter().collect();
        return format!("relying parties meet a problem: {}", rules.join(", "));
    }
    let kids: BTreeSet<&KeyId> = look.probe.plain().flat_map(|edge| &edge.report.visible).collect();
    format!("visible from outside: {}", listed(kids))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_changes_his_documents_at_every_look_fills_no_log() {
        let (mut said, start) = (SaidLately::default(), Instant::now());
        let seconds = |number| start + Duration::from_secs(number);
        let told = (0..120).filter(|second| said.may_tell(seconds(*second))).count();
        assert_eq!(told, 11, "ten at once, and one more a minute later");
        assert!((0..10).all(|_| said.may_tell(seconds(7200))), "later, ten at once again");
        assert!(!said.may_tell(seconds(7200)));
    }
}

//! What a plan means for relying parties, for a person and for a machine: what they dislike about the keys that are
//! visible then, how long a new key must wait, and who goes on accepting a withdrawn one.

use chancery_core::Withdrawals;
use chancery_core::jwks::ObservedJwks;
use chancery_core::lint::{Finding, Severity, lint_keys};
use chancery_core::profile::{
    RelyingParty, StillAccepting, Wait, after_withdrawal, list, pre_publication_wait,
};
use chancery_core::publication::Plan;
use serde_json::{Value, json};

pub struct Advice {
    findings: Vec<Finding>,
    /// Before a key that is new to the target signs.
    wait: Wait,
    /// Who accepts a key that is withdrawn; empty where none is.
    accepting: Vec<StillAccepting>,
}

impl Advice {
    pub fn of(plan: &Plan, withdrawals: &Withdrawals, parties: &[RelyingParty]) -> Self {
        let keys = ObservedJwks::from(plan.result.jwks());
        let mut findings = lint_keys(&keys, parties);
        findings.retain(|finding| finding.severity > Severity::Note);
        let mut wait = pre_publication_wait(parties);
        let max_age = plan.result.cache().max_age();
        if max_age > wait.time {
            wait.time = max_age;
            wait.because = "caches may keep the documents that long".to_owned();
        }
        let accepting = if withdrawals.is_empty() { Vec::new() } else { after_withdrawal(parties) };
        Self { findings, wait, accepting }
    }

    pub fn to_json(&self) -> Value {
        let accepting = self
            .accepting
            .iter()
            .map(|one| json!({ "party": one.party, "says": one.to_string(), "restart": one.restart }));
        json!({
            "findings": self.findings,
            "waitSeconds": self.wait.time.as_secs(),
            "waitBecause": self.wait.because,
            "restartBeforeNewKeySigns": self.wait.restart,
            "stillAccepting": accepting.collect::<Vec<_>>(),
        })
    }

    pub fn to_text(&self) -> String {
        let (seconds, because) = (self.wait.time.as_secs(), &self.wait.because);
        let mut text = format!(
            "\nbefore a new key signs\n  let it be visible for {seconds} s without a gap: {because}\n"
        );
        if !self.wait.restart.is_empty() {
            text.push_str(&format!(
                "  then restart {}, which read the keys once\n",
                list(&self.wait.restart)
            ));
        }
        if !self.accepting.is_empty() {
            text.push_str("\nafter the withdrawal\n");
        }
        self.accepting.iter().for_each(|one| text.push_str(&format!("  {one}\n")));
        self.findings.iter().for_each(|finding| text.push_str(&format!("\n{finding}")));
        text
    }
}

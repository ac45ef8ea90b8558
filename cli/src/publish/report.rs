//! A plan and its outcome, for a person and for a machine.

use chancery_core::publication::{Plan, Precondition, Reason, Write};
use chancery_core::{KeyId, Owner, PublicKey};
use chancery_publisher::Outcome;
use serde_json::{Value, json};

use super::advice::Advice;

/// What was planned for a target, and what came of it.
pub struct PublishReport {
    target: String,
    owner: Owner,
    issuer: String,
    writes: Vec<Write>,
    keys: Vec<PublicKey>,
    foreign: Vec<KeyId>,
    advice: Advice,
    /// The paths written; `None` as long as it is only a plan.
    written: Option<Vec<&'static str>>,
}

impl PublishReport {
    pub fn of_plan(target: &str, owner: &Owner, plan: &Plan, advice: Advice) -> Self {
        Self {
            target: target.to_owned(),
            owner: owner.clone(),
            issuer: plan.result.issuer().to_string(),
            writes: plan.writes.clone(),
            keys: plan.result.jwks().keys().to_vec(),
            foreign: plan.foreign.clone(),
            advice,
            written: None,
        }
    }

    /// Adds what was done, and takes over what the target holds now: others may have written in between.
    pub fn applied(&mut self, outcome: &Outcome) {
        self.keys = outcome.result.jwks().keys().to_vec();
        self.foreign = outcome.foreign.clone();
        self.written = Some(outcome.written.iter().map(|kind| kind.path()).collect());
    }

    pub fn to_json(&self) -> anyhow::Result<String> {
        let keys: Vec<Value> = self
            .keys
            .iter()
            .map(|key| {
                let foreign = self.foreign.contains(key.key_id());
                json!({ "kid": key.key_id(), "alg": key.algorithm().as_str(), "foreign": foreign })
            })
            .collect();
        let document = json!({
            "issuer": self.issuer,
            "target": self.target,
            "owner": self.owner.as_str(),
            "writes": self.writes.iter().map(write_to_json).collect::<Vec<_>>(),
            "keys": keys,
            "written": self.written,
            "relyingParties": self.advice.to_json(),
        });
        Ok(format!("{}\n", serde_json::to_string_pretty(&document)?))
    }

    pub fn to_text(&self) -> String {
        let mut text = format!("issuer  {}\ntarget  {}\nowner   {}\n", self.issuer, self.target, self.owner);
        for write in &self.writes {
            text.push_str(&write_to_text(write));
        }
        if self.writes.is_empty() {
            text.push_str("\nnothing to write\n");
        }
        text.push_str("\nkeys visible then\n");
        for key in &self.keys {
            let foreign = self.foreign.contains(key.key_id());
            let note = if foreign { "  not among these key files, stays" } else { "" };
            text.push_str(&format!("  {}  {}{note}\n", key.key_id(), key.description()));
        }
        text + &self.advice.to_text()
    }

    pub fn to_text_of_outcome(&self) -> String {
        match self.written.as_deref() {
            None | Some([]) => "\nnothing was written\n".to_owned(),
            Some(paths) => format!("\nwrote {}\n", paths.join(" and ")),
        }
    }
}

fn write_to_text(write: &Write) -> String {
    let (kind, size) = (write.document.kind, write.document.bytes.len());
    let condition = match &write.precondition {
        Precondition::Absent => "if there is none".to_owned(),
        Precondition::Unchanged(version) => format!("if it is still {}", version.0),
    };
    let mut text = format!("\nwrite {} ({kind}, {size} bytes), {condition}\n", kind.path());
    for reason in &write.reasons {
        text.push_str(&format!("  because {reason}\n"));
    }
    text
}

fn write_to_json(write: &Write) -> Value {
    let document = &write.document;
    json!({
        "path": document.kind.path(),
        "mediaType": document.kind.media_type(),
        "cacheControl": document.cache.header(),
        "size": document.bytes.len(),
        "ifVersion": match &write.precondition {
            Precondition::Absent => None,
            Precondition::Unchanged(version) => Some(&version.0),
        },
        "reasons": write.reasons.iter().map(Reason::to_string).collect::<Vec<_>>(),
    })
}

//! What is served, held against what our targets hold: a cache that is old, or somebody in between.

use chancery_core::lint::{Finding, Severity};
use chancery_core::profile::RelyingParty;
use chancery_core::{DocumentKind, KeyId};
use chancery_publisher::verify::probe::{Edge, Probe};
use chancery_publisher::verify::rule;

use crate::conditions::{ConditionType, Verdict};
use crate::held::{Comparison, Held, Served};

/// The condition of a view, and the finding if there is something to find. `None` when no edge showed both documents.
pub(super) fn judge(held: &Held, holders: &[String], probe: &Probe) -> Option<(Verdict, Option<Finding>)> {
    let compared = probe.plain().filter_map(|edge| Some((edge, held.compare(holders, served(edge)?))));
    let (edge, worst) = compared.max_by_key(|(_, comparison)| gravity(comparison))?;
    let condition = ConditionType::ServedAsPublished;
    Some(match worst {
        Comparison::AsHeld => {
            (Verdict::good(condition, "AsPublished", "what is served is what our targets hold"), None)
        }
        Comparison::Unknown => {
            let message = "another replica writes the targets and knows what they hold";
            (Verdict { alarm: false, ..Verdict::unknown(condition, "TargetsNotRead", message) }, None)
        }
        Comparison::Stale => {
            let message = format!("{edge} serves what was published before");
            let finding = finding(
                Severity::Note,
                message.clone(),
                "wait until the caches in front ask again, or purge them",
            );
            (Verdict::pending(condition, "Stale", message), Some(finding))
        }
        Comparison::Altered => {
            let message = format!("{edge} serves documents that no target of ours ever held");
            let remedy =
                "find out what is in front of the target: a CDN that rewrites, or somebody who tampers";
            (
                Verdict::bad(condition, "Altered", message.clone()),
                Some(finding(Severity::Warning, message, remedy)),
            )
        }
        Comparison::ForeignKeys(kids) => {
            let kids: Vec<&str> = kids.iter().map(KeyId::as_str).collect();
            let message = format!(
                "possible intrusion: {edge} serves keys that no target of ours ever held ({}); tokens signed with them are accepted",
                kids.join(", ")
            );
            let remedy = "find out who answers there in our name, and take the name away from them";
            (
                Verdict::bad(condition, "ServesForeignKeys", message.clone()),
                Some(finding(Severity::Error, message, remedy)),
            )
        }
    })
}

fn finding(severity: Severity, message: String, remedy: &str) -> Finding {
    let breaks = if severity == Severity::Note { Vec::new() } else { RelyingParty::ALL.to_vec() };
    Finding { rule: rule::BYTES_DIFFER, severity, breaks, message, remedy: remedy.to_owned() }
}

fn served(edge: &Edge) -> Option<Served<'_>> {
    let reading = &edge.report.reading;
    let body =
        |kind| reading.fetched(kind).filter(|fetched| fetched.status == 200).map(|it| it.body.as_slice());
    let [jwks, discovery] = DocumentKind::ALL.map(body);
    Some(Served { bodies: [jwks?, discovery?], kids: &edge.report.visible })
}

fn gravity(comparison: &Comparison) -> u8 {
    match comparison {
        Comparison::AsHeld => 0,
        Comparison::Stale => 1,
        Comparison::Unknown => 2,
        Comparison::Altered => 3,
        Comparison::ForeignKeys(_) => 4,
    }
}

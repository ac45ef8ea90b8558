//! What is served, held against what our targets hold: a cache that is old, or somebody in between.

use std::time::Duration;

use chancery_core::lint::{Finding, Severity};
use chancery_core::profile::RelyingParty;
use chancery_core::{DocumentKind, listed};
use chancery_publisher::verify::probe::{Edge, Probe};
use chancery_publisher::verify::rule;
use tokio::time::Instant;

use crate::conditions::{ConditionType, Verdict};
use crate::published_history::{PublishedHistory, ServedComparison, ServedDocuments};

/// What a look is held against.
#[derive(Clone, Copy)]
pub(super) struct HeldBehind<'a> {
    pub history: &'a PublishedHistory,
    /// Who may stand behind the view.
    pub holders: &'a [String],
    /// Since when this process has noted what they hold.
    pub known_since: Instant,
    /// How long something strange must be there before it is called so: another replica may have read a source before
    /// this one did, and serves what this one will publish in a moment.
    pub grace: Duration,
}

/// Since when each look at a view has found what is not known here.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StrangeSince(Option<Instant>);

/// What a look came to.
pub(super) struct Served {
    pub verdict: Verdict,
    pub finding: Option<Finding>,
}

/// The condition of a view, and the finding if there is something to find. `None` when no edge showed both documents.
pub(super) fn judge(held: HeldBehind<'_>, probe: &Probe, strange: &mut StrangeSince) -> Option<Served> {
    let compared = probe
        .plain()
        .filter_map(|edge| Some((edge, held.history.compare(held.holders, documents_of(edge)?))));
    let (edge, worst) = compared.max_by_key(|(_, comparison)| gravity(comparison))?;
    strange.0 = match &worst {
        ServedComparison::Altered | ServedComparison::ForeignKeys(_) => strange.0.or(Some(Instant::now())),
        _ => None,
    };
    let excuse = strange.0.and_then(|since| excuse(held, edge, since));
    Some(match excuse {
        Some(excuse) => {
            let verdict = Verdict::unknown(ConditionType::ServedAsPublished, "NotKnownHere", excuse);
            Served { verdict: Verdict { alarm: false, ..verdict }, finding: None }
        }
        None => of_comparison(edge, worst),
    })
}

/// Why something that is not known here need not be strange.
fn excuse(held: HeldBehind<'_>, edge: &Edge, since: Instant) -> Option<&'static str> {
    // A cache in front hands out an old answer until its time is over, to one that keeps it for as long again.
    let kept = edge.report.max_age.unwrap_or_default().saturating_mul(2);
    if since.elapsed() < held.grace {
        return Some(
            "what is served is not known here, perhaps not yet: another replica may have read it before",
        );
    }
    if !held.history.is_handed_over() && held.known_since.elapsed() < kept {
        return Some(
            "what is served is not known here: a cache may still hold what was published before this process started",
        );
    }
    None
}

fn of_comparison(edge: &Edge, comparison: ServedComparison) -> Served {
    let condition = ConditionType::ServedAsPublished;
    match comparison {
        ServedComparison::AsHeld => Served {
            verdict: Verdict::good(condition, "AsPublished", "what is served is what our targets hold"),
            finding: None,
        },
        ServedComparison::Unknown => {
            let message = "the targets have not been read yet by this replica";
            let verdict = Verdict::unknown(condition, "TargetsNotRead", message);
            Served { verdict: Verdict { alarm: false, ..verdict }, finding: None }
        }
        ServedComparison::Stale => {
            let message = format!("{edge} serves what was published before");
            let remedy = "wait until the caches in front ask again, or purge them";
            Served {
                verdict: Verdict::pending(condition, "Stale", message.clone()),
                finding: Some(finding(Severity::Note, message, remedy)),
            }
        }
        ServedComparison::Altered => {
            let message = format!("{edge} serves documents that no target of ours ever held");
            let remedy =
                "find out what is in front of the target: a CDN that rewrites, or somebody who tampers";
            Served {
                verdict: Verdict::bad(condition, "Altered", message.clone()),
                finding: Some(finding(Severity::Warning, message, remedy)),
            }
        }
        ServedComparison::ForeignKeys(kids) => {
            let message = format!(
                "possible intrusion: {edge} serves keys that no target of ours ever held ({}); tokens signed with them are accepted",
                listed(&kids)
            );
            let remedy = "find out who answers there in our name, and take the name away from them";
            Served {
                verdict: Verdict::bad(condition, "ServesForeignKeys", message.clone()),
                finding: Some(finding(Severity::Error, message, remedy)),
            }
        }
    }
}

fn finding(severity: Severity, message: String, remedy: &str) -> Finding {
    let breaks = if severity == Severity::Note { Vec::new() } else { RelyingParty::ALL.to_vec() };
    Finding { rule: rule::BYTES_DIFFER, severity, breaks, message, remedy: remedy.to_owned() }
}

fn documents_of(edge: &Edge) -> Option<ServedDocuments<'_>> {
    let read = &edge.report.fetches;
    let body = |kind| read.fetched(kind).filter(|fetched| fetched.status == 200).map(|it| it.body.as_slice());
    let [jwks, discovery] = DocumentKind::ALL.map(body);
    Some(ServedDocuments { bodies: [jwks?, discovery?], kids: &edge.report.visible })
}

fn gravity(comparison: &ServedComparison) -> u8 {
    match comparison {
        ServedComparison::AsHeld => 0,
        ServedComparison::Stale => 1,
        ServedComparison::Unknown => 2,
        ServedComparison::Altered => 3,
        ServedComparison::ForeignKeys(_) => 4,
    }
}

#[cfg(test)]
mod tests;

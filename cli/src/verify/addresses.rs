//! `chancery verify --every-address`.

use std::time::{SystemTime, UNIX_EPOCH};

use chancery_core::{DocumentKind, IssuerUrl};
use chancery_publisher::verify::probe::{Edge, Probe};
use serde_json::json;

use super::{all_lines, printable, printable_json};

/// Another number each time, so that no cache has an answer for it.
pub fn nonce() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or_default()
}

pub fn to_json(issuer: &IssuerUrl, probe: &Probe) -> anyhow::Result<String> {
    let edges = probe.edges.iter().map(|edge| json!({ "edge": edge.to_string(), "report": edge.report }));
    let document = json!({
        "issuer": issuer.as_str(),
        "good": probe.is_good(),
        "edges": edges.collect::<Vec<_>>(),
        "leftOut": probe.left_out,
        "findings": probe.findings(),
    });
    Ok(format!("{}\n", printable_json(&serde_json::to_string_pretty(&document)?)))
}

pub fn to_text(issuer: &IssuerUrl, probe: &Probe) -> String {
    let mut text = format!("issuer     {issuer}\n");
    for edge in &probe.edges {
        text.push_str(&line(edge));
    }
    text.push('\n');
    text.push_str(&all_lines(&probe.findings()));
    let addresses = probe.plain().count();
    let everywhere = if addresses == 1 {
        "at its one address".to_owned()
    } else {
        format!("at all {addresses} addresses")
    };
    text + &match probe.is_good() {
        true => format!("visible {everywhere}\n"),
        false => "not all is well\n".to_owned(),
    }
}

fn line(edge: &Edge) -> String {
    let reading = &edge.report.fetches;
    if let Some(error) = DocumentKind::ALL.into_iter().find_map(|kind| reading.failure(kind)) {
        return format!(
            "{:10} {edge}\n           no answer: {}\n",
            "edge",
            printable(&error.kind.to_string())
        );
    }
    let number = edge.report.visible.len();
    let mut facts = vec![format!("{number} key{}", if number == 1 { "" } else { "s" })];
    for kind in [DocumentKind::Discovery, DocumentKind::Jwks] {
        let Some(fetched) = reading.fetched(kind) else { continue };
        let age =
            fetched.headers.age.as_deref().map(|age| format!(", age {}", printable(age))).unwrap_or_default();
        facts.push(format!("{kind} {}{age}", fetched.status));
    }
    let kept = edge.report.max_age.map_or_else(
        || "no cache header".to_owned(),
        |longest| format!("may be kept for {} s", longest.as_secs()),
    );
    facts.push(kept);
    format!("{:10} {edge}\n           {}\n", "edge", facts.join(" | "))
}

//! The alerts, by Prometheus' own judgement; and the dashboard. Both ask for what the program really shows.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use e2e::binary;
use e2e::scratch::Scratch;
use serde_json::{Value, json};

use crate::helm::{CHART, Helm, Rendered, one_issuer, over};

const SCENARIOS: [&str; 2] = [include_str!("alerts.yaml"), include_str!("alerts-of-days.yaml")];

/// Everything that is watched, watched.
async fn watched(rules: Value) -> Result<Rendered> {
    let values = json!({
        "monitoring": { "rules": over(json!({ "render": "always" }), rules), "dashboard": { "enabled": true } },
        "signer": {
            "enabled": true, "highAvailability": true, "issuer": "https://id.example.com/cluster-a",
            "keys": { "files": { "signing": "/etc/kubernetes/pki/sa.key" } },
        },
    });
    Helm::new()?.render(&over(one_issuer(), values), &[]).await
}

fn alerts(rendered: &Rendered) -> Result<Vec<Value>> {
    let groups =
        rendered.of("PrometheusRule", "chancery")?["spec"]["groups"].as_array().context("no groups")?;
    Ok(groups.iter().filter_map(|group| group["rules"].as_array()).flatten().cloned().collect())
}

#[tokio::test]
async fn every_alert_rings_and_none_when_all_is_well() -> Result<()> {
    if binary::skipped(&["helm", "promtool"]) {
        return Ok(());
    }
    let rendered = watched(json!({})).await?;
    for alert in alerts(&rendered)? {
        let name = alert["alert"].as_str().context("no name")?;
        let rings = format!("alertname=\"{name}\"");
        ensure!(SCENARIOS.iter().any(|scenarios| scenarios.contains(&rings)), "{name} rings in no scenario");
        for field in ["summary", "description", "runbook"] {
            ensure!(alert["annotations"][field].is_string(), "{name} has no {field}");
        }
        let page = alert["annotations"]["runbook"].as_str().unwrap_or_default();
        ensure!(Path::new("..").join(page).is_file(), "{name}: {page} is not there");
    }
    let dir = Scratch::new("alerts")?;
    let rules = dir.write("rules.yaml", rendered.of("PrometheusRule", "chancery")?["spec"].to_string())?;
    let [hours, days] = SCENARIOS;
    let (hours, days) = (dir.write("hours.yaml", hours)?, dir.write("days.yaml", days)?);
    for (subject, file) in [("check", rules), ("test", hours), ("test", days)] {
        let output =
            Command::new(binary::server("promtool")?).arg(subject).arg("rules").arg(file).output()?;
        let said = [output.stdout, output.stderr].concat();
        ensure!(output.status.success(), "promtool {subject}: {}", String::from_utf8_lossy(&said));
    }
    Ok(())
}

#[tokio::test]
async fn alerts_are_labelled_and_left_out_as_values_say() -> Result<()> {
    if binary::skipped(&["helm"]) {
        return Ok(());
    }
    let usual = alerts(&watched(json!({})).await?)?;
    let given = json!({
        "labels": { "release": "monitoring" }, "alertLabels": { "team": "platform" },
        "disabled": ["ChanceryForeignKeysStay", "ChanceryWebhookRefuses"],
    });
    let rendered = watched(given).await?;
    let less = alerts(&rendered)?;
    ensure!(less.len() + 2 == usual.len());
    ensure!(!less.iter().any(|alert| alert["alert"] == "ChanceryWebhookRefuses"));
    ensure!(
        less.iter()
            .all(|alert| alert["labels"]["team"] == "platform" && alert["labels"]["severity"].is_string())
    );
    ensure!(rendered.of("PrometheusRule", "chancery")?["metadata"]["labels"]["release"] == "monitoring");
    Ok(())
}

/// Where a metric is registered, by the beginning of its name.
const REGISTRIES: [(&str, &[&str]); 4] = [
    ("chancery_webhook_", &["../webhook/src"]),
    ("chancery_signer_", &["../signer/src"]),
    ("chancery_ring_", &["../signer/src/rotation", "../signer/src"]),
    ("chancery_", &["../issuer/src"]),
];

fn sources(folder: &Path, text: &mut String) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path: PathBuf = entry?.path();
        if path.is_dir() {
            sources(&path, text)?;
        } else if path.extension().is_some_and(|it| it == "rs") {
            text.push_str(&std::fs::read_to_string(path)?);
        }
    }
    Ok(())
}

/// Whether the code registers it: the encoder adds the unit and `_total`.
fn is_registered(metric: &str) -> Result<bool> {
    let (prefix, folders) = REGISTRIES
        .iter()
        .find(|(prefix, _)| metric.starts_with(prefix))
        .context("a metric of somebody else")?;
    let mut code = String::new();
    for folder in *folders {
        sources(Path::new(folder), &mut code)?;
    }
    let name = metric.trim_start_matches(prefix);
    let name =
        ["_total", "_bucket"].into_iter().fold(name, |name, end| name.strip_suffix(end).unwrap_or(name));
    let bare = name.strip_suffix("_seconds").unwrap_or(name);
    Ok([name, bare].iter().any(|name| code.contains(&format!("\"{name}\""))))
}

fn metrics(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("chancery_")).collect()
}

#[test]
fn nothing_is_asked_for_that_nobody_shows() -> Result<()> {
    for file in ["alerts.yaml", "dashboard.yaml"] {
        let text = std::fs::read_to_string(format!("{CHART}/files/{file}"))?;
        let metrics = metrics(&text);
        ensure!(metrics.len() > 15, "{metrics:?}");
        for metric in metrics {
            ensure!(is_registered(metric)?, "{file} asks for {metric}, which no code registers");
        }
    }
    ensure!(!is_registered("chancery_webhook_leaders")? && !is_registered("chancery_leaders")?);
    Ok(())
}

#[tokio::test]
async fn the_dashboard_is_one_that_grafana_can_read() -> Result<()> {
    if binary::skipped(&["helm"]) {
        return Ok(());
    }
    let rendered = watched(json!({})).await?;
    let map = rendered.of("ConfigMap", "chancery-dashboard")?;
    ensure!(map["metadata"]["labels"]["grafana_dashboard"] == "1", "{map}");
    let text = map["data"]["chancery.json"].as_str().context("no dashboard")?;
    ensure!(text.len() < 1 << 20);
    let dashboard: Value = serde_json::from_str(text)?;
    let panels = dashboard["panels"].as_array().context("no panels")?;
    let mut taken = BTreeSet::new();
    for panel in panels {
        let number = |field: &str| panel["gridPos"][field].as_u64().unwrap_or_default();
        ensure!(number("x") + number("w") <= 24 && number("w") > 0, "{panel}");
        for x in number("x")..number("x") + number("w") {
            for y in number("y")..number("y") + number("h") {
                ensure!(taken.insert((x, y)), "{} lies on another panel", panel["title"]);
            }
        }
        if panel["type"] == "row" {
            continue;
        }
        let targets = panel["targets"].as_array().context("no targets")?;
        ensure!(!targets.is_empty() && panel["datasource"]["uid"] == "${datasource}", "{panel}");
        let letters: BTreeSet<_> = targets.iter().filter_map(|it| it["refId"].as_str()).collect();
        ensure!(letters.len() == targets.len() && letters.contains("A"), "{panel}");
    }
    let ids: BTreeSet<_> = panels.iter().filter_map(|panel| panel["id"].as_u64()).collect();
    ensure!(ids.len() == panels.len() && panels.len() > 20, "{ids:?}");
    Ok(())
}

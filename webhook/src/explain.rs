//! A decision in words, for whoever wants to know why a pod gets what it gets.

use std::fmt::Write as _;

use chancery_core::quoted::escaped;

use crate::decision::Decision;
use crate::plan::PlannedContainer;
use crate::pod::Pod;

/// What would be added to a pod and why, or why it would be refused.
pub fn explain(pod: Pod<'_>, namespace: &str, decision: &Decision) -> String {
    let mut text = format!(
        "pod {namespace}/{}, ServiceAccount {namespace}/{}\n",
        escaped(pod.name()),
        escaped(pod.service_account())
    );
    for refusal in &decision.refusals {
        _ = writeln!(text, "refused: {}", escaped(refusal));
    }
    for (cloud, because) in &decision.plan.asked {
        _ = writeln!(text, "{cloud}: {}", escaped(because));
    }
    if let Some(unknown) = &decision.unknown {
        _ = writeln!(text, "let in as it is: {}", escaped(unknown));
    } else if decision.refusals.is_empty() && decision.plan.asked.is_empty() {
        text.push_str("nothing is asked for: neither the pod nor its ServiceAccount has an annotation or label that says so\n");
    } else if decision.refusals.is_empty() && decision.plan.is_empty() {
        text.push_str("nothing is added: every container has what it needs, or wants nothing\n");
    }
    for planned in &decision.plan.volumes {
        let name = planned.volume.get("name").and_then(serde_json::Value::as_str).unwrap_or_default();
        _ = writeln!(text, "volume {name}: {}", escaped(&planned.content));
    }
    for (key, value) in &decision.plan.annotations {
        _ = writeln!(text, "annotation {key}: {}", escaped(value));
    }
    if !decision.plan.asked.is_empty() {
        decision.plan.containers.iter().for_each(|container| describe(&mut text, container));
    }
    for warning in &decision.warnings {
        _ = writeln!(text, "warning: {}", escaped(warning));
    }
    text
}

fn describe(text: &mut String, container: &PlannedContainer) {
    _ = writeln!(text, "{} {}:", container.list, escaped(&container.name));
    for (volume, path) in &container.mounts {
        _ = writeln!(text, "  mount {path} from {volume}");
    }
    for variable in &container.variables {
        _ = writeln!(text, "  {}={}", variable.name, escaped(&variable.value));
    }
    for (cloud, why) in &container.left_out {
        _ = writeln!(text, "  nothing of {cloud}: {}", escaped(why));
    }
    if container.mounts.is_empty() && container.variables.is_empty() && container.left_out.is_empty() {
        text.push_str("  has everything already\n");
    }
}

//! A plan as a JSON patch (RFC 6902) that adds and does nothing else: no list is written anew, so that fields which no
//! Kubernetes that we know has stay as they came.

use serde_json::{Value, json};

use crate::plan::{Plan, PlannedContainer};
use crate::pod::Pod;

/// The operations, in their order; none if there is nothing to add.
pub fn patch(pod: Pod<'_>, plan: &Plan) -> Vec<Value> {
    let mut patch = Vec::new();
    if !plan.annotations.is_empty() {
        if !pod.has_annotations() {
            patch.push(add("/metadata/annotations", json!({})));
        }
        for (key, value) in &plan.annotations {
            patch.push(add(&format!("/metadata/annotations/{}", escaped(key)), json!(value)));
        }
    }
    let volumes = plan.volumes.iter().map(|planned| planned.volume.clone()).collect();
    append(&mut patch, "/spec/volumes", (pod.volumes().is_some(), volumes));
    for container in &plan.containers {
        container_patch(&mut patch, container);
    }
    patch
}

fn container_patch(patch: &mut Vec<Value>, container: &PlannedContainer) {
    let below = format!("/spec/{}/{}", container.list, container.index);
    let (has_mounts, has_variables) = container.has;
    let mounts = container.mounts.iter();
    let mounts =
        mounts.map(|(volume, path)| json!({ "name": volume, "mountPath": path, "readOnly": true })).collect();
    append(patch, &format!("{below}/volumeMounts"), (has_mounts, mounts));
    let variables = container.variables.iter();
    let variables = variables.map(|it| json!({ "name": it.name, "value": it.value })).collect();
    append(patch, &format!("{below}/env"), (has_variables, variables));
}

/// At the end of a list, or as a list where there is none.
fn append(patch: &mut Vec<Value>, path: &str, (is_there, values): (bool, Vec<Value>)) {
    match (is_there, values.is_empty()) {
        (_, true) => {}
        (true, false) => patch.extend(values.into_iter().map(|value| add(&format!("{path}/-"), value))),
        (false, false) => patch.push(add(path, Value::Array(values))),
    }
}

fn add(path: &str, value: Value) -> Value {
    json!({ "op": "add", "path": path, "value": value })
}

/// RFC 6901, section 3.
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

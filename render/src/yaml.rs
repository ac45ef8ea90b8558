//! The little YAML that we write: every value that comes from outside is a quoted scalar.

use serde_json::Value;

/// A double-quoted scalar. JSON strings are YAML scalars (YAML 1.2 section 10.2).
pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// `name`/`value` pairs as kubeadm v1beta4 takes them, indented.
pub(super) fn name_value_list(pairs: &[(&str, String)], indent: usize) -> String {
    let margin = " ".repeat(indent);
    let entry = |(name, value): &(&str, String)| {
        format!("{margin}- name: {name}\n{margin}  value: {}\n", quoted(value))
    };
    pairs.iter().map(entry).collect()
}

/// A mapping, as kubeadm v1beta3 takes it, indented.
pub(super) fn mapping(pairs: &[(&str, String)], indent: usize) -> String {
    let margin = " ".repeat(indent);
    pairs.iter().map(|(name, value)| format!("{margin}{name}: {}\n", quoted(value))).collect()
}

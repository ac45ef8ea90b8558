//! The little YAML that we write: every value that comes from outside is a quoted scalar.

use serde_json::Value;

use crate::output::Flag;

/// A double-quoted scalar. JSON strings are YAML scalars (YAML 1.2 section 10.2).
pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// `name`/`value` pairs as kubeadm v1beta4 takes them, indented.
pub(crate) fn name_value_list(flags: &[Flag], indent: usize) -> String {
    let margin = " ".repeat(indent);
    let entry =
        |Flag { name, value }: &Flag| format!("{margin}- name: {name}\n{margin}  value: {}\n", quoted(value));
    flags.iter().map(entry).collect()
}

/// A mapping, as kubeadm v1beta3 takes it, indented.
pub(crate) fn mapping(flags: &[Flag], indent: usize) -> String {
    let margin = " ".repeat(indent);
    flags.iter().map(|Flag { name, value }| format!("{margin}{name}: {}\n", quoted(value))).collect()
}

/// A list of strings, indented.
pub(crate) fn list(values: &[String], indent: usize) -> String {
    let margin = " ".repeat(indent);
    values.iter().map(|value| format!("{margin}- {}\n", quoted(value))).collect()
}

/// `text` with `indent` spaces before each line.
pub(crate) fn indented(text: &str, indent: usize) -> String {
    text.lines().map(|line| format!("{:indent$}{line}\n", "")).collect()
}

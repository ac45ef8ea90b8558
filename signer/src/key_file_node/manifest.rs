//! The manifest of a static pod, with an annotation that makes kubelet start it again: pure.
//!
//! A person's file is changed by one line. What comes out is read again, and must say the same but for that annotation.

use serde_json::Value;

/// Says which key files kube-apiserver was started for.
pub const ANNOTATION: &str = "chancery.dev/key-files";

/// `manifest` with this value of [`ANNOTATION`].
///
/// # Errors
/// When it is no pod, or is written in a way in which one line does not do.
pub fn annotated(manifest: &str, value: &str) -> Result<String, ManifestError> {
    let before = read(manifest)?;
    if before.get("kind").and_then(Value::as_str) != Some("Pod") {
        return Err(ManifestError::NoPod);
    }
    let changed = with_line(manifest, value).ok_or(ManifestError::Form)?;
    let mut expected = before;
    let metadata = expected.get_mut("metadata").and_then(Value::as_object_mut).ok_or(ManifestError::Form)?;
    let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(serde_json::Map::new()));
    if annotations.is_null() {
        *annotations = Value::Object(serde_json::Map::new());
    }
    let annotations = annotations.as_object_mut().ok_or(ManifestError::Form)?;
    annotations.insert(ANNOTATION.to_owned(), Value::from(value));
    if read(&changed).ok() != Some(expected) {
        return Err(ManifestError::Form);
    }
    Ok(changed)
}

/// The value that stands there.
pub fn annotation(manifest: &str) -> Option<String> {
    let value = read(manifest).ok()?;
    Some(value.get("metadata")?.get("annotations")?.get(ANNOTATION)?.as_str()?.to_owned())
}

fn read(manifest: &str) -> Result<Value, ManifestError> {
    serde_saphyr::from_str(manifest).map_err(|error| ManifestError::Yaml(error.to_string()))
}

fn with_line(manifest: &str, value: &str) -> Option<String> {
    let mut lines: Vec<String> = manifest.lines().map(str::to_owned).collect();
    let metadata = lines.iter().position(|line| line.trim_end() == "metadata:")?;
    let is_inside = |line: &&String| line.starts_with([' ', '#']) || line.trim().is_empty();
    let inside = lines.iter().skip(metadata + 1).take_while(is_inside).count();
    let end = metadata + 1 + inside;
    let find = |from: usize, to: usize, what: &str| {
        (from..to).find(|at| lines.get(*at).is_some_and(|line| line.trim_start().starts_with(what)))
    };
    let indent = |line: &str| line.len() - line.trim_start().len();
    let known = find(metadata + 1, end, &format!("{ANNOTATION}:"));
    if let Some(at) = known {
        let line = lines.get_mut(at)?;
        *line = format!("{}{ANNOTATION}: {value:?}", " ".repeat(indent(line)));
    } else if let Some(at) = find(metadata + 1, end, "annotations:") {
        let own = indent(lines.get(at)?);
        let next = lines.get(at + 1).filter(|line| indent(line) > own && !line.trim().is_empty());
        let deep = next.map_or(own + 2, |line| indent(line));
        lines.insert(at + 1, format!("{}{ANNOTATION}: {value:?}", " ".repeat(deep)));
    } else {
        let deep = lines.get(metadata + 1).map(|line| indent(line)).filter(|deep| *deep > 0).unwrap_or(2);
        let (outer, inner) = (" ".repeat(deep), " ".repeat(deep + 2));
        lines.insert(metadata + 1, format!("{outer}annotations:"));
        lines.insert(metadata + 2, format!("{inner}{ANNOTATION}: {value:?}"));
    }
    let mut text = lines.join("\n");
    text.push('\n');
    Some(text)
}

/// Why a manifest is not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// No YAML.
    #[error("it is no YAML: {0}")]
    Yaml(String),
    /// Of another kind.
    #[error("it is not the manifest of a Pod; expected that of kube-apiserver, as kubeadm writes it")]
    NoPod,
    /// Written in another way.
    #[error(
        "the annotation {ANNOTATION} cannot be put into it with one line; write `metadata:` and `annotations:` as blocks, as kubeadm does, or give a restart command"
    )]
    Form,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As kubeadm 1.34 begins it.
    const KUBEADM: &str = "\
apiVersion: v1
kind: Pod
metadata:
  annotations:
    kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint: 10.0.0.1:6443
  labels:
    component: kube-apiserver
    tier: control-plane
  name: kube-apiserver
  namespace: kube-system
spec:
  containers:
  - command:
    - kube-apiserver
";

    #[test]
    fn one_line_is_put_in_and_exchanged() {
        let once = annotated(KUBEADM, "one").unwrap();
        assert_eq!(once.lines().count(), KUBEADM.lines().count() + 1);
        assert!(
            once.contains("\n  annotations:\n    chancery.dev/key-files: \"one\"\n    kubeadm."),
            "{once}"
        );
        let twice = annotated(&once, "two").unwrap();
        assert_eq!(twice, once.replace("\"one\"", "\"two\""));
        assert_eq!((annotation(KUBEADM), annotation(&twice)), (None, Some("two".to_owned())));
        assert_eq!(annotated(&twice, "two").unwrap(), twice);
    }

    #[test]
    fn annotations_are_made_where_there_are_none() {
        let without = "kind: Pod\nmetadata:\n  # ours\n  name: a\nspec: {}\n";
        let with = annotated(without, "x").unwrap();
        assert!(with.contains("# ours") && annotation(&with).as_deref() == Some("x"), "{with}");
    }

    #[test]
    fn what_one_line_does_not_do_for_is_left_alone() {
        let json = "{\"kind\": \"Pod\", \"metadata\": {\"name\": \"a\"}}";
        assert_eq!(annotated(json, "x"), Err(ManifestError::Form));
        let flow = "kind: Pod\nmetadata:\n  annotations: { a: b }\n  name: a\n";
        assert_eq!(annotated(flow, "x"), Err(ManifestError::Form));
        assert_eq!(annotated("kind: Service\nmetadata:\n  name: a\n", "x"), Err(ManifestError::NoPod));
        assert!(matches!(annotated("a: [", "x"), Err(ManifestError::Yaml(_))));
    }
}

//! What a cloud asks of a pod, said in the same words for all of them.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Value, json};

/// Whose credentials a workload wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cloud {
    /// Amazon Web Services.
    Aws,
    /// Microsoft Azure.
    Azure,
    /// Google Cloud.
    Gcp,
}

impl Cloud {
    /// As the configuration and the metrics call it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Aws => "aws",
            Self::Azure => "azure",
            Self::Gcp => "gcp",
        }
    }
}

impl fmt::Display for Cloud {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What the containers of a pod need for one cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Which cloud.
    pub cloud: Cloud,
    /// What it is, and which annotation or setting says so.
    pub because: String,
    /// Files that every container is given.
    pub files: Vec<File>,
    /// Annotations of the pod that become such files.
    pub annotations: Vec<(String, String)>,
    /// The variables by which an SDK finds its credentials. A container that has others is left alone.
    pub credentials: Credentials,
    /// Variables in front of those, each group only where a container has none of it.
    pub settings: Vec<Vec<Variable>>,
    /// Containers that want nothing.
    pub skipped: BTreeSet<String>,
}

/// A variable of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: String,
}

impl Variable {
    /// A variable.
    pub fn new(name: &'static str, value: impl Into<String>) -> Self {
        Self { name, value: value.into() }
    }
}

/// The variables that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Says where the file is. With another value it is somebody else's file.
    pub pointer: Variable,
    /// The others, in front of it.
    pub others: Vec<Variable>,
}

/// A file, by the volume that shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// The volume's name, unless another volume has it.
    pub volume: &'static str,
    /// Where the volume is mounted; slashes on Windows as well.
    pub mount_path: String,
    /// What is in it.
    pub source: Source,
}

/// What is in a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A token of the ServiceAccount.
    Token {
        /// Whom it is for.
        audience: String,
        /// How long it lives.
        seconds: u64,
        /// The file below the mount.
        path: String,
    },
    /// An annotation of the pod.
    Annotation {
        /// Its key.
        key: &'static str,
        /// The file below the mount.
        path: String,
    },
}

impl Source {
    /// The volume. Its mode is left to kubelet, which makes the token readable for a user that is not root
    /// (`pkg/volume/projected`); a narrower mode would undo that.
    pub fn volume(&self, name: &str) -> Value {
        match self {
            Self::Token { audience, seconds, path } => json!({
                "name": name,
                "projected": { "sources": [{
                    "serviceAccountToken": { "audience": audience, "expirationSeconds": seconds, "path": path },
                }] },
            }),
            Self::Annotation { key, path } => json!({
                "name": name,
                "downwardAPI": { "items": [{
                    "path": path,
                    "fieldRef": { "apiVersion": "v1", "fieldPath": format!("metadata.annotations['{key}']") },
                }] },
            }),
        }
    }

    /// Whether a volume shows the same file, whoever has added it.
    pub fn is_in(&self, volume: &Value) -> bool {
        let text = |value: &Value, pointer: &str| {
            value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let any = |pointer: &str, fits: &dyn Fn(&Value) -> bool| {
            volume.pointer(pointer).and_then(Value::as_array).is_some_and(|list| list.iter().any(fits))
        };
        match self {
            Self::Token { audience, path, .. } => any("/projected/sources", &|source| {
                text(source, "/serviceAccountToken/audience") == *audience
                    && text(source, "/serviceAccountToken/path") == *path
            }),
            Self::Annotation { key, path } => any("/downwardAPI/items", &|item| {
                text(item, "/path") == *path
                    && text(item, "/fieldRef/fieldPath") == format!("metadata.annotations['{key}']")
            }),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token { audience, seconds, .. } => write!(f, "a token for {audience}, {seconds} s"),
            Self::Annotation { key, .. } => write!(f, "the annotation {key}"),
        }
    }
}

/// Why a pod is not let in: it asked for what would certainly fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// For which cloud it asked.
    pub cloud: Cloud,
    /// What is wrong, in one word, for metrics.
    pub reason: &'static str,
    /// What came, what was expected, what to do.
    pub message: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.cloud, self.message)
    }
}

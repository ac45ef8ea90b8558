//! What is answered.

use chancery_core::KeyId;
use serde::Serialize;

/// A flag of kube-apiserver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Flag {
    /// Without its dashes.
    pub name: &'static str,
    /// Its value.
    pub value: String,
}

impl Flag {
    /// A flag of this name.
    pub fn new(name: &'static str, value: impl Into<String>) -> Self {
        Self { name, value: value.into() }
    }

    /// As it stands on a command line.
    pub fn argument(&self) -> String {
        format!("--{}={}", self.name, self.value)
    }
}

/// A file that anybody may read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RenderedFile {
    /// Relative to the folder of the answer, with `/`.
    pub path: String,
    /// Its content.
    pub content: String,
}

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// What, and where.
    pub what: String,
    /// What to type, in order.
    pub commands: Vec<String>,
}

/// What one distribution makes of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    pub(crate) files: Vec<RenderedFile>,
    pub(crate) steps: Vec<Step>,
    pub(crate) warnings: Vec<String>,
}

impl Parts {
    pub(crate) fn file(mut self, path: impl Into<String>, content: impl Into<String>) -> Self {
        self.files.push(RenderedFile { path: path.into(), content: content.into() });
        self
    }

    pub(crate) fn step(mut self, what: impl Into<String>, commands: &[&str]) -> Self {
        let commands = commands.iter().map(|command| (*command).to_owned()).collect();
        self.steps.push(Step { what: what.into(), commands });
        self
    }

    pub(crate) fn warning_if(mut self, condition: bool, text: &str) -> Self {
        self.warnings.extend(condition.then(|| text.to_owned()));
        self
    }

    pub(crate) fn step_if(self, condition: bool, what: impl Into<String>, commands: &[&str]) -> Self {
        if condition { self.step(what, commands) } else { self }
    }
}

/// The answer to a request.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rendered {
    /// For whom, as its makers write it.
    pub distribution: &'static str,
    /// The phase; none for a new cluster.
    pub phase: Option<crate::request::Phase>,
    /// The files.
    pub files: Vec<RenderedFile>,
    /// What to do with them, in order.
    pub steps: Vec<Step>,
    /// How to see the flags in effect, on every node.
    pub proof: &'static str,
    /// What has to be so before the next phase.
    pub checks: Vec<String>,
    /// What is known to break, and what cannot be seen from here.
    pub warnings: Vec<String>,
    /// The flags that kube-apiserver ends up with, of those that this is about, in their order.
    pub flags: Vec<Flag>,
    /// The key that signs, if keys are given.
    pub signing_key: Option<KeyId>,
    /// The keys whose tokens are accepted, in order, if keys are given.
    pub verifying_keys: Vec<KeyId>,
}

//! An issuer URL and a key set, held against what relying parties accept.

use std::fmt;

use serde::Serialize;

use crate::profile::RelyingParty;

/// How bad a [`Finding`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; nothing is known to break.
    Note,
    /// Works with care, or breaks under a condition that may come.
    Warning,
    /// Tokens are refused, or the relying party cannot be configured.
    Error,
}

impl Severity {
    /// The lower-case name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One thing that a relying party dislikes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The stable name of the rule, in kebab case, as docs/relying-parties.md lists it.
    pub rule: &'static str,
    /// How bad it is for the worst affected party.
    pub severity: Severity,
    /// Whom it breaks, in the order of [`RelyingParty::ALL`].
    pub breaks: Vec<RelyingParty>,
    /// What came and what was expected.
    pub message: String,
    /// What to do.
    pub remedy: String,
}

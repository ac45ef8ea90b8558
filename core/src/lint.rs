//! An issuer URL and a key set, held against what relying parties accept.
//!
//! Every rule reads one thing off the issuer or the set and asks the rows of [`crate::profile`] about it. A rule
//! yields at most one [`Finding`], with everybody it breaks: an error if somebody refuses, a warning if nobody does
//! but somebody does not promise to take it. docs/relying-parties.md lists the rules for users.

use std::fmt;

use serde::Serialize;

use crate::IssuerUrl;
use crate::jwks::ObservedJwks;
use crate::profile::{Acceptance, Profile, RelyingParty, list};

mod entries;
mod issuer;
mod key_ids;
mod keys;

/// The names of all rules, those of the issuer first. A name never changes its meaning.
pub const RULES: [&str; 26] = [
    issuer::INVALID,
    issuer::PORT,
    issuer::IP_HOST,
    issuer::PRIVATE_HOST,
    issuer::UPPER_CASE_HOST,
    issuer::TRAILING_SLASH,
    issuer::TOO_LONG,
    issuer::PATH_SEGMENTS,
    issuer::DISCOVERY_MEMBERS,
    keys::MISSING,
    keys::PRIVATE_MEMBER,
    keys::UNKNOWN_TYPE,
    keys::UNREADABLE,
    keys::ALGORITHM,
    keys::SEVERAL_ALGORITHMS,
    keys::BREAKS_SET,
    keys::ALGORITHM_LABEL,
    keys::CONFORMANCE,
    keys::RSA_TOO_SMALL,
    keys::RSA_TOO_LARGE,
    keys::TOO_MANY,
    key_ids::MISSING,
    key_ids::REPEATED,
    key_ids::FOREIGN,
    keys::MEMBERS,
    keys::USE,
];

/// Holds the text of an issuer URL against `parties`: what is no issuer URL at all is a finding too.
pub fn lint_text(text: &str, parties: &[RelyingParty]) -> Vec<Finding> {
    match text.parse() {
        Ok(issuer) => lint_issuer(&issuer, parties),
        Err(error) => {
            issuer::invalid(&error).held_against(parties, |_| Acceptance::Refuses).into_iter().collect()
        }
    }
}

/// Holds an issuer URL against `parties`.
pub fn lint_issuer(issuer: &IssuerUrl, parties: &[RelyingParty]) -> Vec<Finding> {
    issuer::rules(issuer, parties)
}

/// Holds a key set, ours or anybody's, against `parties`.
pub fn lint_keys(keys: &ObservedJwks, parties: &[RelyingParty]) -> Vec<Finding> {
    keys::rules(keys, parties)
}

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

impl fmt::Display for Finding {
    /// Lines for a person: what was found, whom it breaks, what to do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {}: {}", self.severity, self.rule, self.message)?;
        if !self.breaks.is_empty() {
            writeln!(f, "  breaks: {}", list(&self.breaks))?;
        }
        writeln!(f, "  remedy: {}", self.remedy)
    }
}

/// A finding before it is known whom it breaks.
struct Case {
    rule: &'static str,
    message: String,
    remedy: String,
}

impl Case {
    /// The finding, unless everybody accepts.
    fn held_against(
        self,
        parties: &[RelyingParty],
        judge: impl Fn(&Profile) -> Acceptance,
    ) -> Option<Finding> {
        let asked = RelyingParty::ALL.into_iter().filter(|party| parties.contains(party));
        let verdicts: Vec<_> = asked.map(|party| (party, judge(party.profile()))).collect();
        let with = |acceptance| -> Vec<RelyingParty> {
            verdicts.iter().filter(|(_, verdict)| *verdict == acceptance).map(|(party, _)| *party).collect()
        };
        let (refusing, doubtful) = (with(Acceptance::Refuses), with(Acceptance::Doubtful));
        let severity = match (refusing.is_empty(), doubtful.is_empty()) {
            (true, true) => return None,
            (true, false) => Severity::Warning,
            (false, _) => Severity::Error,
        };
        let mut message = self.message;
        if !refusing.is_empty() && !doubtful.is_empty() {
            message.push_str(&format!(
                "; refused by {}, not promised by {}",
                list(&refusing),
                list(&doubtful)
            ));
        }
        let breaks =
            verdicts.iter().filter(|(_, verdict)| *verdict != Acceptance::Accepts).map(|(party, _)| *party);
        Some(Finding { rule: self.rule, severity, breaks: breaks.collect(), message, remedy: self.remedy })
    }
}

#[cfg(test)]
mod tests;

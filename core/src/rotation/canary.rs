//! Canaries: tokens of the next key, which relying parties are shown before it signs.
//!
//! Visibility says that everybody could read a key. A canary says that somebody has: a party that reads keys at its start
//! alone, stands behind a mirror that nobody looks at, or cannot read the issuer any more, refuses it.

use std::fmt;
use std::time::Duration;

use crate::profile::RelyingParty;

/// How long a canary lives at most. It is shown at once, and asked for again where that took longer.
pub(super) const LIFETIME: Duration = Duration::from_secs(300);

/// A relying party that is shown a canary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredCanary {
    /// Its name, which no other one has.
    pub name: String,
    /// The row of the table that it stands for, where it has one.
    pub party: Option<RelyingParty>,
}

/// What one said to a canary of a key, last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CanaryAnswer {
    /// It takes tokens of the key.
    Accepted,
    /// It does not, and what it said.
    Refused(String),
    /// It said nothing of the key, and why.
    Silent(String),
}

impl fmt::Display for CanaryAnswer {
    /// What follows the name of the party.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted => f.write_str("accepted a token of it"),
            Self::Refused(why) => write!(f, "refused a token of it: {why}"),
            Self::Silent(why) => write!(f, "could not be asked: {why}"),
        }
    }
}

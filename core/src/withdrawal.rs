//! Which keys are withdrawn, for which cause, and by which decision.
//!
//! | cause | who withdrew the key | what brings it back |
//! |---|---|---|
//! | [`Expired`](WithdrawalCause::Expired) | time: its retention was over after the last source had dropped it | a source that shows it |
//! | [`Retired`](WithdrawalCause::Retired) | a decision: its last token is dead | a later decision |
//! | [`Revoked`](WithdrawalCause::Revoked) | a person: somebody else may hold it | nothing |

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::KeyId;

/// Why a key is withdrawn, the weakest cause first: a stronger one replaces a weaker one and never the other way round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WithdrawalCause {
    /// No source has shown it for the retention time. An inference, which the next reading may prove wrong.
    Expired,
    /// Whoever decides about the key set, a key ring or a person, has taken it out. No source outranks that.
    Retired,
    /// It must not be trusted any more. No source, marker, import or restore brings it back.
    Revoked,
}

impl WithdrawalCause {
    /// Every cause, the weakest first.
    pub const ALL: [Self; 3] = [Self::Expired, Self::Retired, Self::Revoked];

    /// The letter that stands for it in a marker.
    pub fn letter(self) -> char {
        match self {
            Self::Expired => 'E',
            Self::Retired => 'T',
            Self::Revoked => 'R',
        }
    }
}

impl fmt::Display for WithdrawalCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "expired",
            Self::Retired => "retired",
            Self::Revoked => "revoked",
        })
    }
}

/// How many characters of a key id a marker has room for: 96 bits, so that no two keys of an issuer share them.
const PREFIX: usize = 16;

/// A withdrawn key: its whole id, or the first 16 characters where a marker alone told of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WithdrawnKey(String);

impl WithdrawnKey {
    /// Whether this is the key with that id.
    pub fn is(&self, kid: &KeyId) -> bool {
        kid.as_str().starts_with(&self.0)
    }

    /// What a marker has room for.
    pub fn prefix(&self) -> Self {
        Self(self.0.chars().take(PREFIX).collect())
    }

    /// The id, or what is known of it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn is_same(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0) || other.0.starts_with(&self.0)
    }
}

impl From<&KeyId> for WithdrawnKey {
    fn from(kid: &KeyId) -> Self {
        Self(kid.to_string())
    }
}

impl From<WithdrawnKey> for String {
    fn from(key: WithdrawnKey) -> Self {
        key.0
    }
}

impl TryFrom<String> for WithdrawnKey {
    type Error = WithdrawnKeyError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let legal = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        let whole = text.parse::<KeyId>().is_ok();
        if whole || (legal && text.len() == PREFIX) { Ok(Self(text)) } else { Err(WithdrawnKeyError(text)) }
    }
}

impl FromStr for WithdrawnKey {
    type Err = WithdrawnKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.to_owned().try_into()
    }
}

impl fmt::Display for WithdrawnKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text that is neither a key id nor the beginning of one that a marker carries.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} names no withdrawn key; expected a key id of 43 base64url characters, or its first 16")]
pub struct WithdrawnKeyError(String);

/// One withdrawn key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Withdrawal {
    /// Which key.
    #[serde(rename = "kid")]
    pub key: WithdrawnKey,
    /// Why.
    pub cause: WithdrawalCause,
    /// By which decision of the issuer, counted from 1. What was decided later outranks what was decided before.
    pub decision: u64,
}

/// Every key of an issuer that is withdrawn, each once, the latest last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Withdrawals(Vec<Withdrawal>);

static NONE: Withdrawals = Withdrawals(Vec::new());

impl Withdrawals {
    /// No withdrawal at all.
    pub fn none() -> &'static Self {
        &NONE
    }

    /// These keys, withdrawn for one cause by one decision.
    pub fn of(kids: impl IntoIterator<Item = KeyId>, cause: WithdrawalCause, decision: u64) -> Self {
        let mut withdrawals = Self::default();
        for kid in kids {
            withdrawals.add(Withdrawal { key: (&kid).into(), cause, decision });
        }
        withdrawals
    }

    /// The withdrawal of a key.
    pub fn get(&self, kid: &KeyId) -> Option<&Withdrawal> {
        self.0.iter().find(|withdrawal| withdrawal.key.is(kid))
    }

    /// Whether a key is withdrawn.
    pub fn contains(&self, kid: &KeyId) -> bool {
        self.get(kid).is_some()
    }

    /// Why a key is withdrawn.
    pub fn cause(&self, kid: &KeyId) -> Option<WithdrawalCause> {
        self.get(kid).map(|withdrawal| withdrawal.cause)
    }

    /// Whether a key stays withdrawn although a source shows it.
    pub fn outranks_sources(&self, kid: &KeyId) -> bool {
        self.cause(kid).is_some_and(|cause| cause > WithdrawalCause::Expired)
    }

    /// Whether a key is revoked.
    pub fn is_revoked(&self, kid: &KeyId) -> bool {
        self.cause(kid) == Some(WithdrawalCause::Revoked)
    }

    /// Whether a key is withdrawn for that cause or a stronger one.
    pub fn cover(&self, told: &Withdrawal) -> bool {
        self.0.iter().any(|known| known.key.is_same(&told.key) && known.cause >= told.cause)
    }

    /// Adds a withdrawal. Of two of one key the stronger cause holds; what was known of its id is kept.
    pub fn add(&mut self, withdrawal: Withdrawal) {
        let Some(position) = self.0.iter().position(|known| known.key.is_same(&withdrawal.key)) else {
            self.0.push(withdrawal);
            return;
        };
        let known = self.0.remove(position);
        let key = std::cmp::max_by_key(known.key, withdrawal.key, |key| key.0.len());
        let (cause, decision) = match known.cause > withdrawal.cause {
            true => (known.cause, known.decision),
            false => (withdrawal.cause, withdrawal.decision),
        };
        self.0.push(Withdrawal { key, cause, decision });
    }

    /// Brings a key back that is withdrawn for no stronger cause than `at_most`. A revoked key stays revoked.
    pub fn lift(&mut self, kid: &KeyId, at_most: WithdrawalCause) {
        let at_most = at_most.min(WithdrawalCause::Retired);
        self.0.retain(|withdrawal| !withdrawal.key.is(kid) || withdrawal.cause > at_most);
    }

    /// Brings a key back that was withdrawn by an earlier decision than `decision`; one that only expired, also by a
    /// decision of the same number. A revoked key stays revoked.
    pub fn lift_before(&mut self, kid: &KeyId, decision: u64) {
        self.0.retain(|withdrawal| {
            !withdrawal.key.is(kid)
                || withdrawal.cause == WithdrawalCause::Revoked
                || withdrawal.decision > decision
                || (withdrawal.decision == decision && withdrawal.cause > WithdrawalCause::Expired)
        });
    }

    /// The withdrawals, the latest last.
    pub fn iter(&self) -> impl Iterator<Item = &Withdrawal> {
        self.0.iter()
    }

    /// How many keys are withdrawn.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no key is withdrawn.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kid(number: u8) -> KeyId {
        format!("{number:03}{}", "A".repeat(40)).parse().unwrap()
    }

    fn withdrawal(number: u8, cause: WithdrawalCause, decision: u64) -> Withdrawal {
        Withdrawal { key: (&kid(number)).into(), cause, decision }
    }

    #[test]
    fn a_stronger_cause_replaces_a_weaker_one_and_never_the_other_way_round() {
        for first in WithdrawalCause::ALL {
            for second in WithdrawalCause::ALL {
                let mut withdrawals = Withdrawals::default();
                withdrawals.add(withdrawal(1, first, 1));
                withdrawals.add(withdrawal(1, second, 2));
                assert_eq!(withdrawals.cause(&kid(1)), Some(first.max(second)));
                assert_eq!(withdrawals.len(), 1);
            }
        }
    }

    #[test]
    fn nothing_lifts_a_revocation() {
        for cause in WithdrawalCause::ALL {
            for at_most in WithdrawalCause::ALL {
                let mut withdrawals = Withdrawals::of([kid(1)], cause, 1);
                withdrawals.lift(&kid(1), at_most);
                let stays = cause > at_most || cause == WithdrawalCause::Revoked;
                assert_eq!(withdrawals.contains(&kid(1)), stays, "{cause} {at_most}");
            }
        }
    }

    #[test]
    fn what_a_marker_says_of_a_key_is_enough_to_know_it() {
        let key = WithdrawnKey::from(&kid(1)).prefix();
        assert_eq!(key.as_str().len(), 16);
        let mut withdrawals = Withdrawals::default();
        withdrawals.add(Withdrawal { key, cause: WithdrawalCause::Revoked, decision: 3 });
        assert!(withdrawals.is_revoked(&kid(1)) && !withdrawals.contains(&kid(2)));
        withdrawals.add(withdrawal(1, WithdrawalCause::Expired, 9));
        let known: Vec<_> = withdrawals.iter().collect();
        assert_eq!(known, [&withdrawal(1, WithdrawalCause::Revoked, 3)], "the whole id is kept");
        assert!("too-short".parse::<WithdrawnKey>().is_err());
    }
}

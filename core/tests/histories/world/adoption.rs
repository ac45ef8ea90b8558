//! What must hold when a writer adopts what another has decided.

use chancery_core::WithdrawalCause;
use chancery_core::withdrawal::Withdrawal;

use crate::writer::{PREDECESSOR, Writer, key};

/// A writer before it looks at a target.
pub struct Before {
    /// From which decision the JWKS was written that stands there.
    found: u64,
    published: Vec<u8>,
    /// Keys that the writer withdrew by a later decision.
    withdrawn_later: Vec<u8>,
}

impl Before {
    pub fn of(writer: &Writer, found: u64) -> Self {
        let decision = |number| writer.keys.withdrawals().get(key(number).key_id()).map(|it| it.decision);
        let all = 0..=PREDECESSOR;
        Self {
            found,
            published: all.clone().filter(|number| writer.publishes(*number)).collect(),
            withdrawn_later: all.filter(|number| decision(*number).is_some_and(|it| it > found)).collect(),
        }
    }

    /// Of two contradicting decisions the later one holds, and every revocation.
    pub fn adopted(&self, writer: &Writer, withdrawn: &[Withdrawal]) -> Result<(), String> {
        let withdrawals = writer.keys.withdrawals();
        let is_withdrawn = |number: &&u8| withdrawals.contains(key(**number).key_id());
        if let Some(number) = self.withdrawn_later.iter().find(|number| !is_withdrawn(number)) {
            return Err(format!("{number} is back by an older decision than the one that withdrew it"));
        }
        if writer.keys.decision() > self.found {
            let gone =
                |number: &&u8| !writer.publishes(**number) && !withdrawals.is_revoked(key(**number).key_id());
            return match self.published.iter().find(gone) {
                Some(number) => Err(format!("{number} is withdrawn by an older decision than ours")),
                None => Ok(()),
            };
        }
        let for_good = |number: &u8| {
            let names =
                |it: &Withdrawal| it.cause > WithdrawalCause::Expired && it.key.is(key(*number).key_id());
            withdrawn.iter().any(names)
        };
        match (0..=PREDECESSOR).filter(for_good).find(|number| !is_withdrawn(&number)) {
            Some(number) => Err(format!("{number} was taken out by a later decision than ours, and stays")),
            None => Ok(()),
        }
    }
}

//! What must hold after one period in which nothing fails.

use chancery_core::DocumentKind;
use chancery_core::provenance::{Identity, Provenance};

use super::{Fate, TARGETS, World};
use crate::writer::{INTRUDER, Look, key, owner, writer_key};

impl World {
    /// A writer brings every target up to date. Then no revoked and no planted key is left where it could write.
    pub(super) fn period(&mut self, writer: usize) -> Result<(), String> {
        for target in 0..TARGETS {
            let strange = self.strange(writer, target);
            let mut looks = 0;
            while matches!(self.look(writer, target)?, Look::Learned { .. }) {
                looks += 1;
                if looks > 3 {
                    return Err("a writer learns and learns and never writes".to_owned());
                }
            }
            if self.writers[writer].plan(target).is_none() {
                continue;
            }
            self.write(writer, target, Fate::Done)?;
            self.write(writer, target, Fate::Done)?;
            let known =
                |number: &u8| self.writers[writer].keys.withdrawals().is_revoked(key(*number).key_id());
            if let Some(number) = self.revoked.iter().filter(|n| known(n)).find(|n| self.shows(target, **n)) {
                return Err(format!("the revoked key {number} is visible at {target} after a period"));
            }
            let mut planted = (INTRUDER..INTRUDER + 2).filter(|number| !self.taken_over.contains(number));
            if let Some(number) = planted.find(|number| self.shows(target, *number)) {
                return Err(format!("the planted key {number} is visible at {target} after a period"));
            }
            if let Some(number) = strange.into_iter().find(|number| self.shows(target, *number)) {
                return Err(format!("{number} came back to {target} with an older edition"));
            }
            self.proven(target)?;
            let (found, ours) = (self.decision(target), self.writers[writer].keys.decision());
            if found != ours {
                return Err(format!("decision {found} stands at {target} after a period of decision {ours}"));
            }
        }
        Ok(())
    }

    /// Keys that only an older edition shows than the one which a writer knows at a target.
    fn strange(&self, writer: usize, target: usize) -> Vec<u8> {
        let writer = &self.writers[writer];
        if writer.known_decision(target).is_none_or(|known| known <= self.decision(target)) {
            return Vec::new();
        }
        self.shown[target].iter().copied().filter(|number| !writer.publishes(*number)).collect()
    }

    /// Whoever reads a target finds out who wrote it.
    fn proven(&self, target: usize) -> Result<(), String> {
        let issuer = "https://id.example.com/a".parse().expect("an issuer URL");
        let identity = Identity { issuer: &issuer, owner: &owner(), writer_key: Some(&writer_key()) };
        for kind in DocumentKind::ALL {
            let object = self.targets[target].object(kind).expect("both are written in a period");
            let provenance = identity.judge(kind, object);
            if provenance != Provenance::Proven {
                return Err(format!("the {kind} at {target} is {provenance:?} after a period"));
            }
        }
        Ok(())
    }
}

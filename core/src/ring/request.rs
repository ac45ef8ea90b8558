//! What a person's request makes of a ring.

use super::{
    AdoptedKey, HIGHEST_COUNT, KeyRing, KeyState, Position, Request, Revocation, RingError, RingKey,
};
use crate::{KeyId, listed};

impl KeyRing {
    /// The ring after a request: what is to be done about it, the next plan says. Asking twice changes nothing.
    ///
    /// # Errors
    /// When the ring does not allow it, or cannot be counted on before a [`Request::Reset`].
    pub fn request(&self, request: &Request) -> Result<Self, RingError> {
        let mut ring = self.clone();
        if *request == Request::Reset {
            ring.reset()?;
            return Ok(ring);
        }
        if self.position.is_poisoned() {
            return Err(RingError::Poisoned(self.position));
        }
        match request {
            Request::RotateNow => ring.rotation_asked = true,
            Request::RollBack => {
                ring.rollback_target().ok_or(RingError::NothingToRollBackTo)?;
                ring.rollback_asked = true;
            }
            Request::Revoke { kid, at_once } => ring.ask_to_revoke(kid, *at_once)?,
            Request::Taint(kid) => ring.living(kid)?.tainted = true,
            Request::ForgetSigner(name) => ring.forget_signer(name)?,
            Request::Adopt(keys) => keys.iter().try_for_each(|key| ring.adopt(key))?,
            Request::Reset => {}
        }
        if ring != *self {
            ring.position = self.position.changed();
        }
        Ok(ring)
    }

    fn ask_to_revoke(&mut self, kid: &KeyId, at_once: bool) -> Result<(), RingError> {
        if self.tombstone(kid).is_some() {
            self.bury(kid, KeyState::Revoked);
            return Ok(());
        }
        let key = self.living(kid)?;
        key.revocation = match at_once || key.revocation == Revocation::AskedAtOnce {
            true => Revocation::AskedAtOnce,
            false => Revocation::Asked,
        };
        Ok(())
    }

    fn forget_signer(&mut self, name: &str) -> Result<(), RingError> {
        if self.forgotten.contains_key(name) {
            return Ok(());
        }
        if !self.signers.contains_key(name) {
            let known = listed(self.signers.keys());
            return Err(RingError::NoSuchSigner { name: name.to_owned(), known });
        }
        self.give_up(name);
        Ok(())
    }

    fn adopt(&mut self, adopted: &AdoptedKey) -> Result<(), RingError> {
        let AdoptedKey { public_key, signs, custody } = adopted;
        let kid = public_key.key_id();
        self.check_not_buried(kid)?;
        if self.key(kid).is_some() {
            return Ok(());
        }
        if let Some(active) = self.active().filter(|_| *signs) {
            return Err(RingError::AnotherSigns(active.kid().clone()));
        }
        let state = if *signs { KeyState::Active } else { KeyState::Retiring };
        let mut key = RingKey::new(public_key.clone(), state);
        key.custody = *custody;
        key.signed_in_the_dark = true;
        key.adopted = true;
        key.allowed = self.allowed;
        key.stopped_by_epoch = (!signs).then_some(self.position.epoch);
        self.keys.push(key);
        Ok(())
    }

    /// Later than whatever anybody has acknowledged. What was known of stopped keys is of another count.
    fn reset(&mut self) -> Result<(), RingError> {
        let counted =
            self.signers.values().map(|said| said.position).filter(|position| !position.is_poisoned());
        let acknowledged = counted.map(|position| position.epoch);
        let highest = acknowledged.chain([self.position.epoch]).max().unwrap_or_default();
        if highest >= HIGHEST_COUNT {
            return Err(RingError::Exhausted(highest));
        }
        self.position = Position { epoch: highest, generation: self.position.generation }.reset();
        self.latest_wall = super::WallTime::default();
        for key in self.keys.iter_mut().filter(|key| key.state.is_draining()) {
            key.stopped_by_epoch = Some(self.position.epoch);
            key.drained_seconds = 0;
            key.signed_in_the_dark = true;
        }
        Ok(())
    }
}

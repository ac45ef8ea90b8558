//! What each step makes of a ring.

use serde_json::Map;

use super::{Custody, KeyRing, KeyState, RingError, RingKey, Step, Tombstone};
use crate::{KeyId, PublicKey};

impl KeyRing {
    /// The ring after a step; the same ring where that step was taken already.
    ///
    /// Whether the step is safe now, [`plan`](crate::rotation::plan()) says: it knows what was observed. Whether it is
    /// possible is checked here again.
    ///
    /// # Errors
    /// When the key is in a state from which the step does not lead on.
    pub fn apply(&self, step: &Step) -> Result<Self, RingError> {
        let mut ring = self.clone();
        match step {
            Step::Make(_) | Step::Import(_) => {}
            Step::Enter(key) => ring.enter(key)?,
            Step::Publish(kid) => ring.publish(step, kid)?,
            Step::Activate(kid) => ring.activate(step, kid)?,
            Step::KeepForVerifying(kid) => ring.keep_for_verifying(step, kid)?,
            Step::Retire(kid) => ring.end(step, kid, KeyState::is_draining)?,
            Step::Withdraw(kid) => {
                ring.end(step, kid, |state| matches!(state, KeyState::Pending | KeyState::Published))?;
            }
            Step::Revoke(kid) => ring.revoke(kid)?,
            Step::Destroy(kid) => ring.destroy(kid)?,
        }
        // An activation has begun an epoch.
        if ring != *self && ring.position == self.position {
            ring.position = self.position.changed();
        }
        Ok(ring)
    }

    fn enter(&mut self, key: &PublicKey) -> Result<(), RingError> {
        let kid = key.key_id();
        self.check_not_buried(kid)?;
        if self.key(kid).is_none() {
            self.keys.push(RingKey::new(key.clone(), KeyState::Pending));
        }
        Ok(())
    }

    fn publish(&mut self, step: &Step, kid: &KeyId) -> Result<(), RingError> {
        let key = self.living(kid)?;
        match key.state {
            KeyState::Pending => key.state = KeyState::Published,
            KeyState::Published => {}
            state => return Err(wrong_state(step, state)),
        }
        Ok(())
    }

    fn activate(&mut self, step: &Step, kid: &KeyId) -> Result<(), RingError> {
        let key = self.living(kid)?;
        match key.state {
            KeyState::Active => return Ok(()),
            KeyState::Published | KeyState::Retiring => {}
            state => return Err(wrong_state(step, state)),
        }
        if !key.may_sign() {
            return Err(RingError::MayNotSign(kid.clone()));
        }
        let position = self.position.activated();
        for key in self.keys.iter_mut().filter(|key| key.state == KeyState::Active) {
            key.state = KeyState::Retiring;
            key.stopped_by_epoch = Some(position.epoch);
            key.drained_seconds = 0;
        }
        let key = self.living(kid)?;
        key.state = KeyState::Active;
        key.stopped_by_epoch = None;
        key.drained_seconds = 0;
        key.active_seconds = 0;
        self.position = position;
        self.activated = self.latest_wall;
        (self.rotation_asked, self.rollback_asked) = (false, false);
        Ok(())
    }

    fn keep_for_verifying(&mut self, step: &Step, kid: &KeyId) -> Result<(), RingError> {
        let key = self.living(kid)?;
        match key.state {
            KeyState::Retiring | KeyState::VerifyOnly => key.state = KeyState::VerifyOnly,
            state => return Err(wrong_state(step, state)),
        }
        Ok(())
    }

    fn end(&mut self, step: &Step, kid: &KeyId, may: impl Fn(KeyState) -> bool) -> Result<(), RingError> {
        if self.tombstone(kid).is_some_and(|tombstone| tombstone.state == KeyState::Retired) {
            return Ok(());
        }
        let state = self.living(kid)?.state;
        if !may(state) {
            return Err(wrong_state(step, state));
        }
        self.bury(kid, KeyState::Retired);
        Ok(())
    }

    fn revoke(&mut self, kid: &KeyId) -> Result<(), RingError> {
        if self.tombstone(kid).is_none() {
            self.living(kid)?;
        }
        self.bury(kid, KeyState::Revoked);
        Ok(())
    }

    fn destroy(&mut self, kid: &KeyId) -> Result<(), RingError> {
        if let Some(tombstone) = self.tombstones.iter_mut().find(|tombstone| tombstone.kid == *kid) {
            tombstone.custody = Custody::Destroyed;
            return Ok(());
        }
        let key = self.living(kid)?;
        if !key.state.is_draining() {
            return Err(RingError::StillNeeded(kid.clone()));
        }
        key.custody = Custody::Destroyed;
        Ok(())
    }

    /// Ends a key for ever; one that has ended may only become revoked.
    pub(super) fn bury(&mut self, kid: &KeyId, state: KeyState) {
        let generation = self.position.generation.saturating_add(1);
        if let Some(tombstone) = self.tombstones.iter_mut().find(|tombstone| tombstone.kid == *kid) {
            tombstone.state = tombstone.state.max(state);
        } else if let Some(key) = self.key(kid) {
            let (kid, custody) = (kid.clone(), key.custody);
            self.tombstones.push(Tombstone { kid, state, custody, generation, later: Map::new() });
        }
        self.keys.retain(|key| key.kid() != kid);
    }

    pub(super) fn check_not_buried(&self, kid: &KeyId) -> Result<(), RingError> {
        let buried = self.tombstone(kid).map(|tombstone| tombstone.state);
        buried.map_or(Ok(()), |state| Err(RingError::Buried { kid: kid.clone(), state }))
    }

    /// A key that is not over.
    pub(super) fn living(&mut self, kid: &KeyId) -> Result<&mut RingKey, RingError> {
        self.check_not_buried(kid)?;
        self.key_mut(kid).ok_or_else(|| RingError::NoSuchKey(kid.clone()))
    }
}

fn wrong_state(step: &Step, state: KeyState) -> RingError {
    RingError::WrongState { step: step.to_string(), state }
}

//! A controller: it runs the real plan, and is as unreliable as a process is.

use std::rc::Rc;
use std::time::Duration;

use chancery_core::KeyRing;
use chancery_core::ring::{Step, WallTime};
use chancery_core::rotation::{Plan, observe, plan};

use crate::keys::{ES256_KEY, key, number};
use crate::scene::Rule;
use crate::world::World;

/// What stands in the store, and which writing of it.
#[derive(Clone)]
pub struct Stored {
    pub ring: Rc<KeyRing>,
    pub version: u64,
}

#[derive(Default)]
pub struct Controller {
    /// How wrong its wall clock is, in minutes.
    pub clock_off: i64,
    /// The version that it has read, and when it read it first.
    read: Option<(Stored, u64)>,
    /// A plan that it made and did not carry out yet, with the ring that it counts with.
    paused: Option<Planned>,
    last_turn: u64,
}

/// A plan, and the ring that it counts with, as of a version.
struct Planned {
    plan: Plan,
    ring: KeyRing,
    version: u64,
}

enum After {
    GoesOn,
    Stops,
}

impl Controller {
    pub fn now(&self, tick: u64) -> WallTime {
        WallTime((1_000_000 + tick as i64 * 60 + self.clock_off * 60).max(0) as u64)
    }

    fn crash(&mut self) {
        (self.read, self.paused) = (None, None);
    }

    pub fn turn(&mut self, world: &mut World) {
        if let Some(planned) = self.paused.take() {
            let is_good = planned.plan.check(&world.stored.ring, self.now(world.tick)).is_ok();
            if is_good {
                self.carry_out(world, planned);
            }
            self.read = None;
            return;
        }
        let is_stale = self.read.as_ref().is_none_or(|(read, _)| read.version != world.stored.version);
        if is_stale && (self.read.is_none() || world.dice.in_thousand(700)) {
            let mut stored = world.stored.clone();
            if world.dice.in_thousand(20) {
                let text = serde_json::to_string(&*stored.ring).expect("a document");
                stored.ring = Rc::new(serde_json::from_str(&text).expect("the same document"));
                assert_eq!(stored.ring, world.stored.ring);
            }
            self.read = Some((stored, world.tick));
        }
        let Some((stored, read_at)) = self.read.clone() else { return };
        if world.dice.in_thousand(20) {
            return self.crash();
        }
        let counts_its_own = world.scene.broken == Some(Rule::NoSecondIsCountedTwice);
        let since = if counts_its_own { self.last_turn } else { read_at };
        self.last_turn = world.tick;
        let policy = Rc::clone(&world.policy);
        let observed = world.observed(self.now(world.tick), &stored.ring);
        let mut ring = KeyRing::clone(&stored.ring);
        observe(&mut ring, &policy, &observed, Duration::from_secs((world.tick - since) * 60));
        let plan = plan(&ring, &policy, &observed);
        let planned = Planned { plan, ring, version: stored.version };
        if world.dice.in_thousand(50) {
            self.paused = Some(planned);
            return;
        }
        self.carry_out(world, planned);
    }

    /// Takes the steps of a plan, and those that the switched-off guard alone holds back.
    fn carry_out(&mut self, world: &mut World, planned: Planned) {
        let Planned { plan, mut ring, mut version } = planned;
        let off = world.scene.without;
        let let_pass = plan.blocked.iter().filter(|blocked| off.is_some_and(|off| blocked.guards() == [off]));
        let steps: Vec<Step> = let_pass
            .map(|blocked| blocked.step.clone())
            .chain(plan.steps.iter().map(|planned| planned.step.clone()))
            .collect();
        if steps.is_empty() {
            let often = if world.scene.window.is_some() { 900 } else { 400 };
            if world.dice.in_thousand(often) {
                self.swap(world, Rc::new(ring), &mut version);
            }
            return;
        }
        for step in steps {
            if world.dice.in_thousand(15) {
                return self.crash();
            }
            if let Step::Make(algorithm) = &step {
                world.make_key(*algorithm);
                continue;
            }
            // Another step of this plan may have made it impossible.
            let Ok(next) = ring.apply(&step) else { continue };
            if let Step::Destroy(kid) = &step {
                world.held.retain(|held| held != &number(kid));
                if world.dice.in_thousand(15) {
                    return self.crash();
                }
            }
            let before = std::mem::replace(&mut ring, next);
            match self.swap(world, Rc::new(ring.clone()), &mut version) {
                After::Stops => return,
                After::GoesOn => {}
            }
            world.took(&step, &before);
            if world.dice.in_thousand(30) {
                // The answer is lost: it reads again, and plans again.
                return self.crash();
            }
        }
    }

    fn swap(&mut self, world: &mut World, ring: Rc<KeyRing>, version: &mut u64) -> After {
        if world.stored.version != *version {
            self.read = None;
            return After::Stops;
        }
        *version += 1;
        world.stored = Stored { ring, version: *version };
        self.read = Some((world.stored.clone(), world.tick));
        After::GoesOn
    }
}

impl World {
    fn make_key(&mut self, algorithm: chancery_core::Algorithm) {
        let made = match algorithm {
            chancery_core::Algorithm::Rs256 => {
                self.made += 1;
                self.made
            }
            _ => ES256_KEY,
        };
        if !self.held.contains(&made) {
            self.held.push(made);
        }
    }

    /// Whether the scene lasts no longer than there are keys.
    pub fn has_keys_left(&self) -> bool {
        self.made + 2 < crate::keys::RSA_KEYS
    }

    /// Looks at a step that was just taken.
    fn took(&mut self, step: &Step, before: &KeyRing) {
        let ring = Rc::clone(&self.stored.ring);
        match step {
            Step::Activate(kid) => {
                self.activated(before, kid);
                self.rotations += 1;
            }
            Step::Revoke(kid) => {
                let revoked = number(kid);
                self.revoked.insert(revoked, self.tick);
                self.tokens.retain(|token| token.key != revoked);
                let at_once = self.revoked_at_once.contains(&revoked);
                if ring.active().is_none() && before.active().is_some() && !at_once {
                    self.violated("no key is left that could sign");
                }
            }
            Step::Destroy(kid) => {
                let is_draining = before.key(kid).is_some_and(|key| key.state.is_draining());
                let stopped = self.stopped.get(&number(kid)).copied().unwrap_or_default();
                let window = self.policy.settings().rollback_window.as_secs() / 60;
                if is_draining && self.tick - stopped < window {
                    self.violated("a key cannot sign again within its rollback window");
                }
            }
            _ => {}
        }
    }

    fn activated(&mut self, before: &KeyRing, kid: &chancery_core::KeyId) {
        let urgent = before
            .active()
            .is_none_or(|active| active.tainted || active.is_to_be_revoked() || !active.may_sign());
        let is_rollback = before.rollback().is_some();
        if let Some(old) = before.active() {
            self.stopped.insert(number(old.kid()), self.tick);
        }
        let used_for = self.tick - self.activated_at;
        self.activated_at = self.tick;
        if urgent || is_rollback {
            self.emergencies += 1;
            return;
        }
        let other = before.active().is_some_and(|a| a.public_key.algorithm() != key(number(kid)).algorithm());
        if !before.is_rotation_asked() && !other && used_for < self.scene.shortest_use() {
            self.violated("a key was replaced before its time");
        }
        if let Some(window) = self.scene.window
            && !before.is_rotation_asked()
            // A plan is good for a while, and what time it is the others hear when it is written down.
            && self.tick % self.scene.period >= window + 15
        {
            self.violated("a key was replaced outside of the maintenance window");
        }
        let mut epochs: Vec<u64> = self.signers.iter().filter_map(crate::signer::Signer::epoch).collect();
        epochs.push(self.stored.ring.position().epoch);
        epochs.sort_unstable();
        epochs.dedup();
        if epochs.len() > 2 && self.emergencies == 0 {
            self.violated("signers sign by three epochs at a time");
        }
    }
}

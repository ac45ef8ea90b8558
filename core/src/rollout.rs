//! What a node of a control plane does next whose kube-apiserver signs and verifies with key files.
//!
//! kube-apiserver reads its key files when it starts and never again. So a rotation is a rolling restart here: one node after
//! another gets the files that the ring asks for, and its kube-apiserver reads them. [`decide`] says what one node does next,
//! from nothing but what is there now: the ring, the files, what that kube-apiserver itself shows, and whose turn it is. A node
//! that was interrupted anywhere decides again and goes on.
//!
//! Rules:
//!
//! 1. What a kube-apiserver has is what it shows: the keys of its JWKS, and the key of a token that it has just issued. Files
//!    prove nothing before a restart, and no restart is believed that does not show. But a file that would be signed with after a
//!    restart is said: no key is retired that one still holds.
//! 2. The file of the keys that verify holds all of the ring's, and those that the ring knows nothing of. A key leaves it when
//!    the ring has retired or revoked it.
//! 3. A key is written to be signed with only when every other node verifies with it. A kube-apiserver may start again by itself
//!    at any moment, so this holds from the moment of the writing on. The file of the keys that verify comes first.
//! 4. One restart is enough for a rotation: the node waits until the ring has its next standby, which the same restart loads.
//!    Nobody waits for that where the key must not sign or verify any more, or where tokens are rejected without a restart.
//! 5. One node at a time: a restart takes the turn, and it is given back when the kube-apiserver is ready and shows the keys. One
//!    that is not ready takes the turn as well, if it is free: then nobody else restarts.
//! 6. Files that somebody has removed or exchanged are written again, with no restart: there may be one at any moment.
//! 7. The key of the file that signs comes first in the file of those that verify. `kubeadm` takes the first one for its public
//!    half, and panics where the two are of different algorithms: the node that joins then does not.

use std::collections::BTreeSet;

use crate::ring::{Acknowledgement, KeyState, RingKey, TokenLifetimes};
use crate::{KeyId, KeyRing};

mod forecast;
mod machines;
mod step;

pub use forecast::{Forecast, foresee};
pub use machines::{
    MachinesForecast, MachinesRollout, MachinesStep, MachinesView, MachinesWait, decide_machines,
    foresee_machines,
};
pub use step::{Rollout, RolloutStep, RolloutWait};

/// The keys that a node has in its files, or a kube-apiserver shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeKeys {
    /// The key that signs; `None` where a file is missing or has none.
    pub signs: Option<KeyId>,
    /// The keys that verify.
    pub verifies: BTreeSet<KeyId>,
}

/// Everything that one node decides by.
#[derive(Clone, Debug)]
pub struct NodeView<'a> {
    /// The ring.
    pub ring: &'a KeyRing,
    /// The node, by the name of its signer.
    pub name: &'a str,
    /// Every signer that there should be.
    pub expected: &'a BTreeSet<String>,
    /// What this node has acknowledged last.
    pub acknowledged: Option<&'a Acknowledgement>,
    /// The longest lifetimes that its kube-apiserver signs.
    pub signs_at_most: TokenLifetimes,
    /// What is in the files.
    pub files: &'a NodeKeys,
    /// The key that comes first in the file of those that verify.
    pub first: Option<&'a KeyId>,
    /// What its kube-apiserver shows; `None` while it is not ready.
    pub server: Option<&'a NodeKeys>,
    /// Whose turn it is.
    pub turn: Option<&'a str>,
    /// What became of the last restart that was asked for.
    pub restart: LastRestart,
}

/// What is known of the last restart with the files as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LastRestart {
    /// None was asked for, or it may be asked for once more.
    #[default]
    Over,
    /// It was asked for a moment ago.
    UnderWay,
    /// It was asked for several times, and other keys are shown than those in the files.
    InVain,
}

/// What a node has to do with its kube-apiserver.
enum Need {
    Restart(String),
    Nothing(Option<RolloutWait>),
}

/// What is to be done next, by the rules above.
pub fn decide(view: &NodeView<'_>) -> Rollout {
    let position = view.ring.position();
    let acknowledged = view.acknowledged.map(|said| said.position);
    if position.is_poisoned() || acknowledged.is_some_and(|acknowledged| acknowledged > position) {
        return Rollout::Wait(RolloutWait::RingFromThePast { ring: position, acknowledged });
    }
    let is_ours = view.turn == Some(view.name);
    let Some(server) = view.server else {
        return match view.turn {
            // The key of a cluster that was not adopted is not replaced.
            Some(_) if is_ours && !view.is_unknown(view.files.signs.as_ref()) => {
                view.write().unwrap_or(Rollout::Wait(RolloutWait::NotReady))
            }
            Some(_) => Rollout::Wait(RolloutWait::NotReady),
            None => take_turn("its kube-apiserver is not ready, and no other one may restart meanwhile"),
        };
    };
    let acknowledgement = view.acknowledgement(server);
    if view.acknowledged.is_none_or(|said| !says_the_same(said, &acknowledgement)) {
        let because = "its kube-apiserver shows so".to_owned();
        return Rollout::Do { step: RolloutStep::Acknowledge(acknowledgement), because };
    }
    match (view.need(server), view.turn) {
        (Need::Restart(because), Some(_)) if is_ours => view.write().unwrap_or(match view.restart {
            LastRestart::Over => Rollout::Do { step: RolloutStep::Restart, because },
            LastRestart::UnderWay => Rollout::Wait(RolloutWait::Restarting),
            LastRestart::InVain => Rollout::Wait(RolloutWait::InVain),
        }),
        (Need::Restart(_), Some(other)) => Rollout::Wait(RolloutWait::TurnOf(other.to_owned())),
        (Need::Restart(because), None) => take_turn(&because),
        (Need::Nothing(_), Some(_)) if is_ours => {
            let because = "its kube-apiserver is ready and shows the keys that it should".to_owned();
            Rollout::Do { step: RolloutStep::GiveTurnBack, because }
        }
        (Need::Nothing(wait), _) => {
            let is_damaged = !view.is_unknown(server.signs.as_ref()) && view.is_damaged(server);
            let repaired = if is_damaged { view.write() } else { None };
            repaired
                .or_else(|| view.put_in_order())
                .unwrap_or_else(|| wait.map_or(Rollout::Done, Rollout::Wait))
        }
    }
}

fn take_turn(because: &str) -> Rollout {
    Rollout::Do { step: RolloutStep::TakeTurn, because: because.to_owned() }
}

fn is_standby(key: &RingKey) -> bool {
    matches!(key.state, KeyState::Pending | KeyState::Published)
}

/// Whether two acknowledgements differ in nothing but the start of the process that says them.
fn says_the_same(one: &Acknowledgement, other: &Acknowledgement) -> bool {
    Acknowledgement { boot: other.boot.clone(), ..one.clone() } == *other
}

impl NodeView<'_> {
    /// The keys that verify, as the file shall have them.
    pub fn window(&self) -> BTreeSet<KeyId> {
        let ours = self.ring.verification_keys().map(|key| key.public_key.key_id().clone());
        ours.chain(self.unknown()).collect()
    }

    /// The keys that verify here, and of which the ring knows nothing: they stay.
    pub fn unknown(&self) -> BTreeSet<KeyId> {
        let shown = self.server.into_iter().flat_map(|server| &server.verifies);
        let all = self.files.verifies.iter().chain(shown);
        all.filter(|kid| self.is_unknown(Some(kid))).cloned().collect()
    }

    /// Whether it is a key of which the ring has never heard.
    fn is_unknown(&self, kid: Option<&KeyId>) -> bool {
        kid.is_some_and(|kid| self.ring.key(kid).is_none() && self.ring.tombstone(kid).is_none())
    }

    /// The next change of the files; `None` when they are as they should be.
    fn write(&self) -> Option<Rollout> {
        let window = self.window();
        if self.files.verifies != window {
            let because = "the ring has these keys".to_owned();
            return Some(Rollout::Do { step: RolloutStep::WriteVerifying(window), because });
        }
        let to_sign = self.to_sign().ok().flatten().filter(|kid| self.files.signs.as_ref() != Some(*kid));
        let Some(kid) = to_sign else { return self.put_in_order() };
        let because = "it signs by the ring, and every other node verifies with it".to_owned();
        Some(Rollout::Do { step: RolloutStep::WriteSigning(kid.clone()), because })
    }

    /// The same keys that verify, with that of the other file first; `None` where it is.
    fn put_in_order(&self) -> Option<Rollout> {
        let verifies = &self.files.verifies;
        let signs = self.files.signs.as_ref().filter(|kid| verifies.contains(*kid))?;
        let step = RolloutStep::WriteVerifying(verifies.clone());
        let because = format!("kubeadm expects {signs} first, which is in the file of the key that signs");
        (self.first != Some(signs)).then_some(Rollout::Do { step, because })
    }

    /// Whether the kube-apiserver would lack something that it has now, if it started again by itself.
    fn is_damaged(&self, server: &NodeKeys) -> bool {
        let window = self.window();
        let lacks = |kid: &&KeyId| window.contains(kid) && !self.files.verifies.contains(kid);
        self.files.signs != server.signs || server.verifies.iter().any(|kid| lacks(&kid))
    }

    /// The key that the file shall have to sign with: that of the ring, or none other than what is there where it must not
    /// sign.
    ///
    /// # Errors
    /// When another node would reject its tokens.
    fn to_sign(&self) -> Result<Option<&KeyId>, RolloutWait> {
        let Some(kid) = self.ring.active().filter(|key| key.may_sign()).map(RingKey::kid) else {
            return Ok(None);
        };
        let others = || self.expected.iter().map(String::as_str).filter(|name| *name != self.name);
        let mut without: BTreeSet<&str> = others().filter(|name| !self.is_known(name)).collect();
        let waited_for = self.ring.signers().filter(|(name, _)| *name != self.name);
        without.extend(waited_for.filter(|(_, said)| !said.loaded.contains(kid)).map(|(name, _)| name));
        if without.is_empty() {
            return Ok(Some(kid));
        }
        let nodes = without.into_iter().map(str::to_owned).collect();
        Err(RolloutWait::OthersDoNotVerify { kid: kid.clone(), nodes })
    }

    fn is_known(&self, name: &str) -> bool {
        self.ring.signers().map(|(known, _)| known).chain(self.ring.forgotten()).any(|known| known == name)
    }

    /// Whether the kube-apiserver has to read the files again, and what it waits for otherwise.
    fn need(&self, server: &NodeKeys) -> Need {
        let Some(signs) = &server.signs else { return Need::Nothing(Some(RolloutWait::NotReady)) };
        let buried = |kid: &KeyId| self.ring.tombstone(kid).map(|over| over.state);
        if self.is_unknown(Some(signs)) {
            return Need::Nothing(Some(RolloutWait::SignsUnknown(signs.clone())));
        }
        if let Some(kid) = server.verifies.iter().find(|kid| buried(kid) == Some(KeyState::Revoked)) {
            return Need::Restart(format!("it verifies with {kid}, which is revoked"));
        }
        // A standby that will never sign is not missed.
        let is_missed = |key: &&RingKey| !is_standby(key) || key.may_sign();
        let mut missing = self.ring.keys().iter().filter(|key| !server.verifies.contains(key.kid()));
        if let Some(key) = missing.find(is_missed) {
            return Need::Restart(format!("it does not verify with {}, which is {}", key.kid(), key.state));
        }
        let kid = match self.to_sign() {
            Ok(Some(kid)) if kid != signs => kid,
            Ok(_) => return Need::Nothing(None),
            Err(wait) => return Need::Nothing((self.active() != Some(signs)).then_some(wait)),
        };
        let is_over = self.ring.key(signs).is_none_or(|key| key.tainted || key.is_to_be_revoked());
        if is_over || self.ring.keys().iter().any(|key| is_standby(key) && key.may_sign()) {
            return Need::Restart(format!("it signs with {signs}, and {kid} signs by the ring"));
        }
        Need::Nothing(Some(RolloutWait::NextStandby))
    }

    fn active(&self) -> Option<&KeyId> {
        self.ring.active().map(RingKey::kid)
    }

    /// What its kube-apiserver shows, as a signer says it.
    fn acknowledgement(&self, server: &NodeKeys) -> Acknowledgement {
        let said = self.acknowledged.cloned().unwrap_or_default();
        // What is in the file is signed with as soon as the kube-apiserver starts again by itself.
        let mut signs = server.signs.iter().chain(&self.files.signs);
        let other = signs.find(|kid| Some(*kid) != self.active());
        let signs_by_ring = server.signs.is_some() && other.is_none();
        let is_alive = |kid: &KeyId| self.ring.key(kid).is_some();
        let mut signed = said.signed;
        signed.retain(|kid, _| is_alive(kid));
        if let Some(kid) = server.signs.as_ref().filter(|kid| is_alive(kid)) {
            let known = signed.entry(kid.clone()).or_default();
            *known = known.longest_of(self.signs_at_most);
        }
        Acknowledgement {
            boot: said.boot,
            position: if signs_by_ring { self.ring.position() } else { said.position },
            loaded: server.verifies.iter().filter(|kid| is_alive(kid)).cloned().collect(),
            signed,
            signs: other.cloned(),
        }
    }
}

//! What is next for a control plane whose machines are made from a Secret, as Cluster API makes them from `<cluster>-sa`.
//!
//! A kube-apiserver verifies and signs for as long as its machine lives with what the Secret held when the machine was made; and
//! a machine may be made at any moment, by a roll, a repair or somebody who scales. [`decide_machines`] says what is done next,
//! from nothing but what is there now. Rules:
//!
//! 1. What every machine has is written down beside the roll that was asked for, and believed once no machine is older than
//!    that roll, all of them are ready, and none is being made or removed. Until then nothing new is acknowledged.
//! 2. The Secret holds every key that verifies by the ring, and those that the ring knows nothing of.
//! 3. A key is written to be signed with only when every machine verifies with it: so machines are never two generations apart,
//!    and whichever of the two a new one is made from, all others verify its tokens.
//! 4. While a roll is under way, whoever asked for it, the Secret stays as it is.
//! 5. One roll is enough for a rotation: the key that signs is exchanged together with the next standby.
//! 6. Where somebody else has exchanged the keys in the Secret, machines may have been made from that: it is written again, and
//!    all machines are made anew.

use std::collections::BTreeSet;
use std::fmt;

use super::{Forecast, NodeKeys, Rollout, is_standby, says_the_same};
use crate::ring::{Acknowledgement, KeyState, Position, RingKey, TokenLifetimes};
use crate::{KeyId, KeyRing, listed};

/// More steps than are taken before something is waited for.
const STEPS: usize = 10;

/// Everything that is decided by.
#[derive(Clone, Debug)]
pub struct MachinesView<'a> {
    /// The ring.
    pub ring: &'a KeyRing,
    /// What was acknowledged last for the control plane.
    pub acknowledged: Option<&'a Acknowledgement>,
    /// The longest lifetimes that its kube-apiservers sign.
    pub signs_at_most: TokenLifetimes,
    /// What the Secret holds.
    pub secret: NodeKeys,
    /// What it held when the last roll of ours was asked for; nothing before the first one.
    pub rolled: Option<NodeKeys>,
    /// Whether that roll is asked for still: nobody has taken it back, and nothing was doubted since.
    pub is_asked: bool,
    /// Why not all machines are known to be ready and made since that roll; nothing when they are.
    pub under_way: Option<String>,
}

/// One step. Each may be cut short and taken again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachinesStep {
    /// Say what every machine has, where whoever rotates reads it.
    Acknowledge(Acknowledgement),
    /// Write down that machines may have other keys than the last roll has given them.
    Doubt,
    /// Put these keys into the Secret.
    Write(NodeKeys),
    /// Write down that the Secret holds these keys, and have every machine made anew.
    Roll(NodeKeys),
}

/// What is next for a control plane of machines.
pub type MachinesRollout = Rollout<MachinesStep, MachinesWait>;

/// What is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachinesWait {
    /// The ring is older than what was acknowledged, or nobody has counted up to where it is.
    RingFromThePast {
        /// Where it is.
        ring: Position,
        /// What was acknowledged.
        acknowledged: Option<Position>,
    },
    /// The Secret has a key to sign with that the ring has never heard of, or none.
    SignsUnknown(Option<KeyId>),
    /// Machines are made or removed, or not ready, and why that is thought.
    UnderWay(String),
    /// The next standby is not in the ring yet.
    NextStandby,
}

/// What would be done for a control plane of machines.
pub type MachinesForecast = Forecast<MachinesStep, MachinesWait>;

/// What is to be done next, by the rules above.
pub fn decide_machines(view: &MachinesView<'_>) -> MachinesRollout {
    let position = view.ring.position();
    let acknowledged = view.acknowledged.map(|said| said.position);
    if position.is_poisoned() || acknowledged.is_some_and(|acknowledged| acknowledged > position) {
        return MachinesRollout::Wait(MachinesWait::RingFromThePast { ring: position, acknowledged });
    }
    if let Some(said) = view.acknowledgement()
        && view.acknowledged.is_none_or(|last| !says_the_same(last, &said))
    {
        return to_do(MachinesStep::Acknowledge(said), "every machine was made with these keys");
    }
    if view.rolled.is_none() && view.secret.signs.as_ref().is_none_or(|kid| view.is_unknown(kid)) {
        return MachinesRollout::Wait(MachinesWait::SignsUnknown(view.secret.signs.clone()));
    }
    let wanted = view.wanted();
    if view.is_damaged() {
        return match view.is_asked {
            true => to_do(MachinesStep::Doubt, "somebody else has exchanged the keys in the Secret"),
            false => to_do(MachinesStep::Write(wanted), "machines that are made meanwhile need these keys"),
        };
    }
    let Some(because) = view.why_roll(&wanted) else {
        return view.unmet().map_or(MachinesRollout::Done, MachinesRollout::Wait);
    };
    // A roll that is not asked for any more ends nothing by itself.
    if let Some(why) = view.under_way.as_ref().filter(|_| view.is_asked || view.rolled.is_none()) {
        return MachinesRollout::Wait(MachinesWait::UnderWay(why.clone()));
    }
    if view.rolled.is_none() && !view.ring.keys().iter().any(|key| is_standby(key) && key.may_sign()) {
        return MachinesRollout::Wait(MachinesWait::NextStandby);
    }
    match view.secret == wanted {
        false => to_do(MachinesStep::Write(wanted), &because),
        true => to_do(MachinesStep::Roll(wanted), &because),
    }
}

/// Goes on from `view` until something is waited for or nothing is left to be done.
pub fn foresee_machines(view: &MachinesView<'_>) -> MachinesForecast {
    let mut now = view.clone();
    let mut said = view.acknowledged.cloned();
    let mut steps = Vec::new();
    while steps.len() < STEPS {
        let (step, because) =
            match decide_machines(&MachinesView { acknowledged: said.as_ref(), ..now.clone() }) {
                MachinesRollout::Do { step, because } => (step, because),
                MachinesRollout::Wait(wait) => return MachinesForecast { steps, then: Some(wait) },
                MachinesRollout::Done => break,
            };
        match step.clone() {
            MachinesStep::Acknowledge(acknowledgement) => said = Some(acknowledgement),
            MachinesStep::Doubt => now.is_asked = false,
            MachinesStep::Write(keys) => now.secret = keys,
            MachinesStep::Roll(keys) => {
                (now.rolled, now.is_asked) = (Some(keys), true);
                now.under_way = Some("every machine is made anew".to_owned());
            }
        }
        steps.push((step, because));
    }
    MachinesForecast { steps, then: None }
}

fn to_do(step: MachinesStep, because: &str) -> MachinesRollout {
    MachinesRollout::Do { step, because: because.to_owned() }
}

impl MachinesView<'_> {
    /// What the Secret shall hold.
    fn wanted(&self) -> NodeKeys {
        let ours = self.ring.verification_keys().map(|key| key.public_key.key_id());
        let unknown = self.secret.verifies.iter().filter(|kid| self.is_unknown(kid));
        NodeKeys { signs: self.to_sign().cloned(), verifies: ours.chain(unknown).cloned().collect() }
    }

    /// The key that the Secret shall have to sign with: that of the ring once it may, and until then what is there.
    fn to_sign(&self) -> Option<&KeyId> {
        let there = self.secret.signs.as_ref();
        let active = self.active();
        let is_everywhere = |kid: &&KeyId| {
            let has = |keys: &NodeKeys| keys.verifies.contains(*kid);
            self.is_settled() && self.rolled.as_ref().is_some_and(has)
        };
        // Its tokens are refused anyhow, so that another key loses nothing.
        let is_refused = there.is_some_and(|kid| self.ring.tombstone(kid).is_some());
        // Machines may have been made from it already, which nothing but a roll tells from those before.
        let is_rolled = self.rolled.as_ref().is_none_or(|keys| keys.signs.as_ref() == there);
        if let Some(kid) =
            active.filter(|kid| is_refused || (is_rolled && is_everywhere(kid) && self.may_switch(kid)))
        {
            return Some(kid);
        }
        let rolled = self.rolled.as_ref();
        let is_foreign = |kid: &KeyId| rolled.is_some_and(|keys| !keys.verifies.contains(kid));
        match there {
            Some(kid) if !is_foreign(kid) => there,
            _ => rolled.and_then(|keys| keys.signs.as_ref()).or(active),
        }
    }

    /// Whether the key that signs is exchanged now, or together with the next standby.
    fn may_switch(&self, kid: &KeyId) -> bool {
        let there = self.secret.signs.as_ref().and_then(|kid| self.ring.key(kid));
        let is_over = there.is_none_or(|key| key.tainted || key.is_to_be_revoked());
        self.secret.signs.as_ref() == Some(kid)
            || is_over
            || self.ring.keys().iter().any(|key| is_standby(key) && key.may_sign())
    }

    /// Whether a machine that is made from the Secret now would not get on with the others.
    fn is_damaged(&self) -> bool {
        let Some(rolled) = &self.rolled else { return false };
        let is_verified_with =
            |kid: &KeyId| self.ring.key(kid).is_some_and(|key| key.state.is_verified_with());
        let lacks = |kid: &&KeyId| is_verified_with(kid) && !self.secret.verifies.contains(*kid);
        let signs = self.secret.signs.as_ref();
        signs.is_none_or(|kid| !rolled.verifies.contains(kid)) && signs != self.active()
            || rolled.verifies.iter().any(|kid| lacks(&kid))
    }

    /// Why every machine has to be made anew; nothing where that is not so.
    fn why_roll(&self, wanted: &NodeKeys) -> Option<String> {
        let Some(rolled) = &self.rolled else {
            return Some("no machine is known to have been made with the keys of the ring".to_owned());
        };
        if !self.is_asked {
            return Some("the last roll was taken back, or machines were made from other keys".to_owned());
        }
        let is_revoked =
            |kid: &&KeyId| self.ring.tombstone(kid).is_some_and(|over| over.state == KeyState::Revoked);
        if let Some(kid) = rolled.verifies.iter().find(is_revoked) {
            return Some(format!("they verify with {kid}, which is revoked"));
        }
        // A standby that will never sign is not missed.
        let is_missed = |key: &&RingKey| key.state.is_verified_with() && (!is_standby(key) || key.may_sign());
        let mut missing = self.ring.keys().iter().filter(|key| !rolled.verifies.contains(key.kid()));
        if let Some(key) = missing.find(is_missed) {
            return Some(format!("they do not verify with {}, which is {}", key.kid(), key.state));
        }
        let (before, now) = (rolled.signs.as_ref()?, wanted.signs.as_ref()?);
        (before != now).then(|| format!("they sign with {before}, and {now} is to sign"))
    }

    /// What is not so yet, where nothing is to be done now.
    fn unmet(&self) -> Option<MachinesWait> {
        if let Some(why) = &self.under_way {
            return Some(MachinesWait::UnderWay(why.clone()));
        }
        (self.active().is_some() && self.secret.signs.as_ref() != self.active())
            .then_some(MachinesWait::NextStandby)
    }

    /// What every machine has, as a signer says it; nothing while that is not known.
    fn acknowledgement(&self) -> Option<Acknowledgement> {
        let rolled = self.rolled.as_ref()?;
        let is_settled = self.is_settled();
        let said = match self.acknowledged {
            Some(said) => said.clone(),
            None if is_settled => Acknowledgement::default(),
            None => return None,
        };
        let is_alive = |kid: &&KeyId| self.ring.key(kid).is_some();
        // Machines to come are made from the Secret, and while a roll is under way some have what was said before.
        let everywhere =
            |kid: &&KeyId| self.secret.verifies.contains(*kid) && (is_settled || said.loaded.contains(*kid));
        let loaded = rolled.verifies.iter().filter(is_alive).filter(everywhere).cloned().collect();
        let signing: BTreeSet<&KeyId> =
            rolled.signs.iter().chain(&self.secret.signs).filter(is_alive).collect();
        let mut signed = said.signed;
        signed.retain(|kid, _| is_alive(&kid));
        for kid in &signing {
            let known = signed.entry((*kid).clone()).or_default();
            *known = known.longest_of(self.signs_at_most);
        }
        let others = || signing.iter().find(|kid| Some(**kid) != self.active()).map(|kid| (*kid).clone());
        let signs_by_ring = is_settled && !signing.is_empty() && others().is_none();
        Some(Acknowledgement {
            boot: said.boot,
            position: if signs_by_ring { self.ring.position() } else { said.position },
            loaded,
            signed,
            signs: if signs_by_ring { None } else { others().or(said.signs) },
        })
    }

    fn is_settled(&self) -> bool {
        self.is_asked && self.under_way.is_none()
    }

    fn active(&self) -> Option<&KeyId> {
        self.ring.active().filter(|key| key.may_sign()).map(RingKey::kid)
    }

    /// Whether it is a key of which the ring has never heard.
    fn is_unknown(&self, kid: &KeyId) -> bool {
        self.ring.key(kid).is_none() && self.ring.tombstone(kid).is_none()
    }
}

impl MachinesWait {
    /// Whether a rotation that goes well passes through it.
    pub fn is_usual(&self) -> bool {
        matches!(self, Self::UnderWay(_) | Self::NextStandby)
    }
}

impl fmt::Display for MachinesStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |keys: &NodeKeys| {
            let signs = keys.signs.as_ref().map_or("nothing".to_owned(), ToString::to_string);
            format!(
                "{signs} to sign with, {} keys to verify with: {}",
                keys.verifies.len(),
                listed(&keys.verifies)
            )
        };
        match self {
            Self::Acknowledge(said) => match &said.signs {
                Some(kid) => {
                    write!(f, "say that machines sign with {kid}, {} keys loaded", said.loaded.len())
                }
                None => write!(f, "acknowledge {}, {} keys loaded", said.position, said.loaded.len()),
            },
            Self::Doubt => f.write_str("write down that machines may have other keys"),
            Self::Write(keys) => write!(f, "write the Secret: {}", text(keys)),
            Self::Roll(keys) => write!(f, "have every machine made anew: {}", text(keys)),
        }
    }
}

impl fmt::Display for MachinesWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RingFromThePast { ring, acknowledged: Some(acknowledged) } => write!(
                f,
                "the ring is at {ring}, and {acknowledged} was acknowledged; put the later ring back, or \
                 `chancery ring reset` this one"
            ),
            Self::RingFromThePast { ring, acknowledged: None } => {
                write!(f, "the ring is at {ring}, which nobody has counted up to; `chancery ring reset` it")
            }
            Self::SignsUnknown(Some(kid)) => write!(
                f,
                "the Secret signs with {kid}, which the ring does not know; `chancery ring adopt` its keys first"
            ),
            Self::SignsUnknown(None) => f.write_str(
                "the Secret has no key to sign with in tls.key; Cluster API makes it with the cluster",
            ),
            Self::UnderWay(why) => f.write_str(why),
            Self::NextStandby => f.write_str("the next standby, which the same roll brings"),
        }
    }
}

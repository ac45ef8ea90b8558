//! Each guard's question, asked of what is known.

use std::collections::BTreeSet;

use crate::KeyRing;
use crate::profile::{Acceptance, RelyingParty, list};
use crate::ring::RingKey;
use crate::rotation::{Block, CanaryAnswer, DeclaredCanary, Guard, Observations, Policy};
use crate::visibility::Obstacle;
use crate::{Algorithm, KeyId};

/// What is known when a plan is made.
pub(super) struct Guards<'a> {
    pub ring: &'a KeyRing,
    pub policy: &'a Policy,
    pub observed: &'a Observations,
}

impl Guards<'_> {
    /// What holds back every step.
    pub fn of_the_ring(&self) -> Vec<Block> {
        let position = self.ring.position();
        let mut blocks = Vec::new();
        if position.is_poisoned() {
            let why = format!("nobody has counted up to {position}; reset the ring");
            blocks.push(Block::new(Guard::PositionPoisoned, why));
        }
        for (name, said) in self.ring.signers().filter(|(_, said)| said.position > position) {
            let why = format!(
                "signer {name} has acknowledged {}, and this ring is at {position}; put the later ring back, or reset \
                 this one",
                said.position
            );
            blocks.push(Block::new(Guard::RingFromThePast, why));
        }
        blocks
    }

    /// Whether everybody sees the key now, and has for long enough.
    pub fn visibility(&self, kid: &KeyId) -> Vec<Block> {
        let seen = match &self.observed.visibility {
            Ok(record) => record.is_visible_everywhere(kid, self.policy.wait()),
            Err(obstacle) => Err(vec![obstacle.clone()]),
        };
        let obstacles = seen.err().unwrap_or_default();
        let block = |obstacle: &Obstacle| {
            let too_short = matches!(obstacle, Obstacle::TooShort { .. } | Obstacle::Interrupted { .. });
            let guard = if too_short { Guard::VisibleTooShort } else { Guard::NotVisible };
            Block::new(guard, obstacle.to_string())
        };
        obstacles.iter().map(block).collect()
    }

    /// Whether everybody sees the key now.
    pub fn visible_now(&self, kid: &KeyId) -> Vec<Block> {
        let mut blocks = self.visibility(kid);
        blocks.retain(|block| block.guard == Guard::NotVisible);
        blocks
    }

    /// Whether every signer and every kube-apiserver has the key. Where the key that signs must not, nobody waits for a
    /// rotation that is under way to end.
    pub fn loaded(&self, kid: &KeyId, is_urgent: bool) -> Vec<Block> {
        let epoch = self.ring.position().epoch;
        let mut blocks = Vec::new();
        let mut without = BTreeSet::new();
        for (name, said) in self.ring.signers() {
            let in_flight = match &said.signs {
                Some(kid) => Some(format!("signer {name} signs with {kid} still")),
                None => (said.position.epoch < epoch).then(|| {
                    format!("signer {name} has not come further than epoch {}", said.position.epoch)
                }),
            };
            if let Some(why) = in_flight.filter(|_| !is_urgent) {
                blocks.push(Block::new(Guard::RotationInFlight, why));
            } else if !said.loaded.contains(kid) {
                let why = format!("signer {name} is at {} without it", said.position);
                blocks.push(Block::new(Guard::SignerNotLoaded, why));
            }
            if !said.loaded.contains(kid) {
                without.insert(name);
            }
        }
        for name in self.ring.unheard(&self.observed.expected_signers) {
            without.insert(name);
            blocks.push(Block::new(Guard::SignerNotLoaded, format!("signer {name} was never heard")));
        }
        // What a signer has not loaded, its own kube-apiserver cannot have.
        let waits = |name: &str| !without.contains(name);
        for (name, node) in self.observed.api_servers.iter().filter(|(name, _)| waits(name)) {
            let why = match &node.unseen {
                Some(unseen) => format!("kube-apiserver of {name} is not seen: {unseen}"),
                None if node.verifies.contains(kid) => continue,
                None => format!("kube-apiserver of {name} does not verify with it"),
            };
            if node.motion.is_none() {
                blocks.push(Block::new(Guard::VerifierNotLoaded, why));
            }
        }
        blocks
    }

    /// Whether no node comes, goes or changes.
    pub fn nodes_rest(&self) -> Vec<Block> {
        let moving = self.observed.api_servers.iter().filter_map(|(name, node)| Some((name, node.motion?)));
        let moving = moving.map(|(name, motion)| format!("node {name} is {motion}"));
        let unknown = self.observed.unknown_nodes.iter();
        let unknown = unknown.map(|why| format!("which nodes there are is not known: {why}"));
        moving.chain(unknown).map(|why| Block::new(Guard::NodeInMotion, why)).collect()
    }

    /// Whether every relying party that is to try it has accepted the key. One that reads keys at its start alone has to be
    /// asked: no wait helps there.
    pub fn canaries(&self, kid: &KeyId) -> Vec<Block> {
        let answers = self.observed.canaries.get(kid);
        let answer = |name: &str| answers.and_then(|answers| answers.get(name));
        let declared = self.policy.settings().canaries.iter();
        let missing = declared.filter_map(|DeclaredCanary { name, .. }| match answer(name) {
            Some(CanaryAnswer::Accepted) => None,
            Some(other) => Some(format!("{name} {other}")),
            None => Some(format!("{name} was not asked yet")),
        });
        let unasked = self.policy.unasked_until_restart().map(|party| {
            format!("{party} reads the keys when it starts alone, and no canary asks whether it has this one")
        });
        missing.chain(unasked).map(|why| Block::new(Guard::CanaryMissing, why)).collect()
    }

    /// Whether every declared relying party verifies the algorithm.
    pub fn algorithm(&self, algorithm: Algorithm) -> Vec<Block> {
        let takes = |party: &&RelyingParty| party.profile().algorithms.of(algorithm) == Acceptance::Accepts;
        let parties = self.policy.settings().parties.iter();
        let refusing: Vec<RelyingParty> = parties.filter(|party| !takes(party)).copied().collect();
        if refusing.is_empty() {
            return Vec::new();
        }
        let why = format!("{algorithm} is not known to work with {}", list(&refusing));
        vec![Block::new(Guard::AlgorithmRefused, why)]
    }

    /// Whether there is room for another key.
    pub fn room(&self) -> Vec<Block> {
        let (keys, most) = (self.ring.keys().len(), self.policy.keys_at_most());
        if keys < most {
            return Vec::new();
        }
        vec![Block::new(Guard::TooManyKeys, format!("the ring has {keys} keys, and {most} is the most"))]
    }

    /// Whether a key is, or becomes, the standby that is wanted.
    pub fn is_wanted(&self, key: &RingKey) -> bool {
        key.may_sign() && key.public_key.algorithm() == self.policy.settings().algorithm
    }
}

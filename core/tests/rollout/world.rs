//! Three nodes, one ring, whoever rotates it, and a person.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chancery_core::ring::{
    Acknowledgement, AdoptedKey, Custody, KeyState, Passage, Request, TokenLifetimes, WallTime,
};
use chancery_core::rollout::{LastRestart, NodeKeys, NodeView, Rollout, RolloutStep, decide};
use chancery_core::rotation::{Guard, Observations, Policy, Schedule, Settings, plan};
use chancery_core::{KeyId, KeyRing, PublicKey};

use crate::fixture;

pub const NAMES: [&str; 3] = ["a", "b", "c"];

pub fn key(number: u8) -> PublicKey {
    fixture::numbered_key(number)
}

pub fn kid(number: u8) -> KeyId {
    key(number).key_id().clone()
}

/// A ring of one key that signs.
pub fn adopted() -> KeyRing {
    let first = AdoptedKey { public_key: key(0), signs: true, custody: Custody::Held };
    KeyRing::new().request(&Request::Adopt(vec![first])).expect("an empty ring")
}

pub fn by_hand() -> Policy {
    let settings = Settings { schedule: Schedule::ByHand, ..Settings::default() };
    Policy::new(settings).expect("the defaults can be kept")
}

/// Who was heard, and who should be.
pub struct Heard {
    pub acknowledgements: BTreeMap<String, Acknowledgement>,
    pub expected: BTreeSet<String>,
}

/// The next step of whoever rotates, and how many epochs it was. Keys are made by number. Nothing but signers is waited for.
pub fn step(ring: &mut KeyRing, made: &mut u8, policy: &Policy, heard: Heard) -> u64 {
    ring.pass(Passage {
        elapsed: Duration::from_secs(1 << 30),
        now: WallTime(1),
        acknowledgements: &heard.acknowledgements,
        expected_signers: &heard.expected,
        used_elsewhere: &BTreeSet::new(),
        tried: &BTreeMap::new(),
        allowed: TokenLifetimes::both(3600),
    });
    let fresh = key(made.wrapping_add(1));
    let observed = Observations {
        now: WallTime(1),
        acknowledgements: heard.acknowledgements,
        expected_signers: heard.expected,
        held: vec![fresh.clone()],
        ..Observations::default()
    };
    let plan = plan(ring, policy, &observed);
    let is_seen = |guards: &[Guard]| guards.iter().all(|guard| *guard == Guard::NotVisible);
    let blocked =
        plan.blocked.iter().filter(|blocked| is_seen(&blocked.guards())).map(|blocked| &blocked.step);
    let Some(step) = plan.steps.iter().map(|planned| &planned.step).chain(blocked).next() else { return 0 };
    let epoch = ring.position().epoch;
    *ring = ring.apply(step).expect("what is planned is possible");
    *made = made.wrapping_add(u8::from(ring.key(fresh.key_id()).is_some()));
    ring.position().epoch - epoch
}

#[derive(Clone)]
pub struct Node {
    /// What is in its files.
    pub disk: NodeKeys,
    /// What comes first in the file of those that verify.
    first: Option<KeyId>,
    /// Whether its process was killed between the two files.
    pub is_cut: bool,
    /// What its kube-apiserver has read; nothing while it does not run.
    pub server: Option<NodeKeys>,
    pub acknowledged: Option<Acknowledgement>,
    /// The ring as it has read it last.
    read: KeyRing,
    /// Whether the process remembers that it asked for a restart.
    remembers: bool,
    /// Whether its kube-apiserver is down because of us.
    restarts: bool,
    pub restarted: usize,
}

pub struct World {
    pub ring: KeyRing,
    pub nodes: Vec<Node>,
    pub turn: Option<String>,
    pub rotations: u64,
    made: u8,
    policy: Policy,
}

impl World {
    /// Every kube-apiserver signs and verifies with the one key that was adopted.
    pub fn new() -> Self {
        Self::of(adopted())
    }

    /// The same, and by the ring signs a key that no kube-apiserver has ever read. Every node was heard once: a key is not waited
    /// for on behalf of one that nobody has heard.
    pub fn with_a_key_of_elsewhere() -> Self {
        let elsewhere = AdoptedKey { public_key: key(200), signs: true, custody: Custody::Held };
        let theirs = AdoptedKey { public_key: key(0), signs: false, custody: Custody::Elsewhere };
        let adopted = KeyRing::new().request(&Request::Adopt(vec![elsewhere, theirs]));
        let mut world = Self::of(adopted.expect("an empty ring"));
        (0..NAMES.len()).for_each(|number| _ = world.act(number));
        world.rotate();
        world
    }

    fn of(ring: KeyRing) -> Self {
        let keys = NodeKeys { signs: Some(kid(0)), verifies: BTreeSet::from([kid(0)]) };
        let node = Node {
            disk: keys.clone(),
            first: Some(kid(0)),
            is_cut: false,
            server: Some(keys),
            acknowledged: None,
            read: ring.clone(),
            remembers: false,
            restarts: false,
            restarted: 0,
        };
        Self { ring, nodes: vec![node; NAMES.len()], turn: None, rotations: 0, made: 0, policy: by_hand() }
    }

    pub fn look(&mut self, number: usize) {
        self.nodes[number].read = self.ring.clone();
    }

    /// What a node would do by what it has read.
    pub fn decides(&self, number: usize) -> Rollout {
        let node = &self.nodes[number];
        decide(&NodeView {
            ring: &node.read,
            name: NAMES[number],
            expected: &NAMES.map(str::to_owned).into(),
            acknowledged: node.acknowledged.as_ref(),
            signs_at_most: TokenLifetimes::both(3600),
            files: &node.disk,
            first: node.first.as_ref(),
            server: node.server.as_ref(),
            turn: self.turn.as_deref(),
            restart: if node.remembers { LastRestart::UnderWay } else { LastRestart::Over },
        })
    }

    pub fn act(&mut self, number: usize) -> Rollout {
        let decided = self.decides(number);
        let node = &mut self.nodes[number];
        if let Rollout::Do { step, .. } = &decided {
            match step.clone() {
                RolloutStep::Acknowledge(said) => node.acknowledged = Some(said),
                RolloutStep::TakeTurn => self.turn = Some(NAMES[number].to_owned()),
                RolloutStep::WriteVerifying(kids) => {
                    let signs = node.disk.signs.clone().filter(|kid| kids.contains(kid));
                    (node.first, node.is_cut) = (signs.or(kids.first().cloned()), false);
                    node.disk.verifies = kids;
                }
                RolloutStep::WriteSigning(kid) => {
                    (node.disk.signs, node.first, node.is_cut) = (Some(kid.clone()), Some(kid), false);
                }
                RolloutStep::Restart => {
                    (node.server, node.remembers, node.restarts) = (None, true, true);
                    node.restarted += 1;
                }
                RolloutStep::GiveTurnBack => self.turn = None,
            }
        }
        decided
    }

    /// As [`World::act`]; killed between two files where it writes them.
    pub fn cut(&mut self, number: usize) {
        let first = self.nodes[number].first.clone();
        if let Rollout::Do { step: RolloutStep::WriteSigning(_), .. } = self.act(number) {
            let node = &mut self.nodes[number];
            (node.is_cut, node.first) = (node.first != first, first);
        }
        self.kill(number);
    }

    /// The process is killed and started again, which has read nothing.
    pub fn kill(&mut self, number: usize) {
        self.nodes[number].remembers = false;
        self.look(number);
    }

    pub fn down(&mut self, number: usize) {
        self.nodes[number].server = None;
    }

    /// Its kube-apiserver starts, for whatever reason, and reads what is there.
    pub fn up(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        (node.server, node.remembers, node.restarts) = (Some(node.disk.clone()), false, false);
    }

    pub fn ask(&mut self, request: &Request) {
        self.ring = self.ring.request(request).unwrap_or_else(|_| self.ring.clone());
    }

    /// One look of whoever rotates. Relying parties see every key at once, and tokens die at once: only nodes are waited for.
    pub fn rotate(&mut self) {
        let acknowledgements: BTreeMap<String, Acknowledgement> = (NAMES.iter().zip(&self.nodes))
            .filter_map(|(name, node)| Some(((*name).to_owned(), node.acknowledged.clone()?)))
            .collect();
        let heard = Heard { acknowledgements, expected: NAMES.map(str::to_owned).into() };
        self.rotations += step(&mut self.ring, &mut self.made, &self.policy, heard);
    }

    /// Everybody goes on for as long as anybody has something to do, and every kube-apiserver comes back.
    pub fn settle(&mut self) {
        for _ in 0..400 {
            let before = (self.ring.position(), self.turn.clone());
            self.rotate();
            let mut is_at_rest = before == (self.ring.position(), self.turn.clone());
            for number in 0..NAMES.len() {
                self.look(number);
                is_at_rest &= !matches!(self.act(number), Rollout::Do { .. });
                if self.nodes[number].server.is_none() {
                    self.up(number);
                    is_at_rest = false;
                }
            }
            if is_at_rest {
                return;
            }
        }
        panic!("they go on for ever: {:?}", (0..3).map(|number| self.decides(number)).collect::<Vec<_>>());
    }

    /// What must never be.
    pub fn violation(&self) -> Option<String> {
        let down = self.nodes.iter().filter(|node| node.restarts).count();
        if down > 1 {
            return Some(format!("{down} nodes restart at a time"));
        }
        for (node, name) in self.nodes.iter().zip(NAMES).filter(|(node, _)| !node.is_cut) {
            let is_first =
                |kid: &KeyId| !node.disk.verifies.contains(kid) || node.first.as_ref() == Some(kid);
            if !node.disk.signs.as_ref().is_some_and(is_first) {
                return Some(format!(
                    "{name} has {:?} first, and signs with {:?}",
                    node.first, node.disk.signs
                ));
            }
        }
        let running =
            || self.nodes.iter().zip(NAMES).filter_map(|(node, name)| Some((name, node.server.as_ref()?)));
        for (name, server) in running() {
            let Some(kid) = &server.signs else { return Some(format!("{name} signs with nothing")) };
            match self.ring.tombstone(kid).map(|over| over.state) {
                Some(KeyState::Revoked) => continue,
                Some(state) => return Some(format!("{name} signs with {kid}, which is {state}")),
                None => {}
            }
            let rejects = |(_, other): &(&str, &NodeKeys)| !other.verifies.contains(kid);
            if let Some((other, _)) = running().find(rejects) {
                return Some(format!("{other} rejects what {name} signs with {kid}"));
            }
        }
        None
    }

    pub fn restarts(&self) -> Vec<usize> {
        self.nodes.iter().map(|node| node.restarted).collect()
    }
}

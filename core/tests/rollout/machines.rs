//! A control plane whose machines are made from a Secret: whatever happens in whatever order, no machine signs what another one
//! rejects.

use std::collections::{BTreeMap, BTreeSet};

use chancery_core::KeyRing;
use chancery_core::ring::{Acknowledgement, KeyState, Request, TokenLifetimes};
use chancery_core::rollout::{MachinesRollout, MachinesStep, MachinesView, NodeKeys, decide_machines};
use chancery_core::rotation::Policy;
use proptest::prelude::*;

use crate::world::{Heard, adopted, by_hand, kid, step};

mod cases;

const NAME: &str = "prod";

struct Machine {
    keys: NodeKeys,
    made: u64,
}

struct World {
    ring: KeyRing,
    read: KeyRing,
    secret: NodeKeys,
    written: u64,
    rolled: Option<NodeKeys>,
    /// When the roll that is written down was asked for, if nobody doubts it.
    asked: Option<u64>,
    /// What the control plane itself says of that.
    after: u64,
    machines: Vec<Machine>,
    acknowledged: Option<Acknowledgement>,
    clock: u64,
    rolls: usize,
    rotations: u64,
    made: u8,
    policy: Policy,
}

impl World {
    fn new() -> Self {
        let keys = NodeKeys { signs: Some(kid(0)), verifies: BTreeSet::from([kid(0)]) };
        let machines = (0..3).map(|_| Machine { keys: keys.clone(), made: 0 }).collect();
        Self {
            ring: adopted(),
            read: adopted(),
            secret: keys,
            written: 0,
            rolled: None,
            asked: None,
            after: 0,
            machines,
            acknowledged: None,
            clock: 1,
            rolls: 0,
            rotations: 0,
            made: 0,
            policy: by_hand(),
        }
    }

    fn view(&self) -> MachinesView<'_> {
        let is_old = self.machines.iter().any(|machine| machine.made < self.asked.unwrap_or(0));
        MachinesView {
            ring: &self.read,
            acknowledged: self.acknowledged.as_ref(),
            signs_at_most: TokenLifetimes::both(3600),
            secret: self.secret.clone(),
            rolled: self.rolled.clone(),
            is_asked: self.asked.is_some_and(|asked| asked <= self.after),
            under_way: (is_old || self.machines.len() != 3).then(|| "machines are made".to_owned()),
        }
    }

    fn act(&mut self) -> MachinesRollout {
        let decided = decide_machines(&self.view());
        if let MachinesRollout::Do { step, .. } = &decided {
            self.clock += 1;
            match step.clone() {
                MachinesStep::Acknowledge(said) => self.acknowledged = Some(said),
                MachinesStep::Doubt => self.asked = None,
                MachinesStep::Write(keys) => (self.secret, self.written) = (keys, self.clock),
                MachinesStep::Roll(keys) => {
                    assert_eq!(keys, self.secret);
                    self.after = self.after.max(self.written + 1);
                    (self.rolled, self.asked) = (Some(keys), Some(self.after));
                    self.clock = self.clock.max(self.after);
                    self.rolls += 1;
                }
            }
        }
        decided
    }

    /// A machine is made from the Secret, for whatever reason.
    fn make(&mut self) {
        self.clock += 1;
        self.machines.push(Machine { keys: self.secret.clone(), made: self.clock });
    }

    /// Cluster API's next step: one machine more, then the oldest one less.
    fn reconcile(&mut self) {
        let is_old = self.machines.iter().any(|machine| machine.made < self.after);
        match self.machines.len() > 3 {
            true => _ = self.machines.remove(0),
            false if is_old => self.make(),
            false => {}
        }
    }

    fn rotate(&mut self) {
        let said = self.acknowledged.clone().map(|said| (NAME.to_owned(), said));
        let acknowledgements: BTreeMap<_, _> = said.into_iter().collect();
        let heard = Heard { acknowledgements, expected: BTreeSet::from([NAME.to_owned()]) };
        self.rotations += step(&mut self.ring, &mut self.made, &self.policy, heard);
    }

    fn ask(&mut self, request: &Request) {
        self.ring = self.ring.request(request).unwrap_or_else(|_| self.ring.clone());
    }

    fn settle(&mut self) {
        for _ in 0..400 {
            let before = (self.ring.position(), self.machines.len(), self.clock);
            self.rotate();
            self.read = self.ring.clone();
            let decided = self.act();
            self.reconcile();
            if before == (self.ring.position(), self.machines.len(), self.clock) {
                assert_eq!(decided, MachinesRollout::Done, "{:?}", self.view());
                return;
            }
        }
        panic!("it goes on for ever: {:?}", self.view());
    }

    fn violation(&self) -> Option<String> {
        for machine in &self.machines {
            let Some(kid) = &machine.keys.signs else {
                return Some("a machine signs with nothing".to_owned());
            };
            match self.ring.tombstone(kid).map(|over| over.state) {
                Some(KeyState::Revoked) => continue,
                Some(state) => return Some(format!("a machine signs with {kid}, which is {state}")),
                None => {}
            }
            if self.machines.iter().any(|other| !other.keys.verifies.contains(kid)) {
                return Some(format!(
                    "a machine rejects what another one signs with {kid}: {:?}",
                    self.view()
                ));
            }
        }
        None
    }
}

#[derive(Clone, Debug)]
enum Op {
    Look,
    Act,
    Reconcile,
    Make,
    Rotate,
    AskToRotate,
    RollBack,
    TaintActive,
    RevokeActive,
    RevokeStandby,
    TakeTheRollBack,
}

fn any_op() -> impl Strategy<Value = Op> {
    let odd = prop_oneof![
        Just(Op::RollBack),
        Just(Op::TaintActive),
        Just(Op::RevokeActive),
        Just(Op::RevokeStandby),
        Just(Op::TakeTheRollBack),
    ];
    prop_oneof![
        20 => Just(Op::Look),
        30 => Just(Op::Act),
        30 => Just(Op::Reconcile),
        3 => Just(Op::Make),
        30 => Just(Op::Rotate),
        8 => Just(Op::AskToRotate),
        1 => odd,
    ]
}

fn take(world: &mut World, op: &Op) {
    let kid = |world: &World, state| world.ring.in_state(state).next().map(|key| key.kid().clone());
    let (active, standby) = (kid(world, KeyState::Active), kid(world, KeyState::Published));
    let revoke = |kid| Request::Revoke { kid, at_once: false };
    match op {
        Op::Look => world.read = world.ring.clone(),
        Op::Act => _ = world.act(),
        Op::Reconcile => world.reconcile(),
        Op::Make => world.make(),
        Op::Rotate => world.rotate(),
        Op::AskToRotate => world.ask(&Request::RotateNow),
        Op::RollBack => world.ask(&Request::RollBack),
        Op::TaintActive => active.into_iter().for_each(|kid| world.ask(&Request::Taint(kid))),
        Op::RevokeActive => active.into_iter().for_each(|kid| world.ask(&revoke(kid))),
        Op::RevokeStandby => standby.into_iter().for_each(|kid| world.ask(&revoke(kid))),
        Op::TakeTheRollBack => world.after = 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    #[test]
    fn no_order_of_rolls_repairs_and_crashes_rejects_a_token(ops in prop::collection::vec(any_op(), 1..1200)) {
        let mut world = World::new();
        for op in &ops {
            take(&mut world, op);
            prop_assert_eq!(world.violation(), None, "after {:?}", op);
        }
        world.settle();
        prop_assert_eq!(world.violation(), None, "at last");
        let active = world.ring.active().map(|key| key.kid().clone());
        prop_assert!(world.machines.iter().all(|machine| machine.keys.signs == active));
        let before = world.rotations;
        world.ask(&Request::RotateNow);
        world.settle();
        prop_assert_eq!(world.rotations, before + 1, "the next rotation is possible");
    }
}

//! Whatever happens in whatever order, no node signs what another one rejects, and one at a time restarts.

use chancery_core::ring::{KeyState, Request};
use proptest::prelude::*;

use crate::world::World;

#[derive(Clone, Debug)]
enum Op {
    Look(usize),
    Act(usize),
    Kill(usize),
    Cut(usize),
    Down(usize),
    Up(usize),
    Rotate,
    AskToRotate,
    RollBack,
    TaintActive,
    TaintStandby,
    RevokeActive,
}

fn any_op() -> impl Strategy<Value = Op> {
    let node = || 0..3_usize;
    let odd = prop_oneof![
        Just(Op::RollBack),
        Just(Op::TaintActive),
        Just(Op::TaintStandby),
        Just(Op::RevokeActive),
    ];
    prop_oneof![
        25 => node().prop_map(Op::Look),
        60 => node().prop_map(Op::Act),
        2 => node().prop_map(Op::Kill),
        2 => node().prop_map(Op::Cut),
        1 => node().prop_map(Op::Down),
        25 => node().prop_map(Op::Up),
        40 => Just(Op::Rotate),
        10 => Just(Op::AskToRotate),
        1 => odd,
    ]
}

fn take(world: &mut World, op: &Op) {
    let kid = |world: &World, state| world.ring.in_state(state).next().map(|key| key.kid().clone());
    let (active, standby) = (kid(world, KeyState::Active), kid(world, KeyState::Published));
    match op {
        Op::Look(number) => world.look(*number),
        Op::Act(number) => _ = world.act(*number),
        Op::Kill(number) => world.kill(*number),
        Op::Cut(number) => world.cut(*number),
        Op::Down(number) => world.down(*number),
        Op::Up(number) => world.up(*number),
        Op::Rotate => world.rotate(),
        Op::AskToRotate => world.ask(&Request::RotateNow),
        Op::RollBack => world.ask(&Request::RollBack),
        Op::TaintActive => active.into_iter().for_each(|kid| world.ask(&Request::Taint(kid))),
        Op::TaintStandby => standby.into_iter().for_each(|kid| world.ask(&Request::Taint(kid))),
        Op::RevokeActive => {
            active.into_iter().for_each(|kid| world.ask(&Request::Revoke { kid, at_once: false }));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    #[test]
    fn no_order_of_crashes_rejects_a_token_or_restarts_two(
        is_of_elsewhere in any::<bool>(),
        ops in prop::collection::vec(any_op(), 1..1200),
    ) {
        let mut world = if is_of_elsewhere { World::with_a_key_of_elsewhere() } else { World::new() };
        for op in &ops {
            take(&mut world, op);
            prop_assert_eq!(world.violation(), None, "after {:?}", op);
        }
        world.settle();
        prop_assert_eq!(world.violation(), None, "at last");
        prop_assert_eq!(&world.turn, &None);
        let active = world.ring.active().map(|key| key.kid().clone());
        for node in &world.nodes {
            prop_assert_eq!(node.server.as_ref().and_then(|server| server.signs.clone()), active.clone());
            prop_assert!(!node.is_cut, "kubeadm finds the keys in order at last");
        }
        world.ask(&Request::RotateNow);
        let before = world.rotations;
        world.settle();
        prop_assert_eq!(world.rotations, before + 1, "the next rotation is possible");
    }
}

#[test]
fn a_rotation_takes_one_restart_of_each_node_and_the_first_one_two() {
    let mut world = World::new();
    world.settle();
    assert_eq!(world.restarts(), [1, 1, 1], "the first standby");
    for number in 1..=20_usize {
        world.ask(&Request::RotateNow);
        world.settle();
        assert_eq!((world.rotations, world.restarts()), (number as u64, vec![1 + number; 3]));
    }
}

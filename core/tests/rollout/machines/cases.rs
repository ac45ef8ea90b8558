//! Case by case: what is next for a control plane of machines.

use std::collections::BTreeSet;

use chancery_core::KeyRing;
use chancery_core::ring::{Request, Step};
use chancery_core::rollout::{MachinesRollout, MachinesStep, MachinesWait, NodeKeys, foresee_machines};

use super::World;
use crate::world::{adopted, key, kid};

#[test]
fn a_rotation_takes_one_roll_and_the_first_one_two() {
    let mut world = World::new();
    world.settle();
    assert_eq!((world.rolls, world.machines.len()), (1, 3), "the first standby");
    for number in 1..=20_usize {
        world.ask(&Request::RotateNow);
        world.settle();
        assert_eq!((world.rotations, world.rolls), (number as u64, 1 + number));
    }
}

/// A control plane at rest: the ring's key 0 signs, key 1 is the standby, and machines have both.
fn at_rest() -> World {
    let mut world = World::new();
    world.settle();
    assert_eq!(world.secret, NodeKeys { signs: Some(kid(0)), verifies: BTreeSet::from([kid(0), kid(1)]) });
    world
}

#[test]
fn the_secret_stays_as_it_is_while_machines_are_made() {
    let mut world = at_rest();
    world.make();
    world.ask(&Request::RotateNow);
    for _ in 0..10 {
        world.rotate();
        world.read = world.ring.clone();
        let secret = world.secret.clone();
        let decided = world.act();
        assert!(!matches!(
            &decided,
            MachinesRollout::Do { step: MachinesStep::Write(_) | MachinesStep::Roll(_), .. }
        ));
        assert_eq!(world.secret, secret);
    }
    assert_eq!(world.act(), MachinesRollout::Wait(MachinesWait::UnderWay("machines are made".to_owned())));
    world.settle();
    assert_eq!((world.rotations, world.rolls), (1, 2));
}

#[test]
fn keys_that_somebody_else_has_put_there_are_replaced_and_what_was_made_of_them_is_made_anew() {
    let older = NodeKeys { signs: Some(kid(0)), verifies: BTreeSet::from([kid(0)]) };
    let unknown = NodeKeys { signs: Some(kid(9)), verifies: BTreeSet::from([kid(9)]) };
    let added = NodeKeys { signs: Some(kid(9)), verifies: [0, 1, 9].map(kid).into() };
    for foreign in [older, unknown, added, NodeKeys::default()] {
        let mut world = at_rest();
        let before = world.secret.clone();
        world.secret = foreign.clone();
        world.make();
        world.machines.remove(0);
        let steps: Vec<_> = foresee_machines(&world.view()).steps.into_iter().map(|(step, _)| step).collect();
        let [.., MachinesStep::Doubt, MachinesStep::Write(written), MachinesStep::Roll(_)] = &steps[..]
        else {
            panic!("{steps:?}")
        };
        assert!(written.signs == before.signs && written.verifies.is_superset(&before.verifies));
        world.settle();
        assert!(world.machines.iter().all(|machine| machine.keys == *written), "{foreign:?}");
    }
}

#[test]
fn what_was_not_adopted_is_left_alone() {
    let mut world = World::new();
    world.secret = NodeKeys { signs: Some(kid(9)), verifies: BTreeSet::from([kid(9)]) };
    assert_eq!(world.act(), MachinesRollout::Wait(MachinesWait::SignsUnknown(Some(kid(9)))));
    world.secret = NodeKeys::default();
    assert_eq!(world.act(), MachinesRollout::Wait(MachinesWait::SignsUnknown(None)));
}

#[test]
fn an_older_ring_decides_nothing_of_machines() {
    let mut world = at_rest();
    world.read = adopted();
    assert!(matches!(world.act(), MachinesRollout::Wait(MachinesWait::RingFromThePast { .. })));
}

#[test]
fn keys_that_the_ring_does_not_know_stay_in_the_secret() {
    let mut world = World::new();
    world.secret.verifies.insert(kid(9));
    world.settle();
    assert_eq!(world.secret.verifies, [0, 1, 9].map(kid).into());
}

/// A control plane at rest of which something is asked, once the ring is so.
fn asked(request: &Request, is_so: impl Fn(&KeyRing) -> bool) -> World {
    let mut world = at_rest();
    world.ask(request);
    let is_reached = (0..20).any(|_| {
        world.rotate();
        is_so(&world.ring)
    });
    assert!(is_reached, "{:?}", world.ring);
    world.read = world.ring.clone();
    world
}

#[test]
fn a_key_that_must_not_sign_waits_for_no_standby() {
    for (request, is_exchanged) in [(Request::RotateNow, false), (Request::Taint(kid(0)), true)] {
        let world = asked(&request, |ring| ring.active().is_some_and(|key| *key.kid() == kid(1)));
        let foreseen = foresee_machines(&world.view());
        let exchanges =
            |step: &MachinesStep| matches!(step, MachinesStep::Write(keys) if keys.signs == Some(kid(1)));
        assert_eq!(foreseen.steps.iter().any(|(step, _)| exchanges(step)), is_exchanged, "{foreseen}");
    }
}

#[test]
fn a_standby_that_will_never_sign_is_not_rolled_for() {
    let mut world = asked(&Request::RotateNow, |ring| ring.key(&kid(2)).is_some());
    let rolls = |world: &World| {
        let steps = foresee_machines(&world.view()).steps;
        steps.iter().any(|(step, _)| matches!(step, MachinesStep::Roll(_)))
    };
    assert!(rolls(&world));
    world.ask(&Request::Taint(kid(2)));
    world.read = world.ring.clone();
    assert!(!rolls(&world), "{}", foresee_machines(&world.view()));
}

#[test]
fn a_standby_in_the_place_of_a_tainted_one_is_rolled_out_while_the_same_key_signs() {
    let mut world = at_rest();
    world.ask(&Request::Taint(kid(1)));
    world.settle();
    let has_it = |keys: &NodeKeys| keys.signs == Some(kid(0)) && keys.verifies.contains(&kid(2));
    assert!(world.machines.iter().all(|machine| has_it(&machine.keys)), "{:?}", world.view());
    assert_eq!(world.rolls, 2);
}

#[test]
fn a_key_that_is_revoked_at_once_is_gone_with_one_roll() {
    let mut world = at_rest();
    world.ask(&Request::Revoke { kid: kid(0), at_once: true });
    world.settle();
    assert_eq!(world.rolls, 2, "{:?}", world.view());
    assert!(world.machines.iter().all(|machine| !machine.keys.verifies.contains(&kid(0))));
}

#[test]
fn what_machines_have_is_in_doubt_until_all_were_made_anew() {
    let mut world = at_rest();
    world.asked = None;
    world.ask(&Request::RotateNow);
    (0..4).for_each(|_| world.rotate());
    world.read = world.ring.clone();
    assert_eq!(world.rotations, 1, "the ring goes on by what was said before");
    let steps = foresee_machines(&world.view()).steps;
    let written = steps.iter().find_map(|(step, _)| match step {
        MachinesStep::Write(keys) => Some(keys),
        _ => None,
    });
    let written = written.unwrap_or_else(|| panic!("{steps:?}"));
    assert!(written.signs == Some(kid(0)) && written.verifies.contains(&kid(2)), "{written:?}");
    world.settle();
    assert!(world.machines.iter().all(|machine| machine.keys.signs == Some(kid(1))));
}

#[test]
fn the_first_roll_waits_for_the_first_standby() {
    assert_eq!(World::new().act(), MachinesRollout::Wait(MachinesWait::NextStandby));
}

#[test]
fn a_key_that_machines_lack_is_not_put_there_to_sign() {
    let mut world = at_rest();
    let steps = [
        Step::Activate(kid(1)),
        Step::Enter(key(2)),
        Step::Publish(kid(2)),
        Step::Activate(kid(2)),
        Step::Enter(key(3)),
    ];
    world.read = steps.iter().fold(world.read, |ring, step| ring.apply(step).expect("a possible step"));
    let steps = foresee_machines(&world.view()).steps;
    let [(MachinesStep::Acknowledge(_), _), (MachinesStep::Write(written), _), ..] = &steps[..] else {
        panic!("{steps:?}")
    };
    assert!(written.signs == Some(kid(0)) && written.verifies.contains(&kid(2)), "{written:?}");
}

#[test]
fn a_key_whose_tokens_are_refused_is_exchanged_whatever_is_known_of_machines() {
    let at_once = Request::Revoke { kid: kid(0), at_once: true };
    let mut world = asked(&at_once, |ring| ring.tombstone(&kid(0)).is_some() && ring.active().is_some());
    world.asked = None;
    let steps = foresee_machines(&world.view()).steps;
    let written = steps.iter().find_map(|(step, _)| match step {
        MachinesStep::Write(keys) => keys.signs.clone(),
        _ => None,
    });
    assert_eq!(written, Some(kid(1)), "{steps:?}");
}

#[test]
fn a_revoked_key_that_does_not_sign_leaves_machines_too() {
    let at_once = Request::Revoke { kid: kid(1), at_once: true };
    let world = asked(&at_once, |ring| ring.tombstone(&kid(1)).is_some());
    assert!(world.read.key(&kid(2)).is_none(), "nothing else asks for a roll");
    let steps = foresee_machines(&world.view()).steps;
    assert!(steps.iter().any(|(step, _)| matches!(step, MachinesStep::Roll(_))), "{steps:?}");
}

#[test]
fn a_key_is_loaded_when_every_machine_has_it_and_those_to_come() {
    let loaded = |world: &World| world.acknowledged.as_ref().map(|said| said.loaded.clone());
    let mut world = asked(&Request::RotateNow, |ring| ring.key(&kid(2)).is_some());
    while world.rolls < 2 {
        world.act();
    }
    world.act();
    assert_eq!(loaded(&world), Some([0, 1].map(kid).into()), "machines without key 2 are there still");
    let mut world = at_rest();
    world.secret.verifies.remove(&kid(1));
    world.act();
    assert_eq!(loaded(&world), Some([kid(0)].into()), "machines to come do not have key 1");
}

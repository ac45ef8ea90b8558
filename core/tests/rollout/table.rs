//! What one node does next, case by case.

use std::collections::{BTreeMap, BTreeSet};

use chancery_core::ring::{Acknowledgement, Passage, Request, Step, TokenLifetimes, WallTime};
use chancery_core::rollout::{
    LastRestart, NodeKeys, NodeView, Rollout, RolloutStep, RolloutWait, decide, foresee,
};
use chancery_core::{KeyId, KeyRing};

use crate::world::{adopted, key, kid};

fn keys(signs: u8, verifies: &[u8]) -> NodeKeys {
    NodeKeys { signs: Some(kid(signs)), verifies: kids(verifies) }
}

fn kids(numbers: &[u8]) -> BTreeSet<KeyId> {
    numbers.iter().map(|number| kid(*number)).collect()
}

fn take(ring: &KeyRing, steps: &[Step]) -> KeyRing {
    steps.iter().fold(ring.clone(), |ring, step| ring.apply(step).expect("a possible step"))
}

/// Of two nodes, the other one has said that it has these keys.
fn heard(ring: &KeyRing, loaded: &[u8]) -> KeyRing {
    let said =
        Acknowledgement { loaded: kids(loaded), position: ring.position(), ..Acknowledgement::default() };
    let mut ring = ring.clone();
    ring.pass(Passage {
        elapsed: std::time::Duration::ZERO,
        now: WallTime(1),
        acknowledgements: &[("b".to_owned(), said)].into(),
        expected_signers: &BTreeSet::new(),
        used_elsewhere: &BTreeSet::new(),
        tried: &BTreeMap::new(),
        allowed: TokenLifetimes::both(60),
    });
    ring
}

/// Key 0 signs, key 1 is the standby, and the other node has both.
fn begun() -> KeyRing {
    heard(&take(&adopted(), &[Step::Enter(key(1)), Step::Publish(kid(1))]), &[0, 1])
}

/// Key 1 signs, and nothing comes after it yet.
fn activated() -> KeyRing {
    take(&begun(), &[Step::Activate(kid(1))])
}

/// Key 1 signs, and key 2 comes after it.
fn followed() -> KeyRing {
    take(&activated(), &[Step::Enter(key(2))])
}

struct Case<'a> {
    ring: KeyRing,
    files: NodeKeys,
    /// What comes first in the file of those that verify; the key that signs when missing.
    first: Option<KeyId>,
    server: Option<NodeKeys>,
    turn: Option<&'a str>,
    restart: LastRestart,
}

impl Case<'_> {
    fn of(ring: KeyRing, has: NodeKeys) -> Self {
        let (files, server) = (has.clone(), Some(has));
        Self { ring, files, first: None, server, turn: None, restart: LastRestart::Over }
    }

    /// What it does once it has acknowledged what it shows.
    fn decides(&self) -> Rollout {
        let expected = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        let view = |acknowledged| NodeView {
            ring: &self.ring,
            name: "a",
            expected: &expected,
            acknowledged,
            signs_at_most: TokenLifetimes::both(60),
            files: &self.files,
            first: self.first.as_ref().or(self.files.signs.as_ref()),
            server: self.server.as_ref(),
            turn: self.turn,
            restart: self.restart,
        };
        match decide(&view(None)) {
            Rollout::Do { step: RolloutStep::Acknowledge(said), .. } => decide(&view(Some(&said))),
            other => other,
        }
    }

    /// The first word of everything that it would do.
    fn foresees(&self) -> Vec<String> {
        let view = NodeView {
            ring: &self.ring,
            name: "a",
            expected: &BTreeSet::from(["a".to_owned(), "b".to_owned()]),
            acknowledged: None,
            signs_at_most: TokenLifetimes::both(60),
            files: &self.files,
            first: self.first.as_ref().or(self.files.signs.as_ref()),
            server: self.server.as_ref(),
            turn: self.turn,
            restart: self.restart,
        };
        let words = foresee(&view).steps.into_iter().map(|(step, _)| step.to_string());
        words.filter_map(|words| words.split(' ').next().map(str::to_owned)).collect()
    }

    fn step(&self) -> RolloutStep {
        match self.decides() {
            Rollout::Do { step, .. } => step,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_restart_goes_step_by_step() {
    let ours = Some("a");
    let old = keys(0, &[0, 1]);
    let case = || Case::of(followed(), old.clone());
    assert_eq!(case().step(), RolloutStep::TakeTurn);
    assert_eq!(case().foresees(), ["say", "take", "write", "write", "restart", "acknowledge", "give"]);
    assert_eq!(
        Case { turn: Some("b"), ..case() }.decides(),
        Rollout::Wait(RolloutWait::TurnOf("b".to_owned()))
    );
    let case = || Case { turn: ours, ..case() };
    assert_eq!(case().step(), RolloutStep::WriteVerifying(kids(&[0, 1, 2])));
    let case = || Case { files: keys(0, &[0, 1, 2]), ..case() };
    assert_eq!(case().step(), RolloutStep::WriteSigning(kid(1)));
    let case = || Case { files: keys(1, &[0, 1, 2]), ..case() };
    assert_eq!(case().step(), RolloutStep::Restart);
    let wait = |restart| Case { restart, ..case() }.decides();
    assert_eq!(wait(LastRestart::UnderWay), Rollout::Wait(RolloutWait::Restarting));
    assert_eq!(wait(LastRestart::InVain), Rollout::Wait(RolloutWait::InVain));
    assert_eq!(Case { server: None, ..case() }.decides(), Rollout::Wait(RolloutWait::NotReady));
    let case = || Case { server: Some(keys(1, &[0, 1, 2])), ..case() };
    assert_eq!(case().step(), RolloutStep::GiveTurnBack);
    assert_eq!(Case { turn: None, ..case() }.decides(), Rollout::Done);
}

#[test]
fn what_makes_a_restart_due_and_what_waits() {
    let tainted = |ring: KeyRing, number| ring.request(&Request::Taint(kid(number))).expect("a key");
    let wait = |ring, has| Case::of(ring, has).decides();
    let due = |ring, has| assert_eq!(Case::of(ring, has).step(), RolloutStep::TakeTurn);

    assert_eq!(wait(begun(), keys(0, &[0, 1])), Rollout::Done);
    due(begun(), keys(0, &[0])); // the first standby
    assert_eq!(wait(tainted(begun(), 1), keys(0, &[0])), Rollout::Done, "a standby that never signs");
    assert_eq!(wait(activated(), keys(0, &[0, 1])), Rollout::Wait(RolloutWait::NextStandby));
    due(tainted(activated(), 0), keys(0, &[0, 1])); // what signs must not
    due(followed(), keys(0, &[0, 1]));
    due(activated(), keys(1, &[1])); // its neighbours' tokens are rejected
    due(take(&activated(), &[Step::Revoke(kid(0))]), keys(1, &[0, 1]));
    let retired = take(&activated(), &[Step::Retire(kid(0))]);
    assert_eq!(wait(retired, keys(1, &[0, 1])), Rollout::Done, "it leaves with the next restart");
}

#[test]
fn nothing_is_signed_with_that_another_node_rejects() {
    let nobody_heard =
        take(&adopted(), &[Step::Enter(key(1)), Step::Publish(kid(1)), Step::Activate(kid(1))]);
    let without = heard(&nobody_heard, &[0]);
    for ring in [nobody_heard, without] {
        let waits =
            Rollout::Wait(RolloutWait::OthersDoNotVerify { kid: kid(1), nodes: vec!["b".to_owned()] });
        assert_eq!(Case::of(ring.clone(), keys(0, &[0, 1])).decides(), waits);
        // It may verify with what it may not sign with.
        let ring = take(&ring, &[Step::Enter(key(2))]);
        let case = Case { turn: Some("a"), ..Case::of(ring, keys(0, &[0, 1])) };
        assert_eq!(case.step(), RolloutStep::WriteVerifying(kids(&[0, 1, 2])));
        let case = Case { files: keys(0, &[0, 1, 2]), ..case };
        assert_eq!(case.step(), RolloutStep::Restart);
    }
}

#[test]
fn files_that_somebody_has_removed_are_written_again() {
    let whole = Case::of(begun(), keys(0, &[0, 1]));
    let case = || Case {
        files: NodeKeys::default(),
        server: whole.server.clone(),
        ..Case::of(begun(), keys(0, &[0]))
    };
    assert_eq!(case().step(), RolloutStep::WriteVerifying(kids(&[0, 1])));
    let case = Case { files: NodeKeys { signs: None, verifies: kids(&[0, 1]) }, ..case() };
    assert_eq!(case.step(), RolloutStep::WriteSigning(kid(0)));
    let case = Case { files: keys(9, &[0, 1]), ..case };
    assert_eq!(case.step(), RolloutStep::WriteSigning(kid(0)), "of another cluster");
}

#[test]
fn the_key_that_signs_comes_first_among_those_that_verify() {
    let first = |number| Some(kid(number));
    let at_rest = |number| Case { first: first(number), ..Case::of(begun(), keys(0, &[0, 1])) };
    assert_eq!(at_rest(0).decides(), Rollout::Done);
    assert_eq!(at_rest(1).step(), RolloutStep::WriteVerifying(kids(&[0, 1])), "with no turn and no restart");
    let waiting = Case { first: first(1), ..Case::of(activated(), keys(0, &[0, 1])) };
    assert_eq!(waiting.step(), RolloutStep::WriteVerifying(kids(&[0, 1])), "though 1 signs by the ring");
    // A process that was killed between the two files goes on where it was, before anything starts again.
    let cut = Case {
        turn: Some("a"),
        files: keys(1, &[0, 1, 2]),
        first: first(0),
        ..Case::of(followed(), keys(0, &[0, 1]))
    };
    assert_eq!(cut.step(), RolloutStep::WriteVerifying(kids(&[0, 1, 2])));
    // Where the key that signs is not among them, no order helps.
    let alone = Case { first: first(9), ..Case::of(begun(), keys(0, &[1])) };
    assert_eq!(alone.step(), RolloutStep::TakeTurn);
}

#[test]
fn keys_that_the_ring_does_not_know_stay_and_are_not_signed_with() {
    let case = Case::of(followed(), keys(9, &[0, 1, 9]));
    assert_eq!(case.decides(), Rollout::Wait(RolloutWait::SignsUnknown(kid(9))));
    let elsewhere = Case { files: NodeKeys::default(), ..Case::of(followed(), keys(9, &[0, 1, 9])) };
    assert_eq!(elsewhere.decides(), Rollout::Wait(RolloutWait::SignsUnknown(kid(9))), "nothing is written");
    let down = Case { server: None, turn: Some("a"), ..Case::of(followed(), keys(9, &[0, 1, 9])) };
    assert_eq!(down.decides(), Rollout::Wait(RolloutWait::NotReady), "nothing is written");
    let case = Case { turn: Some("a"), ..Case::of(followed(), keys(0, &[0, 1, 9])) };
    assert_eq!(case.step(), RolloutStep::WriteVerifying(kids(&[0, 1, 2, 9])));
}

#[test]
fn what_it_says_is_what_its_kube_apiserver_shows() {
    let ring = activated();
    let said_with = |server: &NodeKeys, files: &NodeKeys, acknowledged: Option<&Acknowledgement>| {
        let view = NodeView {
            ring: &ring,
            name: "a",
            expected: &BTreeSet::new(),
            acknowledged,
            signs_at_most: TokenLifetimes::both(60),
            files,
            first: files.signs.as_ref(),
            server: Some(server),
            turn: None,
            restart: LastRestart::Over,
        };
        match decide(&view) {
            Rollout::Do { step: RolloutStep::Acknowledge(said), .. } => said,
            other => panic!("{other:?}"),
        }
    };
    let said =
        |server: &NodeKeys, acknowledged: Option<&Acknowledgement>| said_with(server, server, acknowledged);
    let before = said(&keys(0, &[0, 1, 9]), None);
    assert_eq!((before.position.epoch, &before.signs, &before.loaded), (0, &Some(kid(0)), &kids(&[0, 1])));
    assert_eq!(before.signed[&kid(0)], TokenLifetimes::both(60));
    let after = said(&keys(1, &[0, 1]), Some(&before));
    assert_eq!((after.position, &after.signs), (ring.position(), &None));
    assert!(after.signed.contains_key(&kid(0)), "it was never said whether that was read");
    let torn = said_with(&keys(1, &[0, 1]), &keys(0, &[0, 1]), Some(&before));
    assert_eq!(
        (torn.position, &torn.signs),
        (before.position, &Some(kid(0))),
        "it would sign so after a restart"
    );
    let back = said(&keys(0, &[0, 1]), Some(&after));
    assert_eq!((back.position, &back.signs), (ring.position(), &Some(kid(0))), "somebody put old files back");
    let mut heard = ring.clone();
    heard.pass(Passage {
        elapsed: std::time::Duration::ZERO,
        now: WallTime(1),
        acknowledgements: &[("a".to_owned(), back)].into(),
        expected_signers: &BTreeSet::new(),
        used_elsewhere: &BTreeSet::new(),
        tried: &BTreeMap::new(),
        allowed: TokenLifetimes::both(60),
    });
    assert!(heard.signing_still(heard.key(&kid(0)).expect("it drains")).contains(&"a"));
}

#[test]
fn an_older_ring_decides_nothing() {
    let later = followed();
    let said = Acknowledgement { position: later.position(), ..Acknowledgement::default() };
    let has = keys(0, &[0]);
    let view = NodeView {
        ring: &begun(),
        name: "a",
        expected: &BTreeSet::new(),
        acknowledged: Some(&said),
        signs_at_most: TokenLifetimes::default(),
        files: &has,
        first: has.signs.as_ref(),
        server: Some(&has),
        turn: Some("a"),
        restart: LastRestart::Over,
    };
    assert!(matches!(decide(&view), Rollout::Wait(RolloutWait::RingFromThePast { .. })));
}

//! Tables for the pure floor.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chancery_core::issuer_keys::IssuerKeys;
use chancery_core::ring::{
    Acknowledgement, AdoptedKey, Custody, HIGHEST_COUNT, KeyState, Passage, Position, Request, RingError,
    Step, TokenLifetimes, WallTime,
};
use chancery_core::rotation::{
    ApiServer, Guard, Motion, Observations, Overlap, Plan, PlanError, Policy, PolicyError, Settings, observe,
    plan,
};
use chancery_core::{Algorithm, KeyId, KeyRing};
use serde_json::json;

use crate::keys::{Number, key};

fn kid(number: Number) -> KeyId {
    key(number).key_id().clone()
}

fn take(ring: &KeyRing, steps: &[Step]) -> KeyRing {
    steps.iter().fold(ring.clone(), |ring, step| ring.apply(step).expect("a possible step"))
}

/// Key 0 signs, key 1 is the standby.
pub fn begun() -> KeyRing {
    let adopted = AdoptedKey { public_key: key(0).clone(), signs: true, custody: Custody::Held };
    let ring = KeyRing::new().request(&Request::Adopt(vec![adopted])).expect("an empty ring");
    take(&ring, &[Step::Enter(key(1).clone()), Step::Publish(kid(1))])
}

fn policy() -> Policy {
    Policy::new(Settings::default()).expect("the defaults can be kept")
}

fn said(ring: &KeyRing, boot: &str, signed: u64) -> Acknowledgement {
    let loaded: BTreeSet<KeyId> =
        ring.verification_keys().map(|key| key.public_key.key_id().clone()).collect();
    let signed = loaded.iter().map(|kid| (kid.clone(), TokenLifetimes::both(signed))).collect();
    Acknowledgement { boot: boot.to_owned(), position: ring.position(), loaded, signed, signs: None }
}

fn hear(before: &KeyRing, said: Acknowledgement, seconds: u64) -> KeyRing {
    let mut ring = before.clone();
    let acknowledgements = BTreeMap::from([("a".to_owned(), said)]);
    ring.pass(Passage {
        elapsed: Duration::from_secs(seconds),
        now: WallTime(1),
        acknowledgements: &acknowledgements,
        expected_signers: &BTreeSet::new(),
        used_elsewhere: &BTreeSet::new(),
        tried: &BTreeMap::new(),
        allowed: TokenLifetimes::both(86_400),
    });
    ring
}

#[test]
fn the_document_keeps_what_a_later_release_wrote() {
    let mut ring = take(&begun(), &[Step::Activate(kid(1)), Step::Retire(kid(0))]);
    ring = hear(&ring, said(&ring, "1", 60), 5);
    let mut document = serde_json::to_value(&ring).expect("a document");
    document["someday"] = json!({ "a": 1 });
    document["keys"][0]["sealedBy"] = json!("an HSM");
    document["tombstones"][0]["reason"] = json!("schedule");
    let read: KeyRing = serde_json::from_value(document.clone()).expect("an older release reads it");
    assert_eq!(serde_json::to_value(&read).expect("a document"), document);
    assert_eq!(document["keys"][0]["state"], "active");
    assert!(
        document["keys"][0]["publicKey"].as_str().is_some_and(|pem| pem.starts_with("-----BEGIN PUBLIC KEY"))
    );
    document["keys"][0]["publicKey"] = json!("nonsense");
    assert!(serde_json::from_value::<KeyRing>(document).is_err(), "a key that is forgotten rejects tokens");
}

#[test]
fn every_step_taken_twice_is_taken_once_and_the_dead_stay_dead() {
    let steps = [
        Step::Enter(key(2).clone()),
        Step::Publish(kid(2)),
        Step::Activate(kid(1)),
        Step::KeepForVerifying(kid(0)),
        Step::Retire(kid(0)),
        Step::Destroy(kid(0)),
        Step::Withdraw(kid(2)),
        Step::Revoke(kid(0)),
        Step::Revoke(kid(1)),
    ];
    let mut ring = begun();
    for step in steps {
        let once = ring.apply(&step).expect("possible");
        assert!(once.position() > ring.position(), "{step}");
        assert_eq!(once.apply(&step).expect("repeated"), once, "{step}");
        ring = once;
    }
    assert_eq!(ring.keys(), []);
    let states: Vec<KeyState> = ring.tombstones().iter().map(|tombstone| tombstone.state).collect();
    assert_eq!(states, [KeyState::Revoked, KeyState::Retired, KeyState::Revoked]);
    for number in 0..3 {
        let back = ring.apply(&Step::Enter(key(number).clone()));
        assert!(matches!(back, Err(RingError::Buried { .. })), "{back:?}");
    }
}

#[test]
fn a_step_from_the_wrong_state_is_refused_in_words() {
    let ring = begun();
    for step in [Step::Retire(kid(0)), Step::Retire(kid(1)), Step::Withdraw(kid(0)), Step::Publish(kid(0))] {
        let refused = ring.apply(&step).expect_err("impossible").to_string();
        assert!(refused.contains(&step.to_string()) && refused.ends_with("plan again"), "{refused}");
    }
    assert!(matches!(ring.apply(&Step::Destroy(kid(1))), Err(RingError::StillNeeded(_))));
    assert!(matches!(ring.apply(&Step::Publish(kid(7))), Err(RingError::NoSuchKey(_))));
    let tainted = ring.request(&Request::Taint(kid(1))).expect("a key");
    assert!(matches!(tainted.apply(&Step::Activate(kid(1))), Err(RingError::MayNotSign(_))));
}

#[test]
fn what_is_published_follows_the_states() {
    let ring = take(&begun(), &[Step::Activate(kid(1)), Step::KeepForVerifying(kid(0))]);
    let excluded: Vec<bool> = ring.verification_keys().map(|key| key.is_excluded).collect();
    assert_eq!(excluded, [true, false]);
    let publish = |ring: &KeyRing| {
        let mut keys = IssuerKeys::new(Duration::ZERO);
        let decision = ring.decision();
        keys.decide(decision).expect("the first");
        keys.import([key(0).clone()]);
        let published = keys.publish().map(|published| published.jwks).expect("a set");
        published.keys().iter().map(|key| key.key_id().clone()).collect::<Vec<_>>()
    };
    assert_eq!(publish(&begun()), [kid(0), kid(1)]);
    assert_eq!(publish(&ring), [kid(1)], "kept for verifying, and not imported");
    assert_eq!(publish(&take(&begun(), &[Step::Revoke(kid(0))])), [kid(1)]);
}

#[test]
fn what_nobody_will_say_counts_as_the_longest_that_was_allowed() {
    let adopted = begun();
    assert!(
        adopted.keys().iter().all(|key| key.signed_in_the_dark == (*key.kid() == kid(0))),
        "nobody was asked"
    );
    let steps = [Step::Activate(kid(1)), Step::Enter(key(2).clone()), Step::Publish(kid(2))];
    let before = take(&adopted, &steps);
    let before = hear(&before, said(&before, "1", 60), 0);
    let rotated = take(&before, &[Step::Activate(kid(2))]);
    let known = |ring: &KeyRing| ring.key(&kid(1)).expect("there").outlived_by();
    let drained = |ring: &KeyRing| ring.key(&kid(1)).expect("there").drained_seconds;

    let ring = hear(&rotated, said(&rotated, "1", 90), 100);
    assert_eq!(known(&ring), TokenLifetimes::both(90), "it has said what it signed");
    assert_eq!(drained(&ring), 0, "it had not stopped before");
    let ring = hear(&ring, said(&ring, "1", 90), 100);
    assert_eq!(drained(&ring), 100);
    let behind = Acknowledgement { position: before.position(), ..said(&ring, "2", 0) };
    assert_eq!(drained(&hear(&ring, behind, 100)), 0, "it came back from an older copy");

    let restarted = hear(&rotated, said(&rotated, "2", 0), 100);
    assert_eq!(known(&restarted), TokenLifetimes::both(86_400), "it was restarted and does not know");

    let forgotten = rotated.request(&Request::ForgetSigner("a".to_owned())).expect("known");
    assert_eq!(known(&forgotten), TokenLifetimes::both(86_400), "it was switched off");
    assert_eq!(forgotten.signers().count(), 0);
    let echo = hear(&forgotten, said(&before, "1", 60), 0);
    assert_eq!(echo.signers().count(), 0, "what it said before is no sign of life");
    let alive = hear(&forgotten, said(&forgotten, "1", 60), 0);
    assert_eq!(alive.signers().count(), 1, "it is waited for again");
    let unknown = rotated.request(&Request::ForgetSigner("b".to_owned()));
    assert!(matches!(unknown, Err(RingError::NoSuchSigner { .. })));
}

#[test]
fn a_reset_is_later_than_whatever_anybody_has_heard() {
    let mut ring = take(&begun(), &[Step::Activate(kid(1))]);
    let ahead = Position { epoch: 40, generation: 3 };
    ring = hear(&ring, Acknowledgement { position: ahead, ..said(&ring, "1", 60) }, 5);
    let blocked = plan(&ring, &policy(), &Observations::default());
    assert!(blocked.steps.is_empty() && blocked.guards().contains(&Guard::RingFromThePast), "{blocked}");
    let reset = ring.request(&Request::Reset).expect("there is room");
    assert_eq!(reset.position(), Position { epoch: 41, generation: 0 });
    assert!(!plan(&reset, &policy(), &Observations::default()).guards().contains(&Guard::RingFromThePast));

    let at = |position: Position| {
        let mut document = serde_json::to_value(begun()).expect("a document");
        document["position"] = serde_json::to_value(position).expect("a position");
        serde_json::from_value::<KeyRing>(document).expect("a ring")
    };
    let poisoned = at(Position { epoch: 3, generation: 1 << 60 });
    assert!(matches!(poisoned.request(&Request::RotateNow), Err(RingError::Poisoned(_))));
    assert!(plan(&poisoned, &policy(), &Observations::default()).steps.is_empty());
    assert_eq!(poisoned.request(&Request::Reset).map(|ring| ring.position().epoch), Ok(4));
    let exhausted = at(Position { epoch: HIGHEST_COUNT, generation: 1 });
    assert!(matches!(exhausted.request(&Request::Reset), Err(RingError::Exhausted(_))));
}

#[test]
fn a_plan_is_carried_out_in_its_time_and_on_its_ring() {
    let observed = Observations { now: WallTime(1000), ..Observations::default() };
    let ring = begun();
    let made = plan(&ring, &policy(), &observed);
    assert_eq!(made.check(&ring, WallTime(1300)), Ok(()));
    assert_eq!(made.check(&ring, WallTime(1301)), Err(PlanError::Expired(1)));
    assert_eq!(made.check(&ring, WallTime(990)), Err(PlanError::ClockWentBack(10)));
    let later = ring.request(&Request::RotateNow).expect("a ring");
    assert!(matches!(made.check(&later, WallTime(1000)), Err(PlanError::RingChanged { .. })));
}

#[test]
fn a_person_reads_the_plan_that_is_run() {
    let mut ring = begun().request(&Request::RotateNow).expect("a ring");
    let before = Acknowledgement { loaded: BTreeSet::from([kid(0)]), ..said(&begun(), "1", 60) };
    let observed = Observations {
        acknowledgements: BTreeMap::from([("node-a".to_owned(), before)]),
        expected_signers: BTreeSet::from(["node-a".to_owned(), "node-b".to_owned()]),
        ..Observations::default()
    };
    observe(&mut ring, &policy(), &observed, Duration::ZERO);
    let made: Plan = plan(&ring, &policy(), &observed);
    let expected = format!(
        "ring at epoch 0 generation 4\n\
         blocked  sign with {}, since somebody asked to rotate\n         \
         - NotVisible: the visibility record has not been read yet\n         \
         - SignerNotLoaded: signer node-a is at epoch 0 generation 3 without it\n         \
         - SignerNotLoaded: signer node-b was never heard\n",
        kid(1)
    );
    assert_eq!(made.to_string(), expected);
    let nothing = plan(&KeyRing::new(), &policy(), &Observations::default());
    assert_eq!(nothing.steps.first().map(|first| &first.step), Some(&Step::Make(Algorithm::Rs256)));
    assert_eq!(serde_json::to_value(&made).expect("JSON")["blocked"][0]["blocks"][0]["guard"], "notVisible");
}

#[test]
fn a_key_is_revoked_when_no_signer_signs_with_it_unless_a_person_cannot_wait() {
    let revoke = |number, at_once| Request::Revoke { kid: kid(number), at_once };
    let step = |ring: &KeyRing| {
        let made = plan(ring, &policy(), &Observations::default());
        let revokes = |step: &Step| matches!(step, Step::Revoke(_));
        let blocked = made.blocked.iter().find(|blocked| revokes(&blocked.step));
        let guards = blocked.map(chancery_core::rotation::BlockedStep::guards);
        let is_planned = made.steps.iter().any(|planned| revokes(&planned.step));
        assert!(is_planned != guards.is_some(), "{made}");
        guards.unwrap_or_default()
    };
    let begun = hear(&begun(), said(&begun(), "1", 60), 0);
    let asked = begun.request(&revoke(0, false)).expect("a key");
    assert_eq!(step(&asked), [Guard::NoSuccessor]);
    assert_eq!(step(&begun.request(&revoke(0, true)).expect("a key")), []);
    assert_eq!(step(&begun.request(&revoke(1, false)).expect("a key")), [], "it has never signed");

    let rotated = take(&asked, &[Step::Activate(kid(1))]);
    assert_eq!(step(&rotated), [Guard::SignerNotStopped]);
    assert_eq!(step(&rotated.request(&revoke(0, true)).expect("a key")), [], "asked again, and at once");
    let behind = Acknowledgement { signs: Some(kid(0)), ..said(&rotated, "1", 60) };
    assert_eq!(step(&hear(&rotated, behind, 0)), [Guard::SignerNotStopped]);
    assert_eq!(step(&hear(&rotated, said(&rotated, "1", 60), 0)), []);
    assert_eq!(step(&rotated.request(&Request::ForgetSigner("a".to_owned())).expect("known")), []);
}

#[test]
fn a_policy_that_no_key_could_keep_is_refused() {
    let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
    let overlap = |minimum, maximum| Settings {
        overlap: Overlap { minimum: minutes(minimum), maximum: minutes(maximum) },
        lifetimes: TokenLifetimes::both(3600),
        ..Settings::default()
    };
    assert!(Policy::new(overlap(10, 70)).is_ok());
    assert!(matches!(Policy::new(overlap(10, 69)), Err(PolicyError::OverlapTooShort { .. })));
    assert!(matches!(Policy::new(overlap(80, 70)), Err(PolicyError::OverlapTurned { .. })));
    let few = Settings { keys_at_most: 2, ..Settings::default() };
    assert_eq!(Policy::new(few), Err(PolicyError::TooFewKeys(2)));
}

#[test]
fn every_guard_has_a_name_of_its_own() {
    let names: BTreeSet<&str> = Guard::ALL.iter().map(|guard| guard.as_str()).collect();
    assert_eq!(names.len(), Guard::ALL.len());
    assert!(Guard::ALL.is_sorted());
}

#[test]
fn what_was_not_seen_holds_steps_back_by_name() {
    let asked = begun().request(&Request::RotateNow).expect("a ring");
    let activated = take(&asked, &[Step::Activate(kid(1))]);
    let unseen = |signs| ApiServer { signs, unseen: Some("no answer".to_owned()), ..ApiServer::default() };
    let shows = |signs| ApiServer { signs, verifies: [kid(0), kid(1)].into(), ..ApiServer::default() };
    let moves = ApiServer { motion: Some(Motion::Unready), ..ApiServer::default() };
    let with = |servers: &[(&str, ApiServer)]| Observations {
        api_servers: servers.iter().map(|(name, server)| ((*name).to_owned(), server.clone())).collect(),
        ..Observations::default()
    };
    let unknown_nodes = || Some("403".to_owned());
    let uncounted = || Err("the census is not over".to_owned());
    for (ring, observed, guard, why) in [
        (&asked, with(&[("c", unseen(None))]), Guard::VerifierNotLoaded, "kube-apiserver of c is not seen"),
        (&asked, with(&[("c", ApiServer::default())]), Guard::VerifierNotLoaded, "of c does not verify"),
        (&asked, with(&[("c", moves)]), Guard::NodeInMotion, "node c is not ready"),
        (&asked, Observations { unknown_nodes: unknown_nodes(), ..with(&[]) }, Guard::NodeInMotion, "403"),
        (&activated, with(&[("c", unseen(None))]), Guard::SignedElsewhere, "of c signs with is not known"),
        (&activated, with(&[("c", unseen(Some(kid(0))))]), Guard::SignedElsewhere, "of c signs with it"),
        (&activated, with(&[("c", shows(Some(kid(0))))]), Guard::SignedElsewhere, "of c signs with it"),
        (
            &activated,
            Observations { legacy_tokens: uncounted(), ..with(&[]) },
            Guard::LegacyTokens,
            "not over",
        ),
    ] {
        let plan = plan(ring, &policy(), &observed);
        let blocks = plan.blocked.iter().flat_map(|step| &step.blocks);
        let said: Vec<String> =
            blocks.filter(|block| block.guard == guard).map(ToString::to_string).collect();
        assert!(said.iter().any(|said| said.contains(why)), "{guard} {why}: {plan}");
    }
    for seen in [shows(Some(kid(1))), unseen(Some(kid(1)))] {
        let plan = plan(&activated, &policy(), &with(&[("c", seen)]));
        assert!(!plan.guards().contains(&Guard::SignedElsewhere), "{plan}");
    }
}

#[test]
fn a_signer_that_nobody_has_heard_may_have_a_key_that_was_adopted() {
    let adopted =
        |number, signs| AdoptedKey { public_key: key(number).clone(), signs, custody: Custody::Held };
    let ring = KeyRing::new().request(&Request::Adopt(vec![adopted(0, true), adopted(1, false)]));
    let ring = ring.expect("an empty ring");
    let late = || Observations {
        expected_signers: BTreeSet::from(["a".to_owned(), "late".to_owned()]),
        acknowledgements: BTreeMap::from([("a".to_owned(), said(&ring, "1", 60))]),
        ..Observations::default()
    };
    let heard = || {
        let mut heard = late();
        heard.acknowledgements.insert("late".to_owned(), said(&ring, "1", 60));
        heard
    };
    let retires = |ring: &KeyRing, observed: &Observations| {
        let plan = plan(ring, &policy(), observed);
        let retires = |step: &Step| *step == Step::Retire(kid(1));
        let blocked = plan.blocked.iter().find(|blocked| retires(&blocked.step));
        blocked.map_or_else(String::new, |blocked| {
            blocked.blocks.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        })
    };
    let (mut before, year) = (ring.clone(), Duration::from_secs(366 * 86_400));
    observe(&mut before, &policy(), &late(), year);
    let why = retires(&before, &late());
    assert!(why.contains("SignerNotStopped: signer late was never heard"), "{why}");
    assert_eq!(before.key(&kid(1)).expect("there").drained_seconds, 0);

    let mut after = before.clone();
    observe(&mut after, &policy(), &heard(), year);
    assert!(retires(&after, &heard()).contains("TokensAlive"), "time begins when it is heard");
    observe(&mut after, &policy(), &heard(), year);
    assert_eq!(retires(&after, &heard()), "", "and then its tokens are dead");

    let steps = [Step::Enter(key(2).clone()), Step::Publish(kid(2)), Step::Activate(kid(2))];
    let made = take(&before, &[&steps[..], &[Step::Enter(key(3).clone()), Step::Publish(kid(3))]].concat());
    let made = take(&made, &[Step::Activate(kid(3))]);
    let plan = plan(&made, &policy(), &late());
    let of = |number| plan.blocked.iter().find(|blocked| blocked.step == Step::Retire(kid(number)));
    let waits = |number| of(number).expect("blocked").blocks.iter().any(|block| block.why.contains("late"));
    assert!(waits(0) && waits(1), "{plan}");
    assert!(!waits(2), "a key that the ring has made, nobody has without the ring: {plan}");
}

//! Keys that come in bundles: one ahead, in their order, and never one that is made.

use chancery_core::key_bundle::{BundledKey, KeyBundle, KeyBundleError};
use chancery_core::ring::{AdoptedKey, Custody, Request, Step, WallTime};
use chancery_core::rotation::{Guard, KeySupply, Observations, Policy, Settings, plan};
use chancery_core::{Algorithm, KeyRing};

use crate::keys::{Number, key};

fn policy() -> Policy {
    let supply = KeySupply::Imported { fewest: 2 };
    let settings = Settings { supply, algorithm: key(0).algorithm(), ..Settings::default() };
    Policy::new(settings).expect("a policy")
}

fn bundled(number: Number) -> BundledKey {
    BundledKey::new(key(number).clone(), None)
}

/// A ring of key 0, which signs.
fn begun() -> KeyRing {
    let first = AdoptedKey { public_key: key(0).clone(), signs: true, custody: Custody::Held };
    KeyRing::new().request(&Request::Adopt(vec![first])).expect("an empty ring")
}

fn seen(imported: &[Number], held: &[Number]) -> Observations {
    Observations {
        imported: Ok(imported.iter().map(|number| bundled(*number)).collect()),
        held: held.iter().map(|number| key(*number).clone()).collect(),
        ..Observations::default()
    }
}

/// The step that gets a standby, and whether it may be taken now; or nothing.
fn wanted(ring: &KeyRing, observed: &Observations) -> Option<(Step, bool)> {
    let plan = plan(ring, &policy(), observed);
    let gets = |step: &Step| matches!(step, Step::Make(_) | Step::Import(_) | Step::Enter(_));
    let now = plan.steps.iter().map(|planned| (&planned.step, true));
    let later = plan.blocked.iter().map(|blocked| (&blocked.step, false));
    now.chain(later).find(|(step, _)| gets(step)).map(|(step, now)| (step.clone(), now))
}

#[test]
fn one_key_is_entered_at_a_time_in_the_order_of_the_bundle() {
    let all = seen(&[3, 1, 2], &[1, 2, 3]);
    let mut ring = begun();
    for number in [3, 1, 2] {
        let Some((step, true)) = wanted(&ring, &all) else { panic!("key {number} is to come") };
        assert_eq!(step, Step::Enter(key(number).clone()));
        ring = ring.apply(&step).expect("a new key");
        assert_eq!(wanted(&ring, &all), None, "one ahead, and no further");
        let kid = key(number).key_id().clone();
        for step in [Step::Publish(kid.clone()), Step::Activate(kid)] {
            ring = ring.apply(&step).expect("in order");
        }
    }
    let algorithm = key(0).algorithm();
    assert_eq!(wanted(&ring, &all), Some((Step::Import(algorithm), false)), "none is ever made");
}

#[test]
fn what_is_not_there_or_not_known_is_waited_for_and_nothing_is_put_in_its_place() {
    let import = Some((Step::Import(key(0).algorithm()), false));
    // Key 4 lies in custody, and no bundle has it; key 2 would be the next but one.
    for (observed, why) in [
        (seen(&[], &[4]), "no imported key"),
        (seen(&[1, 2], &[2, 4]), "its private half is not in custody"),
        (
            Observations { imported: Err("the disk".to_owned()), ..seen(&[], &[4]) },
            "cannot be read: the disk",
        ),
    ] {
        assert_eq!(wanted(&begun(), &observed), import);
        let text = plan(&begun(), &policy(), &observed).to_string();
        assert!(text.contains("NoSuccessor") && text.contains(why), "{text}");
    }
}

#[test]
fn a_new_bundle_is_asked_for_before_the_last_key_is_used() {
    let left = |imported: &[Number]| {
        let left = plan(&begun(), &policy(), &seen(imported, &[])).imported.expect("keys are imported");
        (left.keys, left.is_low)
    };
    assert_eq!(left(&[1, 2, 3]), (Some(3), false));
    assert_eq!(left(&[1, 2]), (Some(2), false));
    assert_eq!(left(&[0, 1]), (Some(1), true), "one of them signs already");
    let made = Policy::new(Settings::default()).expect("a policy");
    assert_eq!(plan(&begun(), &made, &seen(&[1], &[1])).imported, None);
}

#[test]
fn a_key_does_not_sign_before_its_time_unless_the_other_must_not() {
    let ring = begun().apply(&Step::Enter(key(1).clone())).expect("a new key");
    let ring = ring.apply(&Step::Publish(key(1).key_id().clone())).expect("in order");
    let ring = ring.request(&Request::RotateNow).expect("a ring");
    let at = |now| Observations {
        now: WallTime(now),
        imported: Ok(vec![BundledKey::new(key(1).clone(), Some(WallTime(1000)))]),
        ..Observations::default()
    };
    let is_due = |ring: &KeyRing, now| !plan(ring, &policy(), &at(now)).guards().contains(&Guard::NotDue);
    assert!(!is_due(&ring, 999) && is_due(&ring, 1000));
    let tainted = ring.request(&Request::Taint(key(0).key_id().clone())).expect("a key");
    assert!(is_due(&tainted, 999));
}

#[test]
fn a_bundle_is_read_as_it_was_written_and_a_wrong_one_is_refused() {
    let issuer = || "https://id.example.com/a".parse().expect("a URL");
    let new = |keys| KeyBundle::new(issuer(), keys);
    let timed = |number, seconds| BundledKey::new(key(number).clone(), Some(WallTime(seconds)));
    let bundle = new(vec![bundled(1), timed(2, 5), timed(3, 5)]).expect("a bundle");
    assert_eq!(KeyBundle::from_json(&bundle.to_json()), Ok(bundle.clone()));
    assert!(matches!(new(Vec::new()), Err(KeyBundleError::Number(0))));
    assert!(matches!(new(vec![bundled(1), bundled(1)]), Err(KeyBundleError::Twice(_))));
    assert!(matches!(new(vec![timed(1, 6), timed(2, 5)]), Err(KeyBundleError::OutOfOrder(_))));
    let text = String::from_utf8(bundle.to_json()).expect("JSON");
    let changed = text.replace(key(1).key_id().as_str(), key(4).key_id().as_str());
    assert!(matches!(KeyBundle::from_json(changed.as_bytes()), Err(KeyBundleError::AnotherKey { .. })));
    let later = text.replace("\"version\": 1", "\"version\": 2, \"keys\": 7");
    assert_eq!(KeyBundle::from_json(later.as_bytes()), Err(KeyBundleError::UnknownVersion(2)));
    assert!(matches!(KeyBundle::from_json(b"{}"), Err(KeyBundleError::Garbled(_))));
}

#[test]
fn a_key_of_another_algorithm_waits_until_that_is_wanted() {
    let settings =
        |algorithm| Settings { supply: KeySupply::Imported { fewest: 1 }, algorithm, ..Settings::default() };
    let other = [Algorithm::Rs256, Algorithm::Es384].into_iter().find(|other| *other != key(1).algorithm());
    let policy = Policy::new(settings(other.expect("two algorithms"))).expect("a policy");
    let plan = plan(&begun(), &policy, &seen(&[1], &[1]));
    assert!(plan.to_string().contains("NoSuccessor"), "{plan}");
}

//! Whatever a place holds that is given the keys themselves, the plan keeps the promises at the head of `upload`.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod fixture;

use std::collections::BTreeSet;

use chancery_core::jwks::JwksError;
use chancery_core::upload::{DesiredUpload, HeldKeys, UploadBlocked, UploadPlan, plan};
use chancery_core::{KeyId, Owner, PublicKey, WithdrawalCause, Withdrawals};
use fixture::{numbered_key, numbered_set};
use proptest::prelude::*;
use serde_json::{Value, json};

fn owner(name: &str) -> Owner {
    name.parse().expect("an owner")
}

fn keys(numbers: &[u8]) -> Vec<PublicKey> {
    numbers.iter().copied().map(numbered_key).collect()
}

fn ids(numbers: &[u8]) -> Vec<KeyId> {
    numbers.iter().map(|number| numbered_key(*number).key_id().clone()).collect()
}

fn set(ids: &[KeyId]) -> BTreeSet<KeyId> {
    ids.iter().cloned().collect()
}

fn holding(numbers: &[u8]) -> HeldKeys {
    HeldKeys { keys: keys(numbers), ..HeldKeys::default() }
}

fn plan_for(ours: &[u8], withdrawn: &[u8], held: &HeldKeys) -> Result<UploadPlan, UploadBlocked> {
    plan_as(ours, withdrawn, false, held)
}

fn plan_as(ours: &[u8], withdrawn: &[u8], adopt: bool, held: &HeldKeys) -> Result<UploadPlan, UploadBlocked> {
    let (jwks, owner) = (numbered_set(ours).expect("keys"), owner("us"));
    let withdrawals = Withdrawals::of(ids(withdrawn), WithdrawalCause::Retired, 1);
    let withdrawals = &withdrawals;
    plan(DesiredUpload { jwks: &jwks, withdrawals, owner: &owner, adopt_unmarked: adopt }, held)
}

/// The place after the plan was carried out.
fn after(held: &HeldKeys, plan: &UploadPlan) -> HeldKeys {
    match &plan.upload {
        None => held.clone(),
        Some(jwks) => {
            HeldKeys { keys: jwks.keys().to_vec(), owner: Some(owner("us")), ..HeldKeys::default() }
        }
    }
}

#[test]
fn what_is_added_withdrawn_and_kept() {
    for (ours, withdrawn, held, (adds, withdraws, foreign), result) in [
        (&[1u8, 2][..], &[][..], &[][..], (&[1u8, 2][..], &[][..], &[][..]), Some(&[1u8, 2][..])),
        (&[1, 2], &[], &[2, 1], (&[], &[], &[]), None),
        (&[1, 2], &[], &[1, 1, 2], (&[], &[], &[]), None),
        (&[2], &[1], &[1, 2], (&[], &[1], &[]), Some(&[2])),
        (&[2], &[1], &[1, 1], (&[2], &[1], &[]), Some(&[2])),
        (&[1], &[], &[1, 9], (&[], &[], &[9]), None),
        (&[1, 2], &[], &[9, 9, 1], (&[2], &[], &[9]), Some(&[1, 2, 9])),
        (&[1], &[1], &[], (&[1], &[], &[]), Some(&[1])),
        (&[1], &[7], &[1], (&[], &[], &[]), None),
    ] {
        let plan = plan_for(ours, withdrawn, &holding(held)).expect("not blocked");
        let case = format!("{ours:?} {withdrawn:?} {held:?}");
        assert_eq!(plan.upload, result.and_then(numbered_set), "{case}");
        assert_eq!(plan.adds, ids(adds), "{case}");
        assert_eq!(plan.withdraws, ids(withdraws), "{case}");
        assert_eq!(plan.foreign, ids(foreign), "{case}");
    }
}

#[test]
fn a_mark_that_is_not_ours_blocks_and_a_missing_one_unless_it_is_adopted() {
    let marked = HeldKeys { owner: Some(owner("them")), ..holding(&[1]) };
    let error = plan_as(&[1], &[], true, &marked).expect_err("blocked");
    assert_eq!(error, UploadBlocked::ForeignOwner { theirs: owner("them"), ours: owner("us") });

    let unmarked = HeldKeys { unmarked: true, ..holding(&[1]) };
    let error = plan_as(&[1], &[], false, &unmarked).expect_err("blocked");
    assert!(error.to_string().contains("adopt: true"), "{error}");
    let adopted = plan_as(&[1], &[], true, &unmarked).expect("not blocked");
    assert_eq!(adopted.upload, numbered_set(&[1]), "the marker is still to be written");

    let ours = HeldKeys { owner: Some(owner("us")), ..holding(&[1]) };
    assert_eq!(plan_for(&[1], &[], &ours).expect("not blocked").upload, None);
}

#[test]
fn what_lies_beside_the_keys_is_mended_without_a_change_of_the_keys() {
    let plan = plan_for(&[1], &[], &HeldKeys { stale: true, ..holding(&[1, 9]) }).expect("not blocked");
    assert_eq!((plan.upload, plan.adds, plan.withdraws), (numbered_set(&[1, 9]), vec![], vec![]));
}

/// The entry of a key, with some members changed or, where the value is null, taken away.
fn entry(number: u8, changes: Value) -> Value {
    let set = numbered_set(&[number]).expect("a key");
    let mut document: Value = serde_json::from_slice(&set.to_json()).expect("JSON");
    let entry = document["keys"][0].as_object_mut().expect("an entry");
    for (member, value) in changes.as_object().expect("changes") {
        entry.insert(member.clone(), value.clone());
    }
    entry.retain(|_, value| !value.is_null());
    Value::Object(entry.clone())
}

#[test]
fn an_entry_that_cannot_be_carried_on_unchanged_blocks() {
    let home_made = json!({ "kid": "home-made" });
    for (entries, withdrawn, blocks) in [
        (vec![entry(1, json!({})), entry(9, json!({}))], &[][..], None),
        (vec![entry(9, json!({ "alg": null, "use": null, "x5t": "x" }))], &[], None),
        (vec![entry(9, home_made.clone())], &[], Some("another id")),
        (vec![entry(9, json!({ "alg": "PS256" }))], &[], Some("algorithm")),
        (vec![entry(9, home_made.clone())], &[9], None),
        (vec![entry(1, home_made)], &[], None),
        (vec![json!({ "kty": "OKP", "crv": "Ed25519", "x": "AA", "kid": "e" })], &[], Some("kty \"OKP\"")),
        (vec![json!({})], &[], Some("kid \"\"")),
        (vec![json!("key"), entry(1, json!({}))], &[], Some("not a JSON object")),
    ] {
        let document = json!({ "keys": entries }).to_string();
        let held = HeldKeys::of_jwks(document.as_bytes()).expect("a JWKS");
        match (plan_for(&[1], withdrawn, &held), blocks) {
            (Ok(plan), None) => assert!(plan.result.contains(&ids(&[1])[0]), "{document}"),
            (Err(error), Some(words)) => assert!(error.to_string().contains(words), "{document}: {error}"),
            (other, _) => panic!("{document}: {other:?}"),
        }
    }
    for (bytes, error) in [(&b"{"[..], "not JSON"), (b"{}", "array `keys`"), (b"[]", "array `keys`")] {
        let refused: JwksError = HeldKeys::of_jwks(bytes).expect_err("no JWKS");
        assert!(refused.to_string().contains(error), "{refused}");
    }
}

#[test]
fn our_key_under_a_home_made_id_is_written_under_its_own() {
    let document = json!({ "keys": [entry(1, json!({ "kid": "home-made" }))] }).to_string();
    let held = HeldKeys::of_jwks(document.as_bytes()).expect("a JWKS");
    let plan = plan_for(&[1], &[], &held).expect("not blocked");
    assert_eq!((plan.upload, plan.adds), (numbered_set(&[1]), ids(&[1])));
}

/// Up to six of ten keys.
fn some_keys(least: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(0u8..10, least..6)
}

/// A place that may be written: of nobody, of ours, or unmarked and to be adopted; whole or with something stale.
fn any_place() -> impl Strategy<Value = HeldKeys> {
    (some_keys(0), some_keys(0), any::<(bool, bool, bool)>()).prop_map(
        |(numbers, altered, (marked, unmarked, stale))| HeldKeys {
            owner: marked.then(|| owner("us")),
            unmarked: unmarked && !marked,
            stale,
            altered: keys(&altered),
            ..holding(&numbers)
        },
    )
}

/// One of two writers that know no versions: it reads, and what it then writes may be old already.
#[derive(Clone, Copy, Debug)]
struct Turn {
    writer: usize,
    reads: bool,
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let turn = (0usize..2, any::<bool>()).prop_map(|(writer, reads)| Turn { writer, reads });
    prop::collection::vec(turn, 0..20)
}

proptest! {
    #[test]
    fn planning_again_on_the_result_is_empty(
        ours in some_keys(1), withdrawn in some_keys(0), held in any_place()
    ) {
        if let Ok(first) = plan_as(&ours, &withdrawn, true, &held) {
            let second = plan_as(&ours, &withdrawn, true, &after(&held, &first)).expect("not blocked");
            prop_assert_eq!(second.upload, None);
            prop_assert_eq!((second.adds, second.withdraws), (vec![], vec![]));
            prop_assert_eq!(set(&second.result), set(&first.result));
        }
    }

    #[test]
    fn the_place_holds_ours_and_foreign_keys_less_the_tombstoned(
        ours in some_keys(1), withdrawn in some_keys(0), held in any_place()
    ) {
        let Ok(plan) = plan_as(&ours, &withdrawn, true, &held) else { return Ok(()) };
        let done = after(&held, &plan);
        let done: BTreeSet<KeyId> = done.keys.iter().map(|key| key.key_id().clone()).collect();
        let before: BTreeSet<KeyId> = held.keys.iter().map(|key| key.key_id().clone()).collect();
        let (ours, withdrawn) = (set(&ids(&ours)), set(&ids(&withdrawn)));
        let foreign: BTreeSet<KeyId> =
            before.iter().filter(|id| !ours.contains(id) && !withdrawn.contains(id)).cloned().collect();
        prop_assert_eq!(&done, &ours.union(&foreign).cloned().collect::<BTreeSet<_>>());
        prop_assert_eq!(&done, &set(&plan.result));
        prop_assert_eq!(&foreign, &set(&plan.foreign));
        prop_assert_eq!(&set(&plan.adds), &ours.difference(&before).cloned().collect::<BTreeSet<_>>());
        prop_assert!(set(&plan.withdraws).is_subset(&withdrawn) && set(&plan.withdraws).is_disjoint(&ours));
    }

    #[test]
    fn what_blocks_is_only_what_would_be_lost(
        ours in some_keys(1), withdrawn in some_keys(0), held in any_place()
    ) {
        let (known, altered) = (set(&ids(&[&ours[..], &withdrawn[..]].concat())), &held.altered);
        let would_be_lost = altered.iter().any(|key| !known.contains(key.key_id()));
        prop_assert_eq!(plan_as(&ours, &withdrawn, true, &held).is_err(), would_be_lost);
    }

    #[test]
    fn two_writers_of_a_place_without_versions_end_with_the_union(
        first in some_keys(1), second in some_keys(1), start in some_keys(0), turns in turns()
    ) {
        let wanted = [first, second];
        let mut place = holding(&start);
        let mut read = [place.clone(), place.clone()];
        // Old writes, in any order: keys may be lost for a while, which only a place with versions prevents.
        for Turn { writer, reads } in turns {
            if reads {
                read[writer] = place.clone();
            } else {
                place = after(&place, &plan_for(&wanted[writer], &[], &read[writer]).expect("not blocked"));
            }
        }
        // Each reads back what it wrote until there is nothing to do.
        for writer in [0, 1, 0, 1] {
            place = after(&place, &plan_for(&wanted[writer], &[], &place).expect("not blocked"));
        }
        for writer in [0, 1] {
            let plan = plan_for(&wanted[writer], &[], &place).expect("not blocked");
            prop_assert_eq!(plan.upload, None);
        }
    }

    #[test]
    fn no_bytes_make_the_plan_panic_or_shrink(
        ours in some_keys(1), bytes in prop::collection::vec(any::<u8>(), 0..100)
    ) {
        let held = HeldKeys::of_jwks(&bytes).unwrap_or_default();
        if let Ok(plan) = plan_for(&ours, &[], &held) {
            prop_assert!(ids(&ours).iter().all(|id| plan.result.contains(id)));
        }
    }
}

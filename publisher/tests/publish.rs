//! Publishing to a target that fails, races and dies in every place.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::time::Duration;

use chancery_core::publication::{Blocked, Desired, StoredObject, Version};
use chancery_core::{DocumentKind, KeyId, Marker, Withdrawals};
use chancery_publisher::{Outcome, PublishError, StoreErrorKind, observe, publish};
use proptest::prelude::*;

use self::faults::{Fault, FaultyStore, PIPELINE, documents, id, ids, key, owner, withdrawals};

mod faults;

async fn publish_to(
    store: &FaultyStore,
    keys: &[u8],
    withdrawn: &BTreeSet<KeyId>,
) -> Result<Outcome, PublishError> {
    store.withdrawn(withdrawn);
    let (documents, owner, withdrawals) = (documents(keys), owner(), withdrawals(withdrawn));
    let desired = Desired {
        documents: &documents,
        withdrawals: &withdrawals,
        owner: &owner,
        memory: PIPELINE,
        adopt_unmarked: false,
    };
    publish(store, desired).await
}

fn none() -> BTreeSet<KeyId> {
    BTreeSet::new()
}

#[tokio::test(start_paused = true)]
async fn costs_two_reads_when_up_to_date_and_two_writes_at_most() {
    let store = FaultyStore::new();
    let outcome = publish_to(&store, &[1], &none()).await.unwrap();
    assert_eq!(outcome.written, DocumentKind::ALL);
    assert_eq!(store.take_counts(), (2, 2));

    let outcome = publish_to(&store, &[1], &none()).await.unwrap();
    assert_eq!((outcome.written, outcome.foreign), (vec![], vec![]));
    assert_eq!(store.take_counts(), (2, 0), "up to date");

    // The algorithms stay the same, and with them the discovery document.
    let outcome = publish_to(&store, &[1, 2], &none()).await.unwrap();
    assert_eq!(outcome.written, [DocumentKind::Jwks]);
    assert_eq!(store.take_counts(), (2, 1), "a new key");
}

#[tokio::test(start_paused = true)]
async fn writes_what_was_desired_with_its_attributes() {
    let store = FaultyStore::new();
    publish_to(&store, &[1], &none()).await.unwrap();
    let observed = observe(store.as_ref()).await.unwrap();
    for kind in DocumentKind::ALL {
        let (object, document) = (observed.object(kind).unwrap(), documents(&[1]).document(kind));
        assert_eq!(object.bytes, document.bytes);
        assert_eq!(object.media_type.as_deref(), Some(kind.media_type()));
        assert_eq!(object.cache_control, Some(document.cache.header()));
        assert_eq!(object.marker.as_ref().unwrap().owner, owner());
    }
}

#[tokio::test(start_paused = true)]
async fn another_writers_keys_stay_and_are_reported() {
    let store = FaultyStore::new();
    publish_to(&store, &[7], &none()).await.unwrap();
    let outcome = publish_to(&store, &[1], &none()).await.unwrap();
    assert_eq!(outcome.foreign, [id(7)]);
    assert_eq!(outcome.result, documents(&[1, 7]));
    assert_eq!(store.published().await, ids([1, 7]));

    let outcome = publish_to(&store, &[1], &ids([7])).await.unwrap();
    assert_eq!(outcome.foreign, []);
    assert_eq!(store.published().await, ids([1]));
}

#[tokio::test(start_paused = true)]
async fn a_lost_race_is_read_again() {
    let store = FaultyStore::new();
    store.fail_writes([Fault::Rival(vec![7])]);
    let outcome = publish_to(&store, &[1], &none()).await.unwrap();
    assert_eq!(outcome.foreign, [id(7)]);
    assert_eq!(store.published().await, ids([1, 7]));
    assert_eq!(store.losses(), [""; 0]);
    // The rival has written the discovery document.
    assert_eq!(outcome.written, [DocumentKind::Jwks]);
    assert_eq!(store.take_counts(), (4, 2));
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_is_lost_is_not_made_twice() {
    for kind in [StoreErrorKind::TimedOut, StoreErrorKind::Unavailable] {
        let store = FaultyStore::new();
        store.fail_writes([Fault::After(kind), Fault::After(kind)]);
        let outcome = publish_to(&store, &[1], &none()).await.unwrap();
        assert_eq!(outcome.result, documents(&[1]));
        assert_eq!(store.take_counts(), (6, 2), "each document is written once");
    }
}

#[tokio::test(start_paused = true)]
async fn a_target_that_is_away_for_a_moment_is_waited_for() {
    for kind in [StoreErrorKind::TimedOut, StoreErrorKind::Unavailable] {
        let store = FaultyStore::new();
        store.fail_reads([Fault::Before(kind), Fault::None, Fault::Before(kind)]);
        store.fail_writes([Fault::Before(kind)]);
        publish_to(&store, &[1], &none()).await.unwrap();
        assert_eq!(store.published().await, ids([1]));
    }
}

#[tokio::test(start_paused = true)]
async fn gives_up_in_the_end_and_says_why() {
    let store = FaultyStore::new();
    store.fail_writes(vec![Fault::Before(StoreErrorKind::Unavailable); 100]);
    let error = publish_to(&store, &[1], &none()).await.unwrap_err();
    assert!(matches!(&error, PublishError::Store(error) if error.kind == StoreErrorKind::Unavailable));
    assert_eq!(store.take_counts(), (10, 5));

    store.heal();
    store.fail_writes((10..110).map(|number| Fault::Rival(vec![number])));
    let error = publish_to(&store, &[1], &none()).await.unwrap_err();
    assert!(matches!(&error, PublishError::Contended { tries: 5, .. }), "{error}");
    assert!(error.to_string().contains("at memory"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn does_not_insist_where_somebody_has_to_act() {
    for kind in [StoreErrorKind::Denied, StoreErrorKind::NoSuchContainer, StoreErrorKind::Misconfigured] {
        let store = FaultyStore::new();
        store.fail_writes([Fault::Before(kind)]);
        let error = publish_to(&store, &[1], &none()).await.unwrap_err();
        assert!(matches!(&error, PublishError::Store(error) if error.kind == kind));
        assert_eq!(store.take_counts(), (2, 1), "the discovery document must not come before the JWKS");
    }
}

#[tokio::test(start_paused = true)]
async fn a_strangers_documents_are_not_touched() {
    let object = StoredObject {
        bytes: documents(&[9]).document(DocumentKind::Jwks).bytes,
        media_type: None,
        cache_control: None,
        marker: None,
        damage: None,
        version: Version(String::new()),
    };
    let theirs = StoredObject { marker: Some(Marker::of("them".parse().unwrap())), ..object.clone() };
    for (object, adopt, blocked) in
        [(object.clone(), false, true), (object, true, false), (theirs, true, true)]
    {
        let store = FaultyStore::new();
        store.place(DocumentKind::Jwks, object);
        let (documents, owner) = (documents(&[1]), owner());
        let desired = Desired {
            documents: &documents,
            withdrawals: Withdrawals::none(),
            owner: &owner,
            memory: PIPELINE,
            adopt_unmarked: adopt,
        };
        let result = publish(store.as_ref(), desired).await;
        if blocked {
            let error = result.unwrap_err();
            assert!(matches!(
                &error,
                PublishError::Blocked {
                    blocked: Blocked::Unmarked { .. } | Blocked::ForeignOwner { .. },
                    ..
                }
            ));
            assert!(error.to_string().contains("faulty memory"), "{error}");
            assert_eq!(store.take_counts(), (2, 0));
            assert_eq!(store.published().await, ids([9]));
        } else {
            assert_eq!(result.unwrap().foreign, [id(9)]);
            assert_eq!(store.published().await, ids([1, 9]));
        }
    }
}

/// One publication: the keys wanted, and what happens to its reads and writes.
#[derive(Clone, Debug)]
struct Step {
    keys: BTreeSet<u8>,
    reads: Vec<Fault>,
    writes: Vec<Fault>,
}

fn fault() -> impl Strategy<Value = Fault> {
    use StoreErrorKind::{Conflict, Denied, TimedOut, Unavailable};
    let kind = prop_oneof![Just(Conflict), Just(Denied), Just(TimedOut), Just(Unavailable)];
    prop_oneof![
        3 => Just(Fault::None),
        2 => kind.clone().prop_map(Fault::Before),
        2 => kind.prop_map(Fault::After),
        2 => prop::collection::vec(100..104_u8, 1..3).prop_map(Fault::Rival),
        1 => Just(Fault::CrashBefore),
        1 => Just(Fault::CrashAfter),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let faults = || prop::collection::vec(fault(), 0..6);
    (prop::collection::btree_set(0..5_u8, 1..4), faults(), faults()).prop_map(|(keys, reads, writes)| Step {
        keys,
        reads,
        writes,
    })
}

/// Lives through the steps with one writer that withdraws what it no longer wants, then through a calm one.
async fn live(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let store = FaultyStore::new();
    let mut wanted_once = BTreeSet::new();
    let mut keys = BTreeSet::from([0]);
    for step in steps {
        keys = step.keys;
        wanted_once.extend(keys.iter().copied());
        let withdrawn = ids(wanted_once.difference(&keys).copied());
        let list: Vec<u8> = keys.iter().copied().collect();
        store.heal();
        store.fail_reads(step.reads);
        store.fail_writes(step.writes);
        // An hour of a clock that jumps ahead whenever nobody can move: what waits then is dead.
        let publishing = publish_to(&store, &list, &withdrawn);
        let _ = tokio::time::timeout(Duration::from_secs(3600), publishing).await;
        prop_assert_eq!(store.losses(), Vec::<String>::new());
    }

    store.heal();
    let withdrawn = ids(wanted_once.difference(&keys).copied());
    let list: Vec<u8> = keys.iter().copied().collect();
    let outcome = publish_to(&store, &list, &withdrawn).await.unwrap();
    prop_assert!(keys.iter().all(|number| outcome.result.jwks().contains(key(*number).key_id())));
    prop_assert!(withdrawn.iter().all(|id| !outcome.result.jwks().contains(id)));
    let observed = observe(store.as_ref()).await.unwrap();
    for kind in DocumentKind::ALL {
        prop_assert_eq!(&observed.object(kind).unwrap().bytes, &outcome.result.document(kind).bytes);
    }
    store.take_counts();
    publish_to(&store, &list, &withdrawn).await.unwrap();
    prop_assert_eq!(store.take_counts(), (2, 0));
    prop_assert_eq!(store.losses(), Vec::<String>::new());
    Ok(())
}

proptest! {
    #[test]
    fn whatever_fails_no_live_key_is_missing_and_the_next_calm_run_converges(
        steps in prop::collection::vec(step(), 1..8),
    ) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(live(steps))?;
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_between_any_two_writes_is_mended_by_the_next_run() {
    for fault in [Fault::CrashBefore, Fault::CrashAfter] {
        for position in 0..2 {
            let store = FaultyStore::new();
            store.fail_writes(std::iter::repeat_n(Fault::None, position).chain([fault.clone()]));
            let withdrawn = none();
            let died = publish_to(&store, &[1, 2], &withdrawn);
            assert!(
                tokio::time::timeout(Duration::from_secs(60), died).await.is_err(),
                "{fault:?} {position}"
            );
            store.heal();
            let outcome = publish_to(&store, &[1, 2], &none()).await.unwrap();
            assert_eq!(outcome.result, documents(&[1, 2]));
            assert_eq!(store.published().await, ids([1, 2]));
            assert_eq!(store.losses(), [""; 0]);
        }
    }
}

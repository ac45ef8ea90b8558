//! What somebody else does to a target between two publications is noticed, and nothing that we do ourselves.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::time::Duration;

use chancery_core::drift::{Drift, DriftKind};
use chancery_core::publication::{Desired, StoredObject, WriterMemory};
use chancery_core::{DocumentKind, Marker, Withdrawals};
use chancery_publisher::publish::{LastSeen, publish_again};
use chancery_publisher::{Outcome, PublishError, StoreErrorKind, observe};
use proptest::prelude::*;

use self::faults::{Fault, FaultyStore, documents, id, ids, owner};

#[allow(dead_code, reason = "every test binary uses a part")]
mod faults;

async fn publish(store: &FaultyStore, keys: &[u8], seen: &mut LastSeen) -> Result<Outcome, PublishError> {
    let (documents, owner) = (documents(keys), owner());
    let desired = Desired {
        documents: &documents,
        withdrawals: Withdrawals::none(),
        owner: &owner,
        memory: WriterMemory::NONE,
        adopt_unmarked: false,
    };
    publish_again(store, desired, seen).await
}

/// The JWKS as it is there now.
async fn jwks(store: &FaultyStore) -> StoredObject {
    observe(store).await.unwrap().jwks.unwrap()
}

fn of_jwks(what: DriftKind) -> Vec<Drift> {
    vec![Drift { document: DocumentKind::Jwks, what }]
}

#[tokio::test(start_paused = true)]
async fn tampering_under_our_marker_is_noticed_once_and_repaired() {
    let (store, mut seen) = (FaultyStore::new(), LastSeen::default());
    publish(&store, &[1, 2], &mut seen).await.unwrap();
    publish(&store, &[1, 2], &mut seen).await.unwrap();
    assert_eq!(seen.take_drift(), []);

    let smaller = documents(&[1]).document(DocumentKind::Jwks).bytes;
    store.place(DocumentKind::Jwks, StoredObject { bytes: smaller, ..jwks(&store).await });
    assert_eq!(seen.take_held(), [ids([]), ids([1, 2])], "before and after the first publication");
    let outcome = publish(&store, &[1, 2], &mut seen).await.unwrap();
    assert_eq!(outcome.written, [DocumentKind::Jwks]);
    assert_eq!(seen.take_drift(), of_jwks(DriftKind::Changed));
    assert_eq!(seen.take_held(), [ids([1]), ids([1, 2])]);
    assert_eq!(jwks(&store).await.bytes, documents(&[1, 2]).document(DocumentKind::Jwks).bytes);
    publish(&store, &[1, 2], &mut seen).await.unwrap();
    assert_eq!(seen.take_drift(), []);
}

#[tokio::test(start_paused = true)]
async fn a_key_slipped_in_under_our_marker_stays_and_is_named() {
    let (store, mut seen) = (FaultyStore::new(), LastSeen::default());
    publish(&store, &[1], &mut seen).await.unwrap();
    let larger = documents(&[1, 7]).document(DocumentKind::Jwks).bytes;
    store.place(DocumentKind::Jwks, StoredObject { bytes: larger, ..jwks(&store).await });
    let outcome = publish(&store, &[1], &mut seen).await.unwrap();
    assert_eq!(outcome.foreign, [id(7)]);
    let drift: Vec<_> = seen.take_drift().into_iter().map(|drift| drift.what).collect();
    assert_eq!(drift, [DriftKind::Changed, DriftKind::ForeignKeys { kids: vec![id(7)], removed: false }]);
    publish(&store, &[1], &mut seen).await.unwrap();
    assert_eq!(seen.take_drift(), []);
}

#[tokio::test(start_paused = true)]
async fn another_marker_blocks_and_is_noticed_all_the_same() {
    for (marker, theirs) in
        [(Some(Marker::of("them".parse().unwrap())), Some("them".parse().unwrap())), (None, None)]
    {
        let (store, mut seen) = (FaultyStore::new(), LastSeen::default());
        publish(&store, &[1], &mut seen).await.unwrap();
        let taken = StoredObject { marker, ..jwks(&store).await };
        store.place(DocumentKind::Jwks, taken.clone());
        for expected in [of_jwks(DriftKind::Marker { theirs }), Vec::new()] {
            let blocked = publish(&store, &[1, 2], &mut seen).await;
            assert!(matches!(blocked, Err(PublishError::Blocked { .. })), "{blocked:?}");
            assert_eq!(seen.take_drift(), expected);
        }
        assert_eq!(jwks(&store).await.bytes, taken.bytes, "it is not ours to repair");
    }
}

fn fault() -> impl Strategy<Value = Fault> {
    let kind = prop::sample::select(vec![
        StoreErrorKind::Conflict,
        StoreErrorKind::Unavailable,
        StoreErrorKind::TimedOut,
        StoreErrorKind::Denied,
    ]);
    prop_oneof![
        3 => Just(Fault::None),
        2 => kind.clone().prop_map(Fault::Before),
        3 => kind.prop_map(Fault::After),
        2 => Just(Fault::Rival(vec![0])),
        1 => Just(Fault::CrashAfter),
    ]
}

/// Publishes one set after another while answers are lost and a second writer of ours, who knows one of our keys,
/// comes in between.
async fn live(steps: Vec<(Vec<u8>, Vec<Fault>)>) -> Result<(), TestCaseError> {
    let (store, mut seen) = (FaultyStore::new(), LastSeen::default());
    let mut keys = vec![0];
    for (more, faults) in steps {
        store.heal();
        store.fail_writes(faults);
        // A key that a writer drops is tombstoned by it, or stays.
        keys.extend(more);
        let publishing = publish(&store, &keys, &mut seen);
        let _ = tokio::time::timeout(Duration::from_secs(3600), publishing).await;
        prop_assert_eq!(seen.take_drift(), Vec::new());
    }
    Ok(())
}

proptest! {
    #[test]
    fn nothing_that_writers_of_ours_do_is_drift(
        steps in prop::collection::vec((prop::collection::vec(0..5_u8, 0..3), prop::collection::vec(fault(), 0..5)), 1..8),
    ) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(live(steps))?;
    }
}

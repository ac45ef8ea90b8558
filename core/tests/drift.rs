//! What changed behind our back, row by row, and what did not.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod fixture;

use chancery_core::drift::{Drift, DriftKind, compare};
use chancery_core::publication::{
    Desired, LARGEST_OBJECT, Observed, StoredObject, Version, WriterMemory, plan,
};
use chancery_core::{
    CachePolicy, DocumentKind, DocumentSet, KeyId, Marker, Owner, WithdrawalCause, Withdrawals,
};
use fixture::{numbered_key, numbered_set};
use proptest::prelude::*;

fn owner(text: &str) -> Owner {
    text.parse().expect("an owner")
}

fn documents(numbers: &[u8]) -> DocumentSet {
    let issuer = "https://id.example.com".parse().expect("an issuer");
    DocumentSet::new(issuer, numbered_set(numbers).expect("keys"), CachePolicy::default())
}

fn id(number: u8) -> KeyId {
    numbered_key(number).key_id().clone()
}

fn object(kind: DocumentKind, numbers: &[u8], (version, decision): (&str, u64)) -> StoredObject {
    let document = documents(numbers).document(kind);
    StoredObject {
        bytes: document.bytes,
        media_type: Some(kind.media_type().to_owned()),
        cache_control: Some(document.cache.header()),
        marker: Some(Marker { decision, ..Marker::of(owner("us")) }),
        damage: None,
        version: Version(version.to_owned()),
    }
}

fn jwks(object: StoredObject) -> Observed {
    Observed { jwks: Some(object), discovery: None }
}

/// What drifted in the JWKS of a writer that publishes the keys 1 and 2 and has withdrawn 9.
fn drift(last: &Observed, now: &Observed) -> Vec<DriftKind> {
    let (documents, owner) = (documents(&[1, 2]), owner("us"));
    let withdrawals = Withdrawals::of([id(9)], WithdrawalCause::Retired, 1);
    let desired = Desired {
        documents: &documents,
        withdrawals: &withdrawals,
        owner: &owner,
        memory: WriterMemory::NONE,
        adopt_unmarked: false,
    };
    let found = compare(desired, last, now);
    assert!(found.iter().all(|drift| drift.document == DocumentKind::Jwks), "{found:?}");
    found.into_iter().map(|drift| drift.what).collect()
}

#[test]
fn every_change_that_is_not_ours_is_named_and_no_other() {
    use DriftKind::{Changed, Marker as Replaced, Vanished};
    let foreign = |number| DriftKind::ForeignKeys { kids: vec![id(number)], removed: false };
    let ours = |version: &str| object(DocumentKind::Jwks, &[1, 2], (version, 5));
    let with_keys = |numbers: &[u8], decision| object(DocumentKind::Jwks, numbers, ("b", decision));
    let before = jwks(ours("a"));
    let stranger = StoredObject { marker: Some(Marker::of(owner("them"))), ..ours("b") };
    let unmarked = StoredObject { marker: None, ..ours("b") };
    let header = StoredObject { cache_control: Some("no-store".to_owned()), ..ours("b") };
    let endless = StoredObject { bytes: vec![b' '; LARGEST_OBJECT + 1], ..ours("b") };
    let garbage = StoredObject { bytes: b"{".to_vec(), ..ours("b") };
    let damage = chancery_core::marker::DamagedMarker { owner: None, problem: "unreadable".to_owned() };
    let damaged = StoredObject { marker: None, damage: Some(Box::new(damage)), ..with_keys(&[1, 2, 7], 5) };
    for (what, now, expected) in [
        ("nothing", jwks(ours("a")), vec![]),
        ("a marker that nobody can read", jwks(damaged), vec![Changed, foreign(7)]),
        ("touched", jwks(ours("b")), vec![]),
        ("removed", Observed::default(), vec![Vanished]),
        ("taken", jwks(stranger.clone()), vec![Replaced { theirs: Some(owner("them")) }]),
        ("stripped", jwks(unmarked), vec![Replaced { theirs: None }]),
        ("another header", jwks(header), vec![Changed]),
        ("unreadable", jwks(garbage), vec![Changed]),
        ("endless", jwks(endless), vec![DriftKind::Oversize]),
        ("a key taken out", jwks(with_keys(&[1], 5)), vec![Changed]),
        ("a key slipped in", jwks(with_keys(&[1, 2, 7], 5)), vec![Changed, foreign(7)]),
        ("the same by somebody who counts on", jwks(with_keys(&[1, 2, 7], 6)), vec![foreign(7)]),
        ("an older version restored", jwks(with_keys(&[1], 4)), vec![Changed]),
        ("a withdrawn key restored", jwks(with_keys(&[1, 2, 9], 4)), vec![Changed]),
        ("another writer of ours", jwks(with_keys(&[2, 1], 6)), vec![]),
    ] {
        assert_eq!(drift(&before, &now), expected, "{what}");
    }
    for (what, last) in [("never seen", Observed::default()), ("never ours", jwks(stranger))] {
        assert_eq!(drift(&last, &before), [], "{what}");
        assert_eq!(drift(&last, &Observed::default()), [], "{what}");
    }
}

#[test]
fn a_known_foreign_key_is_reported_once() {
    let with = |version| jwks(object(DocumentKind::Jwks, &[1, 2, 7], (version, 5)));
    assert_eq!(drift(&with("a"), &with("b")), []);
}

#[test]
fn each_document_drifts_by_itself() {
    let (documents, owner) = (documents(&[1]), owner("us"));
    let desired = Desired {
        documents: &documents,
        withdrawals: Withdrawals::none(),
        owner: &owner,
        memory: WriterMemory::NONE,
        adopt_unmarked: false,
    };
    let both = |version| Observed {
        jwks: Some(object(DocumentKind::Jwks, &[1], (version, 1))),
        discovery: Some(object(DocumentKind::Discovery, &[1], (version, 1))),
    };
    let now = Observed { discovery: None, ..both("a") };
    let vanished = Drift { document: DocumentKind::Discovery, what: DriftKind::Vanished };
    assert_eq!(compare(desired, &both("a"), &now), [vanished]);
}

proptest! {
    /// A target that we wrote ourselves by a plan has not drifted, whatever was there before.
    #[test]
    fn our_own_writes_are_no_drift(
        held in prop::collection::vec(0u8..6, 1..5),
        wanted in prop::collection::vec(0u8..6, 1..5),
        decision in 0u64..4,
    ) {
        let (documents, owner) = (documents(&wanted), owner("us"));
        let desired = Desired { documents: &documents, withdrawals: Withdrawals::none(), owner: &owner, memory: WriterMemory::NONE, adopt_unmarked: false };
        let last = Observed {
            jwks: Some(object(DocumentKind::Jwks, &held, ("a", decision))),
            discovery: Some(object(DocumentKind::Discovery, &held, ("a", decision))),
        };
        let planned = plan(desired, &last).expect("not blocked");
        let mut now = last.clone();
        for write in &planned.writes {
            *now.object_mut(write.document.kind) = Some(StoredObject {
                bytes: write.document.bytes.clone(),
                media_type: Some(write.document.kind.media_type().to_owned()),
                cache_control: Some(write.document.cache.header()),
                marker: Some(write.marker.clone()), damage: None,
                version: Version("b".to_owned()),
            });
        }
        prop_assert_eq!(compare(desired, &last, &now), vec![]);
    }
}

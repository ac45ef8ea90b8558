//! The union of key sources, held against a model that only remembers when each key was last shown.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod fixture;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chancery_core::residence::{KeyUnion, Record, SourceId};
use chancery_core::{Jwks, KeyId, PublicKey};
use fixture::{numbered_key, numbered_set};
use proptest::prelude::*;

const RESIDENCE: Duration = Duration::from_secs(100);

fn source(position: usize) -> SourceId {
    SourceId { position, name: "a".to_owned() }
}

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

fn keys(numbers: &[u8]) -> Vec<PublicKey> {
    numbers.iter().copied().map(numbered_key).collect()
}

fn id(number: u8) -> KeyId {
    numbered_key(number).key_id().clone()
}

fn restarted(union: &KeyUnion) -> KeyUnion {
    let json = serde_json::to_string(&union.record()).expect("a record is text");
    KeyUnion::restore(RESIDENCE, &serde_json::from_str(&json).expect("the same"))
}

#[test]
fn publishes_the_sources_in_their_order() {
    let mut union = KeyUnion::new(RESIDENCE);
    assert_eq!(union.jwks(), None);
    union.apply(source(1), keys(&[5, 1]));
    union.apply(source(0), keys(&[7, 5]));
    assert_eq!(union.jwks(), numbered_set(&[7, 5, 1]), "by position, not by arrival; repetitions once");
}

#[test]
fn withdraws_a_vanished_key_after_its_residence_and_not_before() {
    let mut union = KeyUnion::new(RESIDENCE);
    union.apply(source(0), keys(&[1, 2]));
    union.apply(source(0), keys(&[2]));
    assert_eq!(union.next_withdrawal(), Some(RESIDENCE));
    assert_eq!(union.elapse(seconds(99)), []);
    assert_eq!(union.residents().collect::<Vec<_>>(), [(&id(1), seconds(99))]);
    assert_eq!((union.jwks(), union.next_withdrawal()), (numbered_set(&[2, 1]), Some(seconds(1))));
    assert_eq!(union.elapse(seconds(1)), [id(1)]);
    assert_eq!((union.jwks(), union.next_withdrawal()), (numbered_set(&[2]), None));
    assert_eq!(union.tombstones(), [id(1)]);
}

#[test]
fn a_flapping_replica_removes_nothing() {
    let mut union = KeyUnion::new(RESIDENCE);
    union.apply(source(0), keys(&[1]));
    for _ in 0..50 {
        union.apply(source(1), keys(&[1, 2]));
        union.elapse(seconds(60));
        union.apply(source(1), keys(&[1]));
        assert_eq!(union.elapse(seconds(60)), []);
    }
    assert_eq!(union.jwks(), numbered_set(&[1, 2]));
}

#[test]
fn a_key_that_comes_back_is_live_again() {
    let mut union = KeyUnion::new(RESIDENCE);
    union.apply(source(0), keys(&[1, 2]));
    union.apply(source(0), keys(&[1]));
    assert_eq!(union.elapse(seconds(100)), [id(2)]);
    union.apply(source(1), keys(&[2]));
    assert!(union.tombstones().is_empty());
    assert_eq!(union.jwks(), numbered_set(&[1, 2]));
}

#[test]
fn time_stands_still_while_no_source_shows_a_key() {
    let mut union = KeyUnion::new(RESIDENCE);
    union.apply(source(0), keys(&[1]));
    union.apply(source(0), Vec::new());
    assert_eq!(union.elapse(seconds(10_000)), []);
    assert_eq!((union.jwks(), union.next_withdrawal()), (numbered_set(&[1]), None));
    union.apply(source(0), keys(&[2]));
    assert_eq!(union.elapse(seconds(99)), [], "the time before does not count");
    assert_eq!(union.elapse(seconds(1)), [id(1)]);
}

#[test]
fn a_source_that_leaves_keeps_its_keys_for_their_residence() {
    let mut union = KeyUnion::new(RESIDENCE);
    union.apply(source(0), keys(&[1]));
    union.apply(source(1), keys(&[2]));
    union.remove(&source(1));
    union.remove(&source(7));
    assert_eq!(union.jwks(), numbered_set(&[1, 2]));
    assert_eq!(union.elapse(RESIDENCE), [id(2)]);
}

#[test]
fn a_restart_changes_no_byte_even_before_the_first_reading() {
    let mut union = KeyUnion::new(RESIDENCE);
    union.apply(source(0), keys(&[9, 3, 6]));
    union.apply(source(1), keys(&[8, 2]));
    let expected = union.jwks();
    let mut union = restarted(&union);
    assert_eq!(union.jwks(), expected);
    union.apply(source(0), keys(&[9, 3, 6]));
    assert_eq!(union.jwks(), expected, "one source does not answer");
    assert_eq!(union.elapse(seconds(99)), []);
    union.apply(source(1), keys(&[8, 2]));
    assert_eq!((union.jwks(), union.residents().count()), (expected, 0));
}

#[test]
fn a_record_that_lost_a_key_is_refused() {
    let good = serde_json::json!({
        "keys": [{ "publicKey": numbered_key(1).to_pem(), "missingForSeconds": 3 }],
        "tombstones": [id(2)],
    });
    assert!(serde_json::from_value::<Record>(good.clone()).is_ok());
    for broken in ["", "-----BEGIN PUBLIC KEY-----\n!\n-----END PUBLIC KEY-----\n"] {
        let mut record = good.clone();
        record["keys"][0]["publicKey"] = broken.into();
        let error = serde_json::from_value::<Record>(record).expect_err("broken").to_string();
        assert!(error.contains("expected one PUBLIC KEY PEM block"), "{error}");
    }
    let mut record = good;
    record["tombstones"][0] = "not a key id".into();
    assert!(serde_json::from_value::<Record>(record).is_err());
}

#[test]
fn a_record_cannot_bury_a_key_that_it_keeps() {
    let mut union = KeyUnion::new(RESIDENCE);
    union.apply(source(0), keys(&[1]));
    let mut record = union.record();
    record.tombstones.push(id(1));
    let union = KeyUnion::restore(RESIDENCE, &record);
    assert!(union.tombstones().is_empty());
    assert_eq!(union.jwks(), numbered_set(&[1]));
}

#[derive(Clone, Debug)]
enum Event {
    Apply(usize, Vec<u8>),
    Remove(usize),
    Elapse(u64),
    Restart,
}

fn any_events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => (0usize..3, prop::collection::vec(0u8..6, 0..4)).prop_map(|(at, keys)| Event::Apply(at, keys)),
        1 => (0usize..3).prop_map(Event::Remove),
        4 => (0u64..130).prop_map(Event::Elapse),
        1 => Just(Event::Restart),
    ];
    prop::collection::vec(event, 0..40)
}

/// What must be true, told without the words of the union.
#[derive(Default)]
struct Model {
    shown: BTreeMap<usize, Vec<u8>>,
    /// Keys that are published, with the counted time since a source showed them.
    missing: BTreeMap<u8, u64>,
    withdrawn: BTreeSet<u8>,
}

impl Model {
    fn live(&self) -> BTreeSet<u8> {
        self.shown.values().flatten().copied().collect()
    }

    fn follow(&mut self, event: &Event) {
        match event {
            Event::Apply(at, keys) => drop(self.shown.insert(*at, keys.clone())),
            Event::Remove(at) => drop(self.shown.remove(at)),
            Event::Elapse(time) if !self.live().is_empty() => {
                self.missing.values_mut().for_each(|missing| *missing += time);
            }
            Event::Elapse(_) => {}
            Event::Restart => self.shown.clear(),
        }
        for key in self.live() {
            self.missing.insert(key, 0);
            self.withdrawn.remove(&key);
        }
        if matches!(event, Event::Elapse(_)) && !self.live().is_empty() {
            let over = |missing: u64| seconds(missing) >= RESIDENCE;
            self.withdrawn
                .extend(self.missing.iter().filter(|(_, missing)| over(**missing)).map(|(key, _)| *key));
            self.missing.retain(|_, missing| !over(*missing));
        }
    }
}

fn follow(union: &mut KeyUnion, event: &Event) -> Vec<KeyId> {
    match event {
        Event::Apply(at, numbers) => union.apply(source(*at), keys(numbers)),
        Event::Remove(at) => union.remove(&source(*at)),
        Event::Elapse(time) => return union.elapse(seconds(*time)),
        Event::Restart => *union = restarted(union),
    }
    Vec::new()
}

fn ids(jwks: Option<&Jwks>) -> BTreeSet<KeyId> {
    jwks.into_iter().flat_map(Jwks::keys).map(|key| key.key_id().clone()).collect()
}

proptest! {
    #[test]
    fn no_sequence_drops_a_key_before_its_residence_is_over(events in any_events()) {
        let (mut union, mut model) = (KeyUnion::new(RESIDENCE), Model::default());
        for event in &events {
            let before = ids(union.jwks().as_ref());
            let withdrawn = follow(&mut union, event);
            model.follow(event);

            let published = ids(union.jwks().as_ref());
            prop_assert_eq!(&published, &model.missing.keys().copied().map(id).collect::<BTreeSet<_>>());
            let tombstones: BTreeSet<_> = union.tombstones().iter().cloned().collect();
            prop_assert_eq!(&tombstones, &model.withdrawn.iter().copied().map(id).collect());
            let gone: BTreeSet<KeyId> = before.difference(&published).cloned().collect();
            prop_assert_eq!(gone, withdrawn.into_iter().collect::<BTreeSet<_>>(), "what leaves is announced");
            prop_assert!(published.is_disjoint(&tombstones));
            prop_assert!(before.is_empty() || !published.is_empty(), "never an empty set again");
        }
    }

    #[test]
    fn a_restart_is_invisible_once_the_sources_are_read_again(events in any_events()) {
        let (mut union, mut readings) = (KeyUnion::new(RESIDENCE), BTreeMap::new());
        for event in events.iter().filter(|event| !matches!(event, Event::Restart)) {
            follow(&mut union, event);
            match event {
                Event::Apply(at, numbers) => drop(readings.insert(*at, numbers.clone())),
                Event::Remove(at) => drop(readings.remove(at)),
                _ => {}
            }
        }
        let mut again = restarted(&union);
        prop_assert_eq!(again.jwks(), union.jwks(), "before the first reading");
        prop_assert_eq!(again.record(), union.record());
        for (at, numbers) in readings {
            again.apply(source(at), keys(&numbers));
        }
        // Keys that are gone for good may keep their recorded order among themselves.
        prop_assert_eq!(again.jwks(), union.jwks());
        prop_assert_eq!(again.tombstones(), union.tombstones());
        prop_assert_eq!(again.residents().collect::<Vec<_>>(), union.residents().collect::<Vec<_>>());
    }

    #[test]
    fn reading_the_same_again_changes_nothing(events in any_events(), numbers in prop::collection::vec(0u8..6, 1..4)) {
        let mut union = KeyUnion::new(RESIDENCE);
        for event in &events {
            follow(&mut union, event);
        }
        union.apply(source(0), keys(&numbers));
        let (jwks, record) = (union.jwks(), union.record());
        union.apply(source(0), keys(&numbers));
        prop_assert_eq!((union.jwks(), union.record()), (jwks, record));
    }
}

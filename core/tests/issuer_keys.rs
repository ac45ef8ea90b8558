//! The keys of an issuer, held against a model that only remembers when each key was last shown.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod fixture;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chancery_core::WithdrawalCause::{Expired, Retired, Revoked};
use chancery_core::issuer_keys::{IssuerKeys, KeyRecord, OtherDecision};
use chancery_core::retention::{SourceId, SourceReading};
use chancery_core::ring::{Position, RingDecision};
use chancery_core::withdrawal::Withdrawal;
use chancery_core::{Jwks, KeyId, PublicKey, WithdrawalCause};
use fixture::{numbered_key, numbered_set};
use proptest::prelude::*;

const RETENTION: Duration = Duration::from_secs(100);

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

fn complete(keys: Vec<PublicKey>) -> SourceReading {
    SourceReading::Complete(keys)
}

fn retained(issuer: &IssuerKeys) -> Vec<(KeyId, Duration)> {
    let retained = issuer.retention().retained();
    retained.map(|retained| (retained.key.key_id().clone(), retained.missing_for)).collect()
}

fn restarted(issuer: &IssuerKeys) -> IssuerKeys {
    let json = serde_json::to_string(&issuer.record()).expect("a record is text");
    IssuerKeys::restore(RETENTION, &serde_json::from_str(&json).expect("the same"))
}

#[test]
fn publishes_the_sources_in_their_order() {
    let mut issuer = IssuerKeys::new(RETENTION);
    assert_eq!(issuer.keys(), None);
    issuer.observe(source(1), complete(keys(&[5, 1])));
    issuer.observe(source(0), complete(keys(&[7, 5])));
    assert_eq!(issuer.keys(), numbered_set(&[7, 5, 1]), "by position, not by arrival; repetitions once");
}

/// What a ring says that has come to this generation.
fn ring(generation: u64, shown: &[u8], withdrawn: &[(u8, WithdrawalCause)]) -> RingDecision {
    let withdrawn = withdrawn.iter().map(|(number, cause)| (id(*number), *cause));
    RingDecision {
        position: Position { epoch: 1, generation },
        keys: keys(shown),
        withdrawn: withdrawn.collect(),
    }
}

#[test]
fn what_a_ring_takes_out_is_gone_at_once_whoever_shows_it_and_comes_back_only_if_it_was_not_revoked() {
    let mut issuer = IssuerKeys::new(RETENTION);
    issuer.observe(source(0), complete(keys(&[1, 2, 3])));
    issuer.decide(ring(1, &[1, 2], &[])).expect("the first");
    assert_eq!(issuer.keys(), numbered_set(&[1, 2, 3]), "what others show is united with it");
    let over = [(1, Retired), (3, Revoked)];
    issuer.decide(ring(2, &[2], &over)).expect("a later one");
    assert_eq!(issuer.keys(), numbered_set(&[2]), "although the file still shows them");
    issuer.decide(ring(3, &[1, 2, 3], &[])).expect("a later one");
    assert_eq!(issuer.keys(), numbered_set(&[1, 2]), "revoked is revoked");
}

#[test]
fn a_ring_that_cannot_be_read_after_a_restart_or_comes_from_a_backup_takes_nothing_away() {
    let mut issuer = IssuerKeys::new(RETENTION);
    issuer.decide(ring(7, &[1, 2], &[])).expect("the first");
    let mut issuer = restarted(&issuer);
    assert_eq!(issuer.keys(), numbered_set(&[1, 2]));
    issuer.elapse(seconds(10_000), false);
    assert_eq!(issuer.keys(), numbered_set(&[1, 2]), "time is nothing to what was decided");

    let older = issuer.decide(ring(6, &[1], &[(2, Revoked)])).expect_err("a backup");
    assert!(
        older.to_string().contains("generation 6") && older.to_string().contains("ring reset"),
        "{older}"
    );
    assert_eq!(issuer.keys(), numbered_set(&[1, 2]));
    issuer.decide(ring(7, &[1, 2], &[])).expect("the same again");
}

#[test]
fn another_replica_s_record_of_a_later_ring_is_followed() {
    let (mut ours, mut theirs) = (IssuerKeys::new(RETENTION), IssuerKeys::new(RETENTION));
    ours.decide(ring(1, &[1, 2], &[])).expect("the first");
    theirs.decide(ring(2, &[2, 3], &[(1, Retired)])).expect("the first");
    ours.merge(&theirs.record());
    assert_eq!(ours.keys(), numbered_set(&[2, 3]));
    theirs.merge(&IssuerKeys::new(RETENTION).record());
    assert_eq!(theirs.keys(), numbered_set(&[2, 3]), "nothing is no ring");
}

#[test]
fn the_keys_of_a_ring_that_is_configured_no_more_stay_for_their_retention() {
    let mut issuer = IssuerKeys::new(RETENTION);
    issuer.decide(ring(1, &[1], &[])).expect("the first");
    let mut issuer = restarted(&issuer);
    issuer.release_decided();
    assert_eq!(issuer.keys(), numbered_set(&[1]));
    issuer.observe(source(0), complete(keys(&[2])));
    issuer.elapse(seconds(99), true);
    assert_eq!(issuer.keys(), numbered_set(&[2, 1]));
    assert_eq!(issuer.elapse(seconds(1), true), [id(1)]);

    let mut other_way = IssuerKeys::new(RETENTION);
    other_way.observe(source(0), complete(keys(&[2])));
    let mut other_way = restarted(&other_way);
    other_way.decide(ring(1, &[1], &[])).expect("the first");
    assert_eq!(other_way.elapse(RETENTION, true), [id(2)], "a ring counts as somebody who shows keys");
}

#[test]
fn withdraws_a_vanished_key_after_its_retention_and_not_before() {
    let mut issuer = IssuerKeys::new(RETENTION);
    issuer.observe(source(0), complete(keys(&[1, 2])));
    issuer.observe(source(0), complete(keys(&[2])));
    assert_eq!(issuer.retention().next_expiry(true), Some(RETENTION));
    assert_eq!(issuer.elapse(seconds(99), true), []);
    assert_eq!(retained(&issuer), [(id(1), seconds(99))]);
    assert_eq!(
        (issuer.keys(), issuer.retention().next_expiry(true)),
        (numbered_set(&[2, 1]), Some(seconds(1)))
    );
    assert_eq!(issuer.elapse(seconds(1), true), [id(1)]);
    assert_eq!((issuer.keys(), issuer.retention().next_expiry(true)), (numbered_set(&[2]), None));
    assert_eq!(issuer.withdrawals().cause(&id(1)), Some(Expired));
}

#[test]
fn a_flapping_replica_removes_nothing() {
    let mut issuer = IssuerKeys::new(RETENTION);
    issuer.observe(source(0), complete(keys(&[1])));
    for _ in 0..50 {
        issuer.observe(source(1), complete(keys(&[1, 2])));
        issuer.elapse(seconds(60), true);
        issuer.observe(source(1), complete(keys(&[1])));
        assert_eq!(issuer.elapse(seconds(60), true), []);
    }
    assert_eq!(issuer.keys(), numbered_set(&[1, 2]));
}

#[test]
fn a_key_that_comes_back_is_live_again() {
    let mut issuer = IssuerKeys::new(RETENTION);
    issuer.observe(source(0), complete(keys(&[1, 2])));
    issuer.observe(source(0), complete(keys(&[1])));
    assert_eq!(issuer.elapse(seconds(100), true), [id(2)]);
    issuer.observe(source(1), complete(keys(&[2])));
    assert!(issuer.withdrawals().is_empty());
    assert_eq!(issuer.keys(), numbered_set(&[1, 2]));
}

#[test]
fn time_stands_still_while_no_source_shows_a_key() {
    let mut issuer = IssuerKeys::new(RETENTION);
    issuer.observe(source(0), complete(keys(&[1])));
    issuer.observe(source(0), complete(Vec::new()));
    assert_eq!(issuer.elapse(seconds(10_000), true), []);
    assert_eq!((issuer.keys(), issuer.retention().next_expiry(true)), (numbered_set(&[1]), None));
    issuer.observe(source(0), complete(keys(&[2])));
    assert_eq!(issuer.elapse(seconds(99), true), [], "the time before does not count");
    assert_eq!(issuer.elapse(seconds(1), true), [id(1)]);
}

#[test]
fn a_source_that_leaves_keeps_its_keys_for_their_retention() {
    let mut issuer = IssuerKeys::new(RETENTION);
    issuer.observe(source(0), complete(keys(&[1])));
    issuer.observe(source(1), complete(keys(&[2])));
    issuer.remove_source(&source(1));
    issuer.remove_source(&source(7));
    assert_eq!(issuer.keys(), numbered_set(&[1, 2]));
    assert_eq!(issuer.elapse(RETENTION, true), [id(2)]);
}

#[test]
fn a_restart_changes_no_byte_even_before_the_first_reading() {
    let mut issuer = IssuerKeys::new(RETENTION);
    issuer.observe(source(0), complete(keys(&[9, 3, 6])));
    issuer.observe(source(1), complete(keys(&[8, 2])));
    let expected = issuer.keys();
    let mut issuer = restarted(&issuer);
    assert_eq!(issuer.keys(), expected);
    issuer.observe(source(0), complete(keys(&[9, 3, 6])));
    assert_eq!(issuer.keys(), expected, "one source does not answer");
    assert_eq!(issuer.elapse(seconds(99), true), []);
    issuer.observe(source(1), complete(keys(&[8, 2])));
    assert_eq!((issuer.keys(), retained(&issuer).len()), (expected, 0));
}

#[test]
fn a_record_that_lost_a_key_is_refused() {
    let good = serde_json::json!({
        "keys": [{ "publicKey": numbered_key(1).to_pem(), "missingForSeconds": 3 }],
        "withdrawals": [{ "kid": id(2), "cause": "revoked", "decision": 1 }],
    });
    assert!(serde_json::from_value::<KeyRecord>(good.clone()).is_ok());
    for broken in ["", "-----BEGIN PUBLIC KEY-----\n!\n-----END PUBLIC KEY-----\n"] {
        let mut record = good.clone();
        record["keys"][0]["publicKey"] = broken.into();
        let error = serde_json::from_value::<KeyRecord>(record).expect_err("broken").to_string();
        assert!(error.contains("expected one PUBLIC KEY PEM block"), "{error}");
    }
    let mut record = good;
    record["withdrawals"][0]["kid"] = "not a key id".into();
    assert!(serde_json::from_value::<KeyRecord>(record).is_err());
}

#[test]
fn a_record_cannot_bury_a_key_that_it_keeps() {
    let mut issuer = IssuerKeys::new(RETENTION);
    issuer.observe(source(0), complete(keys(&[1])));
    let mut record = issuer.record();
    record.withdrawals = chancery_core::Withdrawals::of([id(1)], Expired, 1);
    let issuer = IssuerKeys::restore(RETENTION, &record);
    assert!(issuer.withdrawals().is_empty());
    assert_eq!(issuer.keys(), numbered_set(&[1]));
}

#[test]
fn a_key_does_not_age_while_its_own_source_was_not_read_since_the_start() {
    let [a, b] = ["a", "b"].map(|name| SourceId { position: 0, name: name.to_owned() });
    let mut issuer = IssuerKeys::new(RETENTION);
    issuer.observe(a.clone(), complete(keys(&[1])));
    issuer.observe(b.clone(), complete(keys(&[2])));
    let mut issuer = restarted(&issuer);
    issuer.observe(a, complete(keys(&[1])));
    assert_eq!(issuer.elapse(seconds(10_000), false), []);
    issuer.observe(b, complete(keys(&[3])));
    assert_eq!(issuer.elapse(RETENTION, false), [id(2)]);
}

#[test]
fn a_revocation_is_a_decision_though_the_set_stays() {
    let mut issuer = IssuerKeys::new(RETENTION);
    issuer.observe(source(0), complete(keys(&[1])));
    let before = issuer.publish().expect("a key");
    issuer.withdraw(&id(2), Revoked);
    let after = issuer.publish().expect("a key");
    assert_eq!((after.jwks, after.decision), (before.jwks, before.decision + 1), "others must hear of it");
}

/// A marker has room for 90.
#[test]
fn as_many_keys_as_are_ever_revoked_stay_revoked_whoever_shows_them() {
    let all: Vec<u8> = (0..=250).collect();
    let mut issuer = IssuerKeys::new(RETENTION);
    issuer.observe(source(0), complete(keys(&all)));
    for number in 1..=250 {
        issuer.withdraw(&id(number), Revoked);
    }
    let mut issuer = restarted(&issuer);
    issuer.observe(source(0), complete(keys(&all)));
    assert_eq!(issuer.keys(), numbered_set(&[0]));
    issuer.adopt(OtherDecision { decision: u64::MAX / 2, published: keys(&all), withdrawn: Vec::new() });
    assert_eq!(issuer.import(keys(&all)), Vec::<KeyId>::new());
    assert_eq!(issuer.keys(), numbered_set(&[0]));
}

#[test]
fn a_state_that_begins_anew_outranks_what_the_lost_one_published() {
    let mut issuer = IssuerKeys::restore(RETENTION, &KeyRecord::begin(1000));
    issuer.observe(source(0), complete(keys(&[1])));
    assert_eq!(issuer.publish().expect("a key").decision, 1000);
    let withdrawn = Withdrawal { key: (&id(1)).into(), cause: Retired, decision: 999 };
    issuer.adopt(OtherDecision { decision: 999, published: keys(&[2]), withdrawn: vec![withdrawn] });
    assert_eq!(issuer.keys(), numbered_set(&[1, 2]), "an older one withdraws nothing");
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

/// What must be true, told without the words of the issuer.
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
            let over = |missing: u64| seconds(missing) >= RETENTION;
            self.withdrawn
                .extend(self.missing.iter().filter(|(_, missing)| over(**missing)).map(|(key, _)| *key));
            self.missing.retain(|_, missing| !over(*missing));
        }
    }
}

fn follow(issuer: &mut IssuerKeys, event: &Event) -> Vec<KeyId> {
    match event {
        Event::Apply(at, numbers) => issuer.observe(source(*at), complete(keys(numbers))),
        Event::Remove(at) => issuer.remove_source(&source(*at)),
        Event::Elapse(time) => return issuer.elapse(seconds(*time), true),
        Event::Restart => *issuer = restarted(issuer),
    }
    Vec::new()
}

fn ids(jwks: Option<&Jwks>) -> BTreeSet<KeyId> {
    jwks.into_iter().flat_map(Jwks::keys).map(|key| key.key_id().clone()).collect()
}

proptest! {
    #[test]
    fn no_sequence_drops_a_key_before_its_retention_is_over(events in any_events()) {
        let (mut issuer, mut model) = (IssuerKeys::new(RETENTION), Model::default());
        for event in &events {
            let before = ids(issuer.keys().as_ref());
            let withdrawn = follow(&mut issuer, event);
            model.follow(event);

            let published = ids(issuer.keys().as_ref());
            prop_assert_eq!(&published, &model.missing.keys().copied().map(id).collect::<BTreeSet<_>>());
            let withdrawn_keys: BTreeSet<_> = (0..6).map(id).filter(|id| issuer.withdrawals().contains(id)).collect();
            prop_assert_eq!(&withdrawn_keys, &model.withdrawn.iter().copied().map(id).collect());
            let gone: BTreeSet<KeyId> = before.difference(&published).cloned().collect();
            prop_assert_eq!(gone, withdrawn.into_iter().collect::<BTreeSet<_>>(), "what leaves is announced");
            prop_assert!(published.is_disjoint(&withdrawn_keys));
            prop_assert!(before.is_empty() || !published.is_empty(), "never an empty set again");
        }
    }

    #[test]
    fn a_restart_is_invisible_once_the_sources_are_read_again(events in any_events()) {
        let (mut issuer, mut readings) = (IssuerKeys::new(RETENTION), BTreeMap::new());
        for event in events.iter().filter(|event| !matches!(event, Event::Restart)) {
            follow(&mut issuer, event);
            match event {
                Event::Apply(at, numbers) => drop(readings.insert(*at, numbers.clone())),
                Event::Remove(at) => drop(readings.remove(at)),
                _ => {}
            }
        }
        let mut again = restarted(&issuer);
        prop_assert_eq!(again.keys(), issuer.keys(), "before the first reading");
        prop_assert_eq!(again.record(), issuer.record());
        for (at, numbers) in readings {
            again.observe(source(at), complete(keys(&numbers)));
        }
        // Keys that are gone for good may keep their recorded order among themselves.
        prop_assert_eq!(again.keys(), issuer.keys());
        prop_assert_eq!(again.withdrawals(), issuer.withdrawals());
        prop_assert_eq!(retained(&again), retained(&issuer));
    }

    #[test]
    fn reading_the_same_again_changes_nothing(events in any_events(), numbers in prop::collection::vec(0u8..6, 1..4)) {
        let mut issuer = IssuerKeys::new(RETENTION);
        for event in &events {
            follow(&mut issuer, event);
        }
        issuer.observe(source(0), complete(keys(&numbers)));
        let (jwks, record) = (issuer.keys(), issuer.record());
        issuer.observe(source(0), complete(keys(&numbers)));
        prop_assert_eq!((issuer.keys(), issuer.record()), (jwks, record));
    }
}

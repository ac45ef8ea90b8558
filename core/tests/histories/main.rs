//! Thousands of histories of one issuer: writers that crash, lose answers, start from backups and overtake each other, sources
//! that fall silent, and an intruder who can write to every target. Whatever happens, no write takes away a key that
//! relying parties were promised, and no revoked or planted key outlives a period.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

#[path = "../fixture/mod.rs"]
mod fixture;
mod world;
mod writer;

use std::cell::Cell;
use std::collections::BTreeSet;

use chancery_core::DocumentKind;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, RngSeed, TestRng, TestRunner};
use world::{Event, Fate, Intrusion, TARGETS, World};
use writer::{SOURCES, WRITERS, source_of};

/// How many are played where `HISTORIES` names no other number.
const HISTORIES: u32 = 10_000;
/// The histories of every run that does not set `HISTORY_SEED`: a failure is then that of a change, and not of a day.
const SEED: u64 = 33_241_956_352;

fn any_intrusion() -> impl Strategy<Value = Intrusion> {
    let kind = prop_oneof![3 => Just(DocumentKind::Jwks), 1 => Just(DocumentKind::Discovery)];
    prop_oneof![
        2 => (0u8..2).prop_map(Intrusion::Plant),
        1 => (0u8..2).prop_map(Intrusion::PlantWithoutProof),
        1 => (0u8..2).prop_map(Intrusion::PlantWithoutMarker),
        1 => (0u8..6, any::<bool>()).prop_map(|(key, ahead)| Intrusion::ForgeWithdrawal(key, ahead)),
        1 => kind.clone().prop_map(Intrusion::Delete),
        1 => kind.clone().prop_map(Intrusion::Claim),
        2 => (kind, any::<prop::sample::Index>()).prop_map(|(kind, which)| Intrusion::Replay(kind, which)),
    ]
}

fn any_event() -> impl Strategy<Value = Event> {
    let writer = || 0..WRITERS;
    let target = || 0..TARGETS;
    let fate = prop_oneof![6 => Just(Fate::Done), 1 => Just(Fate::AnswerLost), 1 => Just(Fate::Refused)];
    prop_oneof![
        3 => prop::collection::btree_set(0u8..6, 1..4).prop_map(Event::Rotate),
        4 => (writer(), 0..SOURCES).prop_map(|(writer, source)| Event::Read(writer, source)),
        3 => (writer(), 0u64..130).prop_map(|(writer, time)| Event::Elapse(writer, time)),
        8 => (writer(), target()).prop_map(|(writer, target)| Event::Look(writer, target)),
        14 => (writer(), target(), fate).prop_map(|(writer, target, fate)| Event::Write(writer, target, fate)),
        3 => writer().prop_map(Event::Period),
        1 => writer().prop_map(Event::Crash),
        1 => writer().prop_map(Event::GiveUpWaiting),
        1 => (1..WRITERS).prop_map(Event::Backup),
        1 => (1..WRITERS).prop_map(Event::RestoreBackup),
        1 => Just(Event::LoseState(WRITERS - 1)),
        1 => (writer(), 0u8..6).prop_map(|(writer, key)| Event::Revoke(writer, key)),
        1 => (writer(), 0u8..6).prop_map(|(writer, key)| Event::Retire(writer, key)),
        1 => target().prop_map(Event::Precede),
        6 => (target(), any_intrusion()).prop_map(|(target, what)| Event::Intrude(target, what)),
    ]
}

fn any_history() -> impl Strategy<Value = (Vec<Event>, Option<usize>)> {
    let silent = prop_oneof![3 => Just(None), 1 => (0usize..120).prop_map(Some)];
    (prop::collection::vec(any_event(), 0..120), silent)
}

/// Lives through a history. From the event `silent` on, the second source never answers again.
fn lives_through(history: &[Event], silent: Option<usize>) -> Result<(), TestCaseError> {
    let mut world = World::new();
    for (number, event) in history.iter().enumerate() {
        if silent == Some(number) {
            world.silence();
        }
        let before = world.promised.clone();
        let revoked = world.known_revoked();
        world
            .follow(event)
            .map_err(|what| TestCaseError::fail(format!("event {number}, {event:?}: {what}")))?;
        if !matches!(event, Event::Crash(_) | Event::RestoreBackup(_) | Event::LoseState(_)) {
            let kept = revoked.iter().zip(world.known_revoked()).all(|(before, now)| before.is_subset(&now));
            prop_assert!(kept, "event {}, {:?}, brings a revoked key back", number, event);
        }
        if matches!(event, Event::Write(..) | Event::Period(_)) {
            for (target, before) in before.iter().enumerate() {
                let lost: Vec<_> = before.iter().filter(|key| !world.shows(target, **key)).collect();
                prop_assert!(
                    lost.is_empty(),
                    "event {}, {:?}, takes {:?} away from {}",
                    number,
                    event,
                    lost,
                    target
                );
            }
        }
    }
    world.calm().map_err(TestCaseError::fail)
}

/// Plays `number` histories, one half beside the other: each half has a seed of its own.
fn histories<S: Strategy<Value = (Vec<Event>, Option<usize>)>>(number: u32, strategy: impl Fn() -> S + Sync) {
    let seed = std::env::var("HISTORY_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or(SEED);
    let wanted: Option<u32> = std::env::var("HISTORIES").ok().and_then(|number| number.parse().ok());
    let number = wanted.map_or(number, |wanted| wanted.min(number));
    println!("{number} histories, seed {seed}; HISTORY_SEED={seed} repeats them");
    std::thread::scope(|scope| {
        scope.spawn(|| half(number.div_ceil(2), seed, &strategy()));
        half(number / 2, seed.wrapping_add(1), &strategy());
    });
}

fn half(number: u32, seed: u64, strategy: &impl Strategy<Value = (Vec<Event>, Option<usize>)>) {
    let config = Config {
        cases: number,
        rng_algorithm: RngAlgorithm::XorShift,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_iters: Config::default().max_shrink_iters.min(3000),
        ..Config::default()
    };
    let rng = TestRng::from_seed(config.rng_algorithm, &seed_bytes(seed));
    let mut runner = TestRunner::new_with_rng(config, rng);
    // Counted until the first that fails; those after it are shorter forms of it.
    let (played, failed) = (Cell::new(0), Cell::new(false));
    let result = runner.run(strategy, |(history, silent)| {
        let result = lives_through(&history, silent);
        played.set(played.get() + u32::from(!failed.get()));
        failed.set(failed.get() || result.is_err());
        result
    });
    if let Err(failure) = result {
        panic!("seed {seed}, history {}: {failure}", played.get());
    }
}

#[test]
fn no_history_takes_a_promised_key_away_or_lets_an_intruder_s_key_stay() {
    histories(HISTORIES, any_history);
}

#[test]
fn a_lost_answer_at_every_write_is_known_as_our_own() {
    let lost = || {
        any_history().prop_map(|(mut history, silent)| {
            for event in &mut history {
                if let Event::Write(_, _, fate) = event {
                    *fate = Fate::AnswerLost;
                }
            }
            (history, silent)
        })
    };
    histories(HISTORIES / 10, lost);
}

/// A writer has read that a source lacks a key, which then came back; the source never answers it again. Another writer
/// has seen the key, and publishes it: nothing takes it away.
#[test]
fn a_key_that_a_silent_source_once_lacked_stays_while_nobody_can_tell_whether_it_is_gone() {
    let both = || Event::Rotate(BTreeSet::from([0, 3]));
    let before = [both(), Event::Elapse(1, 0), Event::Period(1), Event::Elapse(0, 0), Event::Period(0)];
    let lacks = [Event::Rotate(BTreeSet::from([0])), Event::Read(0, 1), both(), Event::Read(1, 1)];
    let after = [Event::Period(1), Event::Elapse(0, 150), Event::Period(0), Event::Period(1)];
    let history = [&before[..], &lacks[..], &after[..]].concat();
    for silent in 7..=9 {
        lives_through(&history, Some(silent)).unwrap_or_else(|failure| panic!("{silent}: {failure}"));
    }
}

/// The same somewhere in any history.
#[test]
fn a_key_that_a_source_lacked_before_it_fell_silent_is_never_taken_away() {
    histories(HISTORIES / 10, silent_after_it_lacked_a_key);
}

fn silent_after_it_lacked_a_key() -> impl Strategy<Value = (Vec<Event>, Option<usize>)> {
    let lacks = (0..WRITERS, 0..WRITERS, 0usize..60, prop::collection::btree_set(0u8..6, 1..4));
    (any_history(), lacks).prop_map(|((mut history, _), (reads, misses, at, live))| {
        let at = at.min(history.len());
        let without = live.iter().copied().filter(|number| source_of(*number) == 0).collect();
        let (with, without) = (Event::Rotate(live), Event::Rotate(without));
        let lacks = [
            with.clone(),
            Event::Elapse(reads, 0),
            Event::Period(reads),
            Event::Elapse(misses, 0),
            without,
            Event::Read(misses, 1),
            with,
        ];
        let silent = at + lacks.len();
        history.splice(at..at, lacks);
        (history, Some(silent))
    })
}

/// What `XorShift` begins with: its other half must not be zero where the seed is.
fn seed_bytes(seed: u64) -> [u8; 16] {
    let mut bytes = [0x5a; 16];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes
}

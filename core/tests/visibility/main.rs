//! The visibility record: row by row, held against a model that keeps the whole history, against caches that are
//! simulated, and as another process reads it.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod caches;
#[path = "../fixture/mod.rs"]
mod fixture;
mod lifetimes;
mod model;
mod reader;
mod rows;

use std::collections::BTreeSet;
use std::time::Duration;

use chancery_core::KeyId;
use chancery_core::visibility::{
    Change, EdgeKeys, EdgeObservation, KeyRecord, Observation, OriginObservation, Visibility,
    VisibilityRecord,
};
use fixture::numbered_key;

const GAP: Duration = Duration::from_secs(150);
const EVERY: Duration = Duration::from_secs(60);

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

fn id(number: u8) -> KeyId {
    numbered_key(number).key_id().clone()
}

fn ids(numbers: &[u8]) -> BTreeSet<KeyId> {
    numbers.iter().copied().map(id).collect()
}

fn read(numbers: &[u8]) -> EdgeObservation {
    EdgeObservation::Read(EdgeKeys { kids: ids(numbers), ..EdgeKeys::default() })
}

fn kept_for(numbers: &[u8], lifetime: u64) -> EdgeObservation {
    let lifetime = Some(seconds(lifetime));
    EdgeObservation::Read(EdgeKeys { kids: ids(numbers), lifetime, ..EdgeKeys::default() })
}

fn down() -> EdgeObservation {
    EdgeObservation::Unreadable("connection refused".to_owned())
}

/// An observation of the view `v` at the edges `a`, `b` ... that took no time.
fn observation(edges: &[EdgeObservation]) -> Observation {
    let names = ["a", "b", "c", "d"].map(str::to_owned);
    let edges = names.into_iter().zip(edges.iter().cloned()).collect();
    Observation { view: "v".to_owned(), edges, took: Duration::ZERO }
}

/// What the writer finds in the bucket behind `v`.
fn origin(numbers: &[u8]) -> OriginObservation {
    OriginObservation { view: "v".to_owned(), origin: "bucket".to_owned(), kids: ids(numbers) }
}

fn record() -> Visibility {
    Visibility::new(["v"], GAP)
}

/// Observes again after the usual time.
fn later(record: &mut Visibility, edges: &[EdgeObservation]) -> Vec<Change> {
    record.elapse(EVERY);
    record.observe(observation(edges))
}

fn time_of(record: &Visibility, number: u8) -> Option<KeyRecord> {
    let record = record.record();
    let (_, view) = record.views().find(|(name, _)| *name == "v").expect("a view");
    view.keys.get(&id(number)).copied()
}

fn visible_for(record: &Visibility, number: u8) -> Option<u64> {
    time_of(record, number).map(|key| key.visible_seconds)
}

fn unbroken(record: &Visibility, number: u8) -> u64 {
    time_of(record, number).map_or(0, |key| key.unbroken_seconds)
}

/// The record as a process finds it that starts now.
fn restarted(record: &Visibility) -> Visibility {
    let json = serde_json::to_string(&record.record()).expect("text");
    let kept: VisibilityRecord = serde_json::from_str(&json).expect("the same");
    Visibility::restore(["v"], GAP, &kept)
}

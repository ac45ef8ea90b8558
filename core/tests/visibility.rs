//! The visibility record: row by row, and held against a model that keeps the whole history.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod fixture;

use std::collections::BTreeMap;
use std::time::Duration;

use chancery_core::KeyId;
use chancery_core::visibility::{Change, EdgeSight, Obstacle, Seen, Sighting, Visibility, VisibilityRecord};
use fixture::numbered_key;
use proptest::prelude::*;

const PATIENCE: Duration = Duration::from_secs(150);
const EVERY: Duration = Duration::from_secs(60);

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

fn id(number: u8) -> KeyId {
    numbered_key(number).key_id().clone()
}

fn read(numbers: &[u8]) -> EdgeSight {
    EdgeSight::Read(Seen { kids: numbers.iter().copied().map(id).collect(), ..Seen::default() })
}

fn down() -> EdgeSight {
    EdgeSight::Unreadable("connection refused".to_owned())
}

/// A sighting of the view `v` at the edges `a`, `b` ... that took no time.
fn sighting(edges: &[EdgeSight]) -> Sighting {
    let names = ["a", "b", "c", "d"].map(str::to_owned);
    let edges = names.into_iter().zip(edges.iter().cloned()).collect();
    Sighting { view: "v".to_owned(), edges, took: Duration::ZERO }
}

fn record() -> Visibility {
    Visibility::new(["v"], PATIENCE)
}

fn visible_for(record: &Visibility, number: u8) -> Option<u64> {
    let (_, view) = record.views().next().expect("a view");
    view.keys().find(|(kid, _)| **kid == id(number)).map(|(_, time)| time.as_secs())
}

/// Looks again after the usual time.
fn later(record: &mut Visibility, edges: &[EdgeSight]) -> Vec<Change> {
    record.elapse(EVERY);
    record.observe(sighting(edges))
}

#[test]
fn time_runs_between_two_sightings_on_every_edge_and_a_gap_on_one_edge_ends_it() {
    let mut record = record();
    let appeared = vec![Change::Appeared { kid: id(1) }];
    assert_eq!(record.observe(sighting(&[read(&[1]), read(&[1])])), appeared);
    assert_eq!(visible_for(&record, 1), Some(0), "seen once is not seen for a time");
    assert_eq!(later(&mut record, &[read(&[1]), read(&[1])]), []);
    assert_eq!(visible_for(&record, 1), Some(60));
    let gap = vec![Change::Gap { kid: id(1), edge: "b".to_owned(), after: seconds(60) }];
    assert_eq!(later(&mut record, &[read(&[1]), read(&[])]), gap);
    assert_eq!(visible_for(&record, 1), Some(0));
    assert_eq!(later(&mut record, &[read(&[1]), read(&[])]), [], "a gap is told once");
    assert_eq!(later(&mut record, &[read(&[1]), read(&[1])]), appeared);
    later(&mut record, &[read(&[1]), read(&[1])]);
    assert_eq!(visible_for(&record, 1), Some(60), "what came before the gap is lost");
    assert_eq!(later(&mut record, &[read(&[]), read(&[])]).len(), 1);
    assert_eq!(visible_for(&record, 1), None, "a key that nobody shows is forgotten");
}

#[test]
fn an_edge_that_cannot_be_read_stops_the_clock_and_takes_nothing_away() {
    let mut record = record();
    let good = [read(&[1]), read(&[1])];
    record.observe(sighting(&good));
    later(&mut record, &good);
    for bad in [&[read(&[1]), down()][..], &[down(), down()], &[]] {
        assert_eq!(later(&mut record, bad), [], "{bad:?}");
        assert_eq!(visible_for(&record, 1), Some(60), "{bad:?}");
    }
    later(&mut record, &good);
    assert_eq!(visible_for(&record, 1), Some(60), "the time in which it could not be read does not count");
    later(&mut record, &good);
    assert_eq!(visible_for(&record, 1), Some(120));
    assert_eq!(
        later(&mut record, &[down(), read(&[])]).len(),
        1,
        "a gap beside an edge that is down is a gap"
    );
    assert_eq!(visible_for(&record, 1), None);
}

#[test]
fn an_edge_that_joins_without_the_key_is_a_gap_and_one_that_leaves_is_none() {
    let mut record = record();
    record.observe(sighting(&[read(&[1]), read(&[1])]));
    later(&mut record, &[read(&[1])]);
    assert_eq!(visible_for(&record, 1), Some(60));
    later(&mut record, &[read(&[1]), read(&[2])]);
    assert_eq!(visible_for(&record, 1), Some(0));
}

#[test]
fn two_sightings_far_apart_do_not_connect() {
    let mut record = record();
    record.observe(sighting(&[read(&[1])]));
    record.elapse(PATIENCE + seconds(1));
    record.observe(sighting(&[read(&[1])]));
    assert_eq!(visible_for(&record, 1), Some(0));
    record.elapse(PATIENCE);
    record.observe(sighting(&[read(&[1])]));
    assert_eq!(visible_for(&record, 1), Some(150));
}

#[test]
fn what_a_sighting_takes_counts_once_the_next_one_confirms_it() {
    let mut record = record();
    let slow = || Sighting { took: seconds(10), ..sighting(&[read(&[1])]) };
    for expected in [0, 60, 130, 200] {
        record.elapse(seconds(10));
        record.observe(slow());
        // Ends at 10, 80, 150, 220; starts at 0, 70, 140, 210.
        assert_eq!(visible_for(&record, 1), Some(expected));
        record.elapse(EVERY);
    }
}

#[test]
fn a_key_that_our_writer_finds_missing_starts_again_although_every_edge_showed_it() {
    let mut record = record();
    record.observe(sighting(&[read(&[1, 2])]));
    later(&mut record, &[read(&[1, 2])]);
    let gap = Change::Gap { kid: id(1), edge: "target bucket".to_owned(), after: seconds(60) };
    assert_eq!(record.found_missing("v", "target bucket", &[id(1), id(3)].into()), [gap]);
    assert_eq!((visible_for(&record, 1), visible_for(&record, 2)), (None, Some(60)));
    let reasons = record.is_visible_everywhere(&id(1), Duration::ZERO).expect_err("it is not at the origin");
    let missing = Obstacle::Missing { view: "v".to_owned(), edge: "target bucket".to_owned() };
    assert_eq!(reasons, [missing]);
    assert_eq!(record.is_visible_everywhere(&id(2), Duration::ZERO), Ok(()));
    assert_eq!(record.found_missing("v", "target bucket", &[].into()), []);
    assert_eq!(record.found_missing("another", "target bucket", &[id(2)].into()), []);
    later(&mut record, &[read(&[1, 2])]);
    assert_eq!((visible_for(&record, 1), visible_for(&record, 2)), (Some(0), Some(120)));
    assert_eq!(record.is_visible_everywhere(&id(1), Duration::ZERO), Ok(()));
}

#[test]
fn every_obstacle_is_named_with_its_view_and_edge() {
    let mut record = Visibility::new(["copy", "v"], PATIENCE);
    let ask = |record: &Visibility, wait| record.is_visible_everywhere(&id(1), seconds(wait));
    let (copy, v) = ("copy".to_owned(), "v".to_owned());
    let not_read = |view: &String| Obstacle::NotRead { view: view.clone() };
    assert_eq!(ask(&record, 0), Err(vec![not_read(&copy), not_read(&v)]));
    record.observe(Sighting::of_copy("copy", [id(1)], Duration::ZERO));
    assert_eq!(ask(&record, 0), Err(vec![not_read(&v)]));
    record.observe(sighting(&[read(&[1]), read(&[2]), down()]));
    let missing = Obstacle::Missing { view: v.clone(), edge: "b".to_owned() };
    let why = "connection refused".to_owned();
    let unreadable = Obstacle::Unreadable { view: v.clone(), edge: "c".to_owned(), why };
    assert_eq!(ask(&record, 0), Err(vec![missing, unreadable]));
    record.observe(sighting(&[read(&[1])]));
    assert_eq!(ask(&record, 0), Ok(()));
    record.elapse(EVERY);
    record.observe(sighting(&[read(&[1])]));
    record.observe(Sighting::of_copy("copy", [id(1)], Duration::ZERO));
    assert_eq!(ask(&record, 60), Ok(()));
    let short =
        |view: &String| Obstacle::TooShort { view: view.clone(), visible_seconds: 60, still_seconds: 1 };
    assert_eq!(ask(&record, 61), Err(vec![short(&copy), short(&v)]));
    record.elapse(PATIENCE + seconds(1));
    let old = |view: &String| Obstacle::ReadTooLongAgo { view: view.clone(), seconds: 151 };
    assert_eq!(ask(&record, 0), Err(vec![old(&copy), old(&v)]));
    record.observe(Sighting::of_unreadable_copy("copy", "403", Duration::ZERO));
    record.observe(sighting(&[]));
    let reasons = ask(&record, 0).expect_err("nothing is seen");
    assert_eq!(reasons[1], Obstacle::NoEdge { view: v });
    assert_eq!(reasons[0].to_string(), "copy cannot be read at copy: 403");
    let nobody = Visibility::new(Vec::<String>::new(), PATIENCE);
    assert_eq!(ask(&nobody, 0), Err(vec![Obstacle::NoView]));
}

#[test]
fn no_wait_is_shorter_than_the_longest_time_a_cache_was_ever_allowed() {
    let mut record = record();
    let with_max_age = |max_age: Option<u64>| {
        let kids = [id(1)].into();
        sighting(&[EdgeSight::Read(Seen { kids, max_age: max_age.map(seconds), age: None })])
    };
    record.observe(with_max_age(None));
    assert_eq!((record.longest_max_age(), record.wait(seconds(5))), (None, seconds(5)));
    assert_eq!(record.observe(with_max_age(Some(600))), [Change::LongestMaxAge(seconds(600))]);
    assert_eq!(record.observe(with_max_age(Some(30))), []);
    assert_eq!(record.wait(seconds(5)), seconds(600));
    assert_eq!(record.wait(seconds(700)), seconds(700));
    let reasons = record.is_visible_everywhere(&id(1), Duration::ZERO).expect_err("for too short a time");
    let still = Obstacle::TooShort { view: "v".to_owned(), visible_seconds: 0, still_seconds: 600 };
    assert_eq!(reasons, [still]);
    // Neither a restart nor a view that is gone shortens it.
    let restored = Visibility::restore(["other"], PATIENCE, &record.record());
    assert_eq!(restored.wait(Duration::ZERO), seconds(600));
}

#[test]
fn a_record_is_strict_and_keeps_what_was_proven() {
    let mut before = record();
    before.observe(sighting(&[read(&[1])]));
    before.elapse(Duration::from_millis(61_900));
    before.observe(sighting(&[read(&[1])]));
    let json = serde_json::to_string(&before.record()).expect("text");
    let kept: VisibilityRecord = serde_json::from_str(&json).expect("the same");
    let mut after = Visibility::restore(["v"], PATIENCE, &kept);
    assert_eq!(visible_for(&after, 1), Some(61), "never rounded up");
    after.elapse(seconds(1_000_000));
    after.observe(sighting(&[read(&[1])]));
    assert_eq!(visible_for(&after, 1), Some(61), "downtime does not count");
    later(&mut after, &[read(&[1])]);
    assert_eq!(visible_for(&after, 1), Some(121));

    for (from, to, word) in [
        ("\"version\":1", "\"version\":2", "every wait then starts again"),
        ("\"views\"", "\"sights\"", "sights"),
        ("visibleSeconds", "visible", "visible"),
        (":61", ":-61", "61"),
        (id(1).as_str(), "not-a-kid", "not-a-kid"),
    ] {
        let bad = json.replace(from, to);
        assert_ne!(bad, json, "{from}");
        let error = serde_json::from_str::<VisibilityRecord>(&bad).expect_err("refused").to_string();
        assert!(error.contains(word), "{error}");
    }
}

#[derive(Clone, Debug)]
enum Op {
    Elapse(u64),
    See {
        edges: Vec<EdgeSight>,
        took: u64,
    },
    /// Our own writer finds the key missing behind the view.
    WriterMisses,
    Restart,
}

fn any_edge() -> impl Strategy<Value = EdgeSight> {
    let kids = prop::sample::select(vec![vec![], vec![1], vec![1], vec![1], vec![1, 2], vec![1, 2], vec![2]]);
    prop_oneof![6 => kids.prop_map(|kids| read(&kids)), 1 => Just(down())]
}

fn any_op() -> impl Strategy<Value = Op> {
    let see =
        (prop::collection::vec(any_edge(), 0..4), 0u64..20).prop_map(|(edges, took)| Op::See { edges, took });
    prop_oneof![4 => (0u64..80).prop_map(Op::Elapse), 1 => (0u64..400).prop_map(Op::Elapse), 6 => see, 1 => Just(Op::WriterMisses), 1 => Just(Op::Restart)]
}

/// What each sighting said of one key, with its start and end on a clock that also runs on.
#[derive(Clone, Copy, PartialEq)]
enum Said {
    Everywhere,
    Nothing,
    Gap,
    Restart,
}

/// The proven time by the definition: stretches of sightings that show the key everywhere, each from the end of its
/// first to the start of its last, after the last gap.
fn by_definition(history: &[(Said, u64, u64)]) -> u64 {
    let after_gap = history.iter().rposition(|(said, ..)| *said == Said::Gap).map_or(0, |gap| gap + 1);
    let mut proven = 0;
    let mut stretch: Option<(u64, u64, u64)> = None;
    let close = |stretch: Option<(u64, u64, u64)>| {
        stretch.map_or(0, |(first_end, start, _)| start.saturating_sub(first_end))
    };
    for (said, start, end) in &history[after_gap..] {
        stretch = match (*said, stretch) {
            (Said::Everywhere, Some((first_end, _, last_end))) if end - last_end <= PATIENCE.as_secs() => {
                Some((first_end, *start, *end))
            }
            (Said::Everywhere, before) => {
                proven += close(before);
                // A stretch of one sighting proves nothing.
                Some((*end, *end, *end))
            }
            (_, before) => {
                proven += close(before);
                None
            }
        };
    }
    proven + close(stretch)
}

/// Runs the operations and returns the record, the whole time that passed and the history of the key 1.
fn run(ops: &[Op]) -> (Visibility, u64, Vec<(Said, u64, u64)>) {
    let (mut record, mut now, mut history) = (record(), 0, Vec::new());
    for op in ops {
        match op {
            Op::Elapse(time) => {
                now += time;
                record.elapse(seconds(*time));
            }
            Op::See { edges, took } => {
                let start = now;
                now += took;
                record.elapse(seconds(*took));
                record.observe(Sighting { took: seconds(*took), ..sighting(edges) });
                let shows = |edge: &EdgeSight| match edge {
                    EdgeSight::Read(seen) => Some(seen.kids.contains(&id(1))),
                    EdgeSight::Unreadable(_) => None,
                };
                let said = match edges.iter().map(shows).collect::<Vec<_>>() {
                    shown if shown.contains(&Some(false)) => Said::Gap,
                    shown if shown.is_empty() || shown.contains(&None) => Said::Nothing,
                    _ => Said::Everywhere,
                };
                history.push((said, start, now));
            }
            Op::WriterMisses => {
                record.found_missing("v", "target bucket", &[id(1)].into());
                history.push((Said::Gap, now, now));
            }
            Op::Restart => {
                let json = serde_json::to_string(&record.record()).expect("text");
                record =
                    Visibility::restore(["v"], PATIENCE, &serde_json::from_str(&json).expect("the same"));
                history.push((Said::Restart, now, now));
            }
        }
    }
    (record, now, history)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// The proven time is what the definition says, after any history with any restarts, and never more than passed.
    #[test]
    fn the_proven_time_is_that_of_the_definition(ops in prop::collection::vec(any_op(), 0..40)) {
        let (record, now, history) = run(&ops);
        let proven = visible_for(&record, 1).unwrap_or_default();
        prop_assert_eq!(proven, by_definition(&history));
        prop_assert!(proven <= now);
    }

    /// No single operation adds more than the patience, and time alone adds nothing.
    #[test]
    fn no_operation_makes_time_jump(ops in prop::collection::vec(any_op(), 1..40)) {
        let before = visible_for(&run(&ops[..ops.len() - 1]).0, 1).unwrap_or_default();
        let after = visible_for(&run(&ops).0, 1).unwrap_or_default();
        match ops.last() {
            Some(Op::See { .. }) => prop_assert!(after <= before + PATIENCE.as_secs()),
            // A writer that misses a key takes its time away.
            Some(Op::WriterMisses) => prop_assert!(after <= before),
            _ => prop_assert_eq!(after, before),
        }
    }

    /// A delay anywhere never lets a key pass sooner: whatever passes after it would have passed without it.
    #[test]
    fn a_delay_never_helps(ops in prop::collection::vec(any_op(), 1..30), at in 0usize..30, delay in 0u64..1000) {
        let mut delayed = ops.clone();
        delayed.insert(at.min(ops.len()), Op::Elapse(delay));
        let (with, without) = (run(&delayed).0, run(&ops).0);
        // A delay that stays within the patience is watched time like any other.
        let gained = visible_for(&with, 1).unwrap_or_default().saturating_sub(visible_for(&without, 1).unwrap_or_default());
        prop_assert!(gained <= delay && gained <= PATIENCE.as_secs());
    }

    /// A gap resets the key whatever came before, and the order in which edges are listed changes nothing.
    #[test]
    fn a_gap_always_resets(ops in prop::collection::vec(any_op(), 0..30), mut edges in prop::collection::vec(any_edge(), 0..3)) {
        let mut record = run(&ops).0;
        edges.push(read(&[2]));
        record.observe(sighting(&edges));
        prop_assert_eq!(visible_for(&record, 1).unwrap_or_default(), 0);
        prop_assert!(record.is_visible_everywhere(&id(1), Duration::ZERO).is_err());
    }

    #[test]
    fn the_names_and_order_of_edges_do_not_matter(ops in prop::collection::vec(any_op(), 0..30)) {
        let turned = ops.iter().map(|op| match op {
            Op::See { edges, took } => Op::See { edges: edges.iter().rev().cloned().collect(), took: *took },
            other => other.clone(),
        });
        let (one, other) = (run(&ops).0, run(&turned.collect::<Vec<_>>()).0);
        prop_assert_eq!(one.record(), other.record());
        let times = |record: &Visibility| -> BTreeMap<KeyId, Duration> {
            record.views().flat_map(|(_, view)| view.keys().map(|(kid, time)| (kid.clone(), time))).collect()
        };
        prop_assert_eq!(times(&one), times(&other));
    }

    /// A record that comes back from its file says and does the same.
    #[test]
    fn a_restored_record_behaves_the_same(ops in prop::collection::vec(any_op(), 0..30)) {
        let record = run(&ops).0.record();
        let json = serde_json::to_string(&record).expect("text");
        let back = Visibility::restore(["v"], PATIENCE, &serde_json::from_str(&json).expect("the same"));
        prop_assert_eq!(back.record(), record);
    }
}

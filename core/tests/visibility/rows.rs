//! The rules one by one.

use chancery_core::visibility::{Obstacle, VisibilityRecord};

use super::*;

#[test]
fn time_runs_between_two_observations_of_every_edge_and_a_gap_on_one_edge_ends_it() {
    let mut record = record();
    let appeared = vec![Change::Appeared { kid: id(1) }];
    assert_eq!(record.observe(observation(&[read(&[1]), read(&[1])])), appeared);
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
    later(&mut record, &[read(&[]), read(&[])]);
    assert_eq!(visible_for(&record, 1), None, "a key that nobody shows is forgotten");
}

#[test]
fn an_observation_with_an_unreadable_edge_counts_as_one_that_was_not_made() {
    let mut record = record();
    let good = [read(&[1]), read(&[1])];
    record.observe(observation(&good));
    later(&mut record, &good);
    for bad in [&[read(&[1]), down()][..], &[down(), down()]] {
        assert_eq!(later(&mut record, bad), [], "{bad:?}");
        assert_eq!(visible_for(&record, 1), Some(60), "{bad:?}");
    }
    later(&mut record, &good);
    assert_eq!((visible_for(&record, 1), unbroken(&record, 1)), (Some(60), 0), "180 s are too far apart");
    later(&mut record, &[]);
    later(&mut record, &good);
    assert_eq!((visible_for(&record, 1), unbroken(&record, 1)), (Some(180), 120), "one may be missed");
    assert_eq!(later(&mut record, &[down(), read(&[])]).len(), 1, "a gap beside an edge that is down is one");
    assert_eq!(visible_for(&record, 1), None);
}

#[test]
fn an_edge_that_joins_without_the_key_is_a_gap_and_one_that_leaves_is_none() {
    let mut record = record();
    record.observe(observation(&[read(&[1]), read(&[1])]));
    later(&mut record, &[read(&[1])]);
    assert_eq!(visible_for(&record, 1), Some(60));
    later(&mut record, &[read(&[1]), read(&[2])]);
    assert_eq!(visible_for(&record, 1), Some(0));
}

#[test]
fn what_an_observation_takes_counts_once_the_next_one_confirms_it() {
    let mut record = record();
    let slow = || Observation { took: seconds(10), ..observation(&[read(&[1])]) };
    for expected in [0, 60, 130, 200] {
        record.elapse(seconds(10));
        record.observe(slow());
        // Ends at 10, 80, 150, 220; starts at 0, 70, 140, 210.
        assert_eq!(visible_for(&record, 1), Some(expected));
        record.elapse(EVERY);
    }
}

/// Seen for 590 of 600 s, blind for 20 minutes in which the key may have been gone: what caches took up then counts
/// from the end of the blind interval.
#[test]
fn after_a_blind_interval_the_unbroken_time_starts_again() {
    let mut record = record();
    record.observe(observation(&[kept_for(&[1], 30)]));
    for _ in 0..11 {
        later(&mut record, &[kept_for(&[1], 30)]);
    }
    record.elapse(seconds(1200));
    record.observe(observation(&[kept_for(&[1], 30)]));
    later(&mut record, &[kept_for(&[1], 30)]);
    assert_eq!((visible_for(&record, 1), unbroken(&record, 1)), (Some(720), 60));
    let asked = |record: &Visibility| record.record().is_visible_everywhere(&id(1), seconds(600));
    let interrupted =
        Obstacle::Interrupted { view: "v".to_owned(), unbroken_seconds: 60, still_seconds: 30 + 600 - 60 };
    assert_eq!(asked(&record), Err(vec![interrupted]));
    for _ in 0..10 {
        later(&mut record, &[kept_for(&[1], 30)]);
    }
    assert_eq!(asked(&record), Ok(()));
}

#[test]
fn a_wait_beyond_every_known_cache_may_be_accumulated() {
    let mut record = record();
    record.observe(observation(&[read(&[1])]));
    for _ in 0..60 {
        later(&mut record, &[read(&[1])]);
    }
    let mut after = restarted(&record);
    after.observe(observation(&[read(&[1])]));
    for _ in 0..59 {
        later(&mut after, &[read(&[1])]);
    }
    let asked = |record: &Visibility| record.record().is_visible_everywhere(&id(1), seconds(7000)).is_ok();
    assert!(!asked(&after), "an hour of it must be unbroken");
    later(&mut after, &[read(&[1])]);
    assert!(asked(&after));
}

#[test]
fn what_the_origin_holds_is_one_edge_of_the_view() {
    let mut record = record();
    record.observe(observation(&[read(&[1, 2])]));
    later(&mut record, &[read(&[1, 2])]);
    assert_eq!(record.observe_origin(origin(&[1, 2])), []);
    let gap = Change::Gap { kid: id(1), edge: "bucket".to_owned(), after: seconds(60) };
    assert_eq!(record.observe_origin(origin(&[2])), [gap]);
    assert_eq!((visible_for(&record, 1), visible_for(&record, 2)), (Some(0), Some(60)));
    let asked =
        |record: &Visibility, number| record.record().is_visible_everywhere(&id(number), Duration::ZERO);
    let missing = Obstacle::Missing { view: "v".to_owned(), edge: "bucket".to_owned() };
    assert_eq!(asked(&record, 1), Err(vec![missing.clone()]));
    assert_eq!(asked(&record, 2), Ok(()));

    // Caches in front go on showing the key; no time runs before the origin holds it again.
    later(&mut record, &[read(&[1, 2])]);
    assert_eq!((asked(&record, 1), visible_for(&record, 1)), (Err(vec![missing]), Some(0)));
    assert_eq!(record.observe_origin(origin(&[1, 2])), []);
    later(&mut record, &[read(&[1, 2])]);
    later(&mut record, &[read(&[1, 2])]);
    assert_eq!((visible_for(&record, 1), visible_for(&record, 2)), (Some(60), Some(240)));

    // A writer that has not read it for long says nothing about now.
    record.observe_origin(origin(&[2]));
    record.elapse(GAP + seconds(1));
    record.observe(observation(&[read(&[1, 2])]));
    later(&mut record, &[read(&[1, 2])]);
    assert_eq!((visible_for(&record, 1), asked(&record, 1)), (Some(60), Ok(())));
    let elsewhere = OriginObservation { view: "another".to_owned(), ..origin(&[]) };
    assert_eq!(record.observe_origin(elsewhere), []);
}

#[test]
fn every_obstacle_is_named_with_its_view_and_edge() {
    let mut record = Visibility::new(["copy", "v"], GAP);
    let ask = |record: &Visibility, wait| record.record().is_visible_everywhere(&id(1), seconds(wait));
    let (copy, v) = ("copy".to_owned(), "v".to_owned());
    let not_read = |view: &String| Obstacle::NotRead { view: view.clone() };
    assert_eq!(ask(&record, 0), Err(vec![not_read(&copy), not_read(&v)]));
    record.observe(Observation::of_copy("copy", [id(1)], Duration::ZERO));
    assert_eq!(ask(&record, 0), Err(vec![not_read(&v)]));
    record.observe(observation(&[read(&[1]), read(&[2]), down()]));
    let missing = Obstacle::Missing { view: v.clone(), edge: "b".to_owned() };
    let why = "connection refused".to_owned();
    let unreadable = Obstacle::Unreadable { view: v.clone(), edge: "c".to_owned(), why };
    assert_eq!(ask(&record, 0), Err(vec![missing, unreadable]));
    record.observe(observation(&[read(&[1])]));
    assert_eq!(ask(&record, 0), Ok(()));
    record.elapse(EVERY);
    record.observe(observation(&[read(&[1])]));
    record.observe(Observation::of_copy("copy", [id(1)], Duration::ZERO));
    assert_eq!(ask(&record, 60), Ok(()));
    let short =
        |view: &String| Obstacle::TooShort { view: view.clone(), visible_seconds: 60, still_seconds: 1 };
    assert_eq!(ask(&record, 61), Err(vec![short(&copy), short(&v)]));
    record.elapse(GAP + seconds(1));
    let old = |view: &String| Obstacle::ReadTooLongAgo { view: view.clone(), seconds: 151 };
    assert_eq!(ask(&record, 0), Err(vec![old(&copy), old(&v)]));
    record.observe(Observation::of_unreadable_copy("copy", "403", Duration::ZERO));
    record.observe(observation(&[]));
    let reasons = ask(&record, 0).expect_err("nothing is seen");
    assert_eq!(reasons[1], Obstacle::NoEdge { view: v });
    assert_eq!(reasons[0].to_string(), "copy cannot be read at copy: 403");
    let nobody = Visibility::new(Vec::<String>::new(), GAP);
    assert_eq!(ask(&nobody, 0), Err(vec![Obstacle::NoView]));
}

#[test]
fn a_record_keeps_what_was_proven_and_passes_over_fields_that_it_does_not_know() {
    let mut before = record();
    before.observe(observation(&[read(&[1])]));
    before.elapse(Duration::from_millis(61_900));
    before.observe(observation(&[read(&[1])]));
    let mut after = restarted(&before);
    assert_eq!((visible_for(&after, 1), unbroken(&after, 1)), (Some(61), 0), "never rounded up");
    after.elapse(seconds(1_000_000));
    after.observe(observation(&[read(&[1])]));
    assert_eq!(visible_for(&after, 1), Some(61), "downtime does not count");
    later(&mut after, &[read(&[1])]);
    assert_eq!((visible_for(&after, 1), unbroken(&after, 1)), (Some(121), 60));
    assert!(after.record().observations() > before.record().observations(), "it goes on");

    let json = serde_json::to_string(&before.record()).expect("text");
    let newer = json.replacen('{', "{\"later\":{\"field\":1},", 1);
    let newer = newer.replace("\"visibleSeconds\"", "\"another\":2,\"visibleSeconds\"");
    assert_eq!(serde_json::from_str::<VisibilityRecord>(&newer).expect("read"), before.record());
    for (from, to, word) in [(":61", ":-61", "61"), (id(1).as_str(), "not-a-kid", "not-a-kid")] {
        let bad = json.replace(from, to);
        assert_ne!(bad, json, "{from}");
        let error = serde_json::from_str::<VisibilityRecord>(&bad).expect_err("refused").to_string();
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn keys_that_do_not_concern_us_are_counted_and_not_recorded() {
    let mut crowded = observation(&[read(&[1, 2, 3])]);
    crowded.keep_only(|kid| *kid == id(1));
    let mut record = record();
    record.observe(crowded);
    assert_eq!((visible_for(&record, 1), visible_for(&record, 2)), (Some(0), None));
    let json = serde_json::to_string(&record.record()).expect("text");
    assert!(json.contains("\"others\":2"), "{json}");
    record.keep_only(|_| false);
    assert_eq!(visible_for(&record, 1), None);
}

//! For how long caches may hold what was served.

use chancery_core::visibility::LONGEST_LIFETIME;

use super::*;

fn longest(record: &Visibility) -> Option<u64> {
    record.record().longest_lifetime().map(|lifetime| lifetime.as_secs())
}

#[test]
fn no_key_is_everywhere_before_the_longest_lifetime_has_passed_in_front_and_at_the_reader() {
    let mut record = record();
    record.observe(observation(&[read(&[1])]));
    assert_eq!((longest(&record), record.record().wait(seconds(5))), (None, seconds(5)));
    let grown = [Change::LongestLifetime(Some(seconds(600)))];
    assert_eq!(record.observe(observation(&[kept_for(&[1], 600)])), grown);
    assert_eq!(record.observe(observation(&[kept_for(&[1], 30)])), []);
    assert_eq!(record.record().wait(seconds(5)), seconds(1200));
    assert_eq!(record.record().wait(seconds(900)), seconds(1500));
}

#[test]
fn a_lifetime_is_forgotten_once_nobody_can_hold_what_was_served_with_it() {
    let mut record = record();
    record.observe(observation(&[kept_for(&[1], 60), kept_for(&[1], 600)]));
    for _ in 0..20 {
        later(&mut record, &[kept_for(&[1], 60), kept_for(&[1], 60)]);
        assert_eq!(longest(&record), Some(600));
    }
    // The first observation without it: somebody may have read right before.
    let forgotten = [Change::LongestLifetime(Some(seconds(60)))];
    assert_eq!(later(&mut record, &[kept_for(&[1], 60), kept_for(&[1], 60)]), forgotten);
    assert_eq!(longest(&record), Some(60));
}

/// A cache that nobody sees handed the set without the key out for ten minutes, to a party that keeps it for fifteen.
#[test]
fn a_lifetime_counts_for_as_long_as_a_party_keeps_of_its_own_accord_what_came_with_it() {
    let mut record = record();
    record.observe(observation(&[kept_for(&[1], 600)]));
    later(&mut record, &[kept_for(&[1], 0)]);
    for unserved in (0..1500).step_by(60) {
        assert_eq!(record.record().wait(seconds(900)), seconds(1500), "{unserved} s");
        assert_eq!(longest(&record), (unserved < 1200).then_some(600), "{unserved} s");
        later(&mut record, &[kept_for(&[1], 0)]);
    }
    assert_eq!(record.record().wait(seconds(900)), seconds(900));
    let later_by_an_hour = restarted(&record);
    assert_eq!(
        later_by_an_hour.record().wait(seconds(3600)),
        seconds(4200),
        "a more cautious wait still counts it"
    );
}

#[test]
fn a_lifetime_that_is_served_again_starts_again_and_one_that_may_be_served_waits() {
    let mut record = record();
    let both = |other: EdgeObservation| [kept_for(&[1], 60), other];
    record.observe(observation(&both(kept_for(&[1], 300))));
    for _ in 0..10 {
        later(&mut record, &both(kept_for(&[1], 60)));
    }
    later(&mut record, &both(kept_for(&[1], 300)));
    for _ in 0..10 {
        later(&mut record, &both(kept_for(&[1], 60)));
        assert_eq!(longest(&record), Some(300));
    }
    for _ in 0..10 {
        later(&mut record, &both(down()));
    }
    assert_eq!(longest(&record), Some(300), "who knows what it serves");
    later(&mut record, &both(kept_for(&[1], 60)));
    later(&mut record, &both(kept_for(&[1], 60)));
    assert_eq!(longest(&record), Some(60));
}

#[test]
fn a_lifetime_outlives_restarts_and_its_view_until_it_has_passed() {
    let mut before = record();
    before.observe(observation(&[kept_for(&[1], 600)]));
    later(&mut before, &[kept_for(&[1], 60)]);
    later(&mut before, &[kept_for(&[1], 60)]);
    let mut after = restarted(&before);
    after.elapse(seconds(1_000_000));
    after.observe(observation(&[kept_for(&[1], 60)]));
    assert_eq!(longest(&after), Some(600), "downtime was not observed");
    for _ in 0..19 {
        assert_eq!(longest(&after), Some(600));
        later(&mut after, &[kept_for(&[1], 60)]);
    }
    assert_eq!(longest(&after), Some(60), "60 s before and 1140 s after the restart");

    let json = serde_json::to_string(&before.record()).expect("text");
    let kept = serde_json::from_str(&json).expect("the same");
    let mut elsewhere = Visibility::restore(["other"], GAP, &kept);
    elsewhere.elapse(seconds(1139));
    let again = Visibility::restore(["third"], GAP, &elsewhere.record());
    assert_eq!((longest(&elsewhere), longest(&again)), (Some(600), Some(600)));
    elsewhere.elapse(seconds(1));
    assert_eq!(longest(&elsewhere), None, "nobody reads there any more");
}

#[test]
fn no_header_makes_anybody_wait_for_more_than_a_year_and_no_number_of_them_grows_the_record() {
    let mut record = record();
    record.observe(observation(&[kept_for(&[1], u64::MAX)]));
    assert_eq!(record.record().longest_lifetime(), Some(LONGEST_LIFETIME));
    for shrinking in 0..1000 {
        later(&mut record, &[kept_for(&[1], 1_000_000 - shrinking)]);
    }
    let json = serde_json::to_string(&record.record()).expect("text");
    assert!(json.len() < 1500, "{json}");
    assert_eq!(record.record().longest_lifetime(), Some(LONGEST_LIFETIME));
}

#[test]
fn a_person_who_purged_every_cache_ends_the_wait() {
    let mut record = record();
    record.observe(observation(&[kept_for(&[1], 31_536_000)]));
    later(&mut record, &[kept_for(&[1], 600)]);
    let mut after = restarted(&record);
    assert_eq!(longest(&after), Some(31_536_000));
    after.limit_lifetimes(seconds(3600));
    assert_eq!(longest(&after), Some(3600));
    later(&mut after, &[kept_for(&[1], 31_536_000)]);
    assert_eq!(longest(&after), Some(3600));
}

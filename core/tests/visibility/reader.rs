//! The record in the eyes of another process.

use chancery_core::visibility::{Obstacle, RecordReader};

use super::*;

/// A record in which key 1 has been visible for two minutes.
fn kept_up() -> Visibility {
    let mut record = record();
    record.observe(observation(&[read(&[1])]));
    later(&mut record, &[read(&[1])]);
    later(&mut record, &[read(&[1])]);
    record
}

fn asked(reader: &RecordReader, now: u64) -> Result<(), Vec<Obstacle>> {
    reader.is_visible_everywhere(&id(1), seconds(100), seconds(now))
}

#[test]
fn a_record_speaks_of_now_once_it_was_seen_to_move_and_as_long_as_it_does() {
    let (mut reader, mut record) = (RecordReader::default(), kept_up());
    assert_eq!(asked(&reader, 0), Err(vec![Obstacle::NoRecord]));
    reader.read(record.record(), seconds(1000));
    reader.read(record.record(), seconds(1010));
    assert_eq!(asked(&reader, 1010), Err(vec![Obstacle::RecordAtRest]), "it may be years old");
    later(&mut record, &[read(&[1])]);
    reader.read(record.record(), seconds(1070));
    assert_eq!(asked(&reader, 1070), Ok(()));

    // It was written after 1010, nobody knows when.
    reader.read(record.record(), seconds(1130));
    assert_eq!(asked(&reader, 1010 + 150), Ok(()));
    assert_eq!(asked(&reader, 1010 + 151), Err(vec![Obstacle::RecordTooOld { seconds: 151 }]));
    later(&mut record, &[read(&[1])]);
    reader.read(record.record(), seconds(1200));
    assert_eq!(asked(&reader, 1200), Ok(()));
}

#[test]
fn an_older_record_that_is_put_back_says_nothing_until_it_moves() {
    let (mut reader, mut record) = (RecordReader::default(), kept_up());
    let older = record.clone();
    reader.read(record.record(), seconds(0));
    later(&mut record, &[read(&[1])]);
    later(&mut record, &[read(&[1])]);
    reader.read(record.record(), seconds(60));
    assert_eq!(asked(&reader, 60), Ok(()));
    reader.read(older.record(), seconds(70));
    assert_eq!(asked(&reader, 70), Err(vec![Obstacle::RecordAtRest]));
}

#[test]
fn a_view_that_was_read_long_before_the_record_was_written_is_too_old() {
    let mut record = Visibility::new(["copy", "v"], GAP);
    let mut reader = RecordReader::default();
    record.observe(Observation::of_copy("copy", [id(1)], Duration::ZERO));
    record.observe(observation(&[read(&[1])]));
    reader.read(record.record(), seconds(0));
    for _ in 0..2 {
        later(&mut record, &[read(&[1])]);
    }
    reader.read(record.record(), seconds(120));
    let ask = |now| reader.is_visible_everywhere(&id(1), Duration::ZERO, seconds(now));
    // The copy was read 120 s before the record was written, which may have been right after 0.
    let old = Obstacle::ReadTooLongAgo { view: "copy".to_owned(), seconds: 240 };
    assert_eq!(ask(120), Err(vec![old]));
}

//! What others write, kept in `exchange/tests/corpus`, and changed at random: no reader panics, whatever it is. An input
//! that made one panic is put into its folder, under a name that says what it was.
//!
//! `make test` reads each file as it is and in changes that are the same every time; `make soak` makes new changes for
//! `CHANCERY_FUZZ_SECONDS`. It prints its seed, and what a reader was given when it panicked; `CHANCERY_FUZZ_SEED` repeats it.

use std::path::Path;
use std::time::{Duration, Instant};

use self::mutator::Mutator;
use self::readers::{READERS, Reader};

mod mutator;
mod readers;

/// How often each file is changed in `make test`.
const CHANGES: usize = 300;

struct Seed {
    name: String,
    text: String,
}

fn seeds(folder: &str) -> Vec<Seed> {
    let folder = Path::new("tests/corpus").join(folder);
    let entries = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: std::path::PathBuf| Seed {
        name: path.display().to_string(),
        text: String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned(),
    };
    let mut seeds: Vec<Seed> = entries.map(read).collect();
    // Folders have no order, and the same seed is to make the same changes.
    seeds.sort_by(|one, other| one.name.cmp(&other.name));
    assert!(!seeds.is_empty(), "{}", folder.display());
    seeds
}

/// Says what was read, if the reader panics.
struct Told<'a> {
    name: &'a str,
    text: &'a str,
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("a reader panicked at a change of {}:\n{:?}", self.name, self.text);
        }
    }
}

fn read(reader: Reader, name: &str, text: &str) {
    let _told = Told { name, text };
    reader(text);
}

/// One change of one file.
fn change(seeds: &[Seed], reader: Reader, mutator: &mut Mutator) {
    let (one, other) = (&seeds[mutator.below(seeds.len())], &seeds[mutator.below(seeds.len())]);
    let mut text = mutator.changed(&one.text, &other.text);
    // Changes of changes get to where one alone does not.
    for _ in 0..mutator.below(3) {
        text = mutator.changed(&text, &other.text);
    }
    read(reader, &one.name, &text);
}

#[test]
fn no_file_of_the_corpus_and_no_change_of_one_makes_a_reader_panic() {
    for (number, (folder, reader)) in READERS.into_iter().enumerate() {
        let seeds = seeds(folder);
        for seed in &seeds {
            read(reader, &seed.name, &seed.text);
        }
        let mut mutator = Mutator::new(number as u64 + 1);
        for _ in 0..CHANGES * seeds.len() {
            change(&seeds, reader, &mut mutator);
        }
    }
}

/// What stands there is read, and not refused as a whole at the first character: a corpus that nobody can read tests
/// nothing.
#[test]
fn the_corpus_holds_what_is_good() {
    let good = |folder: &str, name: &str| {
        let text = seeds(folder).into_iter().find(|seed| seed.name.ends_with(&format!("/{name}")));
        text.unwrap_or_else(|| panic!("{folder}/{name}")).text
    };
    assert!(chancery_wire::xml::Element::parse(&good("xml", "sts")).unwrap().find("Credentials").is_some());
    assert!(chancery_exchange::kubelet::Request::parse(&good("kubelet", "request")).is_ok());
    assert!(chancery_exchange::git::Request::parse(&good("git", "codecommit")).is_known());
    assert!(chancery_exchange::UnverifiedToken::parse(good("tokens", "whole").trim()).is_ok());
    assert!(readers::template_of(&good("templates", "jfrog")).is_some());
    assert!(readers::template_of(&good("templates", "form")).is_some());
    assert!(chancery_core::jwks::ObservedJwks::parse(good("documents", "jwks").as_bytes()).is_ok());
}

#[test]
#[ignore = "takes its time: make soak"]
fn soak_readers_with_new_changes() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("CHANCERY_FUZZ_SEED").unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(1, |since| since.as_nanos() as u64)
    });
    let whole = Duration::from_secs(number("CHANCERY_FUZZ_SECONDS").unwrap_or(60));
    let mut left = std::collections::BTreeMap::new();
    println!("CHANCERY_FUZZ_SEED={seed}");
    for (folder, reader) in READERS {
        let (seeds, mut mutator, started) = (seeds(folder), Mutator::new(seed), Instant::now());
        let mut changes = 0_u64;
        while started.elapsed() < whole {
            for _ in 0..64 {
                change(&seeds, reader, &mut mutator);
            }
            changes += 64;
        }
        left.insert(folder, changes);
    }
    for (folder, changes) in left {
        println!("{changes:10} changes of {folder}, and no panic");
    }
}

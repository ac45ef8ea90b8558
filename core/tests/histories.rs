//! Thousands of histories of one issuer: writers that crash, lose answers, start from backups and overtake each other, on
//! a target that others damage. Whatever happens, no write takes away a key that relying parties were promised.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod fixture;

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

use chancery_core::jwks::ObservedJwks;
use chancery_core::marker::Edition;
use chancery_core::publication::{
    Blocked, Desired, Known, Observed, Plan, Precondition, StoredObject, Version, plan,
};
use chancery_core::residence::{KeyUnion, Record, SourceId};
use chancery_core::{CachePolicy, DocumentKind, DocumentSet, KeyId, Owner, PublicKey};
use fixture::numbered_key;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRng, TestRunner};

const RESIDENCE: Duration = Duration::from_secs(100);
const WRITERS: usize = 3;
const HISTORIES: u32 = 2000;

/// The keys that a cluster may have.
static KEYS: LazyLock<Vec<PublicKey>> = LazyLock::new(|| (0..6).map(numbered_key).collect());

#[derive(Clone, Copy, Debug)]
enum Fate {
    Done,
    AnswerLost,
    Refused,
}

#[derive(Clone, Debug)]
enum Event {
    /// The cluster's signing keys change.
    Rotate(BTreeSet<u8>),
    /// A writer reads its source.
    Read(usize),
    /// A writer reads its source, then counts time.
    Elapse(usize, u64),
    /// A writer reads the target and plans.
    Look(usize),
    /// A writer makes the next write of its plan.
    Write(usize, Fate),
    Crash(usize),
    Backup(usize),
    RestoreBackup(usize),
    LoseState(usize),
    /// Somebody deletes an object of the target.
    Delete(DocumentKind),
    /// Somebody puts an older version of the JWKS back.
    Rollback,
}

fn any_history() -> impl Strategy<Value = Vec<Event>> {
    let writer = || 0..WRITERS;
    let fate = prop_oneof![6 => Just(Fate::Done), 1 => Just(Fate::AnswerLost), 1 => Just(Fate::Refused)];
    let kind = prop_oneof![Just(DocumentKind::Jwks), Just(DocumentKind::Discovery)];
    let event = prop_oneof![
        3 => prop::collection::btree_set(0u8..6, 1..4).prop_map(Event::Rotate),
        4 => writer().prop_map(Event::Read),
        3 => (writer(), 0u64..130).prop_map(|(writer, time)| Event::Elapse(writer, time)),
        8 => writer().prop_map(Event::Look),
        14 => (writer(), fate).prop_map(|(writer, fate)| Event::Write(writer, fate)),
        1 => writer().prop_map(Event::Crash),
        1 => writer().prop_map(Event::Backup),
        1 => writer().prop_map(Event::RestoreBackup),
        1 => writer().prop_map(Event::LoseState),
        1 => kind.prop_map(Event::Delete),
        1 => Just(Event::Rollback),
    ];
    prop::collection::vec(event, 0..120)
}

/// What a writer keeps: its record and the edition of the JWKS that it knows.
#[derive(Clone, Debug, Default)]
struct Kept {
    record: Record,
    known: Option<Edition>,
}

struct Writer {
    union: KeyUnion,
    known: Option<Edition>,
    adopted: bool,
    /// Nothing is published before the source was read once since the start.
    source: Option<BTreeSet<u8>>,
    under_way: Option<Plan>,
    kept: Kept,
    backup: Kept,
}

impl Writer {
    fn start(kept: Kept, backup: Kept) -> Self {
        let union = KeyUnion::restore(RESIDENCE, &kept.record);
        Self { union, known: kept.known.clone(), adopted: false, source: None, under_way: None, kept, backup }
    }

    fn keep(&mut self) {
        self.kept = Kept { record: self.union.record(), known: self.known.clone() };
    }

    fn read(&mut self, live: &BTreeSet<u8>) {
        let keys = live.iter().map(|number| key(*number).clone()).collect();
        self.union.apply(SourceId { position: 0, name: "a".to_owned() }, keys);
        self.source = Some(live.clone());
    }

    fn documents(&self) -> Option<DocumentSet> {
        self.source.as_ref()?;
        let issuer = "https://id.example.com/a".parse().expect("an issuer URL");
        Some(DocumentSet::new(issuer, self.union.jwks()?, CachePolicy::default()))
    }
}

struct World {
    owner: Owner,
    live: BTreeSet<u8>,
    /// Live keys that a writer which saw them live has published since.
    promised: BTreeSet<u8>,
    target: Observed,
    versions: u64,
    earlier: Vec<StoredObject>,
    writers: Vec<Writer>,
}

fn key(number: u8) -> &'static PublicKey {
    &KEYS[usize::from(number)]
}

fn ids(numbers: &BTreeSet<u8>) -> BTreeSet<KeyId> {
    numbers.iter().map(|number| key(*number).key_id().clone()).collect()
}

impl World {
    fn new() -> Self {
        let writers = (0..WRITERS).map(|_| Writer::start(Kept::default(), Kept::default())).collect();
        Self {
            owner: "us".parse().expect("an owner"),
            live: BTreeSet::from([0]),
            promised: BTreeSet::new(),
            target: Observed::default(),
            versions: 0,
            earlier: Vec::new(),
            writers,
        }
    }

    fn published(&self) -> BTreeSet<KeyId> {
        let object = self.target.jwks.as_ref().map(|object| ObservedJwks::parse(&object.bytes));
        let jwks = object.and_then(Result::ok).unwrap_or_default();
        jwks.keys().map(|key| key.key_id().clone()).collect()
    }

    fn follow(&mut self, event: &Event) {
        match event {
            Event::Rotate(keys) => {
                self.live = keys.clone();
                self.promised.retain(|key| keys.contains(key));
            }
            Event::Read(writer) => self.read(*writer),
            Event::Elapse(writer, time) => {
                self.read(*writer);
                self.writers[*writer].union.elapse(Duration::from_secs(*time));
            }
            Event::Look(writer) => self.look(*writer),
            Event::Write(writer, fate) => self.write(*writer, *fate),
            Event::Crash(writer) => {
                let Writer { kept, backup, .. } = &self.writers[*writer];
                self.writers[*writer] = Writer::start(kept.clone(), backup.clone());
            }
            Event::Backup(writer) => self.writers[*writer].backup = self.writers[*writer].kept.clone(),
            Event::RestoreBackup(writer) => {
                let backup = self.writers[*writer].backup.clone();
                self.writers[*writer] = Writer::start(backup.clone(), backup);
            }
            Event::LoseState(writer) => {
                self.writers[*writer] = Writer::start(Kept::default(), Kept::default());
            }
            Event::Delete(kind) => {
                *self.target.object_mut(*kind) = None;
                self.damaged();
            }
            Event::Rollback => {
                if let Some(object) = self.earlier.first().cloned() {
                    self.versions += 1;
                    let version = Version(self.versions.to_string());
                    self.target.jwks = Some(StoredObject { version, ..object });
                    self.damaged();
                }
            }
        }
    }

    /// What others take away was not taken away by us.
    fn damaged(&mut self) {
        let published = self.published();
        self.promised.retain(|number| published.contains(key(*number).key_id()));
    }

    fn read(&mut self, writer: usize) {
        let live = self.live.clone();
        self.writers[writer].read(&live);
    }

    fn look(&mut self, writer: usize) {
        let writer = &mut self.writers[writer];
        let Some(documents) = writer.documents() else { return };
        writer.keep();
        let desired = Desired {
            documents: &documents,
            tombstones: writer.union.tombstones(),
            owner: &self.owner,
            known: match &writer.known {
                None => Known::Nothing,
                Some(edition) if writer.adopted => Known::Adopted(edition),
                Some(edition) => Known::Wrote(edition),
            },
            adopt_unmarked: false,
        };
        match plan(desired, &self.target) {
            Ok(plan) => writer.under_way = Some(plan),
            Err(Blocked::Behind { found, published, withdrawn }) => {
                writer.union.adopt(&published, &withdrawn);
                writer.known = Some(found);
                writer.adopted = true;
                writer.under_way = None;
            }
            Err(blocked) => panic!("{blocked}"),
        }
    }

    fn write(&mut self, writer: usize, fate: Fate) {
        let Some(mut plan) = self.writers[writer].under_way.take() else { return };
        if plan.writes.is_empty() || matches!(fate, Fate::Refused) {
            return;
        }
        let write = plan.writes.remove(0);
        let kind = write.document.kind;
        let version = self.target.object(kind).map(|object| object.version.clone());
        let holds = match &write.precondition {
            Precondition::Absent => version.is_none(),
            Precondition::Unchanged(expected) => version.as_ref() == Some(expected),
        };
        if !holds {
            return;
        }
        self.earlier.extend(self.target.object(kind).filter(|_| kind == DocumentKind::Jwks).cloned());
        self.versions += 1;
        *self.target.object_mut(kind) = Some(StoredObject {
            bytes: write.document.bytes.clone(),
            media_type: Some(kind.media_type().to_owned()),
            cache_control: Some(write.document.cache.header()),
            marker: Some(plan.marker.clone()),
            version: Version(self.versions.to_string()),
        });
        if kind == DocumentKind::Jwks {
            if matches!(fate, Fate::Done) {
                self.writers[writer].known = self.target.jwks.as_ref().and_then(StoredObject::edition);
                self.writers[writer].adopted = false;
            }
            let (published, seen) =
                (self.published(), self.writers[writer].source.clone().unwrap_or_default());
            let promises = |number: &&u8| published.contains(key(**number).key_id());
            self.promised.extend(seen.intersection(&self.live).filter(promises));
        }
        if matches!(fate, Fate::Done) {
            self.writers[writer].under_way = Some(plan);
        }
    }

    /// Every writer reads and publishes, nothing fails.
    fn calm(&mut self) {
        for round in 0..WRITERS * 3 {
            let writer = round % WRITERS;
            self.read(writer);
            for _ in 0..2 {
                self.look(writer);
                self.write(writer, Fate::Done);
                self.write(writer, Fate::Done);
            }
        }
    }
}

fn lives_through(history: &[Event]) -> Result<(), TestCaseError> {
    let mut world = World::new();
    for (number, event) in history.iter().enumerate() {
        let before = world.promised.clone();
        world.follow(event);
        if matches!(event, Event::Write(..)) {
            let published = world.published();
            let lost: Vec<_> = ids(&before).difference(&published).cloned().collect();
            prop_assert!(lost.is_empty(), "event {}, {:?}, takes away {:?}", number, event, lost);
            let empty = world.target.jwks.is_some() && published.is_empty();
            prop_assert!(!empty, "event {} empties the set", number);
        }
    }
    world.calm();
    let (published, live) = (world.published(), ids(&world.live));
    prop_assert!(live.is_subset(&published), "after a calm time every live key is published");
    prop_assert!(world.target.discovery.is_some());
    for writer in 0..WRITERS {
        // The first look may be one of somebody who has to learn what the others did.
        world.look(writer);
        world.look(writer);
        let plan = world.writers[writer].under_way.take().expect("a plan");
        let reasons: Vec<_> = plan.writes.iter().flat_map(|write| &write.reasons).collect();
        prop_assert!(reasons.is_empty(), "writer {} still has something to do: {:?}", writer, reasons);
    }
    Ok(())
}

#[test]
fn no_history_takes_a_promised_key_away() {
    let seed = std::env::var("HISTORY_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()) << 20);
    println!("{HISTORIES} histories, seed {seed}; HISTORY_SEED={seed} repeats them");
    let config = Config {
        cases: HISTORIES,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::from_seed(config.rng_algorithm, &seed_bytes(seed));
    let mut runner = TestRunner::new_with_rng(config, rng);
    if let Err(failure) = runner.run(&any_history(), |history| lives_through(&history)) {
        panic!("seed {seed}: {failure}");
    }
}

fn seed_bytes(seed: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes
}

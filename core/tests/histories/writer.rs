//! A writer with a state of its own, as a service is one: it reads sources, decides, records, and only then writes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use std::time::Duration;

use chancery_core::issuer_keys::{IssuerKeys, KeyRecord, OtherDecision};
use chancery_core::marker::Edition;
use chancery_core::publication::{Blocked, Contact, Desired, Observed, Plan, WriterMemory, plan};
use chancery_core::retention::{SourceId, SourceReading};
use chancery_core::{CachePolicy, DocumentSet, Owner, PublicKey, WriterKey};

use crate::fixture::numbered_key;
use crate::world::TARGETS;

pub const RETENTION: Duration = Duration::from_secs(100);
pub const WRITERS: usize = 3;
pub const SOURCES: usize = 2;
/// The first of two keys that only an intruder has; the cluster's are below it.
pub const INTRUDER: u8 = 6;
/// The key that only a predecessor has, who published before us and keeps no state.
pub const PREDECESSOR: u8 = INTRUDER + 2;

static KEYS: LazyLock<Vec<PublicKey>> = LazyLock::new(|| (0..=PREDECESSOR).map(numbered_key).collect());

pub fn key(number: u8) -> &'static PublicKey {
    &KEYS[usize::from(number)]
}

pub fn number_of(public_key: &PublicKey) -> u8 {
    let position =
        KEYS.iter().position(|known| known == public_key).expect("a key of the cluster or the intruder");
    u8::try_from(position).expect("fewer than 256 keys")
}

/// Which source shows a key of the cluster.
pub fn source_of(number: u8) -> usize {
    usize::from(number >= 3)
}

pub fn owner() -> Owner {
    "us".parse().expect("an owner")
}

pub fn writer_key() -> WriterKey {
    WriterKey::new([42; 32])
}

/// What a writer records. The keys pass through their record when a writer starts from them: rendering it each time that
/// one is recorded takes most of a history's time.
#[derive(Clone, Debug)]
pub struct State {
    keys: IssuerKeys,
    contacts: BTreeMap<usize, Contact>,
}

impl State {
    pub fn decision(&self) -> u64 {
        self.keys.decision()
    }
}

pub struct Writer {
    pub keys: IssuerKeys,
    contacts: BTreeMap<usize, Contact>,
    /// Targets whose unmarked objects a person has told it to adopt.
    adopts: BTreeSet<usize>,
    /// Sources read since the start.
    read: BTreeSet<usize>,
    waits: bool,
    /// Keys that its sources showed when they were read last.
    pub seen: BTreeSet<u8>,
    under_way: [Option<Plan>; TARGETS],
    pub state: State,
    pub backup: State,
}

/// What came of a look at a target.
#[derive(Debug, PartialEq, Eq)]
pub enum Look {
    Planned,
    /// Something was learned; look again.
    Learned {
        /// Keys that were taken over at the first contact.
        taken_over: Vec<PublicKey>,
    },
    /// There is nothing to publish yet.
    Idle,
    /// A person has to decide.
    Blocked,
}

impl Writer {
    /// A writer without a state, which begins at some time.
    pub fn begin(first_decision: u64) -> Self {
        let keys = IssuerKeys::restore(RETENTION, &KeyRecord::begin(first_decision));
        let state = State { keys, contacts: BTreeMap::new() };
        Self::start(state.clone(), state)
    }

    pub fn start(state: State, backup: State) -> Self {
        Self {
            keys: IssuerKeys::restore(RETENTION, &state.keys.record()),
            contacts: state.contacts.clone(),
            adopts: BTreeSet::new(),
            read: BTreeSet::new(),
            waits: true,
            seen: BTreeSet::new(),
            under_way: [const { None }; TARGETS],
            state,
            backup,
        }
    }

    fn record(&mut self) {
        self.state = State { keys: self.keys.clone(), contacts: self.contacts.clone() };
    }

    pub fn read(&mut self, source: usize, live: &BTreeSet<u8>) {
        let shown = live.iter().copied().filter(|number| source_of(*number) == source);
        self.seen.retain(|number| source_of(*number) != source);
        self.seen.extend(shown.clone());
        let reading = SourceReading::Complete(shown.map(|number| key(number).clone()).collect());
        self.keys.observe(SourceId { position: source, name: source.to_string() }, reading);
        self.read.insert(source);
    }

    pub fn cannot_read(&mut self, source: usize) {
        self.keys.source_failed(&SourceId { position: source, name: source.to_string() });
    }

    pub fn elapse(&mut self, time: u64) {
        self.keys.elapse(Duration::from_secs(time), self.read.len() == SOURCES);
    }

    pub fn give_up_waiting(&mut self) {
        self.waits = false;
    }

    pub fn look(&mut self, target: usize, found: &Observed) -> Look {
        self.under_way[target] = None;
        if self.waits && self.read.len() < SOURCES {
            return Look::Idle;
        }
        let Some(published) = self.keys.publish() else { return Look::Idle };
        self.record();
        let issuer = "https://id.example.com/a".parse().expect("an issuer URL");
        let documents = DocumentSet::new(issuer, published.jwks, CachePolicy::default());
        let memory = WriterMemory::Stateful {
            writer_key: &writer_key(),
            decision: published.decision,
            contact: self.contacts.get(&target),
        };
        let desired = Desired {
            documents: &documents,
            withdrawals: &published.withdrawals,
            owner: &owner(),
            memory,
            adopt_unmarked: self.adopts.contains(&target),
        };
        match plan(desired, found) {
            Ok(plan) => {
                self.under_way[target] = Some(plan);
                Look::Planned
            }
            Err(Blocked::OtherEdition { edition, published, withdrawn }) => {
                self.keys.adopt(OtherDecision { decision: edition.decision(), published, withdrawn });
                self.contacts.insert(target, Contact { known: Some(edition) });
                self.record();
                Look::Learned { taken_over: Vec::new() }
            }
            Err(Blocked::FirstContact { published }) => {
                self.keys.import(published.clone());
                self.contacts.insert(target, Contact::default());
                self.record();
                Look::Learned { taken_over: published }
            }
            Err(Blocked::OtherWriter { .. } | Blocked::Unmarked { .. } | Blocked::ForeignOwner { .. }) => {
                Look::Blocked
            }
            Err(blocked) => panic!("{blocked}"),
        }
    }

    /// Makes the contact with a target, and goes on publishing the keys that a person has named.
    pub fn take_over(&mut self, target: usize, named: Vec<PublicKey>) {
        self.keys.import(named);
        self.contacts.insert(target, Contact::default());
        self.adopts.insert(target);
        self.record();
    }

    /// Remembers what it wrote.
    pub fn wrote(&mut self, target: usize, edition: Option<Edition>) {
        self.contacts.insert(target, Contact { known: edition });
    }

    /// Whether it has been at a target before.
    pub fn was_at(&self, target: usize) -> bool {
        self.contacts.contains_key(&target)
    }

    /// By which decision the JWKS was written that it knows at a target.
    pub fn known_decision(&self, target: usize) -> Option<u64> {
        self.contacts.get(&target)?.decision()
    }

    /// The keys that it publishes.
    pub fn publishes(&self, number: u8) -> bool {
        self.keys.keys().is_some_and(|jwks| jwks.contains(key(number).key_id()))
    }

    /// Whether a person has told it to adopt what carries no marker.
    pub fn adopts(&self, target: usize) -> bool {
        self.adopts.contains(&target)
    }

    pub fn plan(&mut self, target: usize) -> &mut Option<Plan> {
        &mut self.under_way[target]
    }
}

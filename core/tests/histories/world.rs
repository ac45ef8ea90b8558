//! The cluster, its targets, and what must hold of them after every event.

use std::collections::BTreeSet;

use chancery_core::jwks::ObservedJwks;
use chancery_core::publication::{Observed, Precondition, StoredObject, Version};
use chancery_core::{DocumentKind, Jwks, Marker, Owner, WithdrawalCause};

use crate::writer::{
    INTRUDER, Look, PREDECESSOR, RETENTION, SOURCES, WRITERS, Writer, key, number_of, owner, source_of,
};

mod adoption;
mod calm;
mod intruder;
mod period;

use adoption::Before;
pub use intruder::Intrusion;

pub const TARGETS: usize = 2;
/// More decisions than a history has.
const AGE: u64 = 1000;

#[derive(Clone, Copy, Debug)]
pub enum Fate {
    Done,
    AnswerLost,
    Refused,
}

#[derive(Clone, Debug)]
pub enum Event {
    /// The cluster's signing keys change.
    Rotate(BTreeSet<u8>),
    /// A writer reads one of its sources.
    Read(usize, usize),
    /// A writer reads its sources, then counts time.
    Elapse(usize, u64),
    /// A writer reads a target and plans.
    Look(usize, usize),
    /// A writer makes the next write of its plan.
    Write(usize, usize, Fate),
    /// A writer brings every target up to date, and nothing fails.
    Period(usize),
    Crash(usize),
    /// A writer waits no longer for sources that do not answer.
    GiveUpWaiting(usize),
    Backup(usize),
    RestoreBackup(usize),
    LoseState(usize),
    /// A person revokes a key at a writer.
    Revoke(usize, u8),
    /// A person takes a key out at a writer.
    Retire(usize, u8),
    /// Somebody who keeps no state has published at a target before we came.
    Precede(usize),
    Intrude(usize, Intrusion),
}

pub struct World {
    live: BTreeSet<u8>,
    silent: Option<usize>,
    /// By target the keys that a writer which saw them live has published since, while they are live and as long after
    /// as tokens of them may live.
    pub promised: Vec<BTreeSet<u8>>,
    /// Keys that a person has revoked or taken out.
    revoked: BTreeSet<u8>,
    retired: BTreeSet<u8>,
    /// By writer and key the time that it has counted since its sources showed it that key.
    missing: [[u64; INTRUDER as usize]; WRITERS],
    /// Keys of the intruder that a writer took over at its first contact, as it must.
    taken_over: BTreeSet<u8>,
    targets: Vec<Observed>,
    /// By target the keys that stand there, in their order.
    shown: [Vec<u8>; TARGETS],
    versions: u64,
    /// By target the latest decision that was ever written.
    highest: [u64; TARGETS],
    earlier: Vec<(DocumentKind, StoredObject)>,
    writers: Vec<Writer>,
    /// How often a state was begun anew.
    begun: u64,
}

impl World {
    pub fn new() -> Self {
        Self {
            live: BTreeSet::from([0]),
            silent: None,
            promised: vec![BTreeSet::new(); TARGETS],
            revoked: BTreeSet::new(),
            retired: BTreeSet::new(),
            missing: [[0; INTRUDER as usize]; WRITERS],
            taken_over: BTreeSet::new(),
            targets: vec![Observed::default(); TARGETS],
            shown: [const { Vec::new() }; TARGETS],
            versions: 0,
            highest: [0; TARGETS],
            earlier: Vec::new(),
            writers: (0..WRITERS).map(|_| Writer::begin(AGE)).collect(),
            begun: 1,
        }
    }

    pub fn silence(&mut self) {
        self.silent = Some(SOURCES - 1);
    }

    pub fn shows(&self, target: usize, number: u8) -> bool {
        self.shown[target].contains(&number)
    }

    /// By writer the keys that it knows to be revoked.
    pub fn known_revoked(&self) -> Vec<BTreeSet<u8>> {
        let known = |writer: &Writer| {
            let withdrawals = writer.keys.withdrawals();
            (0..INTRUDER).filter(|number| withdrawals.is_revoked(key(*number).key_id())).collect()
        };
        self.writers.iter().map(known).collect()
    }

    pub fn follow(&mut self, event: &Event) -> Result<(), String> {
        match event {
            Event::Rotate(keys) => {
                self.live = keys.difference(&self.revoked).copied().collect();
            }
            Event::Read(writer, source) => self.read(*writer, *source),
            Event::Elapse(writer, time) => self.elapse(*writer, *time),
            Event::Look(writer, target) => drop(self.look(*writer, *target)?),
            Event::Write(writer, target, fate) => self.write(*writer, *target, *fate)?,
            Event::Period(writer) => return self.period(*writer),
            Event::Crash(writer) => {
                let Writer { state, backup, .. } = &self.writers[*writer];
                self.writers[*writer] = Writer::start(state.clone(), backup.clone());
            }
            Event::GiveUpWaiting(writer) => self.writers[*writer].give_up_waiting(),
            Event::Backup(writer) => self.writers[*writer].backup = self.writers[*writer].state.clone(),
            Event::RestoreBackup(writer) => {
                let backup = self.writers[*writer].backup.clone();
                self.writers[*writer] = Writer::start(backup.clone(), backup);
            }
            Event::LoseState(writer) => {
                self.begun += 1;
                self.writers[*writer] = Writer::begin(self.begun * AGE);
            }
            Event::Revoke(writer, number) => {
                self.writers[*writer].keys.withdraw(key(*number).key_id(), WithdrawalCause::Revoked);
                self.revoked.insert(*number);
                self.no_longer_promised(*number);
            }
            Event::Retire(writer, number) => {
                self.writers[*writer].keys.withdraw(key(*number).key_id(), WithdrawalCause::Retired);
                self.retired.insert(*number);
                self.no_longer_promised(*number);
            }
            Event::Precede(target) => self.precede(*target),
            Event::Intrude(target, intrusion) => self.intrude(*target, intrusion),
        }
        Ok(())
    }

    fn precede(&mut self, target: usize) {
        let untouched = self.targets[target].jwks.is_none() && self.foreign_owner(target).is_none();
        if untouched && !self.writers.iter().any(|writer| writer.was_at(target)) {
            let object = StoredObject {
                bytes: Jwks::new([key(PREDECESSOR).clone()]).expect("a key").to_json(),
                media_type: None,
                cache_control: None,
                marker: Some(Marker::of(owner())),
                damage: None,
                version: Version(String::new()),
            };
            self.put(target, DocumentKind::Jwks, Some(object));
            self.promised[target].insert(PREDECESSOR);
        }
    }

    fn no_longer_promised(&mut self, number: u8) {
        self.promised.iter_mut().for_each(|promised| promised.retain(|key| *key != number));
    }

    fn read(&mut self, writer: usize, source: usize) {
        if self.silent == Some(source) {
            self.writers[writer].cannot_read(source);
        } else {
            self.writers[writer].read(source, &self.live);
            let shown = self.live.iter().filter(|number| source_of(**number) == source);
            shown.for_each(|number| self.missing[writer][usize::from(*number)] = 0);
        }
    }

    /// A writer reads its sources, then counts time. A key that is live no more is promised until the first writer has
    /// counted its retention.
    fn elapse(&mut self, writer: usize, time: u64) {
        (0..SOURCES).for_each(|source| self.read(writer, source));
        self.writers[writer].elapse(time);
        self.missing[writer].iter_mut().for_each(|missing| *missing += time);
        (0..SOURCES).for_each(|source| self.read(writer, source));
        let over = |number: &u8| self.missing[writer][usize::from(*number)] >= RETENTION.as_secs();
        let dead: Vec<u8> = (0..INTRUDER).filter(|n| !self.live.contains(n)).filter(over).collect();
        dead.into_iter().for_each(|number| self.no_longer_promised(number));
    }

    fn look(&mut self, writer: usize, target: usize) -> Result<Look, String> {
        let before = Before::of(&self.writers[writer], self.decision(target));
        let look = self.writers[writer].look(target, &self.targets[target]);
        let belongs_to = self.foreign_owner(target).cloned();
        let planted: Vec<u8> =
            (INTRUDER..INTRUDER + 2).filter(|number| self.shows(target, *number)).collect();
        match &look {
            Look::Learned { taken_over } => {
                if taken_over.is_empty() {
                    let withdrawn =
                        self.targets[target].jwks.as_ref().and_then(|object| object.marker.as_ref());
                    let withdrawn = withdrawn.map_or(&[][..], |marker| &marker.withdrawn);
                    before.adopted(&self.writers[writer], withdrawn)?;
                }
                // Only what carries no proof may be a predecessor's, and only a person adopts what has no marker.
                let marker = self.targets[target].jwks.as_ref().and_then(|object| object.marker.as_ref());
                let may = marker.map_or(self.writers[writer].adopts(target), |it| it.proof.is_none());
                let planted = planted.into_iter().filter(|number| taken_over.contains(key(*number)));
                self.taken_over.extend(planted.filter(|_| may));
            }
            Look::Planned => {
                if let Some(theirs) = belongs_to {
                    return Err(format!("writer {writer} plans to write where {theirs} is"));
                }
                let Some(plan) = self.writers[writer].plan(target) else { return Ok(look) };
                let named = |number: &u8| plan.intruders.contains(key(*number).key_id());
                if let Some(number) = planted.iter().find(|n| !self.taken_over.contains(n) && !named(n)) {
                    return Err(format!("nobody is told that {number} was planted at {target}"));
                }
            }
            Look::Idle | Look::Blocked => {}
        }
        Ok(look)
    }

    /// From which decision the JWKS was written that stands at a target.
    fn decision(&self, target: usize) -> u64 {
        let marker = self.targets[target].jwks.as_ref().and_then(|object| object.marker.as_ref());
        marker.map_or(0, |marker| marker.decision)
    }

    /// Somebody else who says that an object at a target is his.
    fn foreign_owner(&self, target: usize) -> Option<&Owner> {
        let objects = DocumentKind::ALL.into_iter().filter_map(|kind| self.targets[target].object(kind));
        let mut owners = objects.filter_map(|object| object.marker.as_ref()).map(|marker| &marker.owner);
        owners.find(|theirs| **theirs != owner())
    }

    fn write(&mut self, writer: usize, target: usize, fate: Fate) -> Result<(), String> {
        let Some(mut plan) = self.writers[writer].plan(target).take() else { return Ok(()) };
        if plan.writes.is_empty() || matches!(fate, Fate::Refused) {
            return Ok(());
        }
        let write = plan.writes.remove(0);
        if self.writers[writer].state.decision() < write.marker.decision {
            return Err(format!("writer {writer} writes a decision at {target} that it has not recorded"));
        }
        let kind = write.document.kind;
        let version = self.targets[target].object(kind).map(|object| object.version.clone());
        let holds = match &write.precondition {
            Precondition::Absent => version.is_none(),
            Precondition::Unchanged(expected) => version.as_ref() == Some(expected),
        };
        if !holds {
            return Ok(());
        }
        if kind == DocumentKind::Discovery && self.targets[target].jwks.is_none() && !plan.writes.is_empty() {
            return Err(format!("writer {writer} names a JWKS at {target} that is not there yet"));
        }
        let object = StoredObject {
            bytes: write.document.bytes.clone(),
            media_type: Some(kind.media_type().to_owned()),
            cache_control: Some(write.document.cache.header()),
            marker: Some(write.marker.clone()),
            damage: None,
            version: Version(String::new()),
        };
        self.earlier.push((kind, object.clone()));
        self.put(target, kind, Some(object));
        if kind == DocumentKind::Jwks && self.shown[target].is_empty() && self.revoked.is_empty() {
            return Err(format!("writer {writer} leaves no key at {target}"));
        }
        if matches!(fate, Fate::Done) {
            if kind == DocumentKind::Jwks {
                let edition = self.targets[target].jwks.as_ref().and_then(StoredObject::edition);
                self.writers[writer].wrote(target, edition);
            }
            *self.writers[writer].plan(target) = Some(plan);
        }
        if kind == DocumentKind::Jwks {
            self.promise(writer, target, write.marker.decision);
        }
        Ok(())
    }

    /// What a writer has published of the keys that it saw live is promised from now on.
    fn promise(&mut self, writer: usize, target: usize, decision: u64) {
        // A writer that an intruder's rollback misled at its first contact begins below what was decided there; the
        // others know better, and repair what it wrote.
        if decision < self.highest[target] {
            return;
        }
        // Writers with states of their own do not hear of each other before they meet at a target. Where they
        // contradict each other there, the one that has decided more is believed.
        if self.writers.iter().any(|writer| writer.keys.decision() > decision) {
            return;
        }
        self.highest[target] = decision;
        let seen = self.writers[writer].seen.clone();
        // A key that expired at another writer is a contradiction too, though nobody was shown that decision yet.
        let later = |writer: &Writer, number: u8| {
            let withdrawal = writer.keys.withdrawals().get(key(number).key_id());
            withdrawal.is_some_and(|it| it.decision > decision)
        };
        let decided = |number: &u8| {
            !self.revoked.contains(number)
                && !self.retired.contains(number)
                && !self.writers.iter().any(|writer| later(writer, *number))
        };
        let live = seen.intersection(&self.live).copied().filter(decided);
        let published: Vec<u8> = live.filter(|number| self.shows(target, *number)).collect();
        self.promised[target].extend(published);
    }

    fn put(&mut self, target: usize, kind: DocumentKind, object: Option<StoredObject>) {
        self.versions += 1;
        let version = Version(self.versions.to_string());
        if kind == DocumentKind::Jwks {
            let published = object.as_ref().map(|object| ObservedJwks::parse(&object.bytes).expect("a JWKS"));
            let numbers = published.iter().flat_map(ObservedJwks::keys).map(number_of);
            self.shown[target] = numbers.collect();
        }
        *self.targets[target].object_mut(kind) = object.map(|object| StoredObject { version, ..object });
    }
}

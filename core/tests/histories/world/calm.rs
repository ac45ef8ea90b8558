//! What must hold once nothing fails any more.

use chancery_core::DocumentKind;

use super::{TARGETS, World};
use crate::writer::{Look, SOURCES, WRITERS, Writer, key, source_of};

impl World {
    /// A person takes over what blocks a writer at its first contact, and names the keys of the cluster whose tokens may
    /// live.
    fn restore(&mut self, writer: usize) -> Result<(), String> {
        for target in 0..TARGETS {
            self.evict(target);
            if self.look(writer, target)? == Look::Blocked {
                let needed = self.live.union(&self.promised[target]);
                let shown = needed.filter(|number| self.shows(target, **number));
                let named = shown.map(|number| key(*number).clone()).collect();
                self.writers[writer].take_over(target, named);
                self.look(writer, target)?;
            }
        }
        Ok(())
    }

    /// A person removes what says that it is somebody else's.
    fn evict(&mut self, target: usize) {
        if self.foreign_owner(target).is_some() {
            DocumentKind::ALL.into_iter().for_each(|kind| self.put(target, kind, None));
            self.promised[target].clear();
        }
    }

    /// Every writer reads what still answers and publishes, and nothing fails.
    pub fn calm(&mut self) -> Result<(), String> {
        for round in 0..WRITERS * 4 {
            let writer = round % WRITERS;
            (0..SOURCES).for_each(|source| self.read(writer, source));
            self.writers[writer].give_up_waiting();
            self.restore(writer)?;
            let before = self.promised.clone();
            self.period(writer)?;
            for (target, before) in before.iter().enumerate() {
                if let Some(lost) = before.iter().find(|number| !self.shows(target, **number)) {
                    return Err(format!("a calm round takes {lost} away from {target}"));
                }
            }
        }
        let remembers =
            |writer: &Writer, number: u8| writer.keys.withdrawals().is_revoked(key(number).key_id());
        for target in 0..TARGETS {
            let answers = |number: &&u8| self.silent != Some(source_of(**number));
            let mut wanted = self.live.iter().filter(answers).filter(|n| !self.retired.contains(n));
            if let Some(number) = wanted.find(|n| !self.revoked.contains(n) && !self.shows(target, **n)) {
                return Err(format!("the live key {number} is not published at {target} after a calm time"));
            }
            let remembered = |n: &&u8| self.writers.iter().any(|writer| remembers(writer, **n));
            if let Some(number) = self.revoked.iter().filter(remembered).find(|n| self.shows(target, **n)) {
                return Err(format!("the revoked key {number} is published at {target} after a calm time"));
            }
            let speaks = self.writers.iter().any(|writer| writer.keys.keys().is_some());
            if speaks && self.targets[target].discovery.is_none() {
                return Err(format!("there is no discovery document at {target}"));
            }
        }
        // A writer whose every key was taken out, and none revoked, has nothing to say.
        let speaks = |writer: &usize| self.writers[*writer].keys.keys().is_some();
        for writer in (0..WRITERS).filter(speaks).collect::<Vec<_>>() {
            for target in 0..TARGETS {
                let look = self.look(writer, target)?;
                let plan = self.writers[writer].plan(target).take();
                let reasons: Vec<_> =
                    plan.iter().flat_map(|plan| &plan.writes).flat_map(|w| &w.reasons).collect();
                if look != Look::Planned || !reasons.is_empty() {
                    return Err(format!("writer {writer} is not at rest at {target}: {look:?} {reasons:?}"));
                }
            }
        }
        Ok(())
    }
}

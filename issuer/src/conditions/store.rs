//! Where every task of the process says what it found, and where whoever reports reads it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use chancery_core::IssuerUrl;
use jiff::Timestamp;
use tokio::sync::watch;

use super::{Condition, ConditionType, Conditions, INCOMPLETE, News, Subject, Verdict};

/// Shared behind an `Arc`.
#[derive(Debug, Default)]
pub struct ConditionStore {
    state: Mutex<State>,
    changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    conditions: Conditions,
    /// What happened and was not told yet. The same thing again is a number, so this cannot grow without end.
    untold: BTreeMap<(Subject, ConditionType, &'static str), Transition>,
}

/// Something that people are told once, with how often it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// Of what.
    pub subject: Subject,
    /// The condition that changed.
    pub condition: ConditionType,
    /// Why.
    pub reason: &'static str,
    /// The latest sentence.
    pub message: String,
    /// Whether somebody should act.
    pub alarm: bool,
    /// How often since it was told last.
    pub times: u32,
}

impl ConditionStore {
    /// Takes what was found now.
    pub fn set(&self, subject: &Subject, verdict: &Verdict) {
        let mut state = self.lock();
        let news = state.conditions.set(subject, verdict, Timestamp::now());
        // That all is well from the start is nothing to tell.
        if news == News::Case || (news == News::First && verdict.alarm) {
            state.happened(subject, verdict);
        }
        drop(state);
        if news != News::Nothing {
            self.changed.send_modify(|times| *times += 1);
        }
    }

    /// Drops everything about a subject that this replica does not look at any more.
    pub fn forget(&self, subject: &Subject) {
        if self.lock().conditions.forget(subject, Timestamp::now()) {
            self.changed.send_modify(|times| *times += 1);
        }
    }

    /// Drops everything about an issuer that is not ours any more.
    pub fn forget_issuer(&self, issuer: &IssuerUrl) {
        if self.lock().conditions.forget_issuer(issuer) {
            self.changed.send_modify(|times| *times += 1);
        }
    }

    /// All conditions, by issuer, subject and type.
    pub fn conditions(&self) -> Vec<Condition> {
        self.lock().conditions.iter().cloned().collect()
    }

    /// What `look` makes of all conditions, none of which changes meanwhile: it should not take long.
    pub fn look<T>(&self, look: impl FnOnce(&Conditions) -> T) -> T {
        look(&self.lock().conditions)
    }

    /// The issuers of which a part of a source was never read since the start, with the names of those sources.
    pub fn incomplete_sources(&self) -> BTreeMap<IssuerUrl, String> {
        let state = self.lock();
        let mut incomplete: BTreeMap<IssuerUrl, String> = BTreeMap::new();
        let is_incomplete = |it: &&Condition| it.condition == ConditionType::Read && it.reason == INCOMPLETE;
        for condition in state.conditions.iter().filter(is_incomplete) {
            if let Some(issuer) = condition.subject.issuer_url() {
                let sources = incomplete.entry(issuer.clone()).or_default();
                let comma = if sources.is_empty() { "" } else { ", " };
                sources.push_str(&format!("{comma}{}", condition.subject.part()));
            }
        }
        incomplete
    }

    /// What happened and was not told yet; whoever takes it tells it.
    pub fn take_untold(&self) -> Vec<Transition> {
        std::mem::take(&mut self.lock().untold).into_values().collect()
    }

    /// Told about every change.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that holds the lock can leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn happened(&mut self, subject: &Subject, verdict: &Verdict) {
        let key = (subject.clone(), verdict.condition, verdict.reason);
        let times = self.untold.get(&key).map_or(0, |transition| transition.times).saturating_add(1);
        let transition = Transition {
            subject: subject.clone(),
            condition: verdict.condition,
            reason: verdict.reason,
            message: verdict.message.clone(),
            alarm: verdict.alarm,
            times,
        };
        self.untold.insert(key, transition);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_repeats_is_told_once_with_its_number_and_what_is_well_from_the_start_not_at_all() {
        let conditions = ConditionStore::default();
        let subject = Subject::target(&"https://id.example.com".parse().unwrap(), "bucket");
        let mut changed = conditions.subscribe();
        conditions.set(&subject, &Verdict::good(ConditionType::Published, "UpToDate", ""));
        assert!(changed.has_changed().unwrap());
        changed.mark_unchanged();
        assert_eq!(conditions.take_untold(), []);
        conditions.set(&subject, &Verdict::good(ConditionType::Published, "UpToDate", ""));
        assert!(!changed.has_changed().unwrap());

        let drifted = Verdict::bad(ConditionType::Drifted, "Changed", "again");
        (0..3).for_each(|_| conditions.set(&subject, &drifted));
        conditions.set(&subject, &Verdict::bad(ConditionType::Published, "Failed", "down"));
        conditions.set(&subject, &Verdict::good(ConditionType::Published, "UpToDate", ""));
        let told = conditions.take_untold();
        let told: Vec<_> = told.iter().map(|told| (told.reason, told.times, told.alarm)).collect();
        assert_eq!(told, [("Failed", 1, true), ("UpToDate", 1, false), ("Changed", 3, true)]);
        assert_eq!((conditions.take_untold(), conditions.conditions().len()), (vec![], 2));
        conditions.forget(&subject);
        assert_eq!(conditions.conditions(), []);
    }
}

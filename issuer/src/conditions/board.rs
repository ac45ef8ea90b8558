//! Where every task of the process says what it found, and where whoever reports reads it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::watch;

use super::{Condition, ConditionType, Conditions, News, Subject, Verdict};

/// Shared behind an `Arc`.
#[derive(Debug, Default)]
pub struct Board {
    state: Mutex<State>,
    changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    conditions: Conditions,
    /// What happened and was not told yet. The same thing again is a number, so this cannot grow without end.
    untold: BTreeMap<(Subject, ConditionType, &'static str), Happening>,
}

/// Something that people are told once, with how often it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happening {
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

impl Board {
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
        if self.lock().conditions.forget(subject) {
            self.changed.send_modify(|times| *times += 1);
        }
    }

    /// All conditions, by issuer, subject and type.
    pub fn conditions(&self) -> Vec<Condition> {
        self.lock().conditions.iter().cloned().collect()
    }

    /// What happened and was not told yet; whoever takes it tells it.
    pub fn take_untold(&self) -> Vec<Happening> {
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
        let times = self.untold.get(&key).map_or(0, |happening| happening.times).saturating_add(1);
        let happening = Happening {
            subject: subject.clone(),
            condition: verdict.condition,
            reason: verdict.reason,
            message: verdict.message.clone(),
            alarm: verdict.alarm,
            times,
        };
        self.untold.insert(key, happening);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_repeats_is_told_once_with_its_number_and_what_is_well_from_the_start_not_at_all() {
        let board = Board::default();
        let subject = Subject::target(&"https://id.example.com".parse().unwrap(), "bucket");
        let mut changed = board.subscribe();
        board.set(&subject, &Verdict::good(ConditionType::Published, "UpToDate", ""));
        assert!(changed.has_changed().unwrap());
        changed.mark_unchanged();
        assert_eq!(board.take_untold(), []);
        board.set(&subject, &Verdict::good(ConditionType::Published, "UpToDate", ""));
        assert!(!changed.has_changed().unwrap());

        let drifted = Verdict::bad(ConditionType::Drifted, "Changed", "again");
        (0..3).for_each(|_| board.set(&subject, &drifted));
        board.set(&subject, &Verdict::bad(ConditionType::Published, "Failed", "down"));
        board.set(&subject, &Verdict::good(ConditionType::Published, "UpToDate", ""));
        let told = board.take_untold();
        let told: Vec<_> = told.iter().map(|told| (told.reason, told.times, told.alarm)).collect();
        assert_eq!(told, [("Failed", 1, true), ("UpToDate", 1, false), ("Changed", 3, true)]);
        assert_eq!((board.take_untold(), board.conditions().len()), (vec![], 2));
        board.forget(&subject);
        assert_eq!(board.conditions(), []);
    }
}

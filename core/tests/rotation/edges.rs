//! What relying parties read, and how they keep it.

use std::collections::BTreeSet;

use crate::dice::Dice;
use crate::keys::{ES256_KEY, Number};

/// A cache in front of the object store.
#[derive(Clone, Default)]
pub struct Edge {
    pub keys: BTreeSet<Number>,
    age: u64,
    lasts: u64,
}

impl Edge {
    pub fn of(keys: BTreeSet<Number>) -> Self {
        Self { keys, ..Self::default() }
    }

    /// Lets a minute pass; an old answer is replaced by what stands there now.
    pub fn tick(&mut self, origin: &BTreeSet<Number>, dice: &mut Dice, stale_at_most: u64) {
        self.age += 1;
        if self.age > self.lasts {
            self.keys.clone_from(origin);
            (self.age, self.lasts) = (0, dice.within(0, stale_at_most));
        }
    }
}

/// How a relying party keeps keys; all times in minutes.
#[derive(Clone, Copy)]
pub enum Habit {
    /// For so long, whatever tokens come.
    Fixed(u64),
    /// For so long, and reads again for an unknown key unless it has done so lately.
    ReadsAgain { after: u64, cooldown: u64 },
    /// Reads when it starts and then every so often, on a timer of its own.
    Polls(u64),
    /// Reads when it is restarted.
    UntilRestart,
}

pub struct RelyingParty {
    habit: Habit,
    keys: BTreeSet<Number>,
    age: u64,
    /// More keys than this are no key set for it.
    most: usize,
}

impl RelyingParty {
    pub fn new(habit: Habit, keys: BTreeSet<Number>, most: usize) -> Self {
        Self { habit, keys, age: 0, most }
    }

    pub fn read(&mut self, edge: &Edge) {
        self.age = 0;
        self.keys.clone_from(&edge.keys);
    }

    pub fn tick(&mut self, edge: &Edge) {
        self.age += 1;
        if matches!(self.habit, Habit::Polls(every) if self.age >= every) {
            self.read(edge);
        }
    }

    pub fn is_restarted_by_people(&self) -> bool {
        matches!(self.habit, Habit::UntilRestart)
    }

    fn has(&self, number: Number) -> bool {
        self.keys.contains(&number)
    }

    /// Whether it accepts a token of a key, when `edge` is where it would read now.
    pub fn accepts(&mut self, number: Number, edge: &Edge, only_rsa: bool) -> bool {
        match self.habit {
            Habit::Fixed(time) if self.age >= time => self.read(edge),
            Habit::ReadsAgain { after, .. } if self.age >= after => self.read(edge),
            Habit::ReadsAgain { cooldown, .. } if !self.has(number) && self.age >= cooldown => {
                self.read(edge);
            }
            _ => {}
        }
        self.keys.len() <= self.most && self.has(number) && !(only_rsa && number == ES256_KEY)
    }
}

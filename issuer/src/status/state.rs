//! How something stands, in one word.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// How an issuer, a part of one or a certificate stands, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Tokens are refused or may be soon, or somebody may have broken in: a person must act.
    Broken,
    /// It works, and a person should find out about something.
    Attention,
    /// It is not done yet, and will be by itself.
    Waiting,
    /// This replica cannot tell.
    Unknown,
    /// All is as it should be.
    Healthy,
}

impl State {
    /// All of them, the worst first.
    pub const ALL: [Self; 5] = [Self::Broken, Self::Attention, Self::Waiting, Self::Unknown, Self::Healthy];

    /// The word in JSON and in a query.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Broken => "broken",
            Self::Attention => "attention",
            Self::Waiting => "waiting",
            Self::Unknown => "unknown",
            Self::Healthy => "healthy",
        }
    }

    /// The word on a page.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Broken => "Broken",
            Self::Attention => "Attention",
            Self::Waiting => "Waiting",
            Self::Unknown => "Unknown",
            Self::Healthy => "Healthy",
        }
    }

    /// A shape of its own, so that no state is told by its colour alone.
    pub const fn shape(self) -> char {
        match self {
            Self::Broken => '\u{2715}',
            Self::Attention => '\u{25b2}',
            Self::Waiting => '\u{25d4}',
            Self::Unknown => '?',
            Self::Healthy => '\u{2713}',
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for State {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let words = Self::ALL.map(Self::as_str);
        let found = Self::ALL.into_iter().find(|state| state.as_str() == text);
        found.ok_or_else(|| format!("{text:?} is no state; expected one of {}", words.join(", ")))
    }
}

impl Serialize for State {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_comes_first_and_every_word_is_read_back() {
        let mut sorted = State::ALL;
        sorted.reverse();
        sorted.sort();
        assert_eq!(sorted, State::ALL);
        for state in State::ALL {
            assert_eq!(state.as_str().parse(), Ok(state));
        }
        assert!("good".parse::<State>().unwrap_err().contains("broken, attention"));
    }
}

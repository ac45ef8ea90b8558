//! Which of two rings a signer signs by: the one that it has read, or the one that it knows.
//!
//! Rules, in the order in which the code applies them. What is known is the newest ring that this signer has recorded, and
//! the position that it has acknowledged where others read it: either may come from a backup, and not both at once as a
//! rule.
//!
//! 1. A ring whose position cannot have been counted decides nothing.
//! 2. A ring that is not behind what is known is signed by.
//! 3. Otherwise the recorded ring is, if it is not behind what was acknowledged: a key that a newer ring has retired or
//!    revoked must not come back because somebody restored an older one.
//! 4. Otherwise nothing is signed: this signer once signed by a ring that nobody has any more.

use std::fmt;

use chancery_core::KeyRing;
use chancery_core::ring::Position;

/// What a signer knows of rings.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The newest ring that it has recorded.
    pub recorded: Option<&'a KeyRing>,
    /// The position that it has acknowledged.
    pub acknowledged: Option<Position>,
}

/// By which ring to sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingChoice {
    /// By the one that was read.
    Read,
    /// By the recorded one, since the one that was read is not to be relied on.
    Recorded(Distrust),
    /// By none.
    Neither(Distrust),
}

/// What is wrong with a ring that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distrust {
    /// It is older than what is known.
    Behind {
        /// Where it is.
        read: Position,
        /// What is known.
        known: Position,
    },
    /// Nobody has counted up to where it is.
    Poisoned(Position),
}

/// Decides by the rules above.
pub fn choose(read: &KeyRing, known: Known<'_>) -> RingChoice {
    let position = read.position();
    let recorded = known.recorded.map(KeyRing::position);
    let newest = recorded.max(known.acknowledged);
    let distrust = match newest {
        _ if position.is_poisoned() => Distrust::Poisoned(position),
        Some(newest) if position < newest => Distrust::Behind { read: position, known: newest },
        _ => return RingChoice::Read,
    };
    if recorded.is_some() && recorded >= known.acknowledged {
        RingChoice::Recorded(distrust)
    } else {
        RingChoice::Neither(distrust)
    }
}

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Behind { read, known } => write!(
                f,
                "it is at {read}, and this signer has signed by {known}: somebody has restored an older ring; \
                 restore a newer one, or begin a new epoch with `chancery ring reset`"
            ),
            Self::Poisoned(position) => write!(
                f,
                "it is at {position}, which nobody has counted up to; begin a new epoch with `chancery ring reset`"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use chancery_core::ring::{AdoptedKey, Custody, HIGHEST_GENERATION, Request};
    use chancery_keygen::{KeySpec, PrivateKey};

    use super::*;

    /// A ring after so many adoptions.
    fn ring(generation: u64) -> KeyRing {
        let mut ring = KeyRing::new();
        for _ in 0..generation {
            let public_key = PrivateKey::generate(KeySpec::P256).unwrap().public_key().clone();
            let key = AdoptedKey { public_key, signs: false, custody: Custody::Elsewhere };
            ring = ring.request(&Request::Adopt(vec![key])).unwrap();
        }
        assert_eq!(ring.position(), Position { epoch: 0, generation });
        ring
    }

    #[test]
    fn the_newest_that_is_known_is_signed_by_or_none() {
        let at = |generation| Position { epoch: 0, generation };
        let behind = |read, known| Distrust::Behind { read: at(read), known: at(known) };
        for (read, recorded, acknowledged, expected) in [
            (2, None, None, RingChoice::Read),
            (2, Some(2), Some(2), RingChoice::Read),
            (3, Some(2), Some(2), RingChoice::Read),
            (3, Some(1), Some(3), RingChoice::Read),
            (1, Some(2), Some(2), RingChoice::Recorded(behind(1, 2))),
            (1, Some(2), Some(1), RingChoice::Recorded(behind(1, 2))),
            (1, Some(2), None, RingChoice::Recorded(behind(1, 2))),
            (1, Some(2), Some(3), RingChoice::Neither(behind(1, 3))),
            (1, None, Some(2), RingChoice::Neither(behind(1, 2))),
        ] {
            let recorded = recorded.map(ring);
            let known = Known { recorded: recorded.as_ref(), acknowledged: acknowledged.map(at) };
            assert_eq!(choose(&ring(read), known), expected, "{read} {acknowledged:?}");
        }
    }

    #[test]
    fn a_ring_that_nobody_has_counted_decides_nothing() {
        let poisoned = Position { epoch: 0, generation: HIGHEST_GENERATION + 1 };
        let mut value = serde_json::to_value(ring(0)).unwrap();
        value["position"] = serde_json::to_value(poisoned).unwrap();
        let read: KeyRing = serde_json::from_value(value).unwrap();
        let recorded = ring(1);
        let known = Known { recorded: Some(&recorded), acknowledged: None };
        assert_eq!(choose(&read, known), RingChoice::Recorded(Distrust::Poisoned(poisoned)));
        let nothing = Known { recorded: None, acknowledged: None };
        assert_eq!(choose(&read, nothing), RingChoice::Neither(Distrust::Poisoned(poisoned)));
    }
}

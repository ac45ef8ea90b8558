//! The last good reading of every part of a source.
//!
//! Rules, in the order in which the code applies them:
//!
//! 1. A part without a key that showed keys before keeps them: it is being written, or was damaged.
//! 2. So does a part with a torn block that misses a key it showed before.
//! 3. A part that is not there any more is forgotten, with its keys.
//! 4. A part that was never read whole since the start is unread: what it held before the start may be there still, so
//!    that nothing the source does not show may count as dropped. A part that was read whole and holds no key that we
//!    publish, as a private key put there by mistake, is read.

use std::collections::BTreeMap;
use std::fmt;

use chancery_core::PublicKey;
use chancery_core::key_file::{self, PublicKeys, SkipReason};

/// What a whole source shows, put together from its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Listing {
    /// The keys in the order of the parts, each once.
    pub keys: Vec<PublicKey>,
    /// What gave no key, as phrases.
    pub skipped: Vec<String>,
    /// The names of the parts that were never read whole since the start.
    pub unread: Vec<String>,
    /// The parts that cannot be read, if any, as one sentence.
    pub error: Option<String>,
}

/// What one look at a part found, and the part's name.
pub(super) type PartLook = (String, Result<PublicKeys, PartProblem>);

/// Why a part gives no key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PartProblem {
    /// It cannot be read, or is empty or torn, so that it may hold keys.
    Unreadable(String),
    /// It was read whole and holds none that we publish.
    NoPublicKey(String),
}

impl fmt::Display for PartProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Unreadable(text) | Self::NoPublicKey(text)) = self;
        f.write_str(text)
    }
}

/// The parts of a source by name (a file's path, an object and its field), with the last good reading of each.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// Boxed: a node of the map has room for eleven, and most sources have one.
    good: BTreeMap<String, Box<Part>>,
}

/// The last good reading of a part.
#[derive(Debug)]
struct Part {
    keys: PublicKeys,
    /// Whether it was ever read without a torn block.
    was_whole: bool,
}

impl Parts {
    /// Takes what every part that exists shows now, in the order to publish.
    pub fn apply(&mut self, looks: Vec<PartLook>) -> Listing {
        let mut before = std::mem::take(&mut self.good);
        let mut listing = Listing::default();
        let mut errors = Vec::new();
        for (name, look) in looks {
            let Settled { part, error, unread } = settle(before.remove(&name).map(|part| *part), look);
            errors.extend(error.map(|error| format!("{name}: {error}")));
            if unread {
                listing.unread.push(name.clone());
            }
            if let Some(part) = part {
                listing.add(&name, &part.keys);
                self.good.insert(name, Box::new(part));
            }
        }
        listing.error = (!errors.is_empty()).then(|| errors.join("; "));
        listing
    }

    /// The names of the parts that show keys.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.good.keys().map(String::as_str)
    }
}

impl Listing {
    /// Adds what is wrong with the source itself.
    pub fn complain(&mut self, problems: Vec<String>) {
        let all: Vec<String> = self.error.take().into_iter().chain(problems).collect();
        self.error = (!all.is_empty()).then(|| all.join("; "));
    }

    fn add(&mut self, name: &str, part: &PublicKeys) {
        for key in &part.keys {
            if !self.keys.contains(key) {
                self.keys.push(key.clone());
            }
        }
        self.skipped.extend(part.skipped.iter().map(|skipped| format!("{name}: {skipped}")));
    }
}

/// The reading of a part to go on with, and what is wrong with it.
struct Settled {
    part: Option<Part>,
    error: Option<String>,
    unread: bool,
}

fn settle(last: Option<Part>, look: Result<PublicKeys, PartProblem>) -> Settled {
    let was_whole = last.as_ref().is_some_and(|last| last.was_whole);
    match (last, look) {
        (last, Err(problem)) => {
            let unread = !was_whole && (last.is_some() || matches!(problem, PartProblem::Unreadable(_)));
            Settled { part: last, error: Some(problem.to_string()), unread }
        }
        (Some(last), Ok(now))
            if is_torn(&now) && last.keys.keys.iter().any(|key| !now.keys.contains(key)) =>
        {
            let error = "a block is torn off and a key is missing that was there before, as in a file that is \
                         being written; write a new file and rename it over this one";
            Settled { part: Some(last), error: Some(error.to_owned()), unread: !was_whole }
        }
        (_, Ok(now)) if is_torn(&now) && !was_whole => {
            let error = "a block is torn off, so that a key may be missing; write a new file and rename it over this one";
            let part = Some(Part { keys: now, was_whole });
            Settled { part, error: Some(error.to_owned()), unread: true }
        }
        (_, Ok(now)) => {
            Settled { part: Some(Part { keys: now, was_whole: true }), error: None, unread: false }
        }
    }
}

fn is_torn(keys: &PublicKeys) -> bool {
    keys.skipped.iter().any(|skipped| skipped.reason == SkipReason::Broken)
}

/// The public keys in `text`.
///
/// # Errors
/// When there is none, with what was found instead.
pub(super) fn public_keys(text: &str) -> Result<PublicKeys, PartProblem> {
    let found = key_file::read_public_keys(text);
    if !found.keys.is_empty() {
        return Ok(found);
    }
    if found.skipped.is_empty() {
        let problem = "no PEM block in it; expected a `PUBLIC KEY` or `CERTIFICATE` block";
        return Err(PartProblem::Unreadable(problem.to_owned()));
    }
    let reasons: Vec<String> = found.skipped.iter().map(ToString::to_string).collect();
    let problem = format!("no public key in it: {}", reasons.join("; "));
    Err(if is_torn(&found) { PartProblem::Unreadable(problem) } else { PartProblem::NoPublicKey(problem) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::tests::key;

    fn part(name: &str, text: &str) -> PartLook {
        (name.to_owned(), public_keys(text))
    }

    #[test]
    fn a_damaged_part_keeps_its_keys_and_a_deleted_one_does_not() {
        let (one, two) = (key(), key());
        let (both, torn) = (one.to_pem() + &two.to_pem(), one.to_pem() + &two.to_pem()[..60]);
        for (text, shown, fails) in [
            (both.clone(), vec![&one, &two], false),
            (String::new(), vec![&one, &two], true),
            (
                "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n".to_owned(),
                vec![&one, &two],
                true,
            ),
            (torn, vec![&one, &two], true),
            (two.to_pem(), vec![&two], false),
        ] {
            let mut parts = Parts::default();
            parts.apply(vec![part("a", &both)]);
            let reading = parts.apply(vec![part("a", &text)]);
            assert_eq!(reading.keys.iter().collect::<Vec<_>>(), shown, "{text}");
            assert_eq!(reading.error.is_some(), fails, "{text}: {:?}", reading.error);
            assert_eq!(parts.apply(Vec::new()), Listing::default());
            assert_eq!(parts.names().count(), 0);
        }
    }

    #[test]
    fn a_torn_part_that_misses_nothing_may_add() {
        let (one, two) = (key(), key());
        let mut parts = Parts::default();
        parts.apply(vec![part("a", &one.to_pem())]);
        let grown = one.to_pem() + &two.to_pem() + "-----BEGIN PUBLIC KEY-----\nAA";
        let reading = parts.apply(vec![part("a", &grown)]);
        assert_eq!((reading.keys, reading.error), (vec![one, two], None));
        assert_eq!(reading.skipped.len(), 1);
    }

    #[test]
    fn a_broken_part_does_not_hold_back_the_others() {
        let one = key();
        let reading = Parts::default().apply(vec![part("a", "no"), part("b", &one.to_pem())]);
        assert_eq!(reading.keys, [one]);
        assert!(reading.error.unwrap().starts_with("a: no PEM block"));
    }

    #[test]
    fn a_part_that_was_never_read_whole_since_the_start_is_unread() {
        let (one, two) = (key(), key());
        let both = one.to_pem() + &two.to_pem();
        let cut = both[..both.len() - 60].to_owned();
        let private = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        let unreadable = || ("b".to_owned(), Err(PartProblem::Unreadable("permission denied".to_owned())));
        for (look, unread) in [
            (unreadable(), true),
            (part("b", ""), true),
            (part("b", &cut), true),
            (part("b", private), false),
            (part("b", &both), false),
        ] {
            let mut parts = Parts::default();
            for again in ["first", "second"] {
                let listing = parts.apply(vec![part("a", &one.to_pem()), look.clone()]);
                assert_eq!(!listing.unread.is_empty(), unread, "{again}: {look:?}");
                assert!(listing.keys.contains(&one));
            }
            assert_eq!(parts.apply(vec![part("b", &both)]).unread, [""; 0]);
            assert_eq!(parts.apply(vec![unreadable()]).unread, [""; 0], "it keeps what it showed");
        }
    }
}

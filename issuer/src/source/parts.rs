//! The last good reading of every part of a source.
//!
//! Rules, in the order in which the code applies them:
//!
//! 1. A part without a key that showed keys before keeps them: it is being written, or was damaged.
//! 2. So does a part with a torn block that misses a key it showed before.
//! 3. A part that is not there any more is forgotten, with its keys.

use std::collections::BTreeMap;

use chancery_core::PublicKey;
use chancery_core::pem::{self, PublicKeys, SkipReason};

/// What a whole source shows, put together from its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    /// The keys in the order of the parts, each once.
    pub keys: Vec<PublicKey>,
    /// What gave no key, as phrases.
    pub skipped: Vec<String>,
    /// The parts that cannot be read, if any, as one sentence.
    pub error: Option<String>,
}

/// The parts of a source by name (a file's path, an object and its field), with the last good reading of each.
#[derive(Debug, Default)]
pub(super) struct Parts {
    good: BTreeMap<String, PublicKeys>,
}

impl Parts {
    /// Takes what every part that exists shows now, in the order to publish.
    pub fn apply(&mut self, parts: Vec<(String, Result<PublicKeys, String>)>) -> Reading {
        let mut before = std::mem::take(&mut self.good);
        let mut reading = Reading::default();
        let mut errors = Vec::new();
        for (name, outcome) in parts {
            let last = before.remove(&name);
            let (good, error) = settle(last, outcome);
            errors.extend(error.map(|error| format!("{name}: {error}")));
            if let Some(good) = good {
                reading.add(&name, &good);
                self.good.insert(name, good);
            }
        }
        reading.error = (!errors.is_empty()).then(|| errors.join("; "));
        reading
    }

    /// The names of the parts that show keys.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.good.keys().map(String::as_str)
    }
}

impl Reading {
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
fn settle(
    last: Option<PublicKeys>,
    outcome: Result<PublicKeys, String>,
) -> (Option<PublicKeys>, Option<String>) {
    match (last, outcome) {
        (last, Err(error)) => (last, Some(error)),
        (Some(last), Ok(now)) if is_torn(&now) && last.keys.iter().any(|key| !now.keys.contains(key)) => {
            let error = "a block is torn off and a key is missing that was there before, as in a file that is \
                         being written; write a new file and rename it over this one";
            (Some(last), Some(error.to_owned()))
        }
        (_, Ok(now)) => (Some(now), None),
    }
}

fn is_torn(keys: &PublicKeys) -> bool {
    keys.skipped.iter().any(|skipped| skipped.reason == SkipReason::Broken)
}

/// The public keys in `text`.
///
/// # Errors
/// When there is none, with what was found instead.
pub(super) fn public_keys(text: &str) -> Result<PublicKeys, String> {
    let found = pem::read_public_keys(text);
    if !found.keys.is_empty() {
        return Ok(found);
    }
    if found.skipped.is_empty() {
        return Err("no PEM block in it; expected a `PUBLIC KEY` or `CERTIFICATE` block".to_owned());
    }
    let reasons: Vec<String> = found.skipped.iter().map(ToString::to_string).collect();
    Err(format!("no public key in it: {}", reasons.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::tests::key;

    fn part(name: &str, text: &str) -> (String, Result<PublicKeys, String>) {
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
            assert_eq!(parts.apply(Vec::new()), Reading::default());
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
}

//! What is remembered of those who were asked, and whom to ask now.

use std::collections::BTreeMap;
use std::time::Duration;

use chancery_cluster::backoff::Backoff;
use chancery_core::KeyId;
use chancery_core::rotation::CanaryAnswer;
use tokio::time::Instant;

/// Who has accepted a key is asked again after so long: a standby may wait for a quarter, and a party be set up anew.
const FRESH: Duration = Duration::from_secs(24 * 3600);

/// A pause is at most so many looks, 10 minutes as a rule.
const LONGEST: u32 = 60;

/// The answers to canaries of one key, while everybody sees it. Of another key, or after a loss of sight, everybody is
/// asked again.
#[derive(Debug)]
pub(super) struct Waiting {
    kid: Option<KeyId>,
    parties: BTreeMap<String, Party>,
    names: Vec<String>,
    look: Duration,
}

#[derive(Debug)]
struct Party {
    answer: Option<CanaryAnswer>,
    asks_at: Instant,
    pauses: Backoff,
}

impl Waiting {
    /// Of these parties; `look` is the shortest pause.
    pub fn new(names: Vec<String>, look: Duration) -> Self {
        Self { kid: None, parties: BTreeMap::new(), names, look }
    }

    /// From now on it is about this key, or none. Whether that is news.
    pub fn is_about(&mut self, kid: Option<&KeyId>, now: Instant) -> bool {
        if self.kid.as_ref() == kid {
            return false;
        }
        self.kid = kid.cloned();
        let party = || Party {
            answer: None,
            asks_at: now,
            pauses: Backoff::new(self.look, self.look.saturating_mul(LONGEST)),
        };
        self.parties =
            self.names.iter().filter(|_| kid.is_some()).map(|name| (name.clone(), party())).collect();
        true
    }

    /// Who is to be asked now.
    pub fn due(&self, now: Instant) -> Vec<String> {
        let due = self.parties.iter().filter(|(_, party)| party.asks_at <= now);
        due.map(|(name, _)| name.clone()).collect()
    }

    /// What one has said just now.
    pub fn heard(&mut self, name: &str, answer: CanaryAnswer, now: Instant) {
        let Some(party) = self.parties.get_mut(name) else { return };
        let pause = match answer {
            CanaryAnswer::Accepted => {
                party.pauses.reset();
                FRESH
            }
            _ => party.pauses.next_pause(),
        };
        party.asks_at = now + pause;
        party.answer = Some(answer);
    }

    /// What each has said last.
    pub fn answers(&self) -> BTreeMap<String, CanaryAnswer> {
        let said =
            self.parties.iter().filter_map(|(name, party)| Some((name.clone(), party.answer.clone()?)));
        said.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kid(number: u8) -> KeyId {
        chancery_keygen::PrivateKey::generate(chancery_keygen::KeySpec::P256)
            .map(|key| key.public_key().key_id().clone())
            .unwrap_or_else(|_| panic!("key {number}"))
    }

    #[test]
    fn who_refuses_is_asked_less_often_and_who_accepts_once_a_day() {
        let (mut waiting, start) =
            (Waiting::new(vec!["a".into(), "b".into()], Duration::from_secs(10)), Instant::now());
        let seconds = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(waiting.due(start), [""; 0], "there is no key");
        let key = kid(1);
        assert!(waiting.is_about(Some(&key), start) && !waiting.is_about(Some(&key), start));
        assert_eq!(waiting.due(start), ["a", "b"]);
        waiting.heard("a", CanaryAnswer::Accepted, start);
        waiting.heard("b", CanaryAnswer::Refused("401".into()), start);
        waiting.heard("c", CanaryAnswer::Accepted, start);
        assert_eq!(waiting.answers().len(), 2, "nobody has declared c");
        assert_eq!(waiting.due(seconds(7)), [""; 0]);
        assert_eq!(waiting.due(seconds(13)), ["b"]);
        for _ in 0..10 {
            waiting.heard("b", CanaryAnswer::Silent("late".into()), start);
        }
        assert_eq!(waiting.due(seconds(440)), [""; 0]);
        assert_eq!(waiting.due(seconds(760)), ["b"], "the pauses have an end");
        assert_eq!(waiting.due(seconds(24 * 3600)), ["a", "b"]);
        assert_eq!(waiting.answers()["a"], CanaryAnswer::Accepted, "until it says something else");
        waiting.heard("b", CanaryAnswer::Accepted, start);
        waiting.heard("b", CanaryAnswer::Silent("late".into()), start);
        assert_eq!(waiting.due(seconds(13)), ["b"]);
    }

    #[test]
    fn another_key_and_a_loss_of_sight_ask_everybody_again() {
        let (mut waiting, now) = (Waiting::new(vec!["a".into()], Duration::from_secs(10)), Instant::now());
        let (one, two) = (kid(1), kid(2));
        for next in [Some(&one), None, Some(&one), Some(&two)] {
            assert!(waiting.is_about(next, now));
            assert!(waiting.answers().is_empty());
            assert_eq!(waiting.due(now).len(), usize::from(next.is_some()));
            waiting.heard("a", CanaryAnswer::Accepted, now);
        }
    }
}

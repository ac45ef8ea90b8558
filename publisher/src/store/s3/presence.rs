//! Whether an object is there that may not be read.
//!
//! Without `s3:ListBucket` S3 answers 403 for absent objects too, so a refusal alone tells nothing
//! (<https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html>). What was seen before tells more:
//!
//! 1. An object of which nothing is known is taken for absent. It is then created on the condition that there is none,
//!    so what is hidden is never overwritten.
//! 2. An object that was read or written here is still there: a right that is missing for a moment must not pass for a
//!    removal, which would start every key's time anew. Once refusals have lasted for [`DOUBT`] it may have been removed.
//! 3. An object to which such a creation lost is there until it is read.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// Changes of policies are effective within seconds, now and then a minute
/// (<https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot.html>).
const DOUBT: Duration = Duration::from_secs(120);

/// What is known of each object, by its path.
#[derive(Debug, Default)]
pub(super) struct Presence(BTreeMap<String, Evidence>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Evidence {
    /// It was refused and taken for absent.
    None,
    /// It was read or written here; refused since then, if it was.
    Found { refused_since: Option<Instant> },
    /// A creation lost to it.
    InTheWay,
}

/// What a refusal to read means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// It is taken for absent; `first` when this is new.
    Absent { first: bool },
    /// It is there.
    Hidden,
}

impl Presence {
    /// It was read or written.
    pub(super) fn found(&mut self, path: &str) {
        self.0.insert(path.to_owned(), Evidence::Found { refused_since: None });
    }

    /// S3 said that there is none.
    pub(super) fn absent(&mut self, path: &str) {
        self.0.remove(path);
    }

    /// A write on the condition that there is none lost.
    pub(super) fn in_the_way(&mut self, path: &str) {
        self.0.insert(path.to_owned(), Evidence::InTheWay);
    }

    /// Reading it was refused in a way that does not tell whether it is there.
    pub(super) fn refused(&mut self, path: &str, now: Instant) -> Meaning {
        let before = self.0.get(path).copied();
        let (evidence, meaning) = match before {
            None => (Evidence::None, Meaning::Absent { first: true }),
            Some(Evidence::None) => (Evidence::None, Meaning::Absent { first: false }),
            Some(Evidence::InTheWay) => (Evidence::InTheWay, Meaning::Hidden),
            Some(Evidence::Found { refused_since }) => {
                let since = refused_since.unwrap_or(now);
                match now.duration_since(since) < DOUBT {
                    true => (Evidence::Found { refused_since: Some(since) }, Meaning::Hidden),
                    false => (Evidence::None, Meaning::Absent { first: true }),
                }
            }
        };
        self.0.insert(path.to_owned(), evidence);
        meaning
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "openid/v1/jwks";

    #[test]
    fn a_passing_refusal_of_what_was_there_is_no_removal_and_a_lasting_one_may_be() {
        let (mut presence, start) = (Presence::default(), Instant::now());
        presence.found(PATH);
        for after in [0, 1, 119] {
            assert_eq!(
                presence.refused(PATH, start + Duration::from_secs(after)),
                Meaning::Hidden,
                "{after}"
            );
        }
        assert_eq!(presence.refused(PATH, start + DOUBT), Meaning::Absent { first: true });
        assert_eq!(presence.refused(PATH, start + DOUBT), Meaning::Absent { first: false });
        // Refusals with a reading between them do not add up.
        for _ in 0..3 {
            presence.found(PATH);
            assert_eq!(presence.refused(PATH, start + DOUBT), Meaning::Hidden);
        }
    }

    #[test]
    fn what_a_creation_lost_to_is_there_until_it_is_read() {
        let (mut presence, start) = (Presence::default(), Instant::now());
        assert_eq!(presence.refused(PATH, start), Meaning::Absent { first: true });
        presence.in_the_way(PATH);
        assert_eq!(presence.refused(PATH, start + DOUBT * 2), Meaning::Hidden);
        presence.absent(PATH);
        assert_eq!(presence.refused(PATH, start), Meaning::Absent { first: true });
        assert_eq!(presence.refused("another", start), Meaning::Absent { first: true }, "each for itself");
    }
}

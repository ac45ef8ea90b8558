//! How relying parties keep the keys that they have read, and what follows: how long a new key must be visible before
//! it signs, and how long a withdrawn one is still accepted.

use std::fmt;
use std::time::Duration;

use super::{Profile, RelyingParty};

/// How a relying party keeps the keys that it has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheRules {
    /// What it does with a token whose key it does not know.
    pub unknown_kid: UnknownKid,
    /// How old its copy of the keys may get before it reads them again.
    pub lifetime: Lifetime,
    /// Whether reading the keys again for an unknown `kid` also makes it forget those that are gone.
    pub unknown_kid_drops_withdrawn: bool,
    /// Until when it verifies with the same algorithms, whatever the keys say.
    pub algorithms_fixed: AlgorithmsFixed,
    /// What to restart, so that it reads everything anew: `every process that verifies with it`.
    pub restart: &'static str,
}

/// What a relying party does with a token whose `kid` it does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownKid {
    /// It reads the keys again, though not sooner than this after it did so the last time.
    ReadsAgain {
        /// Zero where nothing holds it back.
        cooldown: Duration,
    },
    /// It reads the keys again once the `max-age` that they were served with has passed.
    ReadsAgainAfterMaxAge,
    /// It refuses the token until its copy is renewed by age.
    Refuses,
    /// Nobody has written it down.
    Undocumented,
}

/// How old a copy of the keys may get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// This long, whatever the documents' headers say.
    AtMost(Duration),
    /// As long as the `max-age` of the JWKS says.
    MaxAge,
    /// It is kept as long as the process runs.
    Unlimited,
    /// Nobody has written it down.
    Undocumented,
}

/// Until when a relying party verifies with the same algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlgorithmsFixed {
    /// It takes the algorithm of each key, or every one that it knows.
    No,
    /// Until it is restarted: it took them from the discovery document when it started.
    UntilRestart,
    /// Until somebody configures it anew.
    UntilConfigured,
    /// Nobody has written it down.
    Undocumented,
}

/// A claim that a relying party does not look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IgnoredClaim {
    /// Its name: `iss`.
    pub name: &'static str,
    /// What makes it look, if anything does: `bound_issuer is set`.
    pub unless: Option<&'static str>,
}

/// The longest wait that any measured party needs (lestrrat jwx), and so what one of unknown habits is granted.
const SLOWEST_MEASURED: Duration = Duration::from_secs(900);

/// Added to every wait, for the reader's own requests and timers.
const MARGIN: Duration = Duration::from_secs(60);

/// How long a new key has to be visible, without a gap, before it may sign.
///
/// The longest `max-age` that was served bounds the wait too; what is served is known to the visibility record and
/// not to this table, so the longer of the two counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The time, its margin included.
    pub time: Duration,
    /// Who makes it so long, in words.
    pub because: String,
    /// Parties that no wait helps: they read the keys once, so they must be restarted after the key was published and
    /// before it signs.
    pub restart: Vec<RelyingParty>,
}

/// The wait that `parties` need: 900 s and a margin, unless all of them are known to need less, or one needs more.
/// Nobody declared means that nothing is known.
pub fn pre_publication_wait(parties: &[RelyingParty]) -> Wait {
    let asked = || RelyingParty::ALL.into_iter().filter(|party| parties.contains(party));
    let restart = asked().filter(|party| reads_once(party.profile())).collect();
    let slowest = asked().max_by_key(|party| (reading_delay(party.profile()), std::cmp::Reverse(*party)));
    let (delay, because) = match slowest {
        Some(party) => (reading_delay(party.profile()), why(party.profile())),
        None => (SLOWEST_MEASURED, "no relying party is declared".to_owned()),
    };
    Wait { time: delay + MARGIN, because, restart }
}

/// How long after its publication a key may still be unknown to this party, apart from the served `max-age`.
fn reading_delay(profile: &Profile) -> Duration {
    match (profile.cache.unknown_kid, profile.cache.lifetime) {
        (UnknownKid::ReadsAgain { cooldown }, _) => cooldown,
        (UnknownKid::ReadsAgainAfterMaxAge, _) | (UnknownKid::Refuses, Lifetime::MaxAge) => Duration::ZERO,
        (UnknownKid::Refuses, Lifetime::AtMost(lifetime)) => lifetime,
        // A restart is what helps here, and takes no time.
        (UnknownKid::Refuses, Lifetime::Unlimited) => Duration::ZERO,
        (UnknownKid::Undocumented, _) | (UnknownKid::Refuses, Lifetime::Undocumented) => SLOWEST_MEASURED,
    }
}

fn reads_once(profile: &Profile) -> bool {
    (profile.cache.unknown_kid, profile.cache.lifetime) == (UnknownKid::Refuses, Lifetime::Unlimited)
}

/// The party within a sentence.
fn subject(profile: &Profile) -> &'static str {
    match profile.party {
        RelyingParty::Common => "a verifier that is not in our table",
        _ => profile.title,
    }
}

fn why(profile: &Profile) -> String {
    let title = subject(profile);
    let seconds = reading_delay(profile).as_secs();
    match profile.cache.unknown_kid {
        UnknownKid::Undocumented => {
            format!(
                "nobody has written down when {title} reads the keys, and known parties take up to {seconds} s"
            )
        }
        UnknownKid::Refuses if reads_once(profile) => format!("{title} reads the keys when it starts"),
        UnknownKid::Refuses => {
            format!("{title} reads the keys every {seconds} s and not sooner for a key that it does not know")
        }
        UnknownKid::ReadsAgain { .. } if seconds > 0 => {
            format!("{title} reads the keys for a key that it does not know once in {seconds} s at most")
        }
        UnknownKid::ReadsAgain { .. } => {
            format!("{title} reads the keys as soon as it meets a key that it does not know")
        }
        UnknownKid::ReadsAgainAfterMaxAge => format!("{title} reads the keys when their max-age has passed"),
    }
}

/// A party that accepts a withdrawn key for a while: withdrawal reaches it late, so it is no revocation there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StillAccepting {
    /// Who.
    pub party: RelyingParty,
    /// For how long.
    pub until: Until,
    /// What to restart, to end it at once.
    pub restart: &'static str,
}

/// When a relying party stops to accept a withdrawn key, the soonest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Until {
    /// When the `max-age` of the copy that it has is over.
    MaxAge,
    /// Not later than this after the withdrawal.
    AtMost(Duration),
    /// Nobody has written it down.
    Undocumented,
    /// When a token of a key that it does not know makes it read the keys again: after a rotation, the new key's first.
    UnknownKid,
    /// When it is restarted.
    Restart,
}

/// Who of `parties` accepts a key after its withdrawal, those that keep it longest first. Everybody does for a while.
pub fn after_withdrawal(parties: &[RelyingParty]) -> Vec<StillAccepting> {
    let asked = RelyingParty::ALL.into_iter().filter(|party| parties.contains(party));
    let mut accepting: Vec<_> = asked.map(|party| still_accepting(party.profile())).collect();
    accepting.sort_by_key(|one| std::cmp::Reverse(one.until));
    accepting
}

fn still_accepting(profile: &Profile) -> StillAccepting {
    let cache = &profile.cache;
    let until = match cache.lifetime {
        Lifetime::MaxAge => Until::MaxAge,
        Lifetime::AtMost(lifetime) => Until::AtMost(lifetime),
        Lifetime::Undocumented => Until::Undocumented,
        Lifetime::Unlimited if cache.unknown_kid_drops_withdrawn => Until::UnknownKid,
        Lifetime::Unlimited => Until::Restart,
    };
    StillAccepting { party: profile.party, until, restart: cache.restart }
}

impl fmt::Display for StillAccepting {
    /// One sentence: who accepts the key for how long, and what to restart.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (title, restart) = (subject(self.party.profile()), self.restart);
        match self.until {
            Until::MaxAge => write!(f, "{title} accepts it until the max-age of its copy is over"),
            Until::AtMost(time) => write!(f, "{title} accepts it for up to {} s", time.as_secs()),
            Until::Undocumented => write!(f, "how long {title} accepts it is not documented"),
            Until::UnknownKid => {
                write!(
                    f,
                    "{title} accepts it until a token of a key that it does not know makes it read the keys again"
                )
            }
            Until::Restart => write!(f, "{title} accepts it until it is restarted"),
        }?;
        if restart.is_empty() { Ok(()) } else { write!(f, "; to end that at once, restart {restart}") }
    }
}

#[cfg(test)]
mod tests;
